//! From the parts of a checkpoint to chunks, and back. A chunk is a row of frames.
//!
//! A chunk whose content the last checkpoint had already is not stored again. So that a change of one file changes few
//! chunks, a chunk mostly ends before a name of which the hash says so, wherever the chunk began.

use std::io;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use thermae_runner::frames::{Frame, Kind, Part, PartKind};

/// A chunk of this size ends before the next name that [`ends_before`].
const SMALL: usize = 64 << 10;
/// The largest chunk, in bytes. All frames of parts are far smaller.
const LARGE: usize = 4 << 20;

/// A rule of checkpoints that a runner breaks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// A frame can't be read.
    #[error(transparent)]
    Unreadable(#[from] serde_json::Error),
    /// It sends more than it was asked for.
    #[error("more of a checkpoint than allowed")]
    TooMuch,
    /// It sends content that belongs to nothing.
    #[error("an unexpected {0:?}")]
    Unexpected(Kind),
}

/// Packs parts into chunks.
#[derive(Debug)]
pub(crate) struct Packer {
    chunk: Vec<u8>,
    parts_left: u32,
    bytes_left: u64,
    in_file: bool,
    /// Number of files and links.
    pub files: u64,
    /// Bytes of all files together.
    pub bytes: u64,
}

impl Packer {
    /// Nothing yet. The runner has the same bounds, but is not trusted.
    pub(crate) fn new(parts: u32, bytes: u64) -> Self {
        Self { chunk: Vec::new(), parts_left: parts, bytes_left: bytes, in_file: false, files: 0, bytes: 0 }
    }

    /// Takes a frame. Returns a chunk that is complete.
    ///
    /// # Errors
    /// The rule that the runner breaks.
    pub(crate) fn take(&mut self, mut frame: Frame) -> Result<Option<Bytes>, Broken> {
        let ends = match frame.kind {
            Kind::Part => {
                let part: Part = frame.parse()?;
                self.parts_left = self.parts_left.checked_sub(1).ok_or(Broken::TooMuch)?;
                self.in_file = matches!(part.kind, PartKind::File { .. });
                self.files += u64::from(!matches!(part.kind, PartKind::Directory { .. }));
                self.chunk.len() >= SMALL && ends_before(&part.path.0)
            }
            Kind::PartData if self.in_file => {
                let size = frame.body.len() as u64;
                self.bytes_left = self.bytes_left.checked_sub(size).ok_or(Broken::TooMuch)?;
                self.bytes += size;
                false
            }
            kind => return Err(Broken::Unexpected(kind)),
        };
        let full = self.chunk.len() + frame.body.len() > LARGE;
        let chunk = if ends || full { self.rest() } else { None };
        frame.run = 0;
        frame.encode(&mut self.chunk);
        Ok(chunk)
    }

    /// The last chunk, if there is anything in it.
    pub(crate) fn rest(&mut self) -> Option<Bytes> {
        let chunk = std::mem::take(&mut self.chunk);
        (!chunk.is_empty()).then(|| chunk.into())
    }
}

/// Whether a chunk ends before this name, once it is not small. One name in sixteen does.
fn ends_before(path: &[u8]) -> bool {
    Sha256::digest(path)[0].is_multiple_of(16)
}

/// The frames of a chunk, for the run with this number. Only those of parts are ever handed out.
pub(crate) fn frames(chunk: &[u8], run: u32) -> impl Iterator<Item = io::Result<Frame>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = chunk.get(at..).filter(|rest| !rest.is_empty())?;
        let broken = || io::Error::new(io::ErrorKind::InvalidData, "a chunk of a checkpoint is broken");
        let frame = match Frame::decode(rest) {
            Ok(Some((frame, used))) if matches!(frame.kind, Kind::Part | Kind::PartData) => {
                at += used;
                Ok(Frame { run, ..frame })
            }
            Ok(_) => Err(broken()),
            Err(error) => Err(error),
        };
        if frame.is_err() {
            at = chunk.len();
        }
        Some(frame)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(path: &str) -> Frame {
        let part = Part { path: path.into(), kind: PartKind::File { mode: 0o644 } };
        Frame::json(Kind::Part, 7, &part).unwrap()
    }

    fn packed(files: &[(String, Vec<u8>)]) -> Vec<Bytes> {
        let mut packer = Packer::new(u32::MAX, u64::MAX);
        let mut chunks = Vec::new();
        for (path, bytes) in files {
            chunks.extend(packer.take(part(path)).unwrap());
            for piece in bytes.chunks(64 << 10) {
                chunks.extend(packer.take(Frame::raw(Kind::PartData, 7, piece)).unwrap());
            }
        }
        chunks.extend(packer.rest());
        chunks
    }

    #[test]
    fn frames_come_back_and_no_chunk_is_large() {
        let files: Vec<_> = (0..30).map(|n| (format!("/session/{n}"), vec![n; 500_000])).collect();
        let chunks = packed(&files);
        assert!(chunks.len() > 3 && chunks.iter().all(|c| c.len() <= LARGE + 1024), "{}", chunks.len());
        let (mut paths, mut bytes) = (Vec::new(), 0);
        for frame in chunks.iter().flat_map(|chunk| frames(chunk, 9)) {
            let frame = frame.unwrap();
            assert_eq!(frame.run, 9);
            match frame.kind {
                Kind::Part => paths.push(frame.parse::<Part>().unwrap().path.to_string()),
                _ => bytes += frame.body.len(),
            }
        }
        assert_eq!((paths.len(), bytes), (30, 15_000_000));
    }

    #[test]
    fn a_small_change_leaves_most_chunks_as_they_were() {
        let mut files: Vec<_> = (0..3000).map(|n| (format!("/session/{n:04}"), vec![b'x'; 1000])).collect();
        let before = packed(&files);
        files[10].1.push(b'y');
        files.remove(2000);
        let after = packed(&files);
        let new = after.iter().filter(|chunk| !before.contains(chunk)).count();
        assert!(before.len() > 10 && new <= 4, "{} chunks, {new} new", before.len());
    }

    #[test]
    fn a_runner_that_breaks_the_rules_is_found_out() {
        let mut packer = Packer::new(1, 3);
        assert!(matches!(packer.take(Frame::raw(Kind::PartData, 1, *b"x")), Err(Broken::Unexpected(_))));
        packer.take(part("/session/a")).unwrap();
        packer.take(Frame::raw(Kind::PartData, 1, *b"abc")).unwrap();
        assert!(matches!(packer.take(Frame::raw(Kind::PartData, 1, *b"x")), Err(Broken::TooMuch)));
        assert!(matches!(packer.take(part("/session/b")), Err(Broken::TooMuch)));
        assert!(matches!(packer.take(Frame::raw(Kind::Stdout, 1, *b"x")), Err(Broken::Unexpected(_))));
    }

    #[test]
    fn nothing_but_parts_reaches_a_runner() {
        let mut chunk = Vec::new();
        Frame::raw(Kind::Part, 0, *b"{}").encode(&mut chunk);
        Frame::raw(Kind::Shutdown, 0, *b"").encode(&mut chunk);
        Frame::raw(Kind::Part, 0, *b"{}").encode(&mut chunk);
        let got: Vec<_> = frames(&chunk, 1).map(|frame| frame.is_ok()).collect();
        assert_eq!(got, [true, false]);
        assert!(frames(&chunk[..4], 1).next().unwrap().is_err());
    }
}
