//! The files of `--file`: reads them from this machine.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use thermae_schemas::{InputFile, check_path};

use crate::failure::Failure;

/// Reads the files that `--file` options name.
pub(super) fn read(options: &[String]) -> Result<Vec<InputFile>, Failure> {
    options.iter().map(|option| one(option)).collect()
}

fn one(option: &str) -> Result<InputFile, Failure> {
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
    let bytes = std::fs::read(source).map_err(|error| unread(&error))?;
    let executable = meta.permissions().mode() & 0o111 != 0;
    let file = InputFile { executable, ..InputFile::text(path, "") };
    Ok(match String::from_utf8(bytes) {
        Ok(text) => InputFile { text: Some(text), ..file },
        Err(error) => InputFile { text: None, base64: Some(error.into_bytes().into()), ..file },
    })
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
        let given = |option: String| one(&option);
        assert_eq!(given(at("a.csv")).unwrap(), InputFile::text("a.csv", "a"));
        assert_eq!(given(at("a.csv:in/x")).unwrap(), InputFile::text("in/x", "a"));
        assert_eq!(given(at("a:b")).unwrap(), InputFile::text("a:b", "colon"));
        std::fs::write(at("a.png"), b"\xff").unwrap();
        let binary = given(at("a.png")).unwrap();
        assert_eq!((binary.text, &binary.base64.unwrap()[..]), (None, &b"\xff"[..]));
        for (bad, code) in
            [("a.csv:../x", "usage"), ("a.csv:/x", "usage"), ("a.csv:", "usage"), ("no", "file_not_read")]
        {
            assert_eq!(given(at(bad)).unwrap_err().code, code, "{bad}");
        }
        assert_eq!(given(dir.path().display().to_string()).unwrap_err().code, "file_not_read");
    }
}
