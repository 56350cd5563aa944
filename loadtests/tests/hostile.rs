//! The short form of the hostile tenant: one round beside native containers, in which the victim loses no job. `cargo xtask hostile` is
//! the long one, which also holds the victim's times against a bar.

use std::process::Command;

#[test]
fn a_hostile_tenant_loses_another_one_no_job() {
    let xtask = std::env::var("THERMAE_TEST_XTASK").expect("THERMAE_TEST_XTASK: `cargo xtask test` sets it");
    let output = Command::new(xtask).args(["hostile", "--quick"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("native: hostile / benign") && text.contains("lost 0"), "{text}");
    println!("{text}");
}
