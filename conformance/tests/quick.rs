//! The quick part of CPython's own tests runs in a sandbox as it does outside.

use std::process::Command;

/// Checks only that no case differs without an explanation. If the interpreter lacks its tests, this test fails and
/// names the command that installs them.
#[test]
fn honest_code_runs_as_outside() {
    let python = "/usr/bin/python3";
    let has = Command::new(python).args(["-I", "-c", "import test.test_json, test.pickletester"]).output().unwrap();
    assert!(has.status.success(), "{python} has no tests: `cargo xtask cpython --quick` installs them");
    let output = Command::new(env!("CARGO_BIN_EXE_thermae-conformance")).arg("--quick").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.lines().last().unwrap().contains(" 0 differ"), "{told}");
}
