//! Inputs: JSON values that a run's code finds as globals.

mod common;

use common::{Runner, bash, limits, program, raw, session};
use thermae_runner::frames::{End, Limits, Run};

fn with_inputs(run: Run, inputs: &[(&str, &str)]) -> Run {
    Run { inputs: inputs.iter().map(|(name, json)| ((*name).to_owned(), raw(json))).collect(), ..run }
}

#[test]
fn values_arrive_as_they_were_written() {
    let mut runner = Runner::new();
    let run = with_inputs(
        program("print(z, a, ascii(text), number, sep='\\n')"),
        &[
            ("z", r#"{"b": 1, "a": 1180591620717411303424, "10": [true, null]}"#),
            ("a", "[]"),
            ("text", "\"\\u0000 \\ud83d\\ude00 ä \\\\ \\\" \""),
            ("number", "0.1"),
        ],
    );
    let shown =
        "{'b': 1, 'a': 1180591620717411303424, '10': [True, None]}\n[]\n'\\x00 \\U0001f600 \\xe4 \\\\ \" '\n0.1\n";
    assert_eq!(runner.run(&run).ok(), shown);
    assert_eq!(runner.python("print('z' in globals())").ok(), "False\n");
}

#[test]
fn a_session_keeps_them_and_binds_them_anew() {
    let mut runner = Runner::new();
    let say = session("s", "print(x, y)");
    assert_eq!(runner.run(&with_inputs(say.clone(), &[("x", "1"), ("y", "2")])).ok(), "1 2\n");
    assert_eq!(runner.run(&say).ok(), "1 2\n");
    assert_eq!(runner.run(&with_inputs(say, &[("y", "[3]")])).ok(), "1 [3]\n");
}

#[test]
fn large_ones_pass() {
    let mut runner = Runner::new();
    let text = format!("\"{}\"", "a\\n\\\"b".repeat(16 << 17));
    let numbers = format!("[{}0]", "12345678,".repeat(100_000));
    let run = with_inputs(program("print(len(text), len(numbers))"), &[("text", &text), ("numbers", &numbers)]);
    assert_eq!(runner.run(&run).ok(), format!("{} 100001\n", 4 * (16 << 17)));
}

#[test]
fn one_that_does_not_fit_ends_its_run_and_nothing_else() {
    let mut runner = Runner::new();
    let text = format!("\"{}\"", "a".repeat(16 << 20));
    let list = format!("[{}[]]", "[],".repeat(4 << 20));
    for (json, memory) in [(text, 24 << 20), (list, 64 << 20)] {
        let limits = Limits { memory_bytes: memory, ..limits() };
        for run in [program("print(len(x))"), session("s", "print(len(x))")] {
            let outcome = runner.run(&with_inputs(Run { limits, ..run }, &[("x", &json)]));
            assert_eq!((outcome.end(), outcome.out().as_str()), (&End::OutOfMemory, ""));
        }
        assert_eq!(runner.python("print(1)").ok(), "1\n");
        assert_eq!(runner.run(&session("s", "print('x' in globals())")).ok(), "False\n");
    }
}

#[test]
fn one_that_python_cannot_read_is_an_error_of_the_run() {
    let mut runner = Runner::new();
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let outcome = runner.run(&with_inputs(session("d", "print('ran')"), &[("x", &deep)]));
    assert_eq!((outcome.end(), outcome.out().as_str()), (&End::Raised, ""));
    let error = outcome.exit.unwrap().error.unwrap();
    assert_eq!(error.kind, "ValueError");
    assert!(error.message.starts_with("input x can't be read: "), "{error:?}");
    assert_eq!(runner.run(&session("d", "print('x' in globals())")).ok(), "False\n");
}

#[test]
fn a_program_in_bash_does_not_notice_them() {
    let mut runner = Runner::new();
    assert_eq!(runner.run(&with_inputs(bash("echo ran"), &[("x", "1")])).ok(), "ran\n");
}
