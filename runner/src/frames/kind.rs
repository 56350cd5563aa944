//! The kinds of frames.

#[cfg(doc)]
use super::{
    Artifact, ArtifactEnd, Beside, Checkpoint, Exit, Input, Part, Proof, Ready, Run, Setup, ToolCall, ToolResult,
};

/// Kinds of frames. The worker sends those marked `W`, the runner those marked `R`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// W: [`Setup`], the first frame.
    Setup = 1,
    /// W: [`Run`].
    Run = 2,
    /// W: [`ToolResult`].
    ToolResult = 3,
    /// W: interrupt the code, as at the end of its wall-clock time, and kill it if it does not end within its grace; or
    /// SIGINT for the process group of a [`Beside`]; no payload.
    Interrupt = 4,
    /// W: kill the run's sandbox, or the process group of a [`Beside`]; no payload. Its [`Exit`] follows.
    Kill = 5,
    /// W: end a session; payload is its name. [`Kind::SessionClosed`] follows.
    CloseSession = 6,
    /// W: asks for a [`Kind::Pong`], which the runner's main loop sends. So the worker notices a hung runner.
    Ping = 7,
    /// W: end everything and exit 0.
    Shutdown = 8,
    /// W: prove that nothing of the runs so far is left; no payload. [`Kind::Verified`] follows once no run goes on.
    Verify = 9,
    /// W: [`Input`]; [`Kind::InputData`] follows, and at last the [`Run`] of the same number.
    Input = 10,
    /// W: raw bytes of the last [`Input`].
    InputData = 11,
    /// W: [`Checkpoint`]. [`Kind::Part`] and [`Kind::PartData`] follow, and at last an [`Exit`], all with its number.
    Checkpoint = 12,
    /// W: [`Beside`]; for its number, the frames below follow, and [`Kind::Interrupt`] and [`Kind::Kill`] may.
    Beside = 13,
    /// W: raw bytes of standard input.
    Stdin = 14,
    /// W: the end of standard input; no payload.
    StdinEnd = 15,
    /// W: send a signal to a command's process group; payload is the signal's number (JSON).
    Signal = 16,
    /// W and R: how many bytes more the other side may send (JSON): output, if the worker says it, and input or, to a
    /// [`Run`], answers to tool calls, if the runner does.
    Credit = 17,
    /// W, R: [`Part`] of a checkpoint. The worker sends those that a session begins with before the [`Run`] that makes
    /// it, under that run's number.
    Part = 18,
    /// W, R: raw bytes of the last [`Part`].
    PartData = 19,
    /// W: the worker can't give up the slot of a run that [`Kind::Waits`]; no payload. From now on until the next
    /// answer to a tool call, the run's waiting counts against the wall clock.
    Charge = 20,
    /// W: a run that asked for it ([`Kind::Wakes`]) has a slot again; no payload. Its process is continued.
    Wake = 21,
    /// R: [`Ready`].
    Ready = 64,
    /// R: the code or command is about to run; no payload.
    Started = 65,
    /// R: raw bytes of standard output.
    Stdout = 66,
    /// R: raw bytes of standard error.
    Stderr = 67,
    /// R: [`ToolCall`].
    ToolCall = 68,
    /// R: a MIME bundle (JSON object) that the code displayed.
    Display = 69,
    /// R: [`Exit`], the last of a run.
    Exit = 70,
    /// R: payload is the session's name; also sent unasked when a session's process died between runs.
    SessionClosed = 71,
    /// R: answer to [`Kind::Ping`].
    Pong = 72,
    /// R: text; the runner can't go on and exits.
    Fatal = 73,
    /// R: [`Proof`], with the number of the last [`Kind::Verify`]. It also answers all earlier ones.
    Verified = 74,
    /// R: [`Artifact`], after the code's end and before [`Exit`].
    Artifact = 75,
    /// R: raw bytes of the last [`Artifact`].
    ArtifactData = 76,
    /// R: [`ArtifactEnd`].
    ArtifactEnd = 77,
    /// R: how many calls of a run are not answered (JSON). All tasks of its code have waited for these answers for so
    /// long that its process is stopped; it needs no slot. The next [`ToolResult`], [`Kind::Interrupt`] or soft
    /// time-out continues the process.
    Waits = 78,
    /// R: as [`Kind::Waits`], without payload, but the process goes on and needs its slot: it has timers of its own,
    /// which must fire on time.
    Stays = 79,
    /// R: a signal has come for the stopped process of a run that [`Kind::Waits`]; no payload. The run needs a slot, and
    /// goes on with [`Kind::Wake`] or as said there.
    Wakes = 80,
}

impl Kind {
    /// The kind with this number.
    pub fn from_u8(n: u8) -> Option<Self> {
        use Kind::*;
        [
            Setup,
            Run,
            ToolResult,
            Interrupt,
            Kill,
            CloseSession,
            Ping,
            Shutdown,
            Verify,
            Input,
            InputData,
            Checkpoint,
            Beside,
            Stdin,
            StdinEnd,
            Signal,
            Credit,
            Part,
            PartData,
            Charge,
            Wake,
            Ready,
            Started,
            Stdout,
            Stderr,
            ToolCall,
            Display,
            Exit,
            SessionClosed,
            Pong,
            Fatal,
            Verified,
            Artifact,
            ArtifactData,
            ArtifactEnd,
            Waits,
            Stays,
            Wakes,
        ]
        .into_iter()
        .find(|k| *k as u8 == n)
    }
}
