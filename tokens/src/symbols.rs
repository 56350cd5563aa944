//! The texts of a token. Its facts refer to them by number.

use biscuit_auth::datalog::SymbolTable;

use crate::Flaw;

/// Most texts that a block brings: the name and the value of each of its facts.
const MOST_TEXTS: usize = 16;

/// The texts that Biscuit itself knows, and those of the blocks so far.
pub(crate) struct Symbols(SymbolTable);

impl Symbols {
    pub(crate) fn new() -> Self {
        Self(SymbolTable::new())
    }

    /// Adds the texts of the next block. None may be there before: a writer refers to a text that is there.
    pub(crate) fn extend(&mut self, texts: &[String]) -> Result<(), Flaw> {
        if texts.len() > MOST_TEXTS {
            return Err(Flaw::Symbols);
        }
        for text in texts {
            if self.0.get(text).is_some() {
                return Err(Flaw::Symbols);
            }
            self.0.insert(text);
        }
        Ok(())
    }

    /// The text of a number.
    pub(crate) fn get(&self, number: u64) -> Result<&str, Flaw> {
        self.0.get_symbol(number).ok_or(Flaw::Symbols)
    }
}
