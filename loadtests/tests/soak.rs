//! The short form of the soak: 200 jobs of all kinds, on the embedded fleet.

use std::process::Command;

#[test]
fn a_round_of_honest_and_hostile_jobs_leaves_the_embedded_fleet_as_it_was() {
    let output = Command::new(env!("CARGO_BIN_EXE_thermae-loadtests"))
        .args(["--json", "soak", "--jobs", "200"])
        .env_remove("THERMAE_AMQP")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["honest"][0].as_u64().unwrap() + report["hostile"][0].as_u64().unwrap(), 200, "{text}");
    assert!(report["proofs"]["clean"].as_u64().unwrap() > 0, "{text}");
}
