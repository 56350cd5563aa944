//! `thermae doctor`.

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
