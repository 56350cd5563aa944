//! The values of `--input`: reads them, and makes them inputs of the job.

use std::collections::BTreeMap;
use std::path::Path;

use thermae_schemas::json::{MOST_IN_A_JOB, measure_unique};
use thermae_schemas::{InputValue, JsonText, name_trouble};

use crate::failure::Failure;

/// Reads the values that `--input` options name.
///
/// # Errors
/// A name can't be used or comes twice, or a value is not JSON.
pub(super) fn read(options: &[String]) -> Result<BTreeMap<String, InputValue>, Failure> {
    let mut inputs = BTreeMap::new();
    for option in options {
        let usage = |why: String| Failure::usage("usage", format!("--input {option}: {why}"));
        let (name, text) = option.split_once('=').ok_or_else(|| {
            usage("there is no value".to_owned()).help("use --input NAME=JSON, or --input NAME=@FILE")
        })?;
        if let Some(trouble) = name_trouble(name) {
            return Err(usage(format!("{name:?} {trouble}")));
        }
        let text = match text.strip_prefix('@') {
            Some(file) => super::job::text(Path::new(file), "input")?,
            None => text.to_owned(),
        };
        let value =
            measure_unique(text.as_bytes(), MOST_IN_A_JOB).and_then(|_| JsonText::new(text)).map_err(|error| {
                if error.is_data() {
                    return usage(format!("the value can't be used: {error}"));
                }
                usage(format!("the value is not JSON: {error}"))
                    .help(format!("JSON has its texts in double quotes: --input '{name}=\"text\"'"))
            })?;
        if inputs.insert(name.to_owned(), InputValue::Value(value)).is_some() {
            return Err(usage(format!("{name:?} is given twice")));
        }
    }
    Ok(inputs)
}
