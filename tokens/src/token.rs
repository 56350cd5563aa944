//! The text of a token.

use std::fmt;

/// The text of a token that was just written: base64 for URLs. It is a secret, so it can't be printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, for whoever shall use the token.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        token.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({} bytes)", self.0.len())
    }
}
