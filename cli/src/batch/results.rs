//! The file of results. Each result is one line, written with one write when its job ends. So whatever ends the batch,
//! the next run can go on with the file.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::Deserialize;
use thermae_schemas::{BatchLine, ErrorCode, Status, json};

use crate::failure::Failure;

/// How a job ended, as far as the summary and the exit status depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) status: Status,
    pub(crate) code: Option<ErrorCode>,
}

/// The open file of results. A lock keeps other batches from opening it.
#[derive(Debug)]
pub(crate) struct Results {
    file: File,
    path: PathBuf,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    status: Status,
    error: Option<LineError>,
}

#[derive(Deserialize)]
struct LineError {
    code: ErrorCode,
}

impl Results {
    /// Opens or creates the file, cuts off an incomplete last line, and drops the results whose statuses are in
    /// `retry`. Gives the results that it keeps, by the ids of their jobs.
    ///
    /// # Errors
    /// The file can't be opened, another batch has it open, or it has a line that is not a result. Then it stays as it
    /// was.
    pub(crate) fn open(path: &Path, retry: &[Status]) -> Result<(Self, HashMap<String, Ended>), Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::usage("bad_results_file", format!("can't use the results file {}: {error}", path.display()))
        };
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| failed(&error).help("--out needs a writable file"))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Failure::usage("results_in_use", format!("another batch is writing to {}", path.display()))
                .help("wait for it, or give another --out")
        })?;
        let (mut had, mut kept, mut whole) = (HashMap::new(), Vec::new(), 0u64);
        let mut dropped = false;
        let mut reader = BufReader::new(&mut file);
        let mut text = Vec::new();
        for number in 1.. {
            text.clear();
            let length = reader.read_until(b'\n', &mut text).map_err(|error| failed(&error))?;
            if length == 0 || text.last() != Some(&b'\n') {
                // The end of the file, or a line whose write was interrupted by a kill.
                break;
            }
            whole += length as u64;
            if text.trim_ascii().is_empty() {
                continue;
            }
            let line: Line = serde_json::from_slice(&text).map_err(|error| {
                failed(&format!("line {number} is not a result ({error})"))
                    .help("give another --out, or repair the file")
            })?;
            if retry.contains(&line.status) {
                dropped = true;
                continue;
            }
            if !retry.is_empty() {
                kept.extend_from_slice(&text);
            }
            had.entry(line.id).or_insert(Ended { status: line.status, code: line.error.map(|error| error.code) });
        }
        drop(reader);
        file.set_len(whole).map_err(|error| failed(&error))?;
        let mut results = Self { file, path: path.to_owned() };
        if dropped {
            results.replace(&kept).map_err(|error| failed(&error))?;
        }
        Ok((results, had))
    }

    /// Replaces the file atomically, so that a kill loses nothing.
    fn replace(&mut self, content: &[u8]) -> std::io::Result<()> {
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut new = tempfile::NamedTempFile::new_in(dir)?;
        new.write_all(content)?;
        new.as_file().sync_data()?;
        new.as_file().set_permissions(self.file.metadata()?.permissions())?;
        flock(new.as_file(), FlockOperation::NonBlockingLockExclusive)?;
        self.file = new.persist(&self.path).map_err(|error| error.error)?;
        self.file.seek(SeekFrom::End(0))?;
        Ok(())
    }

    /// Appends a result, with one write of a whole line.
    pub(crate) fn add(&mut self, line: &BatchLine) -> Result<(), Failure> {
        let text = json::line(line)
            .map_err(|error| Failure::fleet("internal", format!("a result can't be written as JSON: {error}")))?;
        self.file.write_all(&text).map_err(|error| {
            Failure::usage("bad_results_file", format!("can't write {}: {error}", self.path.display()))
                .help("free some space, then run the same command again: it skips the jobs that already have results")
        })
    }

    /// Flushes the file to the disk. Errors are ignored: every line has already been written.
    pub(crate) fn sync(&self) {
        let _ = self.file.sync_data();
    }
}

#[cfg(test)]
mod tests {
    use thermae_schemas::Outcome;

    use super::*;

    fn line(id: &str, status: Status) -> BatchLine {
        BatchLine { id: id.to_owned(), outcome: Outcome::new(status) }
    }

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_torn_last_line_is_cut_off_and_the_rest_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.jsonl");
        let (mut results, had) = Results::open(&path, &[]).unwrap();
        assert!(had.is_empty());
        results.add(&line("a", Status::Succeeded)).unwrap();
        results.add(&line("b", Status::Failed)).unwrap();
        drop(results);
        let whole = text(&path);
        std::fs::write(&path, format!("{whole}{{\"id\":\"c\",\"sta")).unwrap();

        let (mut results, had) = Results::open(&path, &[]).unwrap();
        let mut ids: Vec<_> = had.keys().cloned().collect();
        ids.sort();
        assert_eq!(ids, ["a", "b"]);
        assert_eq!(text(&path), whole);
        results.add(&line("c", Status::Succeeded)).unwrap();
        assert!(text(&path).starts_with(&whole) && text(&path).lines().count() == 3);
    }

    #[test]
    fn results_to_be_retried_are_dropped_and_the_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.jsonl");
        let (mut results, _) = Results::open(&path, &[]).unwrap();
        for (id, status) in
            [("a", Status::Succeeded), ("b", Status::Lost), ("c", Status::Rejected), ("d", Status::Failed)]
        {
            results.add(&line(id, status)).unwrap();
        }
        drop(results);
        let (mut results, had) = Results::open(&path, &[Status::Lost, Status::Rejected]).unwrap();
        assert_eq!(had.len(), 2);
        results.add(&line("b", Status::Succeeded)).unwrap();
        let ids: Vec<String> = text(&path).lines().map(|line| serde_json::from_str::<Line>(line).unwrap().id).collect();
        assert_eq!(ids, ["a", "d", "b"]);
        assert!(Results::open(&path, &[]).is_err(), "the new file is locked, too");
    }

    #[test]
    fn two_batches_never_write_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.jsonl");
        let first = Results::open(&path, &[]).unwrap();
        assert_eq!(Results::open(&path, &[]).unwrap_err().code, "results_in_use");
        drop(first);
        assert!(Results::open(&path, &[]).is_ok());
    }

    #[test]
    fn a_file_of_something_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.txt");
        std::fs::write(&path, "dear diary\nand so on").unwrap();
        let failure = Results::open(&path, &[]).unwrap_err();
        assert!(failure.message.contains("line 1 is not a result"), "{}", failure.message);
        assert_eq!(text(&path), "dear diary\nand so on");
        assert!(Results::open(dir.path(), &[]).is_err(), "a directory");
    }
}
