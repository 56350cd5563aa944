//! MIME bundles: what a job displays, and its value. A bundle is kept as the JSON text that the runner sent, because a
//! tree of it could take a hundred times as much memory.

use serde_json::value::RawValue;
use thermae_schemas::json::measure;

/// Most values in one bundle, or in the arguments of one tool call. The client makes a tree of them.
pub(crate) const MOST_VALUES: usize = 1_000_000;

/// A MIME bundle, as JSON text.
pub(crate) type Bundle = Box<RawValue>;

/// Why a text is no bundle, in words for the reader of the outcome.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// It is JSON, but not an object.
    #[error("it is not a JSON object")]
    NotAnObject,
    /// It is not JSON that every reader can read, or has too many values.
    #[error("its JSON can't be used: {0}")]
    Json(#[from] serde_json::Error),
    /// It is not text.
    #[error(transparent)]
    Text(#[from] std::string::FromUtf8Error),
}

/// Makes a bundle from its text.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn read(text: Vec<u8>) -> Result<Bundle, Error> {
    check(&text)?;
    // This copies no bytes.
    Ok(RawValue::from_string(String::from_utf8(text)?)?)
}

/// The bundle as it came, or a note that says why it is not shown.
pub(crate) fn or_note(bundle: Bundle) -> Bundle {
    match check(bundle.get().as_bytes()) {
        Ok(()) => bundle,
        Err(why) => note(&format!("not shown: {why}")),
    }
}

/// A bundle with a note from the worker.
pub(crate) fn note(text: &str) -> Bundle {
    let bundle = serde_json::json!({ "text/plain": format!("<{text}>") });
    RawValue::from_string(bundle.to_string()).unwrap_or_else(|_| unreachable!("what was written as JSON is JSON"))
}

fn check(text: &[u8]) -> Result<(), Error> {
    if measure(text, MOST_VALUES)?.is_object { Ok(()) } else { Err(Error::NotAnObject) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_stays_as_it_was_written_or_says_why_not() {
        let text = r#"{"a/b":  1.50}"#;
        assert_eq!(read(text.as_bytes().to_vec()).unwrap().get(), text);
        for bad in ["[1]", "{", "{\"a\": 1e999}", "{\"a\": \"\\ud800\"}"] {
            assert!(read(bad.as_bytes().to_vec()).is_err(), "{bad}");
        }
        let many = format!("{{\"a\": [{}0]}}", r#"{"":0},"#.repeat(MOST_VALUES / 2));
        let shown = or_note(RawValue::from_string(many).unwrap());
        assert!(shown.get().contains("more than 1000000 values"), "{}", shown.get());
    }
}
