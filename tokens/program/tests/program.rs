//! The program, from a key to a revoked token.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder with a set of capabilities.
fn folder() -> TempDir {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("set.json"), r#"[{"pattern": "transfer", "max_calls": 3}]"#).unwrap();
    std::fs::write(dir.path().join("less.json"), "[]").unwrap();
    dir
}

fn run(dir: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thermae-token")).args(line.split(' ')).current_dir(dir).output().unwrap()
}

/// What a command prints that must succeed.
fn done(dir: &Path, line: &str) -> String {
    let Output { status, stdout, stderr } = run(dir, line);
    assert!(status.success(), "{line}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// The status and the error of a command that must fail.
fn fails(dir: &Path, line: &str) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = run(dir, line);
    assert!(stdout.is_empty(), "{line}: {}", String::from_utf8_lossy(&stdout));
    (status.code(), String::from_utf8(stderr).unwrap())
}

const MINT: &str = "mint --key issuer.pem --id 1 --tenant acme --capabilities set.json --expires-in 1h";
const SHOW: &str = "show --keys keys --tenant acme";

/// A folder with a key, a token, and one that was made from it.
fn issued() -> TempDir {
    let dir = folder();
    let at = dir.path();
    done(at, "keygen --key issuer.pem --keys keys --id 1");
    std::fs::write(at.join("token"), done(at, &format!("{MINT} --calls 5 --answers orchestrator"))).unwrap();
    std::fs::write(at.join("child"), done(at, "narrow token --capabilities less.json --expires-in 1min")).unwrap();
    dir
}

#[test]
fn a_token_is_made_narrowed_checked_and_revoked() {
    let dir = issued();
    let at = dir.path();
    let show =
        |token: &str| -> serde_json::Value { serde_json::from_str(&done(at, &format!("{SHOW} {token}"))).unwrap() };
    let (token, child) = (show("token"), show("child"));
    assert_eq!(
        (&token["tenant"], &token["answers"], &token["calls"]),
        (&"acme".into(), &"orchestrator".into(), &[5].into())
    );
    assert_eq!(token["capabilities"], serde_json::json!([[{"pattern": "transfer", "max_calls": 3}]]));
    assert_eq!(child["capabilities"], serde_json::json!([[{"pattern": "transfer", "max_calls": 3}], []]));
    assert_eq!((&child["id"], &child["revocation_ids"][0]), (&token["id"], &token["revocation_ids"][0]));
    // A child is revoked alone, and a parent with its children.
    for (revoked, still) in [("child", true), ("token", false)] {
        for _ in 0..2 {
            done(at, &format!("revoke {revoked} --revoked revoked"));
        }
        let (status, error) = fails(at, &format!("{SHOW} --revoked revoked child"));
        assert_eq!((status, error.as_str()), (Some(1), "thermae-token: token_revoked: the token is revoked\n"));
        assert_eq!(run(at, &format!("{SHOW} --revoked revoked token")).status.success(), still);
    }
    assert_eq!(std::fs::read_to_string(at.join("revoked")).unwrap().lines().count(), 2);
}

#[test]
fn a_token_without_rights_is_refused_with_its_code() {
    let dir = issued();
    let at = dir.path();
    std::fs::write(at.join("none"), "no token").unwrap();
    std::fs::write(at.join("large"), "a".repeat(70_000)).unwrap();
    done(at, "keygen --key other.pem --keys others --id 2");
    for (line, code) in [
        ("show --keys keys --tenant globex token", "token_foreign_tenant"),
        ("show --keys others --tenant acme token", "token_unknown_key"),
        ("show --keys keys --tenant acme none", "token_malformed"),
        ("show --keys keys --tenant acme large", "token_too_large"),
        ("revoke none --revoked revoked", "token_malformed"),
    ] {
        let (status, error) = fails(at, line);
        assert!(status == Some(1) && error.starts_with(&format!("thermae-token: {code}: ")), "{line}: {error}");
    }
    assert!(!at.join("revoked").exists());
}

#[test]
fn what_can_t_be_done_is_said_and_changes_nothing() {
    let dir = issued();
    let at = dir.path();
    let key = std::fs::read(at.join("issuer.pem")).unwrap();
    std::fs::write(at.join("bad"), "no id\n").unwrap();
    for (line, why) in [
        ("keygen --key issuer.pem --keys keys --id 3", "issuer.pem: File exists"),
        ("keygen --key new.pem --keys keys --id 1", "1.pem: File exists"),
        ("narrow token", "the narrowing is empty"),
        ("narrow token --expires-in 2h", "the token expires before that time"),
        ("narrow nowhere --calls 1", "nowhere: No such file"),
        ("narrow token --capabilities bad", "bad: capabilities: can't be read"),
        ("narrow token --calls 0", "number would be zero"),
        ("revoke token --revoked bad", "line 1 is no revocation id"),
        ("mint --key keys/1.pem --id 1 --tenant acme --capabilities set.json --expires-in 1h", "private key"),
        ("mint --key issuer.pem --id 1 --tenant a.b --capabilities set.json --expires-in 1h", "--tenant"),
        ("mint --key issuer.pem --id 1 --tenant acme --capabilities set.json --expires-in 99999years", "time"),
    ] {
        let (status, error) = fails(at, line);
        assert!(status == Some(2) && error.contains(why), "{line}: {error}");
    }
    assert!(!at.join("new.pem").exists());
    assert_eq!(std::fs::read(at.join("issuer.pem")).unwrap(), key);
    assert_eq!(std::fs::read_to_string(at.join("bad")).unwrap(), "no id\n");
}

#[test]
fn nobody_else_can_write_to_what_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let thermae_token = env!("CARGO_BIN_EXE_thermae-token");
    let line = format!("umask 0 && {thermae_token} keygen --key issuer.pem --keys made/keys --id 1");
    let made = Command::new("sh").args(["-c", &line]).current_dir(dir.path()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    for (path, mode) in [("made", 0o755), ("made/keys", 0o755), ("made/keys/1.pem", 0o644), ("issuer.pem", 0o600)] {
        let found = std::fs::metadata(dir.path().join(path)).unwrap().permissions().mode();
        assert_eq!(found & 0o7777, mode, "{path}");
    }
}
