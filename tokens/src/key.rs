//! Keys of issuers.

use std::fmt;

use biscuit_auth::{Algorithm, KeyPair};

/// An issuer's private key, Ed25519. Whoever has it can mint any token. Its text form is PKCS#8 in PEM.
pub struct SecretKey(KeyPair);

/// An issuer's public key, Ed25519. Its text form is SPKI in PEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(pub(crate) biscuit_auth::PublicKey);

/// A text that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is no {0} in PEM for Ed25519")]
pub struct BadKey(pub(crate) &'static str);

const SECRET: &str = "private key (PKCS#8)";
const PUBLIC: &str = "public key (SPKI)";

impl SecretKey {
    /// A new random key.
    pub fn generate() -> Self {
        Self(KeyPair::new_with_algorithm(Algorithm::Ed25519))
    }

    /// Reads a key, such as `openssl genpkey -algorithm ed25519` writes.
    ///
    /// # Errors
    /// The text is no such key. The error has nothing of the text.
    pub fn from_pem(text: &str) -> Result<Self, BadKey> {
        let pair = KeyPair::from_private_key_pem_with_algorithm(text.trim(), Algorithm::Ed25519);
        pair.map(Self).map_err(|_| BadKey(SECRET))
    }

    /// The text of the key. It is a secret.
    ///
    /// # Errors
    /// The key could not be written.
    pub fn to_pem(&self) -> Result<String, BadKey> {
        self.0.to_private_key_pem().map(|text| text.to_string()).map_err(|_| BadKey(SECRET))
    }

    /// The public key that belongs to it.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.public())
    }

    pub(crate) fn pair(&self) -> &KeyPair {
        &self.0
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

impl PublicKey {
    /// Reads a key, such as `openssl pkey -pubout` writes.
    ///
    /// # Errors
    /// The text is no such key.
    pub fn from_pem(text: &str) -> Result<Self, BadKey> {
        let key = biscuit_auth::PublicKey::from_pem_with_algorithm(text.trim(), Algorithm::Ed25519);
        key.map(Self).map_err(|_| BadKey(PUBLIC))
    }

    /// The text of the key.
    ///
    /// # Errors
    /// The key could not be written.
    pub fn to_pem(&self) -> Result<String, BadKey> {
        self.0.to_pem().map_err(|_| BadKey(PUBLIC))
    }
}
