//! Tests with hostile files, which people or their models give to the program: files of jobs and of tools.

use std::io::{Seek, Write};

use proptest::collection::vec;
use proptest::prelude::*;
use thermae_testkit::hostile;

use crate::batch::jobs::{self, Defaults};
use crate::tools::{Tools, Trust};

/// Scans a file of jobs. Every line must be a job, a problem or blank, and every job must be readable again.
fn scan(bytes: &[u8]) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    let defaults = Defaults::default();
    let index = jobs::scan(&mut file, &defaults).unwrap();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
    assert_eq!(index.entries.len() + index.problems.len(), lines);
    for entry in &index.entries {
        let job = jobs::read(&mut file, entry, &defaults).unwrap();
        assert!(job.tools.is_empty() && job.stream.is_empty());
    }
}

/// Reads a tools file. It may be refused, but must not crash the reader.
fn tools(text: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("thermae.toml"), text).unwrap();
    if let Ok(tools) = Tools::gather(&[], Some(&dir.path().join("thermae.toml")), None, &Trust::of_user()) {
        tools.specs();
    }
}

const JOB: &[(&str, &str)] = &[
    ("id", "\"a\""),
    ("code", "\"\""),
    ("protocol", "1"),
    ("limits", "{\"wall_ms\":1}"),
    ("tools", "[]"),
    ("max_attempts", "2"),
];

#[test]
fn kept_inputs_are_lines_of_jobs_or_problems() {
    for input in hostile::corpus() {
        scan(&input);
        tools(&input);
    }
    tools(&["[tools.t]\ncommand = ", &"[".repeat(100_000)].concat().into_bytes());
    tools(&["[tools", &".a".repeat(20_000), "]\n"].concat().into_bytes());
}

proptest! {
    #[test]
    fn any_file_is_jobs_or_problems(bytes in hostile::bytes()) {
        scan(&bytes);
    }

    #[test]
    fn near_jobs_are_jobs_or_problems(lines in vec(hostile::message(JOB), 0..5), end in "(\r\n|\n|\n\n|\r)") {
        scan(lines.join(&end).as_bytes());
    }

    #[test]
    fn any_file_of_tools_is_read_or_refused(
        bytes in hostile::bytes(), name in "[a-z.\"*]{1,4}", value in hostile::json(&["command", "timeout", "env", "raw", "a"]),
        key in prop::sample::select(vec!["command", "description", "input_schema", "max_calls", "timeout", "env", "raw", "x"]),
    ) {
        tools(&bytes);
        tools(format!("[tools.{name}]\ncommand = \"true\"\n{key} = {value}\n").as_bytes());
    }

    #[test]
    fn any_option_is_a_tool_or_refused(options in vec(prop_oneof![hostile::word(), ("[a-z_.-]{0,4}=[a-z ]{0,4}")], 0..4)) {
        if let Ok(tools) = Tools::gather(&options, None, None, &Trust::of_user()) {
            prop_assert_eq!(tools.specs().is_empty(), options.is_empty());
        }
    }
}
