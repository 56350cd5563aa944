//! Reads the error of a tool from a client's answer: a text, or an object with a type.

use serde::Deserialize;
use serde_json::value::RawValue;
use thermae_runner::frames::ToolFailure;

/// Longest message of an error that the code gets whole, in characters.
pub(super) const LONGEST_MESSAGE: usize = 1 << 20;

/// Longest name of an error's type that the code gets whole, in characters.
const LONGEST_TYPE: usize = 128;

/// Most bytes of an error's data. Larger data is left out.
const LARGEST_DATA: usize = 1 << 20;

/// The form of an error with a type.
#[derive(Deserialize)]
struct Typed {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    message: String,
    #[serde(default)]
    data: Option<Box<RawValue>>,
}

/// Reads an error, and cuts what is too long.
///
/// # Errors
/// It is neither a string nor an object with a `message`.
pub(super) fn read(error: &RawValue) -> Result<ToolFailure, serde_json::Error> {
    let Typed { kind, mut message, data } = if error.get().starts_with('{') {
        serde_json::from_str(error.get())?
    } else {
        let message = serde_json::from_str(error.get())?;
        Typed { kind: None, message, data: None }
    };
    let kind = kind.map(|kind| kind.chars().take(LONGEST_TYPE).collect());
    if let Some((at, _)) = message.char_indices().nth(LONGEST_MESSAGE) {
        message.truncate(at);
        message.push_str(" <cut: the error is too long>");
    }
    let data = data.filter(|data| {
        let fits = data.get().len() <= LARGEST_DATA;
        if !fits {
            message.push_str(" <the error's data is left out: it is too large>");
        }
        fits
    });
    Ok(ToolFailure { kind, message, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> Result<ToolFailure, serde_json::Error> {
        read(&RawValue::from_string(text.to_owned())?)
    }

    #[test]
    fn an_error_is_a_text_or_an_object() {
        let text = failure(r#""no such city""#).unwrap();
        assert_eq!((text.kind, text.message.as_str(), text.data.is_none()), (None, "no such city", true));
        let typed = failure(r#"{"type": "KeyError", "message": "m", "data": {"b": 1, "a": 2}, "new": 1}"#).unwrap();
        assert_eq!((typed.kind.as_deref(), typed.message.as_str()), (Some("KeyError"), "m"));
        assert_eq!(typed.data.unwrap().get(), r#"{"b": 1, "a": 2}"#, "it stays as it was written");
        for bad in ["5", "null", "[]", "{}", r#"{"message": 1}"#, r#"{"type": 1, "message": ""}"#] {
            assert!(failure(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let (long, large) = ("\u{e9}".repeat(2 * LONGEST_MESSAGE), "x".repeat(LARGEST_DATA));
        let failure = failure(&format!(r#"{{"type": "{large}", "message": "{long}", "data": "{large}"}}"#)).unwrap();
        assert_eq!(failure.kind.unwrap().len(), LONGEST_TYPE);
        assert!(failure.message.contains("<cut: the error is too long>") && failure.message.ends_with("too large>"));
        assert!(failure.data.is_none());
    }
}
