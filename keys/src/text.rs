//! The text of a key.

use std::fmt;
use std::str::FromStr;

use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest as _, Sha256};

use crate::Hash;

const PREFIX: &str = "thm_";

/// Random bytes of an id. It is no secret.
const ID: usize = 8;

/// Random bytes of a secret.
const SECRET: usize = 32;

/// Bytes of a key's text.
const LENGTH: usize = PREFIX.len() + 2 * ID + 1 + 2 * SECRET;

/// The id of a key: the part of its text that is no secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(String);

/// The text of a key. Whoever has it has the key's rights, so it can't be printed by accident. It has 256 random bits
/// after the id, so a plain hash of it can't be guessed back.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

/// A text that is no key, or no id of one. It says nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is no API key")]
pub struct BadKeyText;

fn random<const N: usize>() -> std::io::Result<String> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(hex::encode(bytes))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl KeyId {
    /// The id as text: 16 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyId {
    type Err = BadKeyText;

    fn from_str(text: &str) -> Result<Self, BadKeyText> {
        if text.len() == 2 * ID && is_hex(text) { Ok(Self(text.to_owned())) } else { Err(BadKeyText) }
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl KeyText {
    /// A new random key.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn generate() -> std::io::Result<Self> {
        Ok(Self(format!("{PREFIX}{}_{}", random::<ID>()?, random::<SECRET>()?)))
    }

    /// The text, for the key's owner.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key's id.
    pub fn id(&self) -> KeyId {
        KeyId(self.0[PREFIX.len()..PREFIX.len() + 2 * ID].to_owned())
    }

    /// What the store keeps of the text. It covers the id, so that it is of no use in another key's entry.
    pub(crate) fn hash(&self) -> Hash {
        let mut hash = Sha256::new();
        hash.update(b"thermae API key 1\0");
        hash.update(self.0.as_bytes());
        Hash::from(<[u8; 32]>::from(hash.finalize()))
    }
}

impl FromStr for KeyText {
    type Err = BadKeyText;

    fn from_str(text: &str) -> Result<Self, BadKeyText> {
        let parts = || {
            let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
            Some(id.len() == 2 * ID && is_hex(id) && is_hex(secret))
        };
        if text.len() == LENGTH && parts() == Some(true) { Ok(Self(text.to_owned())) } else { Err(BadKeyText) }
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyText({})", self.id())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use thermae_testkit::hostile;

    use super::*;

    #[test]
    fn a_new_key_is_like_no_other_and_is_read_back() {
        let keys: Vec<_> = (0..100).map(|_| KeyText::generate().unwrap()).collect();
        let different = |part: &dyn Fn(&KeyText) -> String| keys.iter().map(part).collect::<HashSet<_>>().len();
        assert_eq!(different(&|key| key.as_str()[21..].to_owned()), 100);
        assert_eq!(different(&|key| key.id().to_string()), 100);
        assert_eq!(different(&|key| hex::encode(key.hash().as_bytes())), 100);
        for key in keys {
            assert_eq!(key.as_str().parse::<KeyText>().unwrap(), key);
            assert_eq!(key.id().as_str().parse::<KeyId>().unwrap(), key.id());
            assert!(!format!("{key:?}").contains(&key.as_str()[21..]), "a secret is printed");
        }
    }

    #[test]
    fn other_texts_are_no_keys() {
        let key = KeyText::generate().unwrap();
        let key = key.as_str();
        let [short, long] = [key[..LENGTH - 1].to_owned(), format!("{key}0")];
        let moved = format!("{}_{}0", &key[..19], &key[21..]);
        for text in
            ["", "thm_", &short, &long, &moved, &key.to_uppercase(), &key.replace("thm", "thn"), &format!("{key} ")]
        {
            assert_eq!(text.parse::<KeyText>(), Err(BadKeyText), "{text}");
        }
        // 16 bytes, but not 16 digits.
        assert_eq!("é0123456789abcd".parse::<KeyId>(), Err(BadKeyText));
        assert_eq!(key.replacen(&key[4..6], "é", 1).parse::<KeyText>(), Err(BadKeyText));
    }

    proptest! {
        #[test]
        fn hostile_text_is_answered(text in hostile::word(), bytes in hostile::bytes()) {
            prop_assert_eq!(text.parse::<KeyText>(), Err(BadKeyText));
            prop_assert!(String::from_utf8_lossy(&bytes).parse::<KeyId>().is_err() || bytes.len() == 16);
        }
    }
}
