//! The short form of the suite, and the page that lists it. All of it, with the controls: `cargo xtask attack`.

use std::path::Path;
use std::process::Command;

use thermae_attacks::{index, program};

/// Tries the attacks that take no seconds; all must hold.
fn short(backend: &str) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_thermae-attacks")).args(["--quick", "--backend", backend]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let words = String::from_utf8_lossy(&output.stderr);
    let others: Vec<_> = text.lines().filter(|line| !line.starts_with("held")).collect();
    assert!(output.status.success(), "{words}\n{}", others.join("\n"));
    let (tried, held) = last.strip_suffix(" held").and_then(|l| l.split_once(" tried, ")).unwrap();
    assert_eq!(tried, held, "{text}");
    assert!(tried.parse::<usize>().unwrap() >= 80, "{last}");
}

#[test]
fn attacks_on_native_containers_hold() {
    short("native");
}

#[test]
fn attacks_on_docker_containers_hold() {
    // By `cargo xtask test`, which sets an engine and an image up.
    if std::env::var_os("THERMAE_TEST_DOCKER").is_some() {
        short("docker");
    }
}

#[test]
fn the_page_lists_the_attacks() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let attacks = program::load(&program::folder()).unwrap();
    let current = index::put_into(&page, &index::markdown(&attacks)).expect("docs/security.md has the index's marks");
    if std::env::var_os("THERMAE_UPDATE").is_some() {
        std::fs::write(&file, current).unwrap();
    } else {
        assert!(page == current, "docs/security.md is not current: run this test with THERMAE_UPDATE=1");
    }
}
