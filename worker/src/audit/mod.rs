//! The audit log: a line for each tool call before it leaves the worker, one for the decision if it needs approval, and
//! one for its end. What it tells is also an event for the client of the run, if the client or the fleet wants it.
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
use thermae_schemas::{AuditLine, ErrorCode, Stream, WorkerId};
use tokio::time::Instant;

use crate::work::Work;

use record::End;
pub(crate) use record::{Named, Ruled};
use redact::Redact;
use writer::Writer;

pub use options::AuditOptions;
pub use verify::{Broken, Verified, verify};

/// A line could not be written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the call could not be written to the audit log")]
pub(crate) struct Unwritten;

/// The audit log of a worker.
pub(crate) struct Audit {
    worker: WorkerId,
    redact: Redact,
    /// Writes the file, if there is one.
    writer: Option<Writer>,
    /// Whether the clients of all runs get events.
    events: bool,
}

impl Audit {
    /// Opens the log. It must be called on a runtime, which runs the thread that writes. The options are valid.
    ///
    /// # Errors
    /// The file can't be used.
    pub(crate) fn open(options: &AuditOptions, worker: &WorkerId) -> io::Result<Self> {
        let largest = usize::try_from(options.argument_bytes.0).unwrap_or(usize::MAX);
        let bad = |(_, why)| io::Error::new(io::ErrorKind::InvalidInput, why);
        let redact = Redact::new(&options.redact, largest).map_err(bad)?;
        let open = |path| Writer::open(path, options.sync, record::opened(worker));
        let writer = options.file.as_deref().map(open).transpose()?;
        Ok(Self { worker: worker.clone(), redact, writer, events: options.events })
    }

    /// Whether the client of this run gets events.
    fn tells(&self, work: &Work) -> bool {
        self.events || work.job.stream.contains(&Stream::Audit)
    }

    /// Whether anybody hears of the calls of this run.
    fn is_heard(&self, work: &Work) -> bool {
        self.writer.is_some() || self.tells(work)
    }

    /// Writes what is told of a call. Returns it if the client gets it, too.
    async fn write(&self, line: AuditLine, work: &Work) -> Result<Option<AuditLine>, Unwritten> {
        if let Some(writer) = &self.writer {
            writer.write(record::fields(&line, work)).await?;
        }
        Ok(self.tells(work).then_some(line))
    }

    async fn end(&self, named: &Named<'_>, mut end: End<'_>) -> Option<AuditLine> {
        // Such a text may quote a value that must not be written.
        if !self.redact.is_empty() {
            end.why = None;
        }
        self.write(record::end(&self.worker, named, &end), named.work).await.unwrap_or_else(|Unwritten| {
            tracing::error!(job.id = named.work.key.job.as_str(), "the end of a tool call is not in the audit log");
            None
        })
    }

    /// Writes that the code makes a call. The call may leave the worker only after this.
    ///
    /// # Errors
    /// It could not be written.
    pub(crate) async fn begin<'a>(&'a self, named: Named<'a>, arguments: &RawValue) -> Result<Trail<'a>, Unwritten> {
        let mut told = None;
        if self.is_heard(named.work) {
            let line = record::call(&self.worker, &named, self.redact.show(arguments.get()));
            told = self.write(line, named.work).await?;
        }
        Ok(Trail { audit: self, named, began: Instant::now(), told })
    }

    /// Writes that a call was refused before it was one that can be written: it is unreadable, exceeds a bound, or has
    /// bad arguments. Returns what the client is told.
    pub(crate) async fn refused(&self, named: &Named<'_>, code: ErrorCode, why: &str) -> Option<AuditLine> {
        if !self.is_heard(named.work) {
            return None;
        }
        self.end(named, End { result: code.as_str(), why: Some(why), ms: None }).await
    }
}

/// A call that was written, and whose end is written next.
pub(crate) struct Trail<'a> {
    audit: &'a Audit,
    named: Named<'a>,
    began: Instant,
    /// What the client is told of the call.
    pub(crate) told: Option<AuditLine>,
}

impl Trail<'_> {
    /// Writes what came of the wait for approval. The call may be made only after this. Returns what the client is
    /// told.
    ///
    /// # Errors
    /// It could not be written.
    pub(crate) async fn decided(&self, ruled: &Ruled<'_>) -> Result<Option<AuditLine>, Unwritten> {
        if !self.audit.is_heard(self.named.work) {
            return Ok(None);
        }
        // A reason may quote a value that must not be written.
        let why = ruled.why.filter(|_| self.audit.redact.is_empty());
        let line = record::decision(&self.audit.worker, &self.named, &Ruled { why, ..*ruled });
        self.audit.write(line, self.named.work).await
    }

    /// Writes how the call ended: with `ok`, with the tool's own `error`, or with a code and the text of a refusal.
    /// Returns what the client is told.
    pub(crate) async fn end(self, result: &str, why: Option<&str>) -> Option<AuditLine> {
        if !self.audit.is_heard(self.named.work) {
            return None;
        }
        let ms = Some(self.began.elapsed().as_secs_f64() * 1e3);
        self.audit.end(&self.named, End { result, why, ms }).await
    }
}
