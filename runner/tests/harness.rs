//! Runs the harness's own tests, which are written in Python, as one test of `cargo test`.

use std::path::Path;
use std::process::Command;

/// Runs `python3 -m unittest discover -s runner/tests/harness`. `THERMAE_TEST_PYTHON` names another interpreter.
#[test]
fn python_tests_pass() {
    let room = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness");
    let python = std::env::var("THERMAE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(&python)
        .args(["-B", "-m", "unittest", "discover", "-s"])
        .arg(&room)
        .output()
        .unwrap_or_else(|error| panic!("{python} does not start: {error}"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {told}", output.status);
    let ran = told.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse::<u32>().ok());
    assert!(ran.is_some_and(|ran| ran > 0), "no test ran: {told}");
}
