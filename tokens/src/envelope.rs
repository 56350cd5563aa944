//! A token without its meaning: text, bytes, blocks.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use prost::Message as _;

use crate::chain;
use crate::statement::Statement;
use crate::symbols::Symbols;
use crate::wire::Biscuit;
use crate::{Flaw, LARGEST_TOKEN, MOST_BLOCKS, Malformed, Refused, RevocationId, Unwritten};

/// A token that was decoded. Its signatures are not checked.
pub(crate) struct Envelope {
    pub(crate) token: Biscuit,
}

/// Why a text is not decoded.
pub(crate) enum Undecoded {
    Large(usize),
    Blocks(usize),
    Malformed(Malformed),
}

impl Envelope {
    /// Decodes a token. Bounds the work before it is done, and refuses whatever no writer writes.
    pub(crate) fn decode(text: &str) -> Result<Self, Undecoded> {
        if text.len() > LARGEST_TOKEN {
            return Err(Undecoded::Large(text.len()));
        }
        let bytes = URL_SAFE.decode(text).map_err(|_| Flaw::Base64)?;
        let token = Biscuit::decode(bytes.as_slice()).map_err(|error| Flaw::Encoding(error.to_string()))?;
        if token.encode_to_vec() != bytes {
            return Err(Flaw::Excess.into());
        }
        if token.blocks.len() >= MOST_BLOCKS {
            return Err(Undecoded::Blocks(token.blocks.len() + 1));
        }
        chain::check(&token)?;
        Ok(Self { token })
    }

    /// Id of the key with which the issuer signed.
    pub(crate) fn key(&self) -> Option<u32> {
        self.token.root_key_id
    }

    /// The names under which the blocks are revoked and counted: their signatures.
    pub(crate) fn ids(&self) -> Result<Vec<RevocationId>, Malformed> {
        let ids = chain::blocks(&self.token).enumerate().map(|(number, block)| {
            let wrong = Flaw::Encoding("a signature does not have 64 bytes".to_owned());
            RevocationId::of(&block.signature).ok_or(Malformed { block: Some(number), flaw: wrong })
        });
        ids.collect()
    }
}

/// What the blocks state: the issuer's, and the narrowings in order. Also returns their texts.
pub(crate) fn statements(token: &Biscuit) -> Result<(Vec<Statement>, Symbols), Malformed> {
    let mut symbols = Symbols::default();
    let mut statements = Vec::with_capacity(token.blocks.len() + 1);
    for (number, block) in chain::blocks(token).enumerate() {
        let read = Statement::read(&block.block, &mut symbols).and_then(|statement| {
            if number == 0 {
                statement.grants()?
            } else {
                statement.narrows()?
            }
            Ok(statement)
        });
        statements.push(read.map_err(|flaw| Malformed { block: Some(number), flaw })?);
    }
    Ok((statements, symbols))
}

/// The text of a token with these bytes.
pub(crate) fn encode(bytes: &[u8]) -> Result<String, Unwritten> {
    let text = URL_SAFE.encode(bytes);
    if text.len() > LARGEST_TOKEN { Err(Unwritten::TooLarge(text.len())) } else { Ok(text) }
}

impl From<Flaw> for Undecoded {
    fn from(flaw: Flaw) -> Self {
        Self::Malformed(flaw.into())
    }
}

impl From<Malformed> for Undecoded {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<Undecoded> for Refused {
    fn from(undecoded: Undecoded) -> Self {
        match undecoded {
            Undecoded::Large(bytes) => Self::TooLarge(bytes),
            Undecoded::Blocks(blocks) => Self::TooManyBlocks(blocks),
            Undecoded::Malformed(malformed) => Self::Malformed(malformed),
        }
    }
}

impl From<Undecoded> for Unwritten {
    fn from(undecoded: Undecoded) -> Self {
        match undecoded {
            Undecoded::Large(bytes) => Self::TooLarge(bytes),
            Undecoded::Blocks(blocks) => Self::TooManyBlocks(blocks),
            Undecoded::Malformed(malformed) => Self::Malformed(malformed),
        }
    }
}
