//! The field of a job with a capability token.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The text of a capability token. It is a secret, so it can't be printed by accident. Only a worker with the issuers'
/// public keys can say whether it is a token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct TokenText(String);

impl TokenText {
    /// Holds a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenText({} bytes)", self.0.len())
    }
}

/// Reads a field that is there. Null is no way to leave it out: a job without a token may have more rights.
pub(crate) fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<TokenText>, D::Error> {
    TokenText::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use crate::Job;

    #[test]
    fn a_token_is_there_or_not_and_is_never_printed() {
        let job = |field: &str| serde_json::from_str::<Job>(&format!(r#"{{"id": "a", "code": ""{field}}}"#));
        assert!(job("").unwrap().token.is_none());
        let with = job(r#", "token": "c2VjcmV0""#).unwrap();
        assert!(!format!("{with:?}").contains("c2VjcmV0"));
        // An empty text is no way to leave it out, either: it is no token.
        assert!(job(r#", "token": """#).unwrap().token.is_some());
        for bad in ["null", "5", "[]", r#""a", "token": "b""#] {
            assert!(job(&format!(r#", "token": {bad}"#)).is_err(), "{bad}");
        }
    }
}
