//! Files of live sessions.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use thermae_client::RequestHandle;
use thermae_schemas::{
    Digested, FileKind, FileOp, FileStat, JobId, Listing, PathText, Request, RequestDone, RequestEnd, RequestWork,
    SessionName, Transferred, WriteMode, check_path,
};

use super::exec::ended;
use super::sessions::Sessions;
use crate::problem::Problem;

/// Most entries of a listing, if the request says nothing.
const ENTRIES: u32 = 10_000;

/// The content of a file, as it comes.
pub(crate) struct FileRead {
    handle: RequestHandle,
    /// The first pieces. They came before anything was told to the caller, so that errors can be.
    first: VecDeque<Bytes>,
}

/// Bytes that come before anything is told to the caller: no less than HTTP keeps before it writes.
const AHEAD: u64 = 64 << 10;

/// The bytes that a write gets.
pub(crate) struct Change {
    handle: Arc<RequestHandle>,
}

/// A path that a request names, without percent-encoding: relative to `/workspace`, or from the root if it was asked
/// for so.
pub(crate) fn path(text: &str, from_root: bool) -> Result<PathText, Problem> {
    check_path(text).map_err(|why| Problem::new("bad_parameter", format!("the path's file {why}")))?;
    Ok(if from_root { format!("/{text}").into() } else { text.into() })
}

impl Sessions {
    /// Describes a file.
    pub(crate) async fn stat(&self, session: SessionName, path: PathText, link: bool) -> Result<FileStat, Problem> {
        self.valued(session, FileOp::Stat { path, link }).await
    }

    /// Lists a directory.
    pub(crate) async fn list(
        &self,
        session: SessionName,
        path: PathText,
        depth: u32,
        most: Option<u32>,
    ) -> Result<Listing, Problem> {
        self.valued(session, FileOp::List { path, depth, most: most.unwrap_or(ENTRIES) }).await
    }

    /// Begins to read these bytes of a file.
    pub(crate) async fn read(
        &self,
        session: SessionName,
        path: PathText,
        offset: u64,
        length: u64,
    ) -> Result<FileRead, Problem> {
        let op = FileOp::Read { path, offset, length: Some(length) };
        let (handle, _) = self.start(request(session, op), Bytes::new())?;
        let (mut first, mut came) = (VecDeque::new(), 0);
        while came < length.min(AHEAD) {
            let Some((_, piece)) = handle.output().await else {
                succeeded(handle.done().await?)?;
                let why = format!("the file had {length} bytes of what was asked for, and now has {came}");
                return Err(Problem::new("file_changed", why));
            };
            came += piece.len() as u64;
            first.push_back(piece);
        }
        Ok(FileRead { handle, first })
    }

    /// Begins to write a file.
    pub(crate) fn write(
        &self,
        session: SessionName,
        path: PathText,
        mode: WriteMode,
        permissions: Option<u32>,
    ) -> Result<Change, Problem> {
        let mut request = request(session, FileOp::Write { path, mode, permissions });
        request.more_input = true;
        let (handle, _) = self.start(request, Bytes::new())?;
        Ok(Change { handle: Arc::new(handle) })
    }

    /// Makes a directory, and those above it.
    pub(crate) async fn make_dir(&self, session: SessionName, path: PathText) -> Result<(), Problem> {
        self.done(session, FileOp::MakeDir { path, parents: true }).await.map(drop)
    }

    /// Moves a file. One that is there is replaced.
    pub(super) async fn rename(&self, session: SessionName, from: PathText, to: PathText) -> Result<(), Problem> {
        self.done(session, FileOp::Move { from, to }).await.map(drop)
    }

    /// What the content of a file is.
    pub(super) async fn digest(&self, session: SessionName, path: PathText) -> Result<Digested, Problem> {
        self.valued(session, FileOp::Digest { path }).await
    }

    /// Removes what is at a path.
    pub(crate) async fn remove(&self, session: SessionName, path: PathText, recursive: bool) -> Result<(), Problem> {
        self.done(session, FileOp::Remove { path, recursive }).await.map(drop)
    }

    async fn done(&self, session: SessionName, op: FileOp) -> Result<RequestDone, Problem> {
        let (handle, _) = self.start(request(session, op), Bytes::new())?;
        while handle.output().await.is_some() {}
        succeeded(handle.done().await?)
    }

    async fn valued<T: DeserializeOwned>(&self, session: SessionName, op: FileOp) -> Result<T, Problem> {
        value(self.done(session, op).await?)
    }
}

impl FileRead {
    /// The next piece; `None` after the last one.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Problem> {
        if let Some(first) = self.first.pop_front() {
            return Ok(Some(first));
        }
        match self.handle.output().await {
            Some((_, piece)) => Ok(Some(piece)),
            None => succeeded(self.handle.done().await?).map(|_| None),
        }
    }
}

impl Change {
    /// Gives a piece. Returns `false` if no more is taken, because the write has ended.
    pub(crate) async fn give(&self, piece: Bytes) -> bool {
        self.handle.input(piece).await
    }

    /// Ends the content, and waits for the end of the write.
    pub(crate) async fn finish(self) -> Result<Transferred, Problem> {
        self.handle.end_input();
        while self.handle.output().await.is_some() {}
        value(succeeded(self.handle.done().await?)?)
    }
}

fn request(session: SessionName, op: FileOp) -> Request {
    Request::new(JobId::random(), session, RequestWork::File(op))
}

fn value<T: DeserializeOwned>(done: RequestDone) -> Result<T, Problem> {
    let value = done.value.ok_or_else(|| Problem::new("fleet_failed", "the fleet gave no result"))?;
    serde_json::from_value(value).map_err(|error| Problem::new("fleet_failed", error.to_string()))
}

/// The end of an operation, or the problem with it.
fn succeeded(done: RequestDone) -> Result<RequestDone, Problem> {
    let done = ended(done)?;
    let why = match done.end {
        RequestEnd::Exited { code: 0 } => return Ok(done),
        RequestEnd::Failed { errno, message, .. } => {
            let code = match errno.as_str() {
                "ENOENT" | "ENOTDIR" => "file_not_found",
                "EACCES" | "EPERM" | "EROFS" => "file_denied",
                "EEXIST" | "ENOTEMPTY" => "file_exists",
                "ENOSPC" | "EDQUOT" => "storage_full",
                _ => "file_failed",
            };
            return Err(Problem::new(code, message).with("errno", errno));
        }
        RequestEnd::TimedOut {} => "it took too long",
        RequestEnd::OutOfMemory {} => "the session's memory ran out",
        RequestEnd::Cancelled {} => "it was cancelled",
        _ => "the process that works on files ended early",
    };
    Err(Problem::new("file_failed", why))
}

/// What tells whether a file has changed.
pub(crate) fn etag(stat: &FileStat) -> String {
    format!("\"{:x}-{:x}\"", stat.size, stat.modified_ns)
}

/// Whether this is a regular file, or a problem that says what it is.
pub(crate) fn regular(stat: &FileStat) -> Result<(), Problem> {
    if stat.kind == FileKind::File {
        return Ok(());
    }
    let errno = if stat.kind == FileKind::Directory { "EISDIR" } else { "EINVAL" };
    Err(Problem::new("file_failed", "it is not a regular file").with("errno", errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_its_root() {
        assert_eq!(path("a/b c", false).ok(), Some("a/b c".into()));
        assert_eq!(path("etc/hosts", true).ok(), Some("/etc/hosts".into()));
        for bad in ["", "..", "a/../b", "/etc/hosts", "a//b", "./a", "a/", "a\0b"] {
            assert_eq!(path(bad, false).unwrap_err().code, "bad_parameter", "{bad:?}");
            assert!(path(bad, true).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn each_failure_has_its_own_status() {
        for (errno, status) in [("ENOENT", 404), ("EACCES", 403), ("EEXIST", 409), ("ENOSPC", 507), ("EISDIR", 422)] {
            let end = RequestEnd::Failed { errno: errno.to_owned(), path: "a".into(), message: "m".to_owned() };
            let problem = succeeded(RequestDone::bare(end)).unwrap_err();
            assert_eq!((problem.status.as_u16(), problem.more["errno"].as_str()), (status, Some(errno)));
        }
        assert!(succeeded(RequestDone::bare(RequestEnd::Exited { code: 0 })).is_ok());
        assert_eq!(succeeded(RequestDone::bare(RequestEnd::TimedOut {})).unwrap_err().code, "file_failed");
    }
}
