//! One upload: its content comes in parts, and goes to a file of its own in the session. The file gets its name when
//! all of it is there.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use thermae_schemas::{PathText, SessionName, WriteMode};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use super::super::sessions::Sessions;
use super::{UploadView, unknown};
use crate::budget::Held;
use crate::problem::Problem;

/// What an upload is for.
pub(crate) struct Wanted {
    pub(crate) session: SessionName,
    /// The file that it makes or replaces.
    pub(crate) path: PathText,
    /// Permission bits of the file.
    pub(crate) permissions: Option<u32>,
    /// Bytes of the whole content.
    pub(crate) length: u64,
    /// SHA-256 that the whole content must have, in hexadecimal digits.
    pub(crate) sha256: Option<String>,
}

/// An upload.
pub(crate) struct Upload {
    pub(crate) id: String,
    pub(super) wanted: Wanted,
    /// The file that has the content until it is complete.
    part: PathText,
    pub(super) begun: Instant,
    expires: SystemTime,
    sessions: Arc<Sessions>,
    state: Mutex<State>,
    _held: Held,
}

struct State {
    offset: u64,
    content: Sha256,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// More can come.
    Open,
    /// The file has its name.
    Complete,
    /// Nothing is left of it.
    Gone,
}

/// A hidden file beside the one that an upload makes: in the same file system, so that it gets its name in one step.
fn part(path: &PathText, id: &str) -> PathText {
    let directory = path.0.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    [&path.0[..directory], format!(".{id}.part").as_bytes()].concat().as_slice().into()
}

impl Upload {
    pub(super) fn new(id: String, wanted: Wanted, sessions: Arc<Sessions>, expires: SystemTime, held: Held) -> Self {
        let part = part(&wanted.path, &id);
        let state = Mutex::new(State { offset: 0, content: Sha256::new(), stage: Stage::Open });
        Self { id, wanted, part, begun: Instant::now(), expires, sessions, state, _held: held }
    }

    /// Makes the file that gets the content.
    pub(super) async fn begin(&self) -> Result<(), Problem> {
        let Wanted { session, permissions, .. } = &self.wanted;
        let made = self.sessions.write(session.clone(), self.part.clone(), WriteMode::CreateNew, *permissions)?;
        made.finish().await?;
        if self.wanted.length == 0 { self.complete(&mut *self.state.lock().await).await } else { Ok(()) }
    }

    /// Whether nothing more comes of it. An upload that is being written to goes on.
    pub(super) fn is_over(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| state.stage != Stage::Open)
    }

    /// What it is now.
    pub(crate) async fn view(&self) -> Result<UploadView, Problem> {
        let state = self.state.lock().await;
        if state.stage == Stage::Gone {
            return Err(unknown(&self.id));
        }
        Ok(UploadView {
            id: self.id.clone(),
            offset: state.offset,
            length: self.wanted.length,
            complete: state.stage == Stage::Complete,
            expires_at: humantime::format_rfc3339_seconds(self.expires).to_string(),
        })
    }

    /// Adds a block that begins at this offset, and completes the upload if it is the last one. Returns the new offset.
    /// A task does it, so that it is done or not, even if the request that brought the block is given up.
    pub(crate) async fn append(self: &Arc<Self>, tasks: &TaskTracker, at: u64, block: Bytes) -> Result<u64, Problem> {
        let this = self.clone();
        let appended = tasks.spawn(async move { this.add(at, block).await });
        appended.await.map_err(|_| Problem::new("internal_error", "the write failed"))?
    }

    async fn add(&self, at: u64, block: Bytes) -> Result<u64, Problem> {
        let mut state = self.state.lock().await;
        if state.stage == Stage::Gone {
            return Err(unknown(&self.id));
        }
        if at != state.offset {
            let detail = format!("the upload has {} bytes, and the part begins at {at}", state.offset);
            return Err(Problem::new("upload_offset", detail).with("offset", state.offset));
        }
        let (length, end) = (self.wanted.length, at.saturating_add(block.len() as u64));
        if end > length {
            return Err(Problem::new("body_too_large", format!("the upload has {length} bytes in all")));
        }
        if !block.is_empty() {
            let mode = WriteMode::At(at);
            let change = self.sessions.write(self.wanted.session.clone(), self.part.clone(), mode, None)?;
            change.give(block.clone()).await;
            if change.finish().await?.bytes != block.len() as u64 {
                return Err(Problem::new("fleet_failed", "the part was not written as a whole"));
            }
            state.content.update(&block);
            state.offset = end;
        }
        if end == length && state.stage == Stage::Open {
            self.complete(&mut state).await?;
        }
        Ok(end)
    }

    /// Gives the file its name, if its content is what was said. Can be tried again if the name can't be given.
    async fn complete(&self, state: &mut State) -> Result<(), Problem> {
        let Wanted { session, path, length, sha256, .. } = &self.wanted;
        let found = hex::encode(state.content.clone().finalize());
        let size = self.sessions.stat(session.clone(), self.part.clone(), true).await?.size;
        let why = match sha256 {
            Some(said) if *said != found => format!("the SHA-256 of the content is {found}, and not {said}"),
            _ if size != *length => format!("a program of the session changed the file: it has {size} bytes"),
            _ => {
                self.sessions.rename(session.clone(), self.part.clone(), path.clone()).await?;
                state.stage = Stage::Complete;
                return Ok(());
            }
        };
        self.remove(state).await;
        Err(Problem::new("digest_mismatch", why))
    }

    /// Removes what came so far, unless the file has its name.
    pub(super) async fn give_up(&self) {
        let mut state = self.state.lock().await;
        if state.stage == Stage::Open {
            self.remove(&mut state).await;
        }
    }

    async fn remove(&self, state: &mut State) {
        state.stage = Stage::Gone;
        if let Err(problem) = self.sessions.remove(self.wanted.session.clone(), self.part.clone(), false).await {
            // As a rule, the session is gone, and its files are with it.
            tracing::debug!(code = problem.code, detail = problem.detail, "the part of an upload is not removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_beside_its_file() {
        let beside = |path: &str| String::from_utf8(part(&path.into(), "7").0.to_vec()).unwrap();
        let all = ["a", "a/b.csv", "/data/x/y"].map(beside);
        assert_eq!(all, [".7.part", "a/.7.part", "/data/x/.7.part"]);
    }
}
