//! Limits of jobs: the limits for jobs that ask for none, and the most that a job may ask for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_runner::frames;
use thermae_schemas::{LimitRequest, LimitsUsed};
use thermae_service::units::{ByteSize, Millis};

/// Longest time that any job may wait for tool calls.
const LONGEST_PAUSE: Millis = Millis::from_secs(24 * 60 * 60);

/// How long a run waits before it is paused. A shorter pause costs more (a stop, a heartbeat, a copy of the job for
/// `resolve`) than the slot that it frees is worth.
const PAUSE_AFTER: Millis = Millis::from_secs(1);

/// The limits of a pool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitOptions {
    /// For jobs that ask for no limit of their own.
    pub default: Limits,
    /// The most that a job may ask for. The size of a container follows from its memory and its pids.
    pub ceiling: Limits,
    /// Time between the interrupt that the code gets when its wall-clock time is over, or when a job of a session is
    /// cancelled, and the kill.
    pub grace: Millis,
}

impl Default for LimitOptions {
    fn default() -> Self {
        let default = Limits::default();
        let ceiling = Limits {
            wall: Millis::from_secs(300),
            cpu: Millis::from_secs(300),
            output: ByteSize::mib(8),
            tool_wait: LONGEST_PAUSE,
            pause: LONGEST_PAUSE,
            ..default.clone()
        };
        Self { default, ceiling, grace: Millis::from_secs(1) }
    }
}

/// One set of limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Time that a job may run, by the wall clock.
    pub wall: Millis,
    /// CPU time of a job.
    pub cpu: Millis,
    /// Memory of a job.
    pub memory: ByteSize,
    /// Number of processes and threads of a job.
    pub pids: u32,
    /// Size of a job's standard output and standard error together.
    pub output: ByteSize,
    /// How long a tool call may wait for its answer.
    pub tool_wait: Millis,
    /// How long a job may wait for tool calls in all, at most a day. Time in which every task of its code waits counts
    /// here, and not against `wall`. Time beyond this counts against `wall` again.
    pub pause: Millis,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Millis::from_secs(30),
            cpu: Millis::from_secs(30),
            memory: ByteSize::mib(256),
            pids: 64,
            output: ByteSize::mib(1),
            tool_wait: Millis::from_secs(240),
            pause: Millis::from_secs(240),
        }
    }
}

/// The limits that apply to one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// The limits that the runner enforces.
    pub run: frames::Limits,
    /// How long a tool call may wait for its answer, in milliseconds.
    pub tool_ms: u64,
}

impl Granted {
    /// These limits, as the outcome reports them.
    pub fn used(&self) -> LimitsUsed {
        LimitsUsed {
            wall_ms: self.run.wall_ms,
            cpu_ms: self.run.cpu_ms,
            memory_bytes: self.run.memory_bytes,
            pids: self.run.pids,
            output_bytes: self.run.output_bytes,
            pause_ms: self.run.pause_ms,
        }
    }
}

/// Why a job does not get the limits that it asks for. The text is for the client that submitted the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The limit would let nothing run.
    #[error("limits.{0} is 0")]
    Zero(&'static str),
    /// The limit is above its ceiling.
    #[error("limits.{name} is {asked}, and this pool allows at most {ceiling}")]
    TooHigh {
        /// Name of the limit in the job.
        name: &'static str,
        /// What the job asks for.
        asked: u64,
        /// What the pool allows.
        ceiling: u64,
    },
}

impl LimitOptions {
    /// The limits for a job that asks for these.
    ///
    /// # Errors
    /// The first limit that is above its ceiling or zero.
    pub fn grant(&self, ask: &LimitRequest) -> Result<Granted, Refused> {
        let (d, c) = (&self.default, &self.ceiling);
        Ok(Granted {
            run: frames::Limits {
                wall_ms: pick("wall_ms", ask.wall_ms, d.wall.as_millis(), c.wall.as_millis())?,
                grace_ms: self.grace.as_millis().max(1),
                cpu_ms: pick("cpu_ms", ask.cpu_ms, d.cpu.as_millis(), c.cpu.as_millis())?,
                memory_bytes: pick("memory_bytes", ask.memory_bytes, d.memory.0, c.memory.0)?,
                pids: pick("pids", ask.pids.map(u64::from), d.pids.into(), c.pids.into())? as u32,
                output_bytes: pick("output_bytes", ask.output_bytes, d.output.0, c.output.0)?,
                pause_ms: pick("pause_ms", ask.pause_ms, d.pause.as_millis(), c.pause.as_millis())?,
                pause_after_ms: PAUSE_AFTER.as_millis(),
            },
            tool_ms: pick("tool_ms", ask.tool_ms, d.tool_wait.as_millis(), c.tool_wait.as_millis())?,
        })
    }

    /// The ceilings that the runner enforces, too.
    pub fn runner_ceiling(&self) -> frames::Limits {
        let c = &self.ceiling;
        frames::Limits {
            wall_ms: c.wall.as_millis(),
            grace_ms: self.grace.as_millis().max(1),
            cpu_ms: c.cpu.as_millis(),
            memory_bytes: c.memory.0,
            pids: c.pids,
            output_bytes: c.output.0,
            pause_ms: c.pause.as_millis(),
            pause_after_ms: PAUSE_AFTER.as_millis(),
        }
    }

    pub(super) fn validate(&self) -> Result<(), (String, String)> {
        let (d, c) = (&self.default, &self.ceiling);
        for (key, default, ceiling) in [
            ("wall", d.wall.as_millis(), c.wall.as_millis()),
            ("cpu", d.cpu.as_millis(), c.cpu.as_millis()),
            ("memory", d.memory.0, c.memory.0),
            ("pids", d.pids.into(), c.pids.into()),
            ("output", d.output.0, c.output.0),
            ("tool_wait", d.tool_wait.as_millis(), c.tool_wait.as_millis()),
            ("pause", d.pause.as_millis(), c.pause.as_millis()),
        ] {
            if default == 0 {
                return Err((format!("default.{key}"), "must not be zero".into()));
            }
            if default > ceiling {
                return Err((format!("default.{key}"), format!("is above limits.ceiling.{key}")));
            }
        }
        if c.pause > LONGEST_PAUSE {
            return Err(("ceiling.pause".to_owned(), "must be at most a day".to_owned()));
        }
        Ok(())
    }
}

fn pick(name: &'static str, asked: Option<u64>, default: u64, ceiling: u64) -> Result<u64, Refused> {
    match asked {
        None => Ok(default),
        Some(0) => Err(Refused::Zero(name)),
        Some(asked) if asked > ceiling => Err(Refused::TooHigh { name, asked, ceiling }),
        Some(n) => Ok(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_may_ask_for_less_and_up_to_the_ceiling() {
        let options = LimitOptions::default();
        let granted =
            options.grant(&LimitRequest { wall_ms: Some(300_000), pids: Some(1), ..Default::default() }).unwrap();
        assert_eq!((granted.run.wall_ms, granted.run.pids, granted.run.cpu_ms), (300_000, 1, 30_000));
        let refused = options.grant(&LimitRequest { memory_bytes: Some(1 << 40), ..Default::default() }).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("memory_bytes") && refused.contains("at most"), "{refused}");
    }
}
