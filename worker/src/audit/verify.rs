//! Checks the chain of an audit log.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use serde::Deserialize;
use serde_json::Value;
use thermae_tokens::TokenId;

use super::chain::{NONE, digest};

/// What a whole chain has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Number of lines.
    pub lines: u64,
    /// Numbers of lines that are no JSON, because the machine failed while they were written.
    pub torn: Vec<u64>,
    /// Digest that the first line names. Zeros if nothing came before.
    pub first: String,
    /// Digest of the last line.
    pub last: String,
    /// Ids of the capability tokens whose calls the lines tell of, with the number of these lines.
    pub tokens: BTreeMap<String, u64>,
}

/// Why a chain can't be trusted.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// A line does not name the digest of the line before.
    #[error("line {line} does not follow line {}: one of them was changed, or lines between them were removed", line - 1)]
    Chain {
        /// Number of the line.
        line: u64,
    },
    /// The first line is none of an audit log.
    #[error("line {line} is not a line of an audit log")]
    Unreadable {
        /// Number of the line.
        line: u64,
    },
    /// The file can't be read.
    #[error(transparent)]
    Read(#[from] io::Error),
}

/// Checks all lines, in files that follow each other as one.
///
/// # Errors
/// The chain is broken, or a file can't be read.
pub fn verify(lines: impl BufRead) -> Result<Verified, Broken> {
    #[derive(Deserialize)]
    struct Line {
        prev: String,
        #[serde(default)]
        token: Value,
    }
    let (mut last, mut first, mut torn, mut count) = (None::<String>, None, Vec::new(), 0);
    let mut tokens = BTreeMap::new();
    for line in lines.split(b'\n') {
        let line = line?;
        count += 1;
        match serde_json::from_slice::<Line>(&line) {
            Ok(Line { prev, token }) => {
                if last.as_ref().is_some_and(|last| *last != prev) {
                    return Err(Broken::Chain { line: count });
                }
                first.get_or_insert(prev);
                // A forger may write any text, and whoever reads the result may see it in a terminal.
                if let Some(id) = token.as_str().and_then(|id| TokenId::new(id).ok()) {
                    *tokens.entry(id.to_string()).or_default() += 1;
                }
            }
            Err(_) if first.is_none() => return Err(Broken::Unreadable { line: count }),
            // If it is not what was there, the next line does not name it.
            Err(_) => torn.push(count),
        }
        last = Some(digest(&line));
    }
    let none = || NONE.to_owned();
    Ok(Verified { lines: count, torn, first: first.unwrap_or_else(none), last: last.unwrap_or_else(none), tokens })
}
