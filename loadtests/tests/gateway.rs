//! Measures a few prints through the gateway with the programs themselves.

use std::path::Path;
use std::process::Command;

use thermae_loadtests::report::Row;

#[test]
fn a_few_prints_of_each_side_give_a_row_each() {
    let program = Path::new(env!("CARGO_BIN_EXE_thermae-loadtests"));
    assert!(program.with_file_name("thermae").is_file(), "build the programs first");
    let arguments = ["--json", "gateway", "--jobs", "20", "--rate-jobs", "80"];
    let output = Command::new(program).args(arguments).env_remove("THERMAE_AMQP").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Row> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows.iter().map(|row| row.on.as_str()).collect::<Vec<_>>(), ["beside_gateway", "gateway"]);
    for row in &rows {
        assert!(
            0.0 < row.p50_ms && row.p50_ms <= row.p99_ms && row.jobs_per_s.is_some_and(|rate| rate > 0.0),
            "{row:?}"
        );
    }
}
