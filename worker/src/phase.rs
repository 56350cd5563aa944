//! A job's path through the worker, as its metrics name it.

/// A part of a job's path through the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waiting for a slot and a container.
    Acquire,
    /// Moving the record from *assigned* to *started* (the fence).
    Start,
    /// From the run's frame to the runner until its exit.
    Run,
    /// In the runner: taking a sandbox.
    SandboxAcquire,
    /// In the runner: from the code's arrival to its first instruction.
    SandboxStart,
    /// In the runner: the code.
    SandboxRun,
    /// In the runner: collecting the output that is left after the code's end.
    SandboxCollect,
    /// Recording the outcome.
    Finish,
    /// Publishing the result.
    Publish,
    /// Acknowledging the delivery.
    Ack,
    /// From a container's return to the proof that it is clean. The job that used the container does not wait for this.
    Reset,
}

impl Phase {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Start => "start",
            Self::Run => "run",
            Self::SandboxAcquire => "sandbox_acquire",
            Self::SandboxStart => "sandbox_start",
            Self::SandboxRun => "sandbox_run",
            Self::SandboxCollect => "sandbox_collect",
            Self::Finish => "finish",
            Self::Publish => "publish",
            Self::Ack => "ack",
            Self::Reset => "reset",
        }
    }

    /// The phase to which the runner gives this name.
    pub(crate) fn of_runner(name: &str) -> Option<Self> {
        Some(match name {
            "acquire" => Self::SandboxAcquire,
            "start" => Self::SandboxStart,
            "run" => Self::SandboxRun,
            "collect" => Self::SandboxCollect,
            _ => return None,
        })
    }
}

/// Whether a container was ready when a job came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warmth {
    /// The container was ready.
    Warm,
    /// The job waited for the container.
    Cold,
}
