//! Tests of `thermae doctor`.

use std::process::Command;

use serde_json::Value;

use crate::thermae::Thermae;

#[test]
fn it_proves_that_programs_run_here() {
    let answer = Thermae::new().call(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!((answer.status, report["ok"].as_bool()), (0, Some(true)), "{report:#}");
    let checks = report["checks"].as_array().unwrap();
    let state = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap()["state"].as_str().unwrap();
    for name in ["kernel", "namespaces", "python", "a program"] {
        assert_eq!(state(name), "ok", "{report:#}");
    }
    for check in checks.iter().filter(|check| check["state"] != "ok") {
        assert!(check["means"].is_string() && check["fix"].is_string(), "{check}");
    }
}

#[test]
fn it_says_what_is_missing_and_fails() {
    let answer = Thermae::new().call(&["doctor", "--python", "/nonexistent/python3", "--docker", "/nonexistent.sock"]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(answer.stdout.contains("fail  python "), "{}", answer.stdout);
    assert!(answer.stdout.contains("warn  docker "), "{}", answer.stdout);
    assert!(answer.stdout.contains("can't run here"), "{}", answer.stdout);
}

/// Runs a script as root of a new user namespace, in which `max_user_namespaces` belongs to that namespace only.
fn in_a_namespace(script: &str) -> std::process::Output {
    let thermae = env!("CARGO_BIN_EXE_thermae");
    let sh = format!("echo 0 > /proc/sys/user/max_user_namespaces && {script}");
    Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", &sh])
        .env("THERMAE", thermae)
        .output()
        .unwrap()
}

#[test]
fn it_mends_what_it_can() {
    let before = in_a_namespace("\"$THERMAE\" doctor");
    let said = String::from_utf8_lossy(&before.stdout);
    assert!(said.contains("fail  namespaces") && said.contains("thermae doctor --fix"), "{said}");
    let fixed = in_a_namespace("\"$THERMAE\" doctor --fix; cat /proc/sys/user/max_user_namespaces");
    let (said, told) = (String::from_utf8_lossy(&fixed.stdout), String::from_utf8_lossy(&fixed.stderr));
    assert!(told.contains("fix: sysctl user.max_user_namespaces=15000"), "{told}");
    assert!(said.contains("ok    namespaces") && said.ends_with("15000\n"), "{said}\n{told}");
}

#[test]
fn what_needs_no_mending_is_left_alone() {
    let answer = Thermae::new().call(&["doctor", "--fix"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    assert!(answer.stderr.contains("--fix found nothing to change"), "{answer:?}");
}
