//! The capabilities of one job, ready to decide its calls.

use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;
use thermae_capabilities::{
    Arguments, At, BadArguments, BadResult, Call, Capability, Denied, Grant, InMemory, Rules, Schemas, Set, decide,
};
use thermae_schemas::ErrorCode;

use super::super::Refused;
use super::super::approval::{Needed, Yeses};
use super::super::schema::{self, Schema};

/// Why a job's capabilities can't be used. The text is for the client that submitted the job.
#[derive(Debug, thiserror::Error)]
#[error("{at}.{field}: {why}")]
pub(crate) struct Error {
    at: At,
    field: &'static str,
    why: String,
}

/// What the capabilities of one job allow, and what of it is used up.
pub(crate) struct Allowed {
    rules: Rules,
    schemas: Compiled,
    counts: InMemory,
    /// Approval that counts for further calls.
    pub(super) yeses: Yeses,
}

/// The JSON Schemas of the capabilities that have some.
#[derive(Default)]
struct Compiled {
    arguments: HashMap<At, Schema>,
    results: HashMap<At, Schema>,
}

impl Allowed {
    /// Compiles the schemas of a set. Nothing is counted yet.
    ///
    /// # Errors
    /// A schema can't be used.
    pub(crate) fn new(set: Set) -> Result<Self, Error> {
        let rules = Rules::new(set);
        let mut schemas = Compiled::default();
        for (at, capability) in rules.capabilities() {
            let compile = |field, schema: Option<&Value>| {
                let bad = |error: schema::Error| Error { at, field, why: error.brief() };
                schema.map(|schema| Schema::compile(schema).map_err(bad)).transpose()
            };
            let (arguments, results) = (&mut schemas.arguments, &mut schemas.results);
            arguments.extend(compile("arguments", capability.arguments())?.map(|schema| (at, schema)));
            results.extend(compile("result", capability.result())?.map(|schema| (at, schema)));
        }
        Ok(Self { rules, schemas, counts: InMemory::default(), yeses: Yeses::default() })
    }

    /// Decides a call, and counts it if it is allowed. Returns what must leave the worker: exactly what was checked.
    ///
    /// # Errors
    /// Why the call must not be made.
    pub(super) fn decide(&self, tool: &str, arguments: &RawValue) -> Result<(Grant, Box<RawValue>), Refused> {
        let unread = |why: &BadArguments| {
            let text = match why {
                BadArguments::Unreadable(error) => format!("the arguments of {tool:?} can't be checked: {error}"),
                BadArguments::NoObject => format!("the arguments of {tool:?} are not a JSON object"),
            };
            Refused::new(ErrorCode::ToolArguments, text)
        };
        let arguments = Arguments::read(arguments.get()).map_err(|error| unread(&error))?;
        let granted = decide(&self.rules, Call { tool, arguments: &arguments }, &self.schemas, &self.counts);
        let grant = granted.map_err(|denied| match denied {
            Denied::Refused(refusal) => Refused::new(ErrorCode::CapabilityRefused, refusal.to_string()),
            Denied::Counts(never) => match never {},
        })?;
        let internal = |error: serde_json::Error| Refused::new(ErrorCode::Internal, error.to_string());
        Ok((grant, RawValue::from_string(arguments.into_text()).map_err(internal)?))
    }

    /// The approval that a call needs. `None` if it needs none.
    pub(super) fn approval(&self, grant: &Grant) -> Option<Needed> {
        let approval = self.rules.approval(grant)?;
        let wants = |at: &At| self.rules.get(*at).filter(|capability| capability.approval().is_some());
        let at: Vec<At> = grant.by.iter().copied().filter(|at| wants(at).is_some()).collect();
        let pattern = at.first().and_then(wants).map(|capability| capability.pattern().to_string())?;
        Some(Needed { at, pattern, next: approval.next, timeout: approval.timeout() })
    }

    /// Checks the result of a call. Returns what the code may have.
    ///
    /// # Errors
    /// The code must not get the result.
    pub(super) fn check(&self, grant: &Grant, result: Box<RawValue>) -> Result<Box<RawValue>, Refused> {
        let bad = |error: &BadResult| Refused::new(ErrorCode::ToolAnswer, error.to_string());
        match grant.check_result(&self.rules, result.get(), &self.schemas).map_err(|error| bad(&error))? {
            None => Ok(result),
            Some(text) => {
                RawValue::from_string(text).map_err(|error| Refused::new(ErrorCode::Internal, error.to_string()))
            }
        }
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
        check(self.arguments.get(&at), arguments.tree(), arguments.text().len())
    }

    fn result(&self, at: At, result: &Value, bytes: usize) -> Result<(), String> {
        check(self.results.get(&at), result, bytes)
    }
}

/// Checks a value that had this many bytes. A schema that is not there fits nothing.
fn check(schema: Option<&Schema>, value: &Value, bytes: usize) -> Result<(), String> {
    let schema = schema.ok_or("there is no such schema")?;
    schema.check(value, bytes).map_err(|mismatch| mismatch.why())
}
