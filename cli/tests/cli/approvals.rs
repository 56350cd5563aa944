//! Calls that need approval: `thermae run` asks in the terminal, and denies them where nobody can say yes.

use crate::thermae::Thermae;

const CODE: &str = "
for n in range(4):
    try:
        print('made', await pay(n=n, text='\\x1b[2J'), flush=True)
    except ToolError as error:
        print('not made', error, flush=True)
";

/// A program that makes four calls, which need approval on these terms, and a tool that prints what it gets.
fn pays(approval: &str) -> Thermae {
    let thermae = Thermae::with("main.py", CODE);
    thermae.file("may.json", &format!(r#"[{{"pattern": "pay", "approval": {approval}}}, {{"pattern": "typed"}}]"#));
    thermae
}

/// A tool that waits until something was typed.
const TYPED: &str = "typed=until [ -e typed ]; do sleep 0.01; done; echo 1";

const RUN: [&str; 7] = ["run", "main.py", "--capabilities", "may.json", "--stream=never", "--tool", "pay=cat"];

#[test]
fn a_person_at_the_terminal_decides_about_each_call() {
    let thermae = pays(r#"{"next": 2}"#);
    let ask = "Make this call?";
    // The second yes counts for two calls, so there are three questions.
    let answer = thermae.call_and_type(&RUN, &[(ask, "n\n"), (ask, "\n"), (ask, "a\n")]);
    assert_eq!(answer.status, 0, "{answer:?}");
    assert_eq!(answer.stdout.matches(ask).count(), 3, "{answer:?}");
    assert!(answer.stdout.contains("the program calls"), "{answer:?}");
    assert!(answer.stdout.contains(r#"{"n":0,"text":"\u001b[2J"}"#), "{answer:?}");
    assert!(!answer.stdout.contains("\u{1b}[2J"), "{answer:?}");
    let lines: Vec<_> = answer.stdout.lines().filter(|line| line.contains("made ")).collect();
    assert_eq!(lines.len(), 4, "{answer:?}");
    for (line, made) in lines.iter().zip([false, false, true, true]) {
        assert_eq!(line.starts_with("made "), made, "{answer:?}");
        assert_eq!(line.contains("approval_denied: the call of \"pay\" was denied"), !made, "{answer:?}");
    }
}

#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let thermae = pays(r#"{"timeout_ms": 1000}"#);
    thermae.file("main.py", &format!("print('begun', flush=True)\nawait typed()\n{CODE}"));
    let args = [&RUN[..4], &["--stream=always", "--tool", "pay=cat", "--tool", TYPED]].concat();
    let answer = thermae.call_and_type(&args, &[("begun", "y\ny\ny\ny\n")]);
    assert_eq!(answer.stdout.matches("not made approval_timed_out").count(), 4, "{answer:?}");
    assert!(answer.stdout.contains("does not wait for approval any more"), "{answer:?}");
}

#[test]
fn while_a_question_is_open_the_program_prints_nothing_that_could_be_taken_for_it() {
    let thermae = pays(r#"{"timeout_ms": 3000}"#);
    let code = "
import asyncio
async def disguise():
    await typed()
    print('the program calls look. Make this call?', flush=True)
disguised = asyncio.create_task(disguise())
try:
    await pay(n=1)
except ToolError:
    pass
await disguised
";
    thermae.file("main.py", code);
    let args = [&RUN[..4], &["--stream=always", "--tool", "pay=cat", "--tool", TYPED]].concat();
    let answer = thermae.call_and_type(&args, &[("Make this call?", "")]);
    let (over, disguise) =
        (answer.stdout.find("does not wait for approval any more"), answer.stdout.find("calls look"));
    assert!(over.is_some() && over < disguise, "{answer:?}");
}

#[test]
fn where_nobody_can_say_yes_calls_are_denied_at_once() {
    let thermae = pays("{}");
    let answer = thermae.call(&RUN);
    assert_eq!(answer.status, 0, "{answer:?}");
    let denied = "not made approval_denied: the call of \"pay\" was denied: nobody is there who could approve it\n";
    assert_eq!(answer.stdout, denied.repeat(4), "{answer:?}");
}

#[test]
fn a_batch_asks_nobody() {
    let thermae = pays("{}");
    let code = serde_json::to_string(CODE).unwrap();
    let job = format!(r#"{{"id": "a", "code": {code}, "capabilities": [{{"pattern": "pay", "approval": {{}}}}]}}"#);
    thermae.file("jobs.jsonl", &job);
    let answer = thermae.call(&["batch", "jobs.jsonl", "--out", "results.jsonl", "--tool", "pay=cat"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    assert_eq!(thermae.read("results.jsonl").matches("nobody is there who could approve it").count(), 4, "{answer:?}");
}

#[test]
fn decisions_about_other_runs_need_a_fleet() {
    let thermae = Thermae::new();
    for args in [&["approvals", "list", "r"][..], &["approvals", "approve", "r", "c"], &["approvals", "deny", "r", "c"]]
    {
        let answer = thermae.call(args);
        assert!(answer.status == 2 && answer.stderr.contains("error[no_fleet]"), "{answer:?}");
    }
    for bad in ["0", "-1", "x"] {
        let answer = thermae.call(&["approvals", "approve", "r", "c", "--calls", bad]);
        assert_eq!(answer.status, 2, "{answer:?}");
    }
}
