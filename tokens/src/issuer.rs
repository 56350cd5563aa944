//! Makes tokens.

use prost::Message as _;

use crate::statement::Statement;
use crate::symbols::Symbols;
use crate::{Grant, PublicKey, SecretKey, Token, Unwritten, chain, envelope};

/// Mints tokens with a private key. The key has an id, by which a verifier finds the public key.
#[derive(Debug)]
pub struct Issuer {
    id: u32,
    key: SecretKey,
}

impl Issuer {
    /// Mints with this key, which verifiers know under this id.
    pub fn new(id: u32, key: SecretKey) -> Self {
        Self { id, key }
    }

    /// The id of the key.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The public key, for verifiers.
    pub fn public_key(&self) -> PublicKey {
        self.key.public()
    }

    /// Mints a token. It has a signature of its own, so two tokens for the same grant are revoked and counted apart.
    ///
    /// # Errors
    /// The token would never be valid, is too large, or a time can't be written.
    pub fn mint(&self, grant: &Grant) -> Result<Token, Unwritten> {
        let statement = Statement::of_grant(grant)?;
        if statement.not_before >= statement.expires {
            return Err(Unwritten::NeverValid);
        }
        let token = chain::begin(self.id, self.key.pair(), statement.write(&mut Symbols::default()))?;
        envelope::encode(&token.encode_to_vec()).map(Token::new)
    }
}
