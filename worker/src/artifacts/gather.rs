//! From a runner's frames to the artifacts of an outcome. Each file is stored as soon as it is complete, while the next
//! one arrives.

use std::collections::BTreeMap;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use thermae_runner::frames::{self, Frame, Kind, Omission, Omissions, Why};
use thermae_schemas::{Artifact, LeftOut, LeftOutWhy, TenantName};
use tokio::task::JoinSet;

use super::{Artifacts, media_type};

/// Files smaller than this are hashed on the thread where they arrive.
const SMALL: usize = 64 << 10;

/// What an outcome reports about its artifacts.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// The artifacts, in the order of their paths.
    pub artifacts: Vec<Artifact>,
    /// The ids of the artifacts by their paths.
    pub map: BTreeMap<String, String>,
    /// What was left out.
    pub left_out: Vec<LeftOut>,
    /// How many more were left out.
    pub left_out_more: u64,
}

/// Gathers the artifacts of one run. If it is dropped before its end, files that are not stored yet are given up.
#[derive(Debug)]
pub(crate) struct Gatherer {
    artifacts: Artifacts,
    tenant: TenantName,
    /// Files and bytes that the runner may still send. The runner has the same limits, but is not trusted.
    files_left: u32,
    bytes_left: u64,
    inline_left: usize,
    current: Option<Current>,
    storing: JoinSet<(usize, Stored)>,
    count: usize,
}

#[derive(Debug)]
struct Current {
    path: Vec<u8>,
    bytes: BytesMut,
}

/// The rule that a runner breaks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The frame can't be read.
    #[error(transparent)]
    Unreadable(#[from] serde_json::Error),
    /// It sends more files than its limits allow.
    #[error("more artifacts than allowed")]
    Files,
    /// It sends more bytes than its limits allow.
    #[error("more bytes of artifacts than allowed")]
    Bytes,
    /// It sends the frames in the wrong order.
    #[error("an unexpected {0:?}")]
    Unexpected(Kind),
}

/// What happened to a file.
#[derive(Debug)]
enum Stored {
    Yes(Box<Artifact>),
    No(Vec<u8>, u64),
}

impl Gatherer {
    /// Gathers for a job of this tenant. `inline` says whether the outcome also contains small files themselves.
    pub(crate) fn new(artifacts: Artifacts, tenant: TenantName, limits: frames::ArtifactLimits, inline: bool) -> Self {
        let inline_left = if inline { artifacts.options().inline_up_to.0 as usize } else { 0 };
        Self {
            artifacts,
            tenant,
            files_left: limits.files,
            bytes_left: limits.bytes,
            inline_left,
            current: None,
            storing: JoinSet::new(),
            count: 0,
        }
    }

    /// Takes a frame of an artifact.
    ///
    /// # Errors
    /// The rule that the runner breaks.
    pub(crate) fn take(&mut self, frame: &Frame) -> Result<(), Broken> {
        match (frame.kind, &mut self.current) {
            (Kind::Artifact, None) => {
                let artifact: frames::Artifact = frame.parse()?;
                self.files_left = self.files_left.checked_sub(1).ok_or(Broken::Files)?;
                let size = artifact.size.min(self.bytes_left);
                let bytes = BytesMut::with_capacity(usize::try_from(size).unwrap_or(0));
                self.current = Some(Current { path: artifact.path, bytes });
            }
            (Kind::ArtifactData, Some(current)) => {
                let left = self.bytes_left.checked_sub(frame.body.len() as u64);
                self.bytes_left = left.ok_or(Broken::Bytes)?;
                current.bytes.extend_from_slice(&frame.body);
            }
            (Kind::ArtifactEnd, current @ Some(_)) => {
                let end: frames::ArtifactEnd = frame.parse()?;
                if let Some(current) = current.take() {
                    self.store(current, end.changed);
                }
            }
            (kind, _) => return Err(Broken::Unexpected(kind)),
        }
        Ok(())
    }

    fn store(&mut self, Current { path, bytes }: Current, changed: bool) {
        let bytes = bytes.freeze();
        let base64 = (bytes.len() <= self.inline_left && self.inline_left > 0).then(|| {
            self.inline_left -= bytes.len();
            STANDARD.encode(&bytes)
        });
        let (artifacts, tenant, number) = (self.artifacts.clone(), self.tenant.clone(), self.count);
        self.count += 1;
        self.storing.spawn(async move {
            let size = bytes.len() as u64;
            let mut artifact = describe(&path, size, changed);
            artifact.base64 = base64;
            artifact.sha256 = digest(bytes.clone()).await;
            artifact.id.clone_from(&artifact.sha256);
            let stored = match artifacts.put(&tenant, &artifact.id, bytes).await {
                Ok(()) => artifacts.url(&tenant, &artifact.id, &artifact.name).await,
                Err(error) => Err(error),
            };
            match stored {
                Ok(url) => {
                    if let Some((url, expires)) = url {
                        artifact.url = Some(url);
                        artifact.expires_at = Some(timestamp(expires));
                    }
                    (number, Stored::Yes(Box::new(artifact)))
                }
                Err(error) => {
                    tracing::error!(%error, "an artifact can't be stored");
                    (number, Stored::No(path, size))
                }
            }
        });
    }

    /// Waits until all files that came are stored.
    pub(crate) async fn finish(mut self, omissions: Omissions) -> Gathered {
        let mut all: Vec<(usize, Stored)> = Vec::with_capacity(self.count);
        while let Some(stored) = self.storing.join_next().await {
            match stored {
                Ok(stored) => all.push(stored),
                Err(error) => tracing::error!(%error, "the task that stores an artifact ended early"),
            }
        }
        all.sort_unstable_by_key(|(number, _)| *number);
        let mut gathered = Gathered {
            left_out: omissions.list.into_iter().map(left_out).collect(),
            left_out_more: omissions.more,
            ..Gathered::default()
        };
        for (_, stored) in all {
            match stored {
                Stored::Yes(artifact) => {
                    gathered.map.insert(artifact.path.clone(), artifact.id.clone());
                    gathered.artifacts.push(*artifact);
                }
                Stored::No(path, size) => {
                    let message = "the fleet's store did not accept it";
                    gathered.left_out.push(note(&path, Some(size), LeftOutWhy::NotStored, message));
                }
            }
        }
        gathered
    }
}

/// SHA-256 in hexadecimal digits.
pub(crate) async fn digest(bytes: Bytes) -> String {
    hex::encode(sha256(bytes).await)
}

/// SHA-256. If hashing takes long, it is done on another thread.
pub(super) async fn sha256(bytes: Bytes) -> [u8; 32] {
    let hash = |bytes: &[u8]| Sha256::digest(bytes).into();
    if bytes.len() < SMALL {
        return hash(&bytes);
    }
    let hashed = tokio::task::spawn_blocking({
        let bytes = bytes.clone();
        move || hash(&bytes)
    });
    hashed.await.unwrap_or_else(|_| hash(&bytes))
}

fn describe(path: &[u8], size: u64, changed: bool) -> Artifact {
    let (path, path_base64) = text(path);
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    Artifact {
        id: String::new(),
        media_type: media_type(&name),
        path,
        path_base64,
        name,
        size,
        sha256: String::new(),
        created_at: timestamp(SystemTime::now()),
        changed,
        url: None,
        expires_at: None,
        base64: None,
    }
}

fn timestamp(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

/// A path as text. If the path is not UTF-8, the exact path in base64, too.
fn text(path: &[u8]) -> (String, Option<String>) {
    if let Ok(text) = std::str::from_utf8(path) {
        return (text.to_owned(), None);
    }
    let mut text = String::new();
    for chunk in path.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    (text, Some(STANDARD.encode(path)))
}

fn left_out(omission: Omission) -> LeftOut {
    let (why, message) = match omission.why {
        Why::Link => (LeftOutWhy::Link, "it is a link, or lies behind one: links are not followed"),
        Why::Special => (LeftOutWhy::Special, "it is not a regular file"),
        Why::TooMany => (LeftOutWhy::TooMany, "more files than the pool's artifacts.max_files"),
        Why::TooLarge => (LeftOutWhy::TooLarge, "with it, the files would exceed the pool's artifacts.max_bytes"),
        Why::TooDeep => (LeftOutWhy::TooDeep, "its directory is too deep"),
        Why::TooManyEntries => (LeftOutWhy::TooManyEntries, "too many names: the rest was not looked at"),
        Why::Unreadable => (LeftOutWhy::Unreadable, "it could not be read"),
        Why::CutShort => (LeftOutWhy::CutShort, "the job was cancelled here, and nothing after it was collected"),
    };
    note(&omission.path, omission.size, why, message)
}

fn note(path: &[u8], size: Option<u64>, why: LeftOutWhy, message: &str) -> LeftOut {
    let (path, path_base64) = text(path);
    LeftOut { path, path_base64, size, why, message: message.to_owned() }
}
