//! Narrows tokens.

use prost::Message as _;

use crate::envelope::{self, Envelope};
use crate::statement::Statement;
use crate::{MOST_BLOCKS, Narrowing, Token, Unwritten, chain};

/// Narrows a token: adds a block that takes something away. Whoever holds a token can do it, offline and without a key.
/// The signatures of the token are not checked. The token itself stays valid.
///
/// # Errors
/// The text is no token, is sealed, or was narrowed as often as a token can be. The narrowing is empty, would let the
/// token expire later, or makes it too large.
pub fn attenuate(token: &str, narrowing: &Narrowing) -> Result<Token, Unwritten> {
    let Envelope { mut token } = Envelope::decode(token)?;
    let (before, mut symbols) = envelope::statements(&token)?;
    let statement = Statement::of_narrowing(narrowing)?;
    if statement.is_empty() {
        return Err(Unwritten::Nothing);
    }
    let ends = before.iter().filter_map(|block| block.expires).min();
    let begins = before.iter().find_map(|block| block.not_before);
    if let Some(end) = statement.expires {
        if ends.is_some_and(|ends| end > ends) {
            return Err(Unwritten::LaterExpiry);
        }
        if begins.is_some_and(|begins| begins >= end) {
            return Err(Unwritten::NeverValid);
        }
    }
    if before.len() == MOST_BLOCKS {
        return Err(Unwritten::TooManyBlocks(MOST_BLOCKS + 1));
    }
    chain::append(&mut token, statement.write(&mut symbols))?;
    envelope::encode(&token.encode_to_vec()).map(Token::new)
}
