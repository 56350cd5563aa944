//! The token that callers show.

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thermae_schemas::{Scopes, TenantName};
use thermae_service::secret::Secret;

use crate::identity::{Caller, Denied, Identity};

/// Shortest token, in bytes. Shorter ones can be guessed.
const SHORTEST: usize = 16;

/// The token that all requests must carry. Only its digest is kept.
#[derive(Clone)]
pub struct Token([u8; 32]);

/// Why a text can't be a token.
#[derive(Debug, thiserror::Error)]
#[error("a token has at least {SHORTEST} characters, all of them visible ASCII characters")]
pub struct BadToken;

impl Token {
    /// A token with this text.
    ///
    /// # Errors
    /// It is too short, or has characters that a header can't carry.
    pub fn new(text: &Secret) -> Result<Self, BadToken> {
        let text = text.expose();
        if text.len() < SHORTEST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadToken);
        }
        Ok(Self(digest(text)))
    }

    /// A new random text for a token: 244 random bits.
    pub fn random() -> Secret {
        let [one, two] = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()];
        Secret::from(format!("{}{}", one.simple(), two.simple()).as_str())
    }

    /// Whether this is the token. The time that this takes says nothing about the token.
    pub(crate) fn is(&self, shown: &str) -> bool {
        self.0.ct_eq(&digest(shown)).into()
    }
}

/// Everybody who has the token is one caller, who may do everything as this tenant.
pub(crate) struct TokenOf {
    pub(crate) token: Token,
    pub(crate) tenant: TenantName,
}

#[async_trait]
impl Identity for TokenOf {
    async fn caller(&self, secret: &str) -> Result<Caller, Denied> {
        if !self.token.is(secret) {
            return Err(Denied::Token);
        }
        let tenant = self.tenant.clone();
        Ok(Caller { tenant, scopes: Scopes::all(), key: None, runs_at_once: None, operator: true })
    }

    async fn goes_on(&self, _: &Caller) -> Result<(), Denied> {
        Ok(())
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_it() {
        let text = Token::random();
        let token = Token::new(&text).unwrap();
        assert!(token.is(text.expose()) && text.expose().len() == 64);
        for other in ["", "x", &text.expose()[..63], &format!("{} ", text.expose()), Token::random().expose()] {
            assert!(!token.is(other), "{other:?}");
        }
        assert!(!format!("{token:?}").contains(text.expose()));
    }

    #[test]
    fn a_token_can_stand_in_a_header_and_is_not_short() {
        for bad in ["", "short", "fifteen-letters", "sixteen letters and more", "größe-größe-größe-größe"] {
            assert!(Token::new(&Secret::from(bad)).is_err(), "{bad:?}");
        }
        assert!(Token::new(&Secret::from("sixteen-letters!")).is_ok());
    }
}
