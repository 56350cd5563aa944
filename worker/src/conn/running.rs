//! The worker's end of one run in a container.

use std::sync::Arc;

use thermae_runner::frames::{ANSWER_WINDOW, Frame, Kind, ToolResult};
use tokio::sync::mpsc;

use super::{CHUNK, Inner, Queued};

/// A run under way. If it is dropped before its end, it is killed.
pub(crate) struct Running {
    pub(super) inner: Arc<Inner>,
    pub(super) number: u32,
    pub(super) frames: mpsc::Receiver<Queued>,
    pub(super) ended: bool,
    /// Bytes of answers to tool calls for which the runner has given no credit.
    pub(super) untaken: u64,
}

impl Running {
    /// The run's next frame; the one of kind `Exit` is the last. `None` if the container is gone. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let frame = self.frames.recv().await.map(|(frame, _)| frame);
        self.ended |= frame.as_ref().is_none_or(|f| f.kind == Kind::Exit);
        frame
    }

    /// The run's next frame, if it is there already.
    pub(crate) fn try_next(&mut self) -> Option<Frame> {
        let frame = self.frames.try_recv().ok().map(|(frame, _)| frame);
        self.ended |= frame.as_ref().is_some_and(|f| f.kind == Kind::Exit);
        frame
    }

    /// Whether the code takes its answers, so that the next one may be sent.
    pub(crate) fn takes_answers(&self) -> bool {
        self.untaken < ANSWER_WINDOW
    }

    /// Notes that the code has taken this many bytes of its answers.
    pub(crate) fn taken(&mut self, bytes: u64) {
        self.untaken = self.untaken.saturating_sub(bytes);
    }

    /// Answers a tool call of the code.
    pub(crate) fn answer(&mut self, result: &ToolResult) {
        self.untaken += self.tell(Kind::ToolResult, result);
    }

    /// Sends standard input, no faster than the runner reads it.
    pub(crate) async fn input(&self, bytes: &[u8]) {
        for chunk in bytes.chunks(CHUNK) {
            self.inner.closed.run_until_cancelled(self.inner.writer.room()).await;
            let _ = self.inner.send(&Frame::raw(Kind::Stdin, self.number, chunk));
        }
    }

    /// Ends standard input.
    pub(crate) fn end_input(&self) {
        let _ = self.inner.send(&Frame::raw(Kind::StdinEnd, self.number, Vec::new()));
    }

    /// Allows this many bytes more of output.
    pub(crate) fn allow(&self, bytes: u64) {
        self.tell(Kind::Credit, &bytes);
    }

    /// Sends a signal to the process group of a command.
    pub(crate) fn signal(&self, signal: i32) {
        self.tell(Kind::Signal, &signal);
    }

    /// Sends a frame, and returns the size of its body.
    fn tell(&self, kind: Kind, what: &impl serde::Serialize) -> u64 {
        match Frame::json(kind, self.number, what) {
            Ok(frame) => {
                let _ = self.inner.send(&frame);
                frame.body.len() as u64
            }
            Err(e) => {
                self.inner.close(format!("{kind:?}: {e}"));
                0
            }
        }
    }

    /// Kills the run's sandbox, or the process group of what runs beside a session's program. Its `Exit` follows.
    pub(crate) fn kill(&self) {
        let _ = self.inner.send(&Frame::raw(Kind::Kill, self.number, Vec::new()));
    }

    /// Interrupts the code, which is killed if it does not end within its grace. Its `Exit` follows.
    pub(crate) fn interrupt(&self) {
        let _ = self.inner.send(&Frame::raw(Kind::Interrupt, self.number, Vec::new()));
    }

    /// Has the wait of the code count against its wall-clock time, because the run can't be paused.
    pub(crate) fn charge(&self) {
        let _ = self.inner.send(&Frame::raw(Kind::Charge, self.number, Vec::new()));
    }

    /// Has the stopped code go on, because a signal has come for it.
    pub(crate) fn wake(&self) {
        let _ = self.inner.send(&Frame::raw(Kind::Wake, self.number, Vec::new()));
    }

    /// Gives up the container, because its runner does not end the run or breaks the protocol.
    pub(crate) fn abandon(&self, why: &str) {
        self.inner.close(why);
    }

    /// Why the container is gone.
    pub(crate) fn why(&self) -> String {
        self.inner.why.get().cloned().unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.inner.runs().remove(&self.number);
        if !self.ended {
            self.kill();
        }
    }
}
