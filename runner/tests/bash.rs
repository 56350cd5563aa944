//! Programs in bash, in fresh sandboxes.

mod common;

use common::{Runner, bash, limits};
use thermae_runner::frames::{End, Frame, Kind, Limits, Run};

#[test]
fn a_script_prints_and_its_status_is_the_shells_own() {
    let mut runner = Runner::new();
    let outcome = runner.run(&bash("echo out\necho err >&2\npwd\necho $0 $# $HOME"));
    assert_eq!(outcome.ok(), "out\n/workspace\nmain.sh 0 /workspace\n");
    assert_eq!((outcome.started, &*outcome.stderr), (true, &b"err\n"[..]));
    for (code, end) in [
        ("exit 3", End::Exited { code: 3 }),
        ("exit 300", End::Exited { code: 44 }),
        ("false", End::Exited { code: 1 }),
        ("no_such_command", End::Exited { code: 127 }),
        ("set -e\nfalse\necho never", End::Exited { code: 1 }),
        ("echo ${unset:?}", End::Exited { code: 1 }),
        ("trap 'exit 9' EXIT\nexit 3", End::Exited { code: 9 }),
        ("exec sh -c 'exit 5'", End::Exited { code: 5 }),
        ("kill -KILL $$", End::Signaled { signal: 9 }),
        ("kill -TERM $$", End::Signaled { signal: 15 }),
        ("exec kill -USR1 $$", End::Signaled { signal: 10 }),
        ("sh -c 'kill -KILL $$'; exit $?", End::Exited { code: 137 }),
        ("exec 0<&- 1>&- 2>&-\nexit 7", End::Exited { code: 7 }),
        ("if", End::Exited { code: 2 }),
    ] {
        assert_eq!(runner.run(&bash(code)).end(), &end, "{code}");
    }
}

/// Each is as with `bash main.sh`, to the byte.
#[test]
fn a_script_is_a_file() {
    let mut runner = Runner::new();
    let guard = r#"main() { echo "main ran"; }; if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then main "$@"; fi"#;
    for code in [
        guard,
        &format!("set -euo pipefail\n{guard}"),
        "set -eu\nhere=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\"\necho \"${here:+found}\"",
        "#!/bin/bash\n## usage: main.sh FILE\nsed -n 's/^## //p' \"$0\"",
        "sed '1,/^__DATA__$/d' \"$0\"\nexit 0\n__DATA__\npayload",
        "if [ -z \"${AGAIN:-}\" ]; then AGAIN=1 exec bash \"$0\"; fi\necho second",
        "exec \"$0\"",
        "set -u\necho \"$nope\"",
        "echo ${nope:?}",
        "case $- in *c*) echo c;; *) echo none;; esac; echo \"${BASH_EXECUTION_STRING-none}\"",
        "f() { echo \"${FUNCNAME[*]} ${BASH_LINENO[*]}\"; caller 0; }\nf",
        "trap 'echo \"${BASH_SOURCE[0]##*/}:$LINENO\"' ERR\nfalse\ntrue",
        "if true; then echo a",
        "return 3",
        "echo 'a\r'\necho '\u{fc}\u{20ac}'\n\n\n",
        "cat <<'E'\nhere $0\nE\nbash -c 'echo $0' \"$0\"",
        "(return 0 2>/dev/null) && echo sourced || echo executed",
        "echo $BASH_SUBSHELL $SHLVL; wc -c < \"$0\"",
        "echo a\0b",
        "",
    ] {
        let plain = tempfile::tempdir().unwrap();
        std::fs::write(plain.path().join("main.sh"), code).unwrap();
        let mut command = std::process::Command::new("bash");
        command.arg("main.sh").current_dir(&plain).stdin(std::process::Stdio::null()).env_remove("SHLVL");
        let plain = command.output().unwrap();
        let outcome = runner.run(&bash(code));
        let texts = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let expected = (texts(&plain.stdout), texts(&plain.stderr), End::Exited { code: plain.status.code().unwrap() });
        assert_eq!((outcome.out(), texts(&outcome.stderr), outcome.end().clone()), expected, "{code}");
    }
}

#[test]
fn a_script_runs_without_a_file_if_the_disk_is_full() {
    let mut runner = Runner::new();
    let full = vec![0; 32 << 20];
    let code = "[ -e main.sh ] || echo 'no file'; exit 3";
    let outcome = runner.run_with(&[("full", &full)], &bash(code));
    assert_eq!((outcome.out().as_str(), outcome.end()), ("no file\n", &End::Exited { code: 3 }));
}

#[test]
fn messages_name_the_line_of_the_program() {
    let mut runner = Runner::new();
    let outcome = runner.run(&bash("true\n\nno_such_command\n"));
    assert_eq!(String::from_utf8_lossy(&outcome.stderr), "main.sh: line 3: no_such_command: command not found\n");
}

#[test]
fn a_long_program_runs_and_its_lines_are_its_own() {
    let mut runner = Runner::new();
    let code = format!("x='{}'\necho ${{#x}}\nno_such_command\nls /proc/self/fd", "x".repeat(300_000));
    let outcome = runner.run(&bash(&code));
    assert_eq!(outcome.out(), "300000\n0\n1\n2\n3\n", "3 is the directory that ls reads");
    assert_eq!(String::from_utf8_lossy(&outcome.stderr), "main.sh: line 3: no_such_command: command not found\n");
}

#[test]
fn commands_environment_and_standard_input_arrive() {
    let mut runner = Runner::new();
    let mut run = Run { stdin: Some("a line\n".into()), ..bash("cat; printf '%s|' $# \"$X\"") };
    run.env.insert("X".into(), "it's\n".into());
    assert_eq!(runner.run(&run).ok(), "a line\n0|it's\n|");
    assert_eq!(runner.run(&bash("cat; echo end")).ok(), "end\n");
    let command = |words: &[&str]| Run { argv: words.iter().map(|word| (*word).to_owned()).collect(), ..bash("") };
    assert_eq!(runner.run(&command(&["printf", "%s|", "a b", "", "$HOME", "*"])).ok(), "a b||$HOME|*|");
    assert_eq!(runner.run(&command(&["no such command"])).end(), &End::Exited { code: 127 });
}

#[test]
fn nothing_of_a_program_is_left_for_the_next() {
    let mut runner = Runner::new();
    runner.run(&bash("echo x > file; export Y=1; cd /tmp; sleep 1000 & echo $!")).ok();
    let look = "echo \"$(pwd) ${Y-} \"$(ls); ls -d /proc/[0-9]* | wc -l";
    let seen = runner.run(&bash(look)).ok();
    assert_eq!(seen.lines().next(), Some("/workspace  artifacts main.sh"), "{seen}");
    assert_eq!(runner.python("import os\nprint(sorted(os.listdir()))").ok(), "['artifacts', 'main.py']\n");
    let proof = runner.ask_proof();
    assert_eq!(runner.wait_proof(proof), Vec::<String>::new());
}

#[test]
fn random_numbers_differ_from_job_to_job() {
    let mut runner = Runner::new();
    let mut seen: Vec<String> = (0..20).map(|_| runner.run(&bash("echo $RANDOM $RANDOM")).ok()).collect();
    seen.sort();
    seen.dedup();
    assert!(seen.len() >= 19, "{seen:?}");
}

#[test]
fn an_interrupt_ends_the_command_that_bash_waits_for() {
    let mut runner = Runner::patient();
    let patient = Limits { grace_ms: 60_000, ..limits() };
    // Each sleeps for a time of its own: the last one's process may be there for another moment.
    for (time, code, said) in [
        ("60", "sleep 60\necho never", ""),
        ("61", "(sleep 61; echo never)", ""),
        ("62", "sleep 62 | cat\necho never", ""),
        ("63", "trap 'echo caught; exit 4' INT\nsleep 63", "caught\n"),
    ] {
        let run = runner.begin(&Run { limits: patient, ..bash(code) });
        runner.wait_process(&["sleep", time]);
        runner.send(&Frame::raw(Kind::Interrupt, run, Vec::new()));
        let outcome = runner.wait(run);
        assert_eq!((outcome.end(), outcome.out().as_str()), (&End::Interrupted, said), "{code}");
    }
    // The end of the wall-clock time is such an interrupt. It may come when bash is about to start a command, which then
    // misses it, so none takes long here.
    let short = Limits { wall_ms: 300, ..patient };
    for code in ["while :; do :; done", "while :; do sleep 0.1; done"] {
        let outcome = runner.run(&Run { limits: short, ..bash(code) });
        let soft = End::TimedOut { limit: "wall".into(), soft: true };
        assert_eq!((outcome.end(), outcome.out().as_str()), (&soft, ""), "{code}");
    }
    let deaf = Run { limits: Limits { grace_ms: 200, ..patient }, ..bash("trap '' INT\necho on\nsleep 60") };
    let run = runner.begin(&deaf);
    runner.wait_output(run, "on");
    runner.send(&Frame::raw(Kind::Interrupt, run, Vec::new()));
    assert_eq!(runner.wait(run).end(), &End::Killed);
}

#[test]
fn limits_hold() {
    let mut runner = Runner::new();
    // Bash tries for a while to fork.
    let few = Limits { pids: 6, wall_ms: 5000, ..limits() };
    let outcome = runner.run(&Run { limits: few, ..bash("for i in {1..20}; do sleep 100 & done; echo all") });
    assert!(String::from_utf8_lossy(&outcome.stderr).contains("fork: retry"), "{outcome:?}");
    let chatty = Limits { output_bytes: 1000, ..limits() };
    let outcome = runner.run(&Run { limits: chatty, ..bash("while :; do echo xxxxxxxxxxxx; done") });
    assert_eq!((outcome.end(), outcome.stdout.len()), (&End::OutputLimit, 1000));
    let busy = Limits { cpu_ms: 200, ..limits() };
    let outcome = runner.run(&Run { limits: busy, ..bash("while :; do :; done") });
    assert_eq!(outcome.end(), &End::TimedOut { limit: "cpu".into(), soft: false });
    let outcome = runner.run(&Run { limits: busy, ..bash("(while :; do :; done) & (while :; do :; done) & wait") });
    assert_eq!(outcome.end(), &End::TimedOut { limit: "cpu".into(), soft: false });
    let small = Limits { memory_bytes: 64 << 20, ..limits() };
    let outcome = runner.run(&Run { limits: small, ..bash("x=x; while :; do x=$x$x; done") });
    assert_ne!(outcome.end(), &End::Exited { code: 0 });
    let usage =
        runner.run(&bash("printf -v x %2000000s; i=0; while ((i < 100000)); do ((i += 1)); done")).exit.unwrap().usage;
    assert!(usage.cpu_us > 20_000 && usage.memory_bytes > 1 << 20, "{usage:?}");
}

#[test]
fn files_come_in_and_artifacts_go_out() {
    let mut runner = Runner::new();
    let outcome = runner.run_with(&[("in.txt", b"hello")], &bash("tr a-z A-Z < in.txt > artifacts/out.txt"));
    assert_eq!(outcome.left(), [("/workspace/artifacts/out.txt".to_owned(), b"HELLO".to_vec())]);
}

#[test]
fn a_program_that_cannot_be_started_is_an_error() {
    let mut runner = Runner::new();
    let mut huge = bash("true");
    huge.env.insert("X".into(), "x".repeat(200_000));
    let outcome = runner.run(&huge);
    let error = outcome.exit.unwrap().error.unwrap();
    assert!(error.message.contains("Argument list too long"), "{error:?}");
}

#[test]
fn a_language_that_the_container_lacks_is_left_out() {
    let spec = common::spec();
    let mut setup = common::setup(&spec);
    setup.languages[1].name = "cobol".into();
    let mut runner = Runner::start(&spec, setup);
    assert_eq!(runner.ready.languages.keys().collect::<Vec<_>>(), ["python"]);
    assert!(runner.ready.warnings.iter().any(|warning| warning.starts_with("cobol: ")), "{:?}", runner.ready.warnings);
    let outcome = runner.run(&bash("echo"));
    assert!(matches!(outcome.end(), End::NotStarted { .. }), "{outcome:?}");
    assert_eq!(runner.python("print(1)").ok(), "1\n");
}

#[test]
fn without_an_inner_wall_a_script_runs_too() {
    let spec = common::spec();
    let setup = thermae_runner::frames::Setup { nested: false, ..common::setup(&spec) };
    let mut runner = Runner::start(&spec, setup);
    assert_eq!(runner.run(&bash("echo $((6 * 7))")).ok(), "42\n");
}
