//! The short form of the hostile tenant: one round with native containers, in which the victim may lose no job. `cargo
//! xtask hostile` is the long form, which also limits the victim's times.

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
