//! What tenants used: counted from the outcomes that come through this gateway, by the hour in which they come.
//!
//! Nothing of it outlives the process. Memory is bounded: the oldest hours are forgotten first, and `since` says so.

mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::Serialize;
use thermae_schemas::{Event, EventBody, Outcome, Status, TenantName};

use self::table::Table;

/// Hours that are kept: 31 days.
pub(crate) const MOST_HOURS: u64 = 31 * 24;

const HOUR: u64 = 3600;

/// The hour of this moment, in hours since 1970.
fn hour(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / HOUR
}

fn begin_of(hour: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(hour * HOUR)
}

fn told(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

/// What all tenants used. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Usage(Arc<Inner>);

struct Inner {
    /// When the gateway began to count.
    began: SystemTime,
    table: Mutex<Table>,
}

/// Counts what one tenant uses. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Meter {
    usage: Usage,
    tenant: TenantName,
}

/// What was used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Used {
    /// Numbers of runs, by how they ended.
    pub(crate) runs: BTreeMap<Status, u64>,
    /// Time from the code's start to its end by the wall clock, in milliseconds.
    pub(crate) wall_ms: f64,
    /// The part of `wall_ms` in which runs only waited for answers to tool calls, if it was not on their wall clock.
    pub(crate) paused_ms: f64,
    /// CPU time, in milliseconds.
    pub(crate) cpu_ms: f64,
    /// Bytes of standard output and standard error.
    pub(crate) output_bytes: u64,
    /// Bytes of artifacts.
    pub(crate) artifact_bytes: u64,
    /// Number of tool calls that passed the worker's check.
    pub(crate) tool_calls: u64,
}

/// What the tenant used, as far as the outcomes of its runs came through this gateway.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UsageView {
    /// The figures are complete from this moment on (RFC 3339): the start of the gateway, or later if it had to forget
    /// hours.
    pub(crate) since: String,
    /// Begin of the first hour that counts (RFC 3339).
    pub(crate) from: String,
    /// The sum.
    pub(crate) total: Used,
    /// Each hour in which runs ended, the oldest first.
    pub(crate) hours: Vec<HourView>,
}

/// What was used in one hour.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HourView {
    /// Begin of the hour (RFC 3339).
    pub(crate) from: String,
    /// What the runs used whose outcomes came in it.
    #[serde(flatten)]
    pub(crate) used: Used,
}

impl Used {
    fn of(outcome: &Outcome) -> Self {
        let usage = &outcome.usage;
        Self {
            runs: BTreeMap::from([(outcome.status, 1)]),
            wall_ms: usage.wall_ms,
            paused_ms: usage.paused_ms,
            cpu_ms: usage.cpu_ms,
            output_bytes: usage.output_bytes,
            artifact_bytes: outcome.artifacts.iter().map(|artifact| artifact.size).sum(),
            tool_calls: usage.tool_calls.into(),
        }
    }

    fn add(&mut self, more: &Self) {
        for (status, runs) in &more.runs {
            *self.runs.entry(*status).or_default() += runs;
        }
        self.wall_ms += more.wall_ms;
        self.paused_ms += more.paused_ms;
        self.cpu_ms += more.cpu_ms;
        self.output_bytes += more.output_bytes;
        self.artifact_bytes += more.artifact_bytes;
        self.tool_calls += more.tool_calls;
    }
}

impl Usage {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner { began: SystemTime::now(), table: Mutex::default() }))
    }

    /// Counts for this tenant.
    pub(crate) fn meter(&self, tenant: TenantName) -> Meter {
        Meter { usage: self.clone(), tenant }
    }
}

impl Meter {
    /// Counts a run that has ended, unless this outcome of it was counted before. A job that another one ran for has
    /// used nothing.
    pub(crate) fn count(&self, event: &Event) {
        let EventBody::Result(outcome) = &event.body else { return };
        if outcome.duplicate_of.is_some() {
            return;
        }
        let mut table = self.usage.0.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.is_new(&self.tenant, event, outcome) {
            table.add(&self.tenant, &Used::of(outcome), hour(SystemTime::now()));
        }
    }

    /// What was used in the last so many hours, the one under way included.
    pub(crate) fn view(&self, hours: u64) -> UsageView {
        let Inner { began, table } = &*self.usage.0;
        let table = table.lock().unwrap_or_else(PoisonError::into_inner);
        let from = (hour(SystemTime::now()) + 1).saturating_sub(hours);
        let (mut total, mut list) = (Used::default(), Vec::new());
        for (hour, used) in table.of(&self.tenant, from) {
            total.add(used);
            list.push(HourView { from: told(begin_of(hour)), used: used.clone() });
        }
        let since = (*began).max(begin_of(table.first_kept()));
        UsageView { since: told(since), from: told(begin_of(from)), total, hours: list }
    }
}
