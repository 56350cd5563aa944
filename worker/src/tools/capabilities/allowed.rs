//! The capabilities of one job, ready to decide its calls.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use serde_json::value::RawValue;
use thermae_capabilities::{
    Arguments, At, BadArguments, BadResult, Call, Capability, Counts, Denied, Grant, InMemory, Rules, Schemas, Set,
    Take, Taken, TooManySets, Tree, decide,
};
use thermae_schemas::{ClientId, ErrorCode};

use super::super::approval::{Needed, Yeses};
use super::super::schema::{self, Room, Schema};
use super::super::token::Counted;
use super::super::{Held, Refused};
use super::asked::{Asked, Spent};

/// Why a job's capabilities can't be used. The text is for the client that submitted the job.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A schema can't be used.
    #[error("{at}.{field}: {why}")]
    Schema { at: At, field: &'static str, why: String },
    /// The job's set and those of its token are more than rules can have.
    #[error("capabilities: {0}")]
    Sets(#[from] TooManySets),
}

/// What the capabilities and the token of one job allow, and what of it is used up.
pub(crate) struct Allowed {
    rules: Rules,
    schemas: Compiled,
    /// The counts of the job's own set. The registry has those of the token.
    counts: InMemory,
    /// How many sets the job itself has. Those of its token follow.
    own: usize,
    spent: Spent,
    token: Option<Held>,
    /// Approval that counts for further calls.
    pub(super) yeses: Yeses,
}

/// The JSON Schemas of the capabilities that have some.
#[derive(Default)]
struct Compiled {
    arguments: HashMap<At, Schema>,
    /// What rounded arguments must match, if that is something else.
    rounded: HashMap<At, Schema>,
    results: HashMap<At, Schema>,
}

impl Allowed {
    /// Compiles the schemas of a job's own set and of its token. `None` if it has neither. Nothing is counted yet.
    ///
    /// # Errors
    /// A schema can't be used, or there are too many sets.
    pub(crate) fn new(set: Option<Set>, token: Option<Held>) -> Result<Option<Self>, Error> {
        let own = usize::from(set.is_some());
        let rules = match (set.map(Rules::new), token.as_ref().map(|held| held.rules().clone())) {
            (Some(own), Some(tokens)) => own.narrow(tokens)?,
            (Some(rules), None) | (None, Some(rules)) => rules,
            (None, None) => return Ok(None),
        };
        let (mut schemas, mut room) = (Compiled::default(), Room::default());
        for (at, capability) in rules.capabilities() {
            let bad = |field| move |error: schema::Error| Error::Schema { at, field, why: error.brief() };
            if let Some(schema) = capability.arguments() {
                schemas.arguments.insert(at, Schema::compile(schema, &mut room).map_err(bad("arguments"))?);
                let rounded = schema.rounded();
                if rounded != *schema {
                    schemas.rounded.insert(at, Schema::compile(&rounded, &mut room).map_err(bad("arguments"))?);
                }
            }
            if let Some(schema) = capability.result() {
                schemas.results.insert(at, Schema::compile(schema, &mut room).map_err(bad("result"))?);
            }
        }
        let yeses = Yeses::default();
        Ok(Some(Self { rules, schemas, counts: InMemory::default(), own, spent: Spent::default(), token, yeses }))
    }

    /// Whether some call of this tool may be allowed.
    pub(crate) fn names(&self, tool: &str) -> bool {
        self.rules.names(tool)
    }

    /// The job's token.
    pub(in crate::tools) fn token(&self) -> Option<&Held> {
        self.token.as_ref()
    }

    /// The client to which the calls go, if the token names one.
    pub(in crate::tools) fn answers(&self) -> Option<&ClientId> {
        self.token.as_ref()?.answers()
    }

    /// Decides a call of a job with a token. Counts nothing, but returns what must be counted.
    ///
    /// # Errors
    /// Why the call must not be made.
    pub(super) fn propose(&self, tool: &str, arguments: &RawValue) -> Result<(Grant, Vec<Take>), Refused> {
        let asked = Asked { own: &self.counts, spent: &self.spent, takes: Mutex::default() };
        let grant = self.decide_by(tool, arguments, &asked)?;
        Ok((grant, asked.takes.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Has the registry count what was proposed, and then counts for the job's own set. `false` if a capability of the
    /// token turned out to have no calls left: the next proposal does without it. Only one call at a time may be
    /// counted.
    ///
    /// # Errors
    /// Why the call must not be made.
    pub(super) async fn count(&self, held: &Held, takes: &[Take]) -> Result<bool, Refused> {
        if let Counted::Exhausted(at) = held.count(self.own, takes).await? {
            self.spent.add(at);
            return Ok(false);
        }
        let own: Vec<_> = takes.iter().copied().filter(|take| take.at.set < self.own).collect();
        let Ok(taken) = self.counts.take(&own);
        Ok(taken == Taken::All)
    }

    /// Decides a call, and counts it if it is allowed.
    ///
    /// # Errors
    /// Why the call must not be made.
    pub(super) fn decide(&self, tool: &str, arguments: &RawValue) -> Result<Grant, Refused> {
        self.decide_by(tool, arguments, &self.counts)
    }

    fn decide_by(
        &self,
        tool: &str,
        arguments: &RawValue,
        counts: &impl Counts<Error = Infallible>,
    ) -> Result<Grant, Refused> {
        let unread = |why: &BadArguments| {
            let text = match why {
                BadArguments::Unreadable(error) => format!("the arguments of {tool:?} can't be checked: {error}"),
                BadArguments::NoObject => format!("the arguments of {tool:?} are not a JSON object"),
            };
            Refused::new(ErrorCode::ToolArguments, text)
        };
        let arguments = Arguments::read(arguments.get()).map_err(|error| unread(&error))?;
        decide(&self.rules, Call { tool, arguments: &arguments }, &self.schemas, counts).map_err(
            |denied| match denied {
                Denied::Refused(refusal) => Refused::new(ErrorCode::CapabilityRefused, refusal.to_string()),
                Denied::Counts(never) => match never {},
            },
        )
    }

    /// The approval that a call needs. `None` if it needs none.
    pub(super) fn approval(&self, grant: &Grant) -> Option<Needed> {
        let approval = self.rules.approval(grant)?;
        let wants = |at: &At| self.rules.get(*at).filter(|capability| capability.approval().is_some());
        let at: Vec<At> = grant.by.iter().copied().filter(|at| wants(at).is_some()).collect();
        let pattern = at.first().and_then(wants).map(|capability| capability.pattern().to_string())?;
        Some(Needed { at, pattern, next: approval.next, timeout: approval.timeout() })
    }

    /// Checks the result of a call.
    ///
    /// # Errors
    /// The code must not get the result.
    pub(super) fn check(&self, grant: &Grant, result: &RawValue) -> Result<(), Refused> {
        let bad = |error: BadResult| Refused::new(ErrorCode::ToolAnswer, error.to_string());
        grant.check_result(&self.rules, result.get(), &self.schemas).map_err(bad)
    }

    /// Estimates the work to decide a call with this many bytes of arguments, in bytes read.
    pub(super) fn cost(&self, tool: &str, bytes: usize) -> usize {
        self.rules.cost(tool, bytes).saturating_add(cost(&self.schemas.arguments, bytes))
    }

    /// Estimates the work to check a result of this many bytes, in bytes read.
    pub(super) fn cost_of_result(&self, grant: &Grant, bytes: usize) -> usize {
        let checked = |at: &At| self.rules.get(*at).and_then(Capability::result).is_some();
        if grant.by.iter().any(checked) { cost(&self.schemas.results, bytes).saturating_add(bytes) } else { 0 }
    }
}

/// The work to check something of this many bytes against all of these schemas.
fn cost(schemas: &HashMap<At, Schema>, bytes: usize) -> usize {
    schemas.values().fold(0, |sum: usize, schema| sum.saturating_add(schema.cost(bytes)))
}

impl Schemas for Compiled {
    fn arguments(&self, at: At, arguments: &Arguments) -> Result<(), String> {
        let check = |schema: &Schema, tree: &Tree| schema.check(tree, arguments.text().len());
        let judged = arguments.judge(self.arguments.get(&at).ok_or(MISSING)?, self.rounded.get(&at), check);
        judged.map_err(|mismatch| mismatch.why())
    }

    fn result(&self, at: At, result: &Tree, bytes: usize) -> Result<(), String> {
        let schema = self.results.get(&at).ok_or(MISSING)?;
        schema.check(result, bytes).map_err(|mismatch| mismatch.why())
    }
}

/// A schema that is not there fits nothing.
const MISSING: &str = "there is no such schema";
