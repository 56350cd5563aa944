//! Measures how much a JSON text contains, without building a tree of it in memory.
//!
//! `{"":0},` is seven bytes on the wire and hundreds of bytes as a tree in memory. Code that reads JSON from a job or a
//! client must measure it first, and make a tree only of what is small.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::{ErrorCode, Job};

/// Deepest allowed nesting of arrays and objects. JSON readers commonly stop at 128 levels, and a text that is measured
/// here becomes part of a message that has levels of its own.
pub const DEEPEST: usize = 100;

/// Most values in a job, without those of its inputs, which stay texts. A part of the job becomes a tree in memory.
pub const MOST_IN_A_JOB: usize = 100_000;

/// Most characters of a key or of a path that an error shows.
const LONGEST_SHOWN: usize = 100;

/// What [`measure`] found out about a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Number of values: scalars, arrays and objects. Keys do not count.
    pub values: usize,
    /// Whether the whole text is an object.
    pub is_object: bool,
}

/// Measures a JSON text. The memory for this does not grow with the text. Every common JSON reader can read a text that
/// passes: its strings are valid Unicode, and its numbers are finite.
///
/// # Errors
/// The text is not JSON, has more than `most` values, or is nested deeper than [`DEEPEST`]. If it is JSON and can't be
/// used all the same, the error is one of data, and says where in the text: `at /a/0: number out of range`.
pub fn measure(text: &[u8], most: usize) -> Result<Measure, serde_json::Error> {
    measure_with(text, most, Keys::Any)
}

/// Like [`measure_unique`], for a job: it has at most [`MOST_IN_A_JOB`] values. Those of its inputs are not counted.
///
/// # Errors
/// As for [`measure`].
pub fn measure_job(text: &[u8]) -> Result<Measure, serde_json::Error> {
    measure_with(text, MOST_IN_A_JOB, Keys::OfAJob)
}

/// Like [`measure`], for a text that must have one reading: of a key that stands twice, some readers keep the first
/// value and some the last. The memory for this grows with the keys of the objects around any one value.
///
/// # Errors
/// As for [`measure`], or an object has a key twice.
pub fn measure_unique(text: &[u8], most: usize) -> Result<Measure, serde_json::Error> {
    measure_with(text, most, Keys::Unique)
}

fn measure_with(text: &[u8], most: usize, keys: Keys) -> Result<Measure, serde_json::Error> {
    let (mut values, mut path) = (0, Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(text);
    let count = Count { values: &mut values, path: &mut path, most, depth: 0, keys };
    let is_object = count.deserialize(&mut reader).map_err(|error| located(error, text, &path))?;
    reader.end()?;
    Ok(Measure { values, is_object })
}

/// The error with its place, which is below these keys and positions, if the text is JSON at least. The reader of JSON
/// knows only lines and columns, and the caller may never have seen the text.
fn located(error: serde_json::Error, text: &[u8], path: &[String]) -> serde_json::Error {
    if path.is_empty() || serde_json::from_slice::<IgnoredAny>(text).is_err() {
        return error;
    }
    let said = error.to_string();
    let why = said.rsplit_once(" at line ").map_or(said.as_str(), |(why, _)| why);
    let mut at = String::new();
    for step in path.iter().rev() {
        at.push('/');
        at.push_str(&step.replace('~', "~0").replace('/', "~1"));
    }
    if let Some((cut, _)) = at.char_indices().nth(LONGEST_SHOWN) {
        at.truncate(cut);
        at.push('…');
    }
    serde_json::Error::custom(format!("at {at}: {why}"))
}

/// The code of the error of a job that can't be measured. Faults of capabilities have a code of their own.
pub fn code_of(error: &serde_json::Error) -> ErrorCode {
    match error.to_string() {
        _ if !error.is_data() => ErrorCode::MalformedJson,
        said if said.starts_with("at /capabilities") => ErrorCode::BadCapability,
        _ => ErrorCode::SchemaViolation,
    }
}

/// Writes a value as a line of JSON Lines. A text of JSON in it may have line breaks between its parts, where a space
/// says the same.
///
/// # Errors
/// The value has no form in JSON.
pub fn line(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = serde_json::to_vec(value)?;
    text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    text.push(b'\n');
    Ok(text)
}

impl Job {
    /// Reads a job that has at most [`MOST_IN_A_JOB`] values, and one reading.
    ///
    /// # Errors
    /// The text is not JSON, is not a job, has too many values, has a key twice in one object, or is nested too deeply.
    pub fn from_json(text: &[u8]) -> Result<Self, serde_json::Error> {
        // Inputs and the schemas of tools are kept as they were written: nothing else reads them here.
        measure_job(text)?;
        serde_json::from_slice(text)
    }
}

/// Counts a value and everything below it. The result says whether the value is an object.
struct Count<'a> {
    values: &'a mut usize,
    /// After an error, the keys and positions that lead to it from this value, the last one first.
    path: &'a mut Vec<String>,
    most: usize,
    depth: usize,
    keys: Keys,
}

/// What the keys of objects mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Any,
    /// No object may have a key twice.
    Unique,
    /// Likewise, and the whole is a job.
    OfAJob,
}

impl Count<'_> {
    fn one<E: Error>(&mut self) -> Result<bool, E> {
        *self.values += 1;
        if *self.values > self.most {
            return Err(E::custom(format!("more than {} values", self.most)));
        }
        Ok(false)
    }

    fn below<E: Error>(&mut self) -> Result<Count<'_>, E> {
        if self.depth == DEEPEST {
            return Err(E::custom(format!("nested deeper than {DEEPEST} levels")));
        }
        Ok(Count { values: self.values, path: self.path, most: self.most, depth: self.depth + 1, keys: self.keys })
    }
}

/// A key, without a copy if the text has it without escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E: Error>(mut self) -> Result<bool, E> {
        self.one()
    }

    fn visit_bool<E: Error>(mut self, _: bool) -> Result<bool, E> {
        self.one()
    }

    fn visit_i64<E: Error>(mut self, _: i64) -> Result<bool, E> {
        self.one()
    }

    fn visit_u64<E: Error>(mut self, _: u64) -> Result<bool, E> {
        self.one()
    }

    fn visit_f64<E: Error>(mut self, _: f64) -> Result<bool, E> {
        self.one()
    }

    fn visit_str<E: Error>(mut self, _: &str) -> Result<bool, E> {
        self.one()
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<bool, A::Error> {
        self.one::<A::Error>()?;
        for at in 0_usize.. {
            match seq.next_element_seed(self.below::<A::Error>()?) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    self.path.push(at.to_string());
                    return Err(error);
                }
            }
        }
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<bool, A::Error> {
        self.one::<A::Error>()?;
        let mut keys = HashSet::new();
        while let Some(Key(key)) = map.next_key()? {
            if keys.contains(&key) {
                let shown: String = key.chars().take(LONGEST_SHOWN).collect();
                self.path.push(key.into_owned());
                return Err(A::Error::custom(format!("the key {shown:?} stands twice")));
            }
            let mut uncounted = 0;
            let is_inputs = self.keys == Keys::OfAJob && self.depth == 0 && key == "inputs";
            let mut below = self.below::<A::Error>()?;
            if is_inputs {
                (below.values, below.most) = (&mut uncounted, usize::MAX);
            }
            if let Err(error) = map.next_value_seed(below) {
                self.path.push(key.into_owned());
                return Err(error);
            }
            if self.keys != Keys::Any {
                keys.insert(key);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> usize {
        measure(text.as_bytes(), usize::MAX).unwrap().values
    }

    #[test]
    fn every_value_counts_once() {
        assert_eq!(values("null"), 1);
        assert_eq!(values(r#"{"a": [1, -2, 3.5, "x\n", true], "b": {}}"#), 8);
        assert!(measure(b"{}", 1).unwrap().is_object);
        assert!(!measure(b"[{}]", 2).unwrap().is_object);
    }

    #[test]
    fn the_bounds_are_exact() {
        assert!(measure(b"[0,0]", 3).is_ok());
        let many = measure(b"[0,0]", 2).unwrap_err().to_string();
        assert!(many.contains("more than 2 values"), "{many}");
        let nested = |depth: usize| format!("{}0{}", "[".repeat(depth), "]".repeat(depth));
        assert!(measure(nested(DEEPEST).as_bytes(), usize::MAX).is_ok());
        for depth in [DEEPEST + 1, 127, 128, 1_000_000] {
            assert!(measure(nested(depth).as_bytes(), usize::MAX).is_err(), "{depth}");
        }
    }

    #[test]
    fn a_key_that_stands_twice_has_several_readings() {
        let unique = |text: &str| measure_unique(text.as_bytes(), 100);
        for text in [r#"{"a": {"k": 1}, "b": {"k": 1}}"#, r#"[{"a": 1}, {"a": 1}]"#, r#"{"a": {"a": {}}}"#] {
            assert_eq!(unique(text).unwrap(), measure(text.as_bytes(), 100).unwrap());
        }
        for text in [r#"{"a": 1, "a": 1}"#, r#"{"a": 1, "\u0061": 2}"#, r#"[[{"b": {"a": 1, "c": 0, "a": 2}}]]"#] {
            assert!(measure(text.as_bytes(), 100).is_ok());
            assert!(unique(text).unwrap_err().to_string().contains("\"a\" stands twice"), "{text}");
        }
    }

    #[test]
    fn what_is_json_and_can_t_be_used_has_its_path() {
        for (text, said) in [
            (r#"{"a": [0, {"b c": 1e400}]}"#, "at /a/1/b c: number out of range"),
            (r#"{"a": {"x/y~": -1e999}, "b": 1e999}"#, "at /a/x~1y~0: number out of range"),
            (r#"[[], ["\ud800"]]"#, "at /1/0: unexpected end of hex escape"),
            (r#"{"a": [{"k": 1, "\u006b": 2}]}"#, "at /a/0/k: the key \"k\" stands twice"),
            (r#"{"a": [0, 1, 2, 3, 4, 5, 6, 7]}"#, "at /a/7: more than 9 values"),
        ] {
            let error = measure_unique(text.as_bytes(), 9).unwrap_err();
            assert_eq!((error.to_string().as_str(), error.is_data()), (said, true));
        }
        let code = |text: &str| code_of(&measure_unique(text.as_bytes(), 9).unwrap_err());
        assert_eq!(code(r#"{"capabilities": [{"max_calls": 1, "max_calls": 2}]}"#), ErrorCode::BadCapability);
        assert_eq!(code(r#"{"env": {"a": "", "a": ""}}"#), ErrorCode::SchemaViolation);
        assert_eq!(code("{"), ErrorCode::MalformedJson);
        // What is not JSON has a line and a column.
        for text in ["[1, 1e]", "[1, nan]", "{\"a\": [1e400}"] {
            let error = measure_unique(text.as_bytes(), 9).unwrap_err();
            assert!(!error.is_data() && error.line() == 1, "{text}: {error}");
        }
        let long = format!(r#"{{"{}": {{"a": 1e400}}}}"#, "k".repeat(1000));
        assert!(measure(long.as_bytes(), 9).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn what_a_job_keeps_unread_is_measured() {
        let job = |input: &str| format!(r#"{{"id": "a", "code": "", "inputs": {{"x": {{"value": {input}}}}}}}"#);
        assert!(Job::from_json(job("[1]").as_bytes()).is_ok());
        for bad in ["1e999", "\"\\ud800\"", r#"{"a": 1, "a": 2}"#] {
            assert!(Job::from_json(job(bad).as_bytes()).is_err(), "{bad}");
            for schema in ["input_schema", "output_schema"] {
                let job = format!(r#"{{"id": "a", "code": "", "tools": [{{"name": "t", "{schema}": {bad}}}]}}"#);
                assert!(Job::from_json(job.as_bytes()).is_err(), "{job}");
            }
        }
    }

    #[test]
    fn what_passes_can_be_read_by_others() {
        for bad in ["NaN", "1e999", "\"\\ud800\"", "{\"\\ud800\": 1}", "[1,]", "1 2", "", "\"\u{1}\""] {
            assert!(measure(bad.as_bytes(), usize::MAX).is_err(), "{bad}");
        }
        assert!(measure(b"\"\xff\"", usize::MAX).is_err());
    }

    #[test]
    fn a_line_has_no_other_line_in_it() {
        let text = crate::JsonText::new("{\"a\":\r\n [1.50,\n\"x\\n\"]}".into()).unwrap();
        assert_eq!(line(&[text]).unwrap(), b"[{\"a\":   [1.50, \"x\\n\"]}]\n");
    }

    #[test]
    fn a_job_of_many_values_is_refused_before_it_is_a_tree() {
        let schema = vec![r#"{"":0}"#; MOST_IN_A_JOB].join(",");
        let job =
            format!(r#"{{"id": "a", "code": "", "tools": [{{"name": "t", "input_schema": {{"enum": [{schema}]}}}}]}}"#);
        assert!(Job::from_json(job.as_bytes()).unwrap_err().to_string().contains("values"));
        // Inputs stay texts. Only the job's own are inputs.
        let many = format!("[{}0]", "0,".repeat(MOST_IN_A_JOB));
        let inputs = |value: &str| format!(r#"{{"id": "a", "code": "", "inputs": {{"x": {{"value": {value}}}}}}}"#);
        assert!(Job::from_json(inputs(&many).as_bytes()).is_ok());
        assert!(Job::from_json(inputs(&"[".repeat(DEEPEST + 1)).as_bytes()).is_err());
        let tool =
            format!(r#"{{"id": "a", "code": "", "tools": [{{"name": "t", "input_schema": {{"inputs": {many}}}}}]}}"#);
        assert!(Job::from_json(tool.as_bytes()).unwrap_err().to_string().contains("values"));
        assert!(Job::from_json(br#"{"id": "a", "code": ""}"#).is_ok());
    }
}
