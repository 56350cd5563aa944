//! The gate for tool calls: what the code of one job may call, and how often. Every call passes it before it leaves the
//! worker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use thermae_capabilities::Tree;
use thermae_runner::frames::{self, MOST_NOTES};
use thermae_schemas::json::measure_unique;
use thermae_schemas::{AliasClash, ErrorCode, JsonText, ToolSpec, alias, alias_clash};
use thermae_tokens::TokenId;

use super::schema::{Mismatch, Room, Schema};
use super::{Allowed, Refused, parameters};
use crate::bundle::MOST_VALUES;
use crate::fit::LARGEST;
use crate::options::Bounds;

/// Most values in arguments that are checked against a schema. Only these arguments become a tree in memory.
const MOST_CHECKED: usize = 100_000;

/// Tool calls of one run that may wait for answers at once.
const MOST_AT_ONCE: usize = 1024;

/// Bytes of a job's tool calls that may be on their way through the worker at once.
const MOST_HELD: usize = 32 << 20;

/// Why a job's tools can't be used. The text is for the client that submitted the job.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the tools {:?} and {:?} would both be called {} in the code; rename one", .0.first, .0.second, .0.alias)]
    Clash(AliasClash),
    #[error("parameters of the tool {tool:?}: {why}")]
    Parameters { tool: String, why: parameters::Error },
}

/// What is wrong with the arguments of a call. The text goes on from the name of the tool.
#[derive(Debug, thiserror::Error)]
enum BadArguments {
    #[error("are larger than {LARGEST} bytes")]
    Large,
    #[error("are not a JSON object")]
    NoObject,
    #[error("can't be sent: {0}")]
    Unsendable(#[from] serde_json::Error),
    #[error("can't be checked: its input schema can't be used: {0}")]
    NoSchema(String),
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

/// What the code of one job may call.
pub(crate) struct Gate {
    tools: HashMap<String, Declared>,
    bounds: Bounds,
    used: Mutex<Used>,
    /// What the job's capabilities allow. `None` if it has none. The gate only carries this: a provider decides by it.
    allowed: Option<Arc<Allowed>>,
    /// Which tools can't be called, and why, in sentences.
    notes: Vec<String>,
}

struct Declared {
    /// `Err` says why its calls can't be checked, and so can't be made.
    schema: Result<Option<Schema>, String>,
    max_calls: Option<u32>,
    timeout: Option<Duration>,
}

/// What the job has used so far.
#[derive(Default)]
struct Used {
    /// Number of calls that came, whether or not they passed.
    came: u32,
    /// Bytes of these calls.
    bytes: u64,
    /// Number of calls that passed.
    passed: u32,
    /// Number of calls that passed, by tool.
    by_tool: HashMap<String, u32>,
    /// Number of calls that are not answered yet.
    open: usize,
    /// Bytes of the calls that have not left the worker.
    held: usize,
    /// Whether a call exceeded a bound.
    exceeded: bool,
}

/// A call that came and is not answered yet.
pub(crate) struct Open {
    gate: Arc<Gate>,
    held: usize,
}

impl Open {
    /// The gate that counted the call.
    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Notes that the call has left the worker, so that none of its bytes are held any more.
    pub(crate) fn left(&mut self) {
        self.gate.used().held -= std::mem::take(&mut self.held);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.left();
        self.gate.used().open -= 1;
    }
}

impl Gate {
    /// Makes the gate for these tools, and describes the tools for the runner.
    ///
    /// # Errors
    /// Two tools have the same name in the code, or a tool's parameters are none. (If a schema can't be used, the calls
    /// of its tool are refused.)
    pub(crate) fn new(specs: &[ToolSpec], bounds: Bounds) -> Result<(Self, Vec<frames::Tool>), Error> {
        if let Some(clash) = alias_clash(specs.iter().map(|spec| spec.name.as_str())) {
            return Err(Error::Clash(clash));
        }
        let mut tools = HashMap::with_capacity(specs.len());
        let mut told = Vec::with_capacity(specs.len());
        let (mut notes, mut room) = (Vec::new(), Room::default());
        for spec in specs {
            let schema = spec
                .input_schema
                .as_ref()
                .map(|text| Schema::read(text.raw().get(), &mut room).map_err(|e| e.brief()))
                .transpose();
            if let Err(why) = &schema {
                // The schema may be good for another reader, and the other tools can be used.
                tracing::warn!(tool = spec.name, why, "a tool's calls are refused: its input schema can't be used");
                notes.push(format!("The tool {:?} can't be called: its input schema can't be used: {why}", spec.name));
            }
            let (parameters, others) =
                parameters::of(spec).map_err(|why| Error::Parameters { tool: spec.name.clone(), why })?;
            let text = |schema: &Option<JsonText>| schema.as_ref().map(|schema| schema.raw().to_owned());
            let timeout = spec.timeout_ms.map(Duration::from_millis);
            tools.insert(spec.name.clone(), Declared { schema, max_calls: spec.max_calls, timeout });
            told.push(frames::Tool {
                name: spec.name.clone(),
                alias: alias(&spec.name),
                description: spec.description.clone(),
                parameters,
                others,
                input_schema: text(&spec.input_schema),
                output_schema: text(&spec.output_schema),
                raw: spec.raw,
                hidden: false,
            });
        }
        if notes.len() > MOST_NOTES {
            let more = notes.split_off(MOST_NOTES - 1).len();
            notes.push(format!("{more} more tools can't be called: their input schemas can't be used."));
        }
        Ok((Self { tools, bounds, used: Mutex::default(), allowed: None, notes }, told))
    }

    /// Which tools can't be called, and why, in sentences.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The same gate, for a job with these capabilities.
    pub(crate) fn under(self, allowed: Option<Arc<Allowed>>) -> Self {
        Self { allowed, ..self }
    }

    /// What the job's capabilities allow. `None` if it has none.
    pub(crate) fn allowed(&self) -> Option<&Arc<Allowed>> {
        self.allowed.as_ref()
    }

    /// The id of the job's token, if it has one.
    pub(crate) fn token(&self) -> Option<&TokenId> {
        Some(self.allowed.as_ref()?.token()?.id())
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call of this many bytes when it comes, before anything of it is read.
    ///
    /// # Errors
    /// The call exceeds a bound.
    pub(crate) fn comes(self: &Arc<Self>, bytes: usize) -> Result<Open, Refused> {
        let Bounds { tool_calls, tool_argument_bytes, .. } = self.bounds;
        let mut used = self.used();
        used.came = used.came.saturating_add(1);
        used.bytes = used.bytes.saturating_add(bytes as u64);
        let why = if used.came > tool_calls {
            format!("a job may make at most {tool_calls} tool calls; the pool's operator can raise bounds.tool_calls")
        } else if used.bytes > tool_argument_bytes.0 {
            format!(
                "the arguments of a job's tool calls may have at most {} bytes together; the pool's operator can raise \
                 bounds.tool_argument_bytes",
                tool_argument_bytes.0
            )
        } else if used.open >= MOST_AT_ONCE {
            format!("more than {MOST_AT_ONCE} tool calls wait for answers; call fewer at once")
        } else if used.held + bytes > MOST_HELD {
            format!("more than {MOST_HELD} bytes of tool calls are on their way; call fewer at once")
        } else {
            used.open += 1;
            used.held += bytes;
            return Ok(Open { gate: Arc::clone(self), held: bytes });
        };
        Err(Refused::new(ErrorCode::ToolCallLimit, why))
    }

    /// Whether no call of the job exceeded a bound before. The next time, it returns `false`.
    pub(crate) fn first_exceeds(&self) -> bool {
        !std::mem::replace(&mut self.used().exceeded, true)
    }

    /// How long a call of this tool may wait at most, if the tool has a time-out of its own.
    pub(crate) fn timeout(&self, name: &str) -> Option<Duration> {
        self.tools.get(name)?.timeout
    }

    /// Estimates the work to check a call with this many bytes, in bytes read.
    pub(crate) fn cost(&self, name: &str, bytes: usize) -> usize {
        match self.tools.get(name).and_then(|tool| tool.schema.as_ref().ok()?.as_ref()) {
            Some(schema) => schema.cost(bytes),
            None => bytes,
        }
    }

    /// Checks one call and counts it. Returns what may leave the worker: the arguments as they came.
    ///
    /// # Errors
    /// Why the call must not leave the worker.
    pub(crate) fn check(&self, name: &str, arguments: Box<RawValue>) -> Result<Box<RawValue>, Refused> {
        let refuse = |code, message: String| Err(Refused::new(code, message));
        let Some(tool) = self.tools.get(name) else {
            return refuse(ErrorCode::UnknownTool, format!("the job declares no tool {name:?}"));
        };
        if let Err(why) = tool.check(&arguments, self.allowed.is_some()) {
            return refuse(ErrorCode::ToolArguments, format!("the arguments of {name:?} {why}"));
        }
        let mut used = self.used();
        let calls = used.by_tool.entry(name.to_owned()).or_default();
        if let Some(max) = tool.max_calls.filter(|max| *calls >= *max) {
            return refuse(ErrorCode::ToolCallLimit, format!("{name:?} may be called at most {max} times in one job"));
        }
        *calls += 1;
        used.passed += 1;
        Ok(arguments)
    }

    /// Number of calls that passed the gate.
    pub(crate) fn calls(&self) -> u32 {
        self.used().passed
    }
}

/// Checks that tools can be declared by a job, and called.
///
/// # Errors
/// What is wrong with them, in a sentence.
pub fn check_tools(specs: &[ToolSpec]) -> Result<(), String> {
    let (gate, _) = Gate::new(specs, Bounds::default()).map_err(|error| error.to_string())?;
    gate.notes.first().map_or(Ok(()), |note| Err(note.clone()))
}

impl Declared {
    /// Checks arguments. They have one reading, because no key appears twice, so what is checked is what is sent.
    /// `capable`: the job's capabilities check them, too.
    fn check(&self, arguments: &RawValue, capable: bool) -> Result<(), BadArguments> {
        let text = arguments.get();
        // The call becomes a message to the client, and the broker would refuse a larger one.
        if text.len() > LARGEST {
            return Err(BadArguments::Large);
        }
        let schema = self.schema.as_ref().map_err(|why| BadArguments::NoSchema(why.clone()))?;
        let most = if schema.is_some() || capable { MOST_CHECKED } else { MOST_VALUES };
        if !measure_unique(text.as_bytes(), most)?.is_object {
            return Err(BadArguments::NoObject);
        }
        let Some(schema) = schema else { return Ok(()) };
        Ok(schema.check(&Tree::read(text)?, text.len())?)
    }
}

#[cfg(test)]
mod tests;
