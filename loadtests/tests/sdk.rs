//! Measures a few prints through the Python package with the programs themselves.

use std::path::Path;
use std::process::Command;

use thermae_loadtests::report::Row;

#[test]
fn a_few_prints_of_each_side_give_a_row_each() {
    let programs = Path::new(env!("CARGO_BIN_EXE_thermae-loadtests"));
    assert!(programs.with_file_name("thermae").is_file(), "build the programs first");
    let output = Command::new(programs)
        .args(["--json", "sdk", "--jobs", "20", "--rate-jobs", "80", "--package"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("sdk").join("python"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Row> = serde_json::from_slice(&output.stdout).unwrap();
    let cases: Vec<_> = rows.iter().map(|row| (row.case.as_str(), row.on.as_str())).collect();
    assert_eq!(cases, [("print", "beside_sdk"), ("print", "sdk"), ("print", "sdk_async")]);
    for row in &rows {
        assert!(0.0 < row.p50_ms && row.p50_ms <= row.p95_ms && row.p95_ms <= row.p99_ms, "{row:?}");
        assert!(row.jobs_per_s.is_some_and(|rate| rate > 0.0), "{row:?}");
    }
}
