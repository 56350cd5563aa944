//! One program, one sandbox: output, errors, exit statuses, signals, limits.

mod common;

use common::Runner;

#[test]
fn a_program_prints() {
    let mut runner = Runner::new();
    assert!(runner.ready.nested, "{:?}", runner.ready.warnings);
    let outcome = runner.python("print(1 + 1)");
    assert_eq!(outcome.ok(), "2\n");
}
