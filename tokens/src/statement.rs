//! What the blocks of a token state, as facts.
//!
//! | fact | in | meaning |
//! | --- | --- | --- |
//! | `thermae(1)` | each block | the version of this form |
//! | `token("…")` | the first | the token's id |
//! | `tenant("…")` | the first | the tenant whose jobs may use it |
//! | `made(n)` | the first; others if they like | when the block was written, in milliseconds since 1970 |
//! | `answers("…")` | the first, or none | the client that answers its calls |
//! | `not_before(date)` | the first, or none | when it becomes valid |
//! | `expires(date)` | the first; others if they like | when it stops being valid |
//! | `capabilities("[…]")` | the first; others if they like | a set that must allow each call, as JSON |
//! | `calls(n)` | each if it likes | most calls |

use std::num::NonZeroU32;

use prost::Message as _;
use thermae_capabilities::Set;
use thermae_schemas::{ClientId, TenantName};

use crate::symbols::Symbols;
use crate::wire::{Block, Content, Fact, Predicate, Term};
use crate::{Flaw, Grant, Narrowing, TokenId, Unwritten, time};

/// The version of this form.
const FORM: i64 = 1;

/// The version of Biscuit's blocks that have only facts with one plain value.
const BLOCK_VERSION: u32 = 3;

/// The value of a fact.
enum Value {
    Number(i64),
    /// Seconds since 1970.
    Date(u64),
    Text(String),
}

/// What a block states. Times are whole seconds since 1970.
#[derive(Default)]
pub(crate) struct Statement {
    pub(crate) id: Option<TokenId>,
    pub(crate) tenant: Option<TenantName>,
    /// In milliseconds.
    pub(crate) made: Option<u64>,
    pub(crate) answers: Option<ClientId>,
    pub(crate) not_before: Option<u64>,
    pub(crate) expires: Option<u64>,
    pub(crate) set: Option<Set>,
    pub(crate) calls: Option<NonZeroU32>,
}

impl Statement {
    /// The first block of a token.
    pub(crate) fn of_grant(grant: &Grant) -> Result<Self, Unwritten> {
        Ok(Self {
            id: Some(grant.id.clone()),
            tenant: Some(grant.tenant.clone()),
            made: Some(time::now()),
            answers: grant.answers.clone(),
            not_before: grant.not_before.map(time::from).transpose()?,
            expires: Some(time::until(grant.expires)?),
            set: Some(grant.set.clone()),
            calls: grant.calls,
        })
    }

    /// A block that narrows a token.
    pub(crate) fn of_narrowing(narrowing: &Narrowing) -> Result<Self, Unwritten> {
        Ok(Self {
            made: Some(time::now()),
            expires: narrowing.expires.map(time::until).transpose()?,
            set: narrowing.set.clone(),
            calls: narrowing.calls,
            ..Self::default()
        })
    }

    /// Whether it takes nothing away and gives nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.expires.is_none() && self.set.is_none() && self.calls.is_none()
    }

    /// Writes the block that comes after the blocks with these texts, and adds its own texts to them.
    pub(crate) fn write(&self, symbols: &mut Symbols) -> Vec<u8> {
        let there = symbols.len();
        let mut facts = Vec::new();
        let mut state = |name: &str, value: Option<Value>| {
            let Some(value) = value else { return };
            let name = symbols.number(name);
            let content = match value {
                Value::Number(number) => Content::Integer(number),
                Value::Date(seconds) => Content::Date(seconds),
                Value::Text(text) => Content::String(symbols.number(&text)),
            };
            facts.push(Fact { predicate: Predicate { name, terms: vec![Term { content: Some(content) }] } });
        };
        let text = |text: &dyn ToString| Value::Text(text.to_string());
        state("thermae", Some(Value::Number(FORM)));
        state("token", self.id.as_ref().map(|id| text(id)));
        state("tenant", self.tenant.as_ref().map(|tenant| text(tenant)));
        state("made", self.made.and_then(|made| i64::try_from(made).ok()).map(Value::Number));
        state("answers", self.answers.as_ref().map(|client| text(client)));
        state("not_before", self.not_before.map(Value::Date));
        state("expires", self.expires.map(Value::Date));
        state("capabilities", self.set.as_ref().map(|set| text(set)));
        state("calls", self.calls.map(|calls| Value::Number(calls.get().into())));
        let symbols = symbols.since(there).to_vec();
        Block { symbols, version: Some(BLOCK_VERSION), facts, ..Block::default() }.encode_to_vec()
    }

    /// Reads a block. Refuses whatever [`write`](Self::write) can't have written, but takes facts in any order.
    pub(crate) fn read(bytes: &[u8], symbols: &mut Symbols) -> Result<Self, Flaw> {
        let block = Block::decode(bytes).map_err(|error| Flaw::Encoding(error.to_string()))?;
        if block.encode_to_vec() != bytes {
            return Err(Flaw::Excess);
        }
        let version = block.version.unwrap_or(0);
        if version != BLOCK_VERSION {
            return Err(Flaw::BlockVersion(version));
        }
        let others = [
            ("rules", block.rules.len()),
            ("checks", block.checks.len()),
            ("a scope", block.scope.len()),
            ("public keys", block.public_keys.len()),
            ("a context", block.context.iter().len()),
        ];
        if let Some((what, _)) = others.into_iter().find(|(_, count)| *count > 0) {
            return Err(Flaw::NotFacts(what));
        }
        symbols.extend(&block.symbols)?;
        let mut statement = Self::default();
        let mut form = None;
        for fact in &block.facts {
            statement.fact(&fact.predicate, symbols, &mut form)?;
        }
        match form {
            Some(FORM) => Ok(statement),
            Some(other) => Err(Flaw::FormVersion(other)),
            None => Err(Flaw::Missing("thermae")),
        }
    }

    fn fact(&mut self, fact: &Predicate, symbols: &Symbols, form: &mut Option<i64>) -> Result<(), Flaw> {
        match symbols.get(fact.name)? {
            "thermae" => once("thermae", form, integer("thermae", fact)?),
            "token" => once("token", &mut self.id, TokenId::new(text("token", fact, symbols)?)?),
            "tenant" => once("tenant", &mut self.tenant, TenantName::new(text("tenant", fact, symbols)?)?),
            "made" => {
                let made = u64::try_from(integer("made", fact)?).ok().filter(|made| time::read(made / 1000).is_some());
                once("made", &mut self.made, made.ok_or(Flaw::Form("made"))?)
            }
            "answers" => once("answers", &mut self.answers, ClientId::new(text("answers", fact, symbols)?)?),
            "not_before" => once("not_before", &mut self.not_before, date("not_before", fact)?),
            "expires" => once("expires", &mut self.expires, date("expires", fact)?),
            "capabilities" => {
                once("capabilities", &mut self.set, Set::from_json(text("capabilities", fact, symbols)?)?)
            }
            "calls" => {
                let calls = u32::try_from(integer("calls", fact)?).ok().and_then(NonZeroU32::new);
                once("calls", &mut self.calls, calls.ok_or(Flaw::Form("calls"))?)
            }
            unknown => Err(Flaw::Unknown(unknown.chars().take(64).collect())),
        }
    }

    /// Refuses a first block that lacks what the issuer must state.
    pub(crate) fn grants(&self) -> Result<(), Flaw> {
        let needed = [
            ("token", self.id.is_some()),
            ("tenant", self.tenant.is_some()),
            ("made", self.made.is_some()),
            ("expires", self.expires.is_some()),
            ("capabilities", self.set.is_some()),
        ];
        match needed.into_iter().find(|(_, stated)| !stated) {
            Some((name, _)) => Err(Flaw::Missing(name)),
            None => Ok(()),
        }
    }

    /// Refuses a block after the first that states what only the issuer can state.
    pub(crate) fn narrows(&self) -> Result<(), Flaw> {
        let issuers = [
            ("token", self.id.is_some()),
            ("tenant", self.tenant.is_some()),
            ("answers", self.answers.is_some()),
            ("not_before", self.not_before.is_some()),
        ];
        match issuers.into_iter().find(|(_, stated)| *stated) {
            Some((name, _)) => Err(Flaw::Issuers(name)),
            None => Ok(()),
        }
    }
}

fn once<T>(name: &'static str, place: &mut Option<T>, value: T) -> Result<(), Flaw> {
    match place.replace(value) {
        Some(_) => Err(Flaw::Twice(name)),
        None => Ok(()),
    }
}

/// The only value of a fact.
fn value<'a>(name: &'static str, fact: &'a Predicate) -> Result<&'a Content, Flaw> {
    match fact.terms.as_slice() {
        [one] => one.content.as_ref().ok_or(Flaw::Form(name)),
        _ => Err(Flaw::Form(name)),
    }
}

fn integer(name: &'static str, fact: &Predicate) -> Result<i64, Flaw> {
    if let Content::Integer(number) = value(name, fact)? { Ok(*number) } else { Err(Flaw::Form(name)) }
}

fn date(name: &'static str, fact: &Predicate) -> Result<u64, Flaw> {
    match value(name, fact)? {
        Content::Date(seconds) if time::read(*seconds).is_some() => Ok(*seconds),
        _ => Err(Flaw::Form(name)),
    }
}

fn text<'a>(name: &'static str, fact: &Predicate, symbols: &'a Symbols) -> Result<&'a str, Flaw> {
    if let Content::String(number) = value(name, fact)? { symbols.get(*number) } else { Err(Flaw::Form(name)) }
}
