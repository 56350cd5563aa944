//! Tests of the audit log as a file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use serde_json::value::RawValue;
use tempfile::TempDir;
use thermae_schemas::{ErrorCode, WorkerId};
use thermae_tokens::TokenId;

use super::chain::{Chain, NONE, digest};
use super::*;
use crate::work::tests::work;

/// A log with these redactions, and its file.
fn open(dir: &TempDir, redact: &[&str]) -> (io::Result<Audit>, PathBuf) {
    let file = dir.path().join("audit.jsonl");
    let redact = redact.iter().map(|text| (*text).to_owned()).collect();
    let options = AuditOptions { file: Some(file.clone()), redact, ..AuditOptions::default() };
    (Audit::open(&options, &WorkerId::boot("w")), file)
}

fn arguments(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// A call of a run without a token.
fn named<'a>(work: &'a Work, call: u32, tool: &'a str) -> Named<'a> {
    Named { work, token: None, call, tool: Some(tool) }
}

fn lines(file: &Path) -> Vec<Value> {
    fs::read_to_string(file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn checked(text: &[u8]) -> Result<Verified, Broken> {
    verify(text)
}

#[tokio::test]
async fn a_call_and_its_end_are_lines_of_one_chain() {
    let dir = TempDir::new().unwrap();
    let (audit, file) = open(&dir, &[]);
    let (audit, work) = (audit.unwrap(), work());
    let trail = audit.begin(named(&work, 7, "transfer"), &arguments(r#"{"amount": 900}"#)).await.unwrap();
    assert_eq!(lines(&file).len(), 2, "a call is written before it is made");
    trail.end("ok", None).await;
    audit.refused(&named(&work, 8, "drop"), ErrorCode::UnknownTool, "the job declares no tool \"drop\"").await;
    let lines = lines(&file);
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["opened", "call", "end", "end"]);
    assert_eq!((&lines[1]["tool"], &lines[1]["arguments"]["amount"]), (&"transfer".into(), &900.into()));
    assert_eq!((&lines[1]["job"], &lines[1]["call"]), (&work.key.job.as_str().into(), &7.into()));
    assert!(lines[2]["result"] == "ok" && lines[2]["ms"].is_number() && lines[2]["call"] == 7);
    assert!(lines[3]["result"] == "unknown_tool" && lines[3]["why"].as_str().unwrap().contains("drop"));
    let whole = checked(&fs::read(&file).unwrap()).unwrap();
    assert_eq!((whole.lines, whole.first.as_str(), whole.torn.len()), (4, NONE, 0));
}

#[tokio::test]
async fn every_change_of_a_line_is_noticed() {
    let dir = TempDir::new().unwrap();
    let (audit, file) = open(&dir, &[]);
    let (audit, work) = (audit.unwrap(), work());
    for call in 0..4 {
        audit.begin(named(&work, call, "t"), &arguments("{}")).await.unwrap().end("ok", None).await;
    }
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let broken = |lines: &[&str]| checked((lines.join("\n") + "\n").as_bytes()).is_err();
    assert!(!broken(&lines));
    for at in 0..lines.len() - 1 {
        let mut without = lines.clone();
        without.remove(at);
        // What is missing at the start is told by the digest that the first line names.
        assert!(at == 0 || broken(&without), "line {at} removed");
        let mut twice = lines.clone();
        twice.insert(at, lines[at]);
        assert!(broken(&twice), "line {at} twice");
        let changed = lines[at].replace("\"worker\"", "\"w0rker\"");
        let mut other = lines.clone();
        other[at] = &changed;
        assert!(broken(&other), "line {at} changed");
        let mut swapped = lines.clone();
        swapped.swap(at, at + 1);
        assert!(broken(&swapped), "lines {at} and {} swapped", at + 1);
        let mut torn = lines.clone();
        torn[at] = "{";
        assert!(broken(&torn), "line {at} made unreadable");
    }
    let cut = checked(lines[..5].join("\n").as_bytes()).unwrap();
    assert_eq!(cut.last, digest(lines[4].as_bytes()), "only the last digest tells that the end is missing");
    assert!(matches!(checked(b"hello\n"), Err(Broken::Unreadable { line: 1 })));
}

#[test]
fn a_log_goes_on_in_the_next_process_and_in_the_next_file() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    let mut chain = Chain::open(&path).unwrap();
    chain.append(["\"n\":1}", "\"n\":2}"].into_iter(), true).unwrap();
    assert_eq!(Chain::open(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock, "two processes can't write");
    drop(chain);
    let mut chain = Chain::open(&path).unwrap();
    assert!(!chain.follow().unwrap());
    chain.append(["\"n\":3}"].into_iter(), false).unwrap();
    let old = dir.path().join("log.1");
    fs::rename(&path, &old).unwrap();
    assert!(chain.follow().unwrap());
    chain.append(["\"n\":4}"].into_iter(), false).unwrap();
    let (first, second) = (fs::read(&old).unwrap(), fs::read(&path).unwrap());
    assert_eq!(checked(&first).unwrap().last, checked(&second).unwrap().first);
    assert_eq!(checked(&[first, second].concat()).unwrap().lines, 4);
}

#[test]
fn only_a_file_of_its_own_is_a_log() {
    let dir = TempDir::new().unwrap();
    let refused = |name: &str| Chain::open(&dir.path().join(name)).unwrap_err().to_string();
    // Nobody reads or writes at its other end.
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, dir.path().join("fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(refused("fifo"), "it is not a regular file");
    std::os::unix::fs::symlink("/dev/null", dir.path().join("null")).unwrap();
    assert_eq!(refused("null"), "it is not a regular file");
    for (mode, works) in [(0o600, true), (0o644, true), (0o622, false), (0o660, false), (0o666, false)] {
        let path = dir.path().join("log");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        assert_eq!(Chain::open(&path).is_ok(), works, "{mode:o}");
    }
}

#[test]
fn a_torn_line_stays_and_is_told() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    Chain::open(&path).unwrap().append(["\"n\":1}", "\"n\":2}"].into_iter(), false).unwrap();
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() - 5]).unwrap();
    Chain::open(&path).unwrap().append(["\"n\":3}"].into_iter(), false).unwrap();
    let text = fs::read(&path).unwrap();
    let whole = checked(&text).unwrap();
    assert_eq!((whole.lines, whole.torn), (3, vec![2]));
    let text = String::from_utf8(text).unwrap();
    let forged = text.replacen("\"n\n", "\"m\n", 1);
    assert!(forged != text && checked(forged.as_bytes()).is_err(), "a torn line is part of the chain");
}

#[tokio::test]
async fn a_call_that_can_not_be_written_is_not_made() {
    let dir = TempDir::new().unwrap();
    let (audit, file) = open(&dir, &[]);
    let (audit, work) = (audit.unwrap(), work());
    assert!(audit.begin(named(&work, 1, "t"), &arguments("{}")).await.is_ok());
    let aside = dir.path().join("aside");
    fs::rename(&file, &aside).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(audit.begin(named(&work, 2, "t"), &arguments("{}")).await.is_err());
    fs::remove_dir(&file).unwrap();
    assert!(audit.begin(named(&work, 3, "t"), &arguments("{}")).await.is_ok(), "it is tried again for each call");
    let both = [fs::read(&aside).unwrap(), fs::read(&file).unwrap()].concat();
    assert_eq!(checked(&both).unwrap().lines, 4);
    assert!(open(&TempDir::new().unwrap(), &[]).0.is_ok());
    let nowhere = AuditOptions { file: Some("/nonexistent/audit.jsonl".into()), ..AuditOptions::default() };
    assert!(Audit::open(&nowhere, &WorkerId::boot("w")).is_err());
}

#[tokio::test]
async fn a_decision_is_a_line_between_the_call_and_its_end() {
    let ruled = |why| Ruled {
        result: "denied",
        approval: "0f",
        user: Some("acme.approver"),
        by: Some("API key 1f0c"),
        calls: None,
        why: Some(why),
    };
    for (redact, shown) in [(&[][..], true), (&["**/pin"], false)] {
        let dir = TempDir::new().unwrap();
        let (audit, file) = open(&dir, redact);
        let (audit, work) = (audit.unwrap(), work());
        let trail = audit.begin(named(&work, 7, "transfer"), &arguments("{}")).await.unwrap();
        trail.decided(&ruled("the pin is 4711")).await.unwrap();
        trail.end("approval_denied", None).await;
        let lines = lines(&file);
        let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
        assert_eq!(events, ["opened", "call", "decision", "end"]);
        let decision = &lines[2];
        assert_eq!(
            (&decision["call"], &decision["result"], &decision["approval"]),
            (&7.into(), &"denied".into(), &"0f".into())
        );
        assert_eq!((&decision["user"], &decision["by"]), (&"acme.approver".into(), &"API key 1f0c".into()));
        assert_eq!(decision["why"] == "the pin is 4711", shown, "a reason can quote what must not be written");
        assert!(checked(&fs::read(&file).unwrap()).is_ok());
    }
}

#[tokio::test]
async fn every_line_of_a_run_with_a_token_names_it_and_the_check_counts_them() {
    let dir = TempDir::new().unwrap();
    let (audit, file) = open(&dir, &["**/pin"]);
    let (audit, work, id) = (audit.unwrap(), work(), TokenId::new("t-1").unwrap());
    let with = |call| Named { token: Some(&id), ..named(&work, call, "pay") };
    audit.begin(with(1), &arguments("{}")).await.unwrap().end("ok", None).await;
    audit.refused(&with(2), ErrorCode::ToolArguments, "no").await;
    audit.refused(&named(&work, 3, "pay"), ErrorCode::ToolArguments, "no").await;
    let tokens: Vec<_> = lines(&file).iter().map(|line| line["token"].as_str().map(str::to_owned)).collect();
    let id = || Some("t-1".to_owned());
    assert_eq!(tokens, [None, id(), id(), id(), None]);
    assert_eq!(checked(&fs::read(&file).unwrap()).unwrap().tokens, [("t-1".to_owned(), 3)].into());
}

#[test]
fn what_is_no_id_of_a_token_is_not_told() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    let forged = [r#""token":"a\u001b[2Jb"}"#, r#""token":{"a":1}}"#, r#""token":null}"#, r#""token":"good"}"#];
    Chain::open(&path).unwrap().append(forged.into_iter(), false).unwrap();
    let whole = checked(&fs::read(&path).unwrap()).unwrap();
    assert_eq!((whole.lines, whole.torn, whole.tokens), (4, vec![], [("good".to_owned(), 1)].into()));
}

#[tokio::test]
async fn what_is_redacted_stands_nowhere_in_the_file() {
    let dir = TempDir::new().unwrap();
    let (audit, file) = open(&dir, &["**/pin"]);
    let (audit, work) = (audit.unwrap(), work());
    for text in [r#"{"a": {"pin": 4711}}"#, r#"{"pin": 4711, "pin": 4712}"#, r#"{"pin": 47114711471147114711}"#] {
        let trail = audit.begin(named(&work, 1, "t"), &arguments(text)).await.unwrap();
        trail.end("capability_refused", Some("because pin is 4711")).await;
    }
    audit.refused(&Named { tool: None, ..named(&work, 2, "") }, ErrorCode::ToolArguments, "4711 is not a string").await;
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("4711") && text.contains("[redacted]"), "{text}");
}

#[tokio::test]
async fn long_names_and_texts_are_cut() {
    let dir = TempDir::new().unwrap();
    let (audit, file) = open(&dir, &[]);
    let long = "x".repeat(1 << 20);
    audit.unwrap().refused(&named(&work(), 1, &long), ErrorCode::UnknownTool, &long).await;
    assert!(fs::metadata(&file).unwrap().len() < 2000);
}
