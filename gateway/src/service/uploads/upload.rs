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
    /// Nothing is left of it: it was given up, or it was not what was said.
    Gone,
    /// Nothing is left of it: its session has ended, or a program of it changed what had come.
    Lost,
}

fn lost() -> Problem {
    Problem::new(
        "upload_lost",
        "what had come of the upload is not there any more: its session ended, or a program changed it",
    )
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
        let mut state = self.state.lock().await;
        self.is_there(&state)?;
        if state.stage == Stage::Open {
            let found = self.sessions.stat(self.wanted.session.clone(), self.part.clone(), true).await;
            let (size, told) = (state.offset, found.map(|found| found.size));
            if self.unless_lost(&mut state, told).await? != size {
                return Err(self.lose(&mut state).await);
            }
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
        self.is_there(&state)?;
        if at != state.offset {
            let detail = format!("the upload has {} bytes, and the part begins at {at}", state.offset);
            return Err(Problem::new("upload_offset", detail).with("offset", state.offset));
        }
        let (length, end) = (self.wanted.length, at.saturating_add(block.len() as u64));
        if end > length {
            return Err(Problem::new("body_too_large", format!("the upload has {length} bytes in all")));
        }
        if !block.is_empty() {
            // What is there must be what came: another session of the name does not have it.
            let mode = WriteMode::Extend(at);
            let change = self.sessions.write(self.wanted.session.clone(), self.part.clone(), mode, None)?;
            change.give(block.clone()).await;
            let written = change.finish().await;
            let written = self.unless_lost(&mut state, written).await?;
            if written.bytes != block.len() as u64 {
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

    /// Gives the file its name, if its content is what was sent, and what was said. Can be tried again if the name can't
    /// be given.
    async fn complete(&self, state: &mut State) -> Result<(), Problem> {
        let Wanted { session, path, sha256, .. } = &self.wanted;
        let sent = hex::encode(state.content.clone().finalize());
        if let Some(said) = sha256.as_ref().filter(|said| **said != sent) {
            self.remove(state).await;
            let why = format!("the SHA-256 of the content is {sent}, and not {said}");
            return Err(Problem::new("digest_mismatch", why));
        }
        let found = self.sessions.digest(session.clone(), self.part.clone()).await;
        let found = self.unless_lost(state, found).await?;
        if found.sha256 != sent {
            return Err(self.lose(state).await);
        }
        let named = self.sessions.rename(session.clone(), self.part.clone(), path.clone()).await;
        self.unless_lost(state, named).await?;
        state.stage = Stage::Complete;
        Ok(())
    }

    fn is_there(&self, state: &State) -> Result<(), Problem> {
        match state.stage {
            Stage::Open | Stage::Complete => Ok(()),
            Stage::Gone => Err(unknown(&self.id)),
            Stage::Lost => Err(lost()),
        }
    }

    /// What came of an operation on the part, or that the part is lost: it is not there or not as it was, or its session
    /// has ended.
    async fn unless_lost<T>(&self, state: &mut State, done: Result<T, Problem>) -> Result<T, Problem> {
        let Err(problem) = done else { return done };
        let is_lost = problem.session_is_gone()
            || problem.code == "file_not_found"
            || problem.more.get("errno").is_some_and(|errno| errno == "ESTALE");
        if is_lost { Err(self.lose(state).await) } else { Err(problem) }
    }

    async fn lose(&self, state: &mut State) -> Problem {
        self.remove(state).await;
        state.stage = Stage::Lost;
        lost()
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
