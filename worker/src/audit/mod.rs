//! The audit log: a line for each tool call before it leaves the worker, one for the decision if it needs approval, and
//! one for its end.
//!
//! ```text
//! tools::call ─▶ Audit::begin ─▶ writer (a thread) ─▶ Chain ─▶ file
//!      ├ approval ─▶ Trail::decided ─┤
//!      └ answer ─▶ Trail::end ───────┘
//! ```

mod chain;
mod options;
mod record;
mod redact;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

use std::io;

use serde_json::value::RawValue;
use thermae_schemas::{ErrorCode, WorkerId};
use tokio::time::Instant;

use crate::work::Work;

pub(crate) use record::Ruled;
use record::{End, Named};
use redact::Redact;
use writer::Writer;

pub use options::AuditOptions;
pub use verify::{Broken, Verified, verify};

/// A line could not be written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the call could not be written to the audit log")]
pub(crate) struct Unwritten;

/// The audit log of a worker. Without a file, it writes nothing.
pub(crate) struct Audit(Option<Log>);

struct Log {
    worker: WorkerId,
    redact: Redact,
    writer: Writer,
}

impl Audit {
    /// Opens the log. It must be called on a runtime, which runs the thread that writes. The options are valid.
    ///
    /// # Errors
    /// The file can't be used.
    pub(crate) fn open(options: &AuditOptions, worker: &WorkerId) -> io::Result<Self> {
        let Some(path) = &options.file else { return Ok(Self(None)) };
        let largest = usize::try_from(options.argument_bytes.0).unwrap_or(usize::MAX);
        let bad = |(_, why)| io::Error::new(io::ErrorKind::InvalidInput, why);
        let redact = Redact::new(&options.redact, largest).map_err(bad)?;
        let writer = Writer::open(path, options.sync, record::opened(worker))?;
        Ok(Self(Some(Log { worker: worker.clone(), redact, writer })))
    }

    /// Writes that the code makes a call. The call may leave the worker only after this.
    ///
    /// # Errors
    /// It could not be written.
    pub(crate) async fn begin<'a>(
        &'a self,
        work: &'a Work,
        call: u32,
        tool: &'a str,
        arguments: &RawValue,
    ) -> Result<Trail<'a>, Unwritten> {
        let named = Named { work, call, tool: Some(tool) };
        if let Some(log) = &self.0 {
            log.writer.write(record::call(&log.worker, &named, log.redact.show(arguments.get()))).await?;
        }
        Ok(Trail { log: self.0.as_ref(), named, began: Instant::now() })
    }

    /// Writes that a call was refused before it was one that can be written: it is unreadable, exceeds a bound, or has
    /// bad arguments.
    pub(crate) async fn refused(&self, work: &Work, call: u32, tool: Option<&str>, code: ErrorCode, why: &str) {
        let Some(log) = &self.0 else { return };
        let named = Named { work, call, tool };
        log.end(&named, End { result: code.as_str(), why: Some(why), ms: None }).await;
    }
}

impl Log {
    async fn end(&self, named: &Named<'_>, mut end: End<'_>) {
        // Such a text may quote a value that must not be written.
        if !self.redact.is_empty() {
            end.why = None;
        }
        if self.writer.write(record::end(&self.worker, named, &end)).await.is_err() {
            tracing::error!(job.id = named.work.key.job.as_str(), "the end of a tool call is not in the audit log");
        }
    }
}

/// A call that was written, and whose end is written next.
pub(crate) struct Trail<'a> {
    log: Option<&'a Log>,
    named: Named<'a>,
    began: Instant,
}

impl Trail<'_> {
    /// Writes what came of the wait for approval. The call may be made only after this.
    ///
    /// # Errors
    /// It could not be written.
    pub(crate) async fn decided(&self, ruled: &Ruled<'_>) -> Result<(), Unwritten> {
        let Some(log) = self.log else { return Ok(()) };
        // A reason may quote a value that must not be written.
        let why = ruled.why.filter(|_| log.redact.is_empty());
        log.writer.write(record::decision(&log.worker, &self.named, &Ruled { why, ..*ruled })).await
    }

    /// Writes how the call ended: with `ok`, with the tool's own `error`, or with a code and the text of a refusal.
    pub(crate) async fn end(self, result: &str, why: Option<&str>) {
        let Some(log) = self.log else { return };
        let ms = Some(self.began.elapsed().as_secs_f64() * 1e3);
        log.end(&self.named, End { result, why, ms }).await;
    }
}
