//! Keys of issuers.

use std::fmt;

use ring::signature::{Ed25519KeyPair, KeyPair as _};

use crate::{Unwritten, chain, pem};

/// An issuer's private key, Ed25519. Whoever has it can mint any token. Its text form is PKCS#8 in PEM.
pub struct SecretKey {
    pair: Ed25519KeyPair,
    /// The same as PKCS#8.
    der: Vec<u8>,
}

/// An issuer's public key, Ed25519. Its text form is SPKI in PEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(pub(crate) [u8; 32]);

/// A text that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is no {0} in PEM for Ed25519")]
pub struct BadKey(pub(crate) &'static str);

const SECRET: &str = "private key (PKCS#8)";
const PUBLIC: &str = "public key (SPKI)";

/// The labels of keys in PEM.
const SECRET_LABEL: &str = "PRIVATE KEY";
const PUBLIC_LABEL: &str = "PUBLIC KEY";

/// PKCS#8 up to the 32 bytes of a private key for Ed25519.
const SECRET_FORM: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";

/// SPKI up to the 32 bytes of a public key for Ed25519.
const PUBLIC_FORM: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

impl SecretKey {
    /// A new random key.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<Self, Unwritten> {
        let seed = chain::seed().ok_or(Unwritten::Random)?;
        Self::from_der([SECRET_FORM.as_slice(), &seed].concat()).map_err(|BadKey(_)| Unwritten::Random)
    }

    /// Reads a key, such as `openssl genpkey -algorithm ed25519` writes.
    ///
    /// # Errors
    /// The text is no such key. The error has nothing of the text.
    pub fn from_pem(text: &str) -> Result<Self, BadKey> {
        Self::from_der(pem::read(SECRET_LABEL, text).ok_or(BadKey(SECRET))?)
    }

    fn from_der(der: Vec<u8>) -> Result<Self, BadKey> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map_err(|_| BadKey(SECRET))?;
        Ok(Self { pair, der })
    }

    /// The text of the key. It is a secret.
    pub fn to_pem(&self) -> String {
        pem::write(SECRET_LABEL, &self.der)
    }

    /// The public key that belongs to it.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.pair.public_key().as_ref());
        PublicKey(bytes)
    }

    pub(crate) fn pair(&self) -> &Ed25519KeyPair {
        &self.pair
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
    /// The text is no such key, or anyone could sign for it.
    pub fn from_pem(text: &str) -> Result<Self, BadKey> {
        let der = pem::read(PUBLIC_LABEL, text).ok_or(BadKey(PUBLIC))?;
        let bytes: Option<[u8; 32]> = der.strip_prefix(&PUBLIC_FORM).and_then(|key| key.try_into().ok());
        bytes.filter(|key| !is_weak(key)).map(Self).ok_or(BadKey(PUBLIC))
    }

    /// The text of the key.
    pub fn to_pem(&self) -> String {
        pem::write(PUBLIC_LABEL, &[PUBLIC_FORM.as_slice(), &self.0].concat())
    }
}

/// Whether a key is a point of small order, so that signatures by it can be made without a private key. The list has
/// every encoding of these points, but for the highest bit.
pub(crate) fn is_weak(key: &[u8]) -> bool {
    const HIGH: [u8; 30] = [0xff; 30];
    let Some((last, rest)) = key.split_last() else { return true };
    let last = last & 0x7f;
    match rest {
        [0 | 1, zeros @ ..] if last == 0 => zeros.iter().all(|byte| *byte == 0),
        [0xec..=0xee, high @ ..] if last == 0x7f => high == HIGH,
        _ => ORDER_8.iter().any(|(of_rest, of_last)| rest == of_rest && last == *of_last),
    }
}

/// The two points of order 8, without and with their last byte.
const ORDER_8: [([u8; 31], u8); 2] = [
    (
        *b"\x26\xe8\x95\x8f\xc2\xb2\x27\xb0\x45\xc3\xf4\x89\xf2\xef\x98\xf0\
           \xd5\xdf\xac\x05\xd3\xc6\x33\x39\xb1\x38\x02\x88\x6d\x53\xfc",
        0x05,
    ),
    (
        *b"\xc7\x17\x6a\x70\x3d\x4d\xd8\x4f\xba\x3c\x0b\x76\x0d\x10\x67\x0f\
           \x2a\x20\x53\xfa\x2c\x39\xcc\xc6\x4e\xc7\xfd\x77\x92\xac\x03",
        0x7a,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_for_which_anyone_could_sign_is_none() {
        let weak = [
            "0000000000000000000000000000000000000000000000000000000000000000",
            "0100000000000000000000000000000000000000000000000000000000000000",
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        ];
        for text in weak {
            let mut bytes = [0; 32];
            hex::decode_to_slice(text, &mut bytes).unwrap();
            for sign in [0, 0x80] {
                bytes[31] = (bytes[31] & 0x7f) | sign;
                assert!(is_weak(&bytes), "{text}");
                assert!(PublicKey::from_pem(&PublicKey(bytes).to_pem()).is_err(), "{text}");
            }
            bytes[1] ^= 1;
            assert!(!is_weak(&bytes), "{text}");
        }
    }
}
