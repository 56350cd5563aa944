//! What a job shows: a MIME bundle, kept as the text that it came in. A tree of it would be a hundred times its size.

use serde_json::value::RawValue;
use thermae_schemas::json::measure;

/// Most values in one bundle, or in the arguments of one tool call. The client makes a tree of it.
pub(crate) const MOST_VALUES: usize = 1_000_000;

/// A bundle of a job's.
pub(crate) type Bundle = Box<RawValue>;

/// Takes a bundle from its text.
///
/// # Errors
/// What is wrong with it, in words for whoever reads the outcome.
pub(crate) fn read(text: Vec<u8>) -> Result<Bundle, String> {
    check(&text)?;
    // No bytes of it are copied.
    let text = String::from_utf8(text).map_err(|e| e.to_string())?;
    RawValue::from_string(text).map_err(|e| e.to_string())
}

/// A bundle as it came, or one that says why it is not shown.
pub(crate) fn or_note(bundle: Bundle) -> Bundle {
    match check(bundle.get().as_bytes()) {
        Ok(()) => bundle,
        Err(why) => note(&format!("not shown: {why}")),
    }
}

/// A bundle of the worker's own words.
pub(crate) fn note(text: &str) -> Bundle {
    let bundle = serde_json::json!({ "text/plain": format!("<{text}>") });
    RawValue::from_string(bundle.to_string()).unwrap_or_else(|_| unreachable!("what was written as JSON is JSON"))
}

fn check(text: &[u8]) -> Result<(), String> {
    match measure(text, MOST_VALUES) {
        Ok(found) if found.is_object => Ok(()),
        Ok(_) => Err("it is no JSON object".into()),
        Err(e) => Err(format!("its JSON can't be used: {e}")),
    }
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
