//! The files of `--file`: reads them from this machine, and makes them inputs of the job.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use thermae_fleet::Fleet;
use thermae_schemas::{InputFile, check_path};

use crate::failure::Failure;

/// Size from which files go through the embedded fleet's store, in bytes, because a job's message is limited in size.
const LARGE: usize = 64 << 10;

/// A file that was read, and its path in `/workspace`.
#[derive(Debug)]
pub(super) struct Given {
    path: String,
    bytes: Bytes,
    executable: bool,
}

/// Reads the files that `--file` options name.
pub(super) fn read(options: &[String]) -> Result<Vec<Given>, Failure> {
    options.iter().map(|option| one(option)).collect()
}

fn one(option: &str) -> Result<Given, Failure> {
    // If a file with the whole name exists, the colon is part of the name.
    let (source, to) = match option.rsplit_once(':') {
        Some((source, to)) if !Path::new(option).exists() => (source, Some(to)),
        _ => (option, None),
    };
    let source = Path::new(source);
    let path = match to {
        Some(to) => to.to_owned(),
        None => source.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned(),
    };
    check_path(&path).map_err(|why| {
        Failure::usage("usage", format!("--file {option}: the path in /workspace {why}"))
            .help("use --file SRC:DEST, with DEST relative to /workspace")
    })?;
    let unread = |why: &dyn std::fmt::Display| {
        Failure::usage("file_not_read", format!("can't read the file {}: {why}", source.display()))
    };
    let meta = std::fs::metadata(source).map_err(|error| unread(&error))?;
    if meta.is_dir() {
        return Err(unread(&"it is a directory").help("give each of its files, or one archive with all of them"));
    }
    let bytes = std::fs::read(source).map_err(|error| unread(&error))?.into();
    Ok(Given { path, bytes, executable: meta.permissions().mode() & 0o111 != 0 })
}

/// Turns the files into inputs of the job. Large ones are put into the embedded fleet's store.
pub(super) async fn bring(fleet: &Fleet, given: Vec<Given>) -> Result<Vec<InputFile>, Failure> {
    let mut files = Vec::with_capacity(given.len());
    for Given { path, bytes, executable } in given {
        let mut file = InputFile { path, text: None, base64: None, reference: None, executable };
        match (fleet.store().filter(|_| bytes.len() >= LARGE), std::str::from_utf8(&bytes)) {
            (Some(store), _) => {
                let kept = store.keep(fleet.client().tenant(), bytes).await;
                file.reference = Some(kept.map_err(|error| Failure::fleet("embedded_fleet", error))?);
            }
            (None, Ok(text)) => file.text = Some(text.to_owned()),
            (None, Err(_)) => file.base64 = Some(STANDARD.encode(&bytes)),
        }
        files.push(file);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_own_name_or_the_one_that_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(at("a.csv"), "a").unwrap();
        std::fs::write(at("a:b"), "colon").unwrap();
        let given = |option: String| one(&option).map(|given| (given.path, given.bytes));
        assert_eq!(given(at("a.csv")).unwrap(), ("a.csv".into(), Bytes::from("a")));
        assert_eq!(given(at("a.csv:in/x")).unwrap(), ("in/x".into(), Bytes::from("a")));
        assert_eq!(given(at("a:b")).unwrap(), ("a:b".into(), Bytes::from("colon")));
        for (bad, code) in
            [("a.csv:../x", "usage"), ("a.csv:/x", "usage"), ("a.csv:", "usage"), ("no", "file_not_read")]
        {
            assert_eq!(given(at(bad)).unwrap_err().code, code, "{bad}");
        }
        assert_eq!(given(dir.path().display().to_string()).unwrap_err().code, "file_not_read");
    }
}
