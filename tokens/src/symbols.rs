//! The texts of a token. Its facts refer to them by number.

use crate::Flaw;

/// Most texts that a block brings: the name and the value of each of its facts.
const MOST_TEXTS: usize = 16;

/// The texts that Biscuit's specification numbers from 0. No block brings them.
const KNOWN: [&str; 28] = [
    "read",
    "write",
    "resource",
    "operation",
    "right",
    "time",
    "role",
    "owner",
    "tenant",
    "namespace",
    "user",
    "team",
    "service",
    "admin",
    "email",
    "group",
    "member",
    "ip_address",
    "client",
    "client_ip",
    "domain",
    "path",
    "version",
    "cluster",
    "node",
    "hostname",
    "nonce",
    "query",
];

/// The number of the first text that a block brings.
const FIRST: usize = 1024;

/// The texts of the blocks so far, beside those that are known.
#[derive(Clone, Default)]
pub(crate) struct Symbols(Vec<String>);

impl Symbols {
    /// Adds the texts of the next block. None may be there before: a writer refers to a text that is there.
    pub(crate) fn extend(&mut self, texts: &[String]) -> Result<(), Flaw> {
        if texts.len() > MOST_TEXTS {
            return Err(Flaw::Symbols);
        }
        for text in texts {
            if self.find(text).is_some() {
                return Err(Flaw::Symbols);
            }
            self.0.push(text.clone());
        }
        Ok(())
    }

    /// The text of a number.
    pub(crate) fn get(&self, number: u64) -> Result<&str, Flaw> {
        let number = usize::try_from(number).map_err(|_| Flaw::Symbols)?;
        let text = match number.checked_sub(FIRST) {
            Some(own) => self.0.get(own).map(String::as_str),
            None => KNOWN.get(number).copied(),
        };
        text.ok_or(Flaw::Symbols)
    }

    /// The number of a text. It is added if it is not there.
    pub(crate) fn number(&mut self, text: &str) -> u64 {
        let number = self.find(text).unwrap_or_else(|| {
            self.0.push(text.to_owned());
            FIRST + self.0.len() - 1
        });
        number as u64
    }

    /// How many texts the blocks brought.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The texts from this one on.
    pub(crate) fn since(&self, first: usize) -> &[String] {
        self.0.get(first..).unwrap_or_default()
    }

    fn find(&self, text: &str) -> Option<usize> {
        let known = KNOWN.iter().position(|known| *known == text);
        known.or_else(|| Some(FIRST + self.0.iter().position(|own| own == text)?))
    }
}
