//! A few of CPython's own tests go in a sandbox as they go outside.

use std::process::Command;

/// The list itself explains what must be there; here it is enough that nothing differs that it does not explain. Where the
/// interpreter has no tests of its own, `cargo xtask cpython` would install them; this test only says so.
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
