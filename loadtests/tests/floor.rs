//! Measures a few samples of each floor with the program itself.

use std::process::Command;

use thermae_loadtests::report::Row;

#[test]
fn a_few_of_each_give_a_row_each() {
    let output = Command::new(env!("CARGO_BIN_EXE_thermae-loadtests"))
        .args(["--json", "floor", "--case", "fork", "--case", "print", "--case", "session"])
        .args(["--warm-up", "3", "--jobs", "10", "--in-flight", "2", "--seconds", "1"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Row> = serde_json::from_slice(&output.stdout).unwrap();
    let cases: Vec<_> = rows.iter().map(|row| (row.case.as_str(), row.on.as_str())).collect();
    assert_eq!(cases, [("fork", "floor"), ("print", "floor"), ("session", "floor")]);
    for row in &rows {
        assert!(0.0 < row.p50_ms && row.p50_ms <= row.p95_ms && row.p95_ms <= row.p99_ms, "{row:?}");
        assert_eq!(row.jobs_per_s.is_some_and(|rate| rate > 0.0), row.case != "session", "{row:?}");
    }
}
