//! What jobs leave, into a folder of ours: fetched from wherever the fleet has it, checked, and written below the folder only.

mod folder;
mod names;

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use thermae_schemas::{Artifact, Job, LeftOut, LeftOutWhy, Outcome};

use crate::failure::Failure;
use crate::fleet::Fleet;
use crate::style;
use folder::Folder;

/// How long one artifact may take to come.
const FETCH_TIMEOUT: Duration = Duration::from_secs(300);

/// Asks for what [`save`] can have without another request.
pub(crate) fn ask(fleet: &Fleet, job: &mut Job) {
    job.artifacts.inline |= !fleet.is_embedded();
}

/// Writes an outcome's artifacts below `into`, which is made where it is missing, and takes their content out of the outcome. Paths are
/// kept: `/workspace/artifacts/a/b` becomes `a/b`, `/session/artifacts/a` becomes `session/a`. How many were written.
///
/// What is there stays as it is. A name that programs of this machine would execute by themselves ([`names`]) is left out, and listed
/// among what the outcome left out; `run_from` are folders that such programs run from.
///
/// # Errors
/// One can't be had, or can't be written, or has the name of a file that is there and differs. All others are there.
pub(crate) async fn save(
    fleet: &Fleet,
    outcome: &mut Outcome,
    into: &Path,
    run_from: &[PathBuf],
) -> Result<usize, Failure> {
    if outcome.artifacts.is_empty() {
        return Ok(0);
    }
    let unwritten = |what: &Path, error: &dyn std::fmt::Display| {
        Failure::usage("artifacts_not_written", format!("can't write {}: {error}", what.display()))
            .help("--artifacts needs a folder that can be written, without files of these names, and with room")
    };
    let folder = Folder::open(into, run_from).map_err(|error| unwritten(into, &error))?;
    let (mut written, mut failed) = (0, None);
    for artifact in &mut outcome.artifacts {
        let path = place(artifact);
        if let Some(message) = names::executed(&path, folder.runs(&path)) {
            artifact.base64 = None;
            outcome.artifacts_left_out.push(LeftOut {
                path: artifact.path.clone(),
                path_base64: artifact.path_base64.clone(),
                size: Some(artifact.size),
                why: LeftOutWhy::Unknown,
                message: message.to_owned(),
            });
            continue;
        }
        let bytes = match fetch(fleet, artifact).await {
            Ok(bytes) => bytes,
            Err(error) => {
                failed.get_or_insert(error);
                continue;
            }
        };
        artifact.base64 = None;
        match folder.write(&path, &bytes) {
            Ok(()) => written += 1,
            Err(error) => {
                failed.get_or_insert_with(|| unwritten(&into.join(Path::new(os(&path))), &error));
            }
        }
    }
    failed.map_or(Ok(written), Err)
}

/// A new folder for one job of many, made now. Where there is one of its name already, of an earlier run say, it gets a number.
///
/// # Errors
/// It can't be made.
pub(crate) fn new_folder_of(into: &Path, id: &str) -> Result<PathBuf, Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::usage("artifacts_not_written", format!("can't make the folder {}: {error}", path.display()))
    };
    std::fs::create_dir_all(into).map_err(|error| failed(into, error))?;
    let first = folder_of(into, id);
    let mut path = first.clone();
    for number in 2.. {
        match std::fs::create_dir(&path) {
            Ok(()) => break,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let mut name = first.clone().into_os_string();
                name.push(format!("~{number}"));
                path = name.into();
            }
            Err(error) => return Err(failed(&path, error)),
        }
    }
    if path != first {
        style::note(&format!("{} is there already: the files of this run are in {}", first.display(), path.display()));
    }
    Ok(path)
}

/// The folder for one job of many: its id, with every character that a name should not hold replaced.
fn folder_of(into: &Path, id: &str) -> PathBuf {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let encode = |(at, byte): (usize, u8)| match byte {
        b'.' if at == 0 => "%2E".to_owned(),
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let mut name: String = id.bytes().enumerate().map(encode).collect();
    if name.len() > 200 {
        name.truncate(180);
        name.push_str(&hex::encode(Sha256::digest(id.as_bytes()))[..16]);
    }
    into.join(name)
}

/// Its place below the folder, byte for byte.
fn place(artifact: &Artifact) -> Vec<u8> {
    let exact = artifact.path_base64.as_ref().and_then(|text| STANDARD.decode(text).ok());
    let path = exact.unwrap_or_else(|| artifact.path.clone().into_bytes());
    if let Some(rest) = path.strip_prefix(b"/workspace/artifacts/") {
        return rest.to_vec();
    }
    match path.strip_prefix(b"/session/artifacts/") {
        Some(rest) => [b"session/", rest].concat(),
        None => path.strip_prefix(b"/").unwrap_or(&path).to_vec(),
    }
}

fn os(path: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(path)
}

/// Its content: in the outcome, in the embedded fleet's store, or behind its URL.
async fn fetch(fleet: &Fleet, artifact: &Artifact) -> Result<Vec<u8>, Failure> {
    let failed = |why: String| {
        Failure::fleet("artifact_not_fetched", format!("can't fetch {}: {why}", artifact.path)).help(
            "its URL is in the outcome (--json); url_base in the worker's configuration says where clients reach it",
        )
    };
    let bytes = match (&artifact.base64, fleet.store()) {
        (Some(text), _) => STANDARD.decode(text).map_err(|error| failed(error.to_string()))?,
        (None, Some(store)) => {
            store.get(fleet.client().tenant(), &artifact.id, u64::MAX).await.map_err(|e| failed(e.to_string()))?.into()
        }
        (None, None) => {
            let url = artifact.url.as_deref().ok_or_else(|| failed("the fleet gave no URL for it".to_owned()))?;
            download(url).await.map_err(|error| failed(crate::failure::chain(&error.without_url())))?
        }
    };
    if hex::encode(Sha256::digest(&bytes)) != artifact.sha256 {
        return Err(failed("what came is something else".to_owned()));
    }
    Ok(bytes)
}

async fn download(url: &str) -> Result<Vec<u8>, reqwest::Error> {
    // Whoever was first has chosen.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().timeout(FETCH_TIMEOUT).build()?;
    Ok(client.get(url).send().await?.error_for_status()?.bytes().await?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_a_folder_of_its_own_below_ours() {
        let name = |id: &str| folder_of(Path::new("out"), id).strip_prefix("out").unwrap().display().to_string();
        assert_eq!(name("HumanEval/0"), "HumanEval%2F0");
        assert_eq!((name(".."), name(".x"), name("a b.c")), ("%2E.".into(), "%2Ex".into(), "a%20b.c".into()));
        let long = |last: &str| name(&format!("{}{last}", "x".repeat(300)));
        assert!(long("a") != long("b") && long("a").len() < 255);
    }
}
