//! Where a password may be given, and that it is never shown.

use std::path::{Path, PathBuf};

use thermae_service::secret::has_password;

use crate::thermae::{Answer, Thermae};

/// A port that nobody listens on.
const NOWHERE: u16 = 1;

fn run(thermae: &Thermae, more: &[&str], environment: &[(&str, &str)]) -> Answer {
    let args = [&["run", "hello.py", "--connect-timeout", "100ms"], more].concat();
    thermae.command(&args).envs(environment.iter().copied()).output().unwrap().into()
}

#[test]
fn a_password_in_an_argument_is_warned_of_and_repeated_nowhere() {
    let thermae = Thermae::with("hello.py", "print(1)");
    let url = format!("amqp://acme:hunter2@127.0.0.1:{NOWHERE}");
    let joined = format!("--amqp={url}");
    for more in [&["--amqp", &url][..], &[&joined], &["--amqp", &url, "-vv"]] {
        let answer = run(&thermae, more, &[]);
        assert_eq!(answer.status, 3, "{answer:?}");
        assert!(answer.stderr.contains("warning: ") && answer.stderr.contains("THERMAE_AMQP_FILE"), "{answer:?}");
        assert!(!answer.show().contains("hunter2"), "{answer:?}");
    }
    let quiet = [("THERMAE_AMQP", url.as_str())];
    assert!(!run(&thermae, &[], &quiet).stderr.contains("warning"), "the environment is the place for it");
}

#[test]
fn a_fleet_can_be_named_by_a_file() {
    let thermae = Thermae::with("hello.py", "print(1)");
    let port = NOWHERE;
    thermae.file("url", &format!("amqp://acme:hunter2@127.0.0.1:{port}\n"));
    for answer in [
        run(&thermae, &["--amqp-file", "url"], &[]),
        run(&thermae, &[], &[("THERMAE_AMQP_FILE", "url")]),
        run(&thermae, &["--amqp-file", "url", "--amqp-password-file", "url"], &[]),
    ] {
        assert!(answer.status == 3 && answer.stderr.contains(&format!("127.0.0.1:{port}")), "{answer:?}");
        assert!(!answer.show().contains("hunter2") && !answer.stderr.contains("warning"), "{answer:?}");
    }
    let missing = run(&thermae, &["--amqp-file", "missing"], &[]);
    assert!(missing.status == 2 && missing.stderr.contains("missing"), "{missing:?}");
    let both = run(&thermae, &["--amqp-file", "url", "--amqp", "amqp://acme@h"], &[]);
    assert!(both.status == 2 && both.stderr.contains("cannot be used with"), "{both:?}");
}

#[test]
fn files_of_tls_are_looked_at_before_anything_is_sent() {
    let thermae = Thermae::with("hello.py", "print(1)");
    let answer = run(&thermae, &["--tls-ca", "missing.pem"], &[("THERMAE_AMQP", "amqps://acme:hunter2@127.0.0.1:1")]);
    assert!(answer.status == 2 && answer.stderr.contains("missing.pem"), "{answer:?}");
}

/// All files below a folder.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            documents(&entry, found);
        } else {
            found.push(entry);
        }
    }
}

#[test]
fn no_document_shows_a_password_as_an_argument() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("..");
    let mut found = vec![root.join("README.md"), root.join("compose.yaml"), root.join("dashboards/README.md")];
    for folder in ["docs", "examples", "images"] {
        documents(&root.join(folder), &mut found);
    }
    documents(&here.join("tests/cli/snapshots"), &mut found);
    assert!(found.len() > 20);
    for file in found {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        // A variable's value (`NAME=URL`) and a form in backquotes are not arguments.
        let shown = text.split_whitespace().find(|word| {
            has_password(word) && (word.starts_with("--") || word.starts_with(['a', 'r']) && !word.contains('='))
        });
        assert_eq!(shown, None, "{}", file.display());
    }
}
