//! The thread that writes the audit log, so that a slow disk does not hold up the worker's tasks.

use std::io;
use std::path::Path;

use tokio::sync::{mpsc, oneshot};

use super::Unwritten;
use super::chain::Chain;

/// Lines that may wait to be written. Further calls wait.
const WAITING: usize = 1024;

/// Most lines that are written, and put on the disk, together.
const TOGETHER: usize = 256;

struct Waiting {
    fields: String,
    done: oneshot::Sender<Result<(), Unwritten>>,
}

/// Writes lines. The thread ends when this is dropped.
pub(super) struct Writer(mpsc::Sender<Waiting>);

impl Writer {
    /// Opens the file and writes the first line, which also begins each file that follows after a rotation.
    ///
    /// # Errors
    /// The file can't be used.
    pub(super) fn open(path: &Path, sync: bool, first: String) -> io::Result<Self> {
        let mut chain = Chain::open(path)?;
        chain.append([first.as_str()].into_iter(), sync)?;
        let (send, lines) = mpsc::channel(WAITING);
        tokio::task::spawn_blocking(move || write(chain, lines, sync, &first));
        Ok(Self(send))
    }

    /// Writes a line. Returns once it is written.
    pub(super) async fn write(&self, fields: String) -> Result<(), Unwritten> {
        let (done, written) = oneshot::channel();
        self.0.send(Waiting { fields, done }).await.map_err(|_| Unwritten)?;
        written.await.map_err(|_| Unwritten)?
    }
}

fn write(mut chain: Chain, mut lines: mpsc::Receiver<Waiting>, sync: bool, first: &str) {
    let (mut waiting, mut failing) = (Vec::new(), false);
    while lines.blocking_recv_many(&mut waiting, TOGETHER) > 0 {
        let begins = |moved: bool| moved.then_some(first);
        let written = chain.follow().and_then(|moved| {
            let lines = waiting.iter().map(|line| line.fields.as_str());
            chain.append(begins(moved).into_iter().chain(lines), sync)
        });
        match &written {
            Err(error) if !failing => tracing::error!(%error, "the audit log can't be written; tool calls are refused"),
            Ok(()) if failing => tracing::info!("the audit log is written again"),
            _ => {}
        }
        failing = written.is_err();
        for line in waiting.drain(..) {
            // A call that was given up waits no longer.
            let _ = line.done.send(if failing { Err(Unwritten) } else { Ok(()) });
        }
    }
}
