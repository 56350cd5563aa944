//! What a caller of the gateway may do. API keys have scopes.

use std::fmt;
use std::str::FromStr;

/// One thing that a caller of the gateway may do. No scope includes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Submit and cancel runs.
    Run,
    /// Read the state, output and outcome of runs.
    Read,
    /// Answer tool calls of runs.
    Answer,
    /// Decide on calls that wait for approval.
    Approve,
    /// Make, use and end sessions.
    Sessions,
    /// Read and write artifacts.
    Artifacts,
    /// Mint, narrow and show capability tokens.
    Tokens,
    /// Create, list and revoke API keys of the tenant.
    Admin,
}

/// A word that is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no scope; the scopes are run, read, answer, approve, sessions, artifacts, tokens and admin")]
pub struct UnknownScope(String);

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 8] = [
        Self::Run,
        Self::Read,
        Self::Answer,
        Self::Approve,
        Self::Sessions,
        Self::Artifacts,
        Self::Tokens,
        Self::Admin,
    ];

    /// The scope's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Read => "read",
            Self::Answer => "answer",
            Self::Approve => "approve",
            Self::Sessions => "sessions",
            Self::Artifacts => "artifacts",
            Self::Tokens => "tokens",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| UnknownScope(text.chars().take(40).collect()))
    }
}

/// A set of scopes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Whether a scope is among them.
    pub fn has(self, scope: Scope) -> bool {
        self.0 & bit(scope) != 0
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes in the order of [`Scope::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }

    /// Every scope.
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// Reads names that are separated by spaces. A word that is no scope here, such as one of a newer release, gives
    /// nothing.
    pub fn known(text: &str) -> Self {
        text.split(' ').filter_map(|word| word.parse::<Scope>().ok()).collect()
    }
}

fn bit(scope: Scope) -> u8 {
    1 << scope as u8
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |all, scope| all | bit(scope)))
    }
}

/// The names, separated by spaces.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Scope::as_str).collect();
        f.write_str(&names.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_scopes_is_written_and_read_back() {
        for bits in 0..=u8::MAX {
            let scopes = Scopes(bits);
            assert_eq!(scopes.iter().count(), bits.count_ones() as usize);
            assert_eq!(Scopes::known(&scopes.to_string()), scopes);
            assert_eq!(scopes.iter().collect::<Scopes>(), scopes);
        }
        for scope in Scope::ALL {
            assert_eq!(scope.as_str().parse(), Ok(scope));
        }
    }

    #[test]
    fn an_unknown_word_gives_nothing() {
        assert_eq!(Scopes::known("run root  Admin admin,run").to_string(), "run");
        assert!(Scopes::known("").is_empty() && Scopes::known("*").is_empty());
        assert!("Admin".parse::<Scope>().unwrap_err().to_string().contains("\"Admin\" is no scope"));
    }
}
