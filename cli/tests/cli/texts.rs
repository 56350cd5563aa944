//! Texts for people: help, completions, generated pages.

use std::path::Path;

use crate::thermae::Thermae;

#[test]
fn the_help_is_what_it_was() {
    let thermae = Thermae::new();
    for (name, args) in [
        ("help", ["--help"].as_slice()),
        ("help_run", &["run", "--help"]),
        ("help_batch", &["batch", "--help"]),
        ("help_trust", &["trust", "--help"]),
        ("help_sessions", &["sessions", "--help"]),
        ("help_approvals", &["approvals", "--help"]),
        ("help_approvals_approve", &["approvals", "approve", "--help"]),
        ("help_sessions_close", &["sessions", "close", "--help"]),
        ("help_doctor", &["doctor", "--help"]),
        ("help_serve", &["serve", "--help"]),
    ] {
        let answer = thermae.call(args);
        assert_eq!((answer.status, answer.stderr.as_str()), (0, ""), "{answer:?}");
        insta::assert_snapshot!(name, answer.stdout);
    }
}

#[test]
fn the_version_is_the_packages() {
    let answer = Thermae::new().call(&["--version"]);
    assert_eq!(answer.stdout, concat!("thermae ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn usage_errors_are_status_2() {
    let thermae = Thermae::new();
    for args in [
        [].as_slice(),
        &["run"],
        &["dance"],
        &["run", "x.py", "--wall", "soon"],
        &["run", "x.py", "--max-attempts", "0"],
        &["run", "x.py", "--if-gone", "new"],
        &["run", "x.py", "--json", "--value"],
        &["run", "x.py", "--close-session"],
        &["sessions"],
        &["sessions", "list"],
        &["sessions", "close", "--amqp", "amqp://a:b@127.0.0.1"],
        &["sessions", "close", "s", "--all", "--amqp", "amqp://a:b@127.0.0.1"],
        &["batch", "x.jsonl"],
        &["run", "nowhere.py"],
        &["run", "--tool", "x", "nowhere.py"],
    ] {
        let answer = thermae.call(args);
        assert_eq!(answer.status, 2, "{args:?}: {answer:?}");
        assert!(!answer.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn completions_are_made_for_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let answer = Thermae::new().call(&["completions", shell]);
        assert!(answer.status == 0 && answer.stdout.contains("thermae"), "{shell}");
    }
}

/// With `THERMAE_UPDATE=1`, writes the files first.
#[test]
fn generated_pages_are_current() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    for page in ["configuration", "errors"] {
        let answer = Thermae::new().call(&["reference", page]);
        assert_eq!(answer.status, 0, "{answer:?}");
        let file = docs.join(format!("{page}.md"));
        if std::env::var_os("THERMAE_UPDATE").is_some() {
            std::fs::write(&file, &answer.stdout).unwrap();
        }
        let there = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            there == answer.stdout,
            "docs/{page}.md is not current: run the tests with THERMAE_UPDATE=1 to write it"
        );
    }
}
