//! The field of a job that says what its code can do with its tools.

use serde::{Deserialize, Deserializer};
pub use thermae_capabilities::{Malformed as MalformedCapabilities, Set as Capabilities};

/// Reads a field that is there. Null is no way to leave it out: a job without capabilities has more rights.
pub(crate) fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Capabilities>, D::Error> {
    Capabilities::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use crate::Job;

    #[test]
    fn capabilities_are_there_or_not_and_never_null() {
        let job = |field: &str| serde_json::from_str::<Job>(&format!(r#"{{"id": "a", "code": ""{field}}}"#));
        let (none, empty) = (job("").unwrap(), job(r#", "capabilities": []"#).unwrap());
        assert!(none.capabilities.is_none());
        let capabilities = empty.capabilities.as_ref().map(|set| set.capabilities().len());
        assert_eq!(capabilities, Some(0));
        assert_eq!(serde_json::to_value(&empty).unwrap()["capabilities"], serde_json::json!([]));
        for (bad, place) in [
            ("null", "capabilities: must be a list"),
            (r#"[{"pattern": "t", "max_calls": "3"}]"#, "capabilities[0].max_calls: must be"),
            (r#"[{"pattern": "t", "arguments": {"a": 1, "a": 2}}]"#, "the key \"a\" stands twice"),
            (r#"[], "capabilities": []"#, "duplicate field"),
        ] {
            let error = job(&format!(r#", "capabilities": {bad}"#)).unwrap_err().to_string();
            assert!(error.contains(place), "{bad}: {error}");
        }
    }
}
