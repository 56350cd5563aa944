//! Arguments as the audit log has them: without the values that must not be written.

use thermae_capabilities::{BadPattern, Pattern, Tree};
use thermae_schemas::JsonText;

/// What stands in the place of a value that is left out.
const REDACTED: &str = "[redacted]";

/// Which values are left out, and how large arguments may be.
#[derive(Debug)]
pub(super) struct Redact {
    patterns: Vec<Pattern>,
    largest: usize,
}

/// Arguments, or why they are not written.
#[derive(Debug, PartialEq)]
pub(super) enum Shown {
    Whole(JsonText),
    LeftOut(String),
}

impl Redact {
    /// # Errors
    /// The pattern that can't be used, and why.
    pub(super) fn new(patterns: &[String], largest: usize) -> Result<Self, (String, BadPattern)> {
        let read = |text: &String| Pattern::new(&text.to_lowercase()).map_err(|why| (text.clone(), why));
        Ok(Self { patterns: patterns.iter().map(read).collect::<Result<_, _>>()?, largest })
    }

    /// Whether anything is left out.
    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The arguments as they may be written.
    pub(super) fn show(&self, arguments: &str) -> Shown {
        let large = |bytes: usize| Shown::LeftOut(format!("{bytes} bytes are too many"));
        if arguments.len() > self.largest {
            return large(arguments.len());
        }
        // In a value with a key that is there twice, a reader of the log would see one of the two.
        let written = Tree::read(arguments).and_then(|mut tree| {
            if !self.patterns.is_empty() {
                self.hide(&mut tree, &mut String::new());
            }
            JsonText::new(tree.to_string())
        });
        match written {
            // What stands in the place of a value can be longer.
            Ok(text) if text.raw().get().len() > self.largest => large(text.raw().get().len()),
            Ok(text) => Shown::Whole(text),
            // The error would quote a value.
            Err(_) => Shown::LeftOut("JSON readers may differ on them".to_owned()),
        }
    }

    fn hide(&self, value: &mut Tree, path: &mut String) {
        match value {
            Tree::Object(fields) => {
                fields.iter_mut().for_each(|(key, value)| self.below(&key.to_lowercase(), value, path))
            }
            Tree::List(items) => {
                items.iter_mut().enumerate().for_each(|(at, value)| self.below(&at.to_string(), value, path));
            }
            _ => {}
        }
    }

    fn below(&self, name: &str, value: &mut Tree, path: &mut String) {
        let before = path.len();
        if before > 0 {
            path.push('/');
        }
        // A key can have slashes anywhere, and no pattern matches a path with an empty segment.
        let segments = name.split('/').map(|segment| if segment.is_empty() { "\u{fffd}" } else { segment });
        path.push_str(&segments.collect::<Vec<_>>().join("/"));
        if self.patterns.iter().any(|pattern| pattern.matches(path)) {
            *value = Tree::Text(REDACTED.to_owned());
        } else {
            self.hide(value, path);
        }
        path.truncate(before);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(patterns: &[&str], arguments: &Value) -> Value {
        let patterns: Vec<_> = patterns.iter().map(|text| (*text).to_owned()).collect();
        match Redact::new(&patterns, 1000).unwrap().show(&arguments.to_string()) {
            Shown::Whole(text) => text.read().unwrap(),
            Shown::LeftOut(why) => json!(why),
        }
    }

    #[test]
    fn values_are_left_out_by_path() {
        let card = json!({ "card": { "Number": "4000", "of": [{ "pin": 1 }, { "pin": 2 }] }, "pin": 3 });
        let cases = [
            (vec![], card.clone()),
            (vec!["card/number"], json!({ "card": { "Number": REDACTED, "of": card["card"]["of"] }, "pin": 3 })),
            (vec!["PIN"], json!({ "card": card["card"], "pin": REDACTED })),
            (vec!["**/pin"], {
                let of = json!([{ "pin": REDACTED }, { "pin": REDACTED }]);
                json!({ "card": { "Number": "4000", "of": of }, "pin": REDACTED })
            }),
            (vec!["card/of/*/pin"], {
                let of = json!([{ "pin": REDACTED }, { "pin": REDACTED }]);
                json!({ "card": { "Number": "4000", "of": of }, "pin": 3 })
            }),
            (vec!["card"], json!({ "card": REDACTED, "pin": 3 })),
        ];
        for (patterns, expected) in cases {
            assert_eq!(shown(&patterns, &card), expected, "{patterns:?}");
        }
        // Neither a key with a slash nor an empty one hides a value from the patterns.
        let odd = json!({ "a/pin": 1, "a": { "": { "pin": 2 } }, "": { "pin": 3 } });
        let expected = json!({ "a/pin": REDACTED, "a": { "": { "pin": REDACTED } }, "": { "pin": REDACTED } });
        assert_eq!(shown(&["**/pin"], &odd), expected);
        let slashes =
            json!({ "https://a": { "pin": 1 }, "a/": { "pin": 2 }, "/": { "pin": 3 }, "//pin": 4, "pin/": 5 });
        let expected = json!({
            "https://a": { "pin": REDACTED }, "a/": { "pin": REDACTED }, "/": { "pin": REDACTED }, "//pin": REDACTED,
            "pin/": 5,
        });
        assert_eq!(shown(&["**/pin"], &slashes), expected);
    }

    #[test]
    fn what_is_too_large_or_ambiguous_is_left_out() {
        let redact = Redact::new(&[], 20).unwrap();
        let whole = |text: &str| Shown::Whole(JsonText::new(text.to_owned()).unwrap());
        assert_eq!(redact.show("{\"n\":\n1.50 }"), whole(r#"{"n":1.50}"#), "numbers stay as they were written");
        assert!(matches!(redact.show(r#"{"n": 1, "n": 2}"#), Shown::LeftOut(_)));
        assert!(matches!(redact.show(&format!("{{\"n\": {}}}", "1".repeat(20))), Shown::LeftOut(_)));
        assert!(Redact::new(&[String::new()], 20).is_err());
        let hides = Redact::new(&["*".to_owned()], 20).unwrap();
        assert_eq!(hides.show(r#"{"n": 1}"#), whole(r#"{"n":"[redacted]"}"#));
        assert!(matches!(hides.show(r#"{"n": 1, "m": 2}"#), Shown::LeftOut(_)));
    }
}
