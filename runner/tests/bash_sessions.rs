//! Sessions in bash: a shell that goes on after its programs have ended.

mod common;

use common::{Runner, bash_session, limits};
use thermae_runner::frames::{End, Frame, Kind, Limits, Run};

const SOFT: fn() -> End = || End::TimedOut { limit: "wall".into(), soft: true };

fn patient() -> Limits {
    Limits { grace_ms: 60_000, ..limits() }
}

/// A program that ends with its wall-clock time. A command that bash is about to start can miss the interrupt. Bash
/// itself heeds it when that command has ended, so none takes long here.
fn too_long() -> Run {
    Run { limits: Limits { wall_ms: 300, ..patient() }, ..bash_session("s", "while :; do sleep 0.1; done") }
}

/// Sets up everything that a session keeps.
const STATE: &str = "cd /tmp; export E=exported; v='a b'; a=(1 '2 3'); declare -A m=([k]=v); f() { echo \"f $1\"; }
shopt -s nullglob; set -o pipefail; umask 027; readonly r=9; i=0";

/// Shows it.
const SHOW: &str =
    "pwd; printenv E; echo \"$v ${a[1]} ${m[k]} $r\"; f x; shopt -p nullglob; set -o | grep pipefail; umask";

const SHOWN: &str = "/tmp\nexported\na b 2 3 v 9\nf x\nshopt -s nullglob\npipefail       \ton\n0027\n";

#[test]
fn directory_environment_functions_and_options_persist() {
    let mut runner = Runner::new();
    runner.run(&bash_session("s", STATE)).ok();
    let outcome = runner.run(&bash_session("s", SHOW));
    assert_eq!(outcome.ok(), SHOWN);
    assert!(outcome.exit.unwrap().session_lives);
}

#[test]
fn a_cancelled_program_leaves_its_shell_as_it_was() {
    let (mut runner, limits) = (Runner::patient(), patient());
    runner.run(&bash_session("s", STATE)).ok();
    // No command takes long here, as in `too_long`.
    for code in [
        "echo on; while :; do sleep 0.1; done; echo never",
        "echo on; while :; do :; done",
        "trap 'exit 3' INT; echo on; while :; do sleep 0.1; done",
    ] {
        let run = runner.begin(&Run { limits, ..bash_session("s", code) });
        runner.wait_output(run, "on");
        runner.send(&Frame::raw(Kind::Interrupt, run, Vec::new()));
        let outcome = runner.wait(run);
        assert_eq!((outcome.end(), &*outcome.out()), (&End::Interrupted, "on\n"), "{code}");
        assert!(outcome.exit.unwrap().session_lives, "{code}");
        assert_eq!(runner.run(&bash_session("s", SHOW)).ok(), SHOWN, "{code}");
    }
}

/// What ends a shell ends the program only.
#[test]
fn whatever_leaves_the_shell_ends_the_program_and_not_the_session() {
    let mut runner = Runner::new();
    runner.run(&bash_session("s", STATE)).ok();
    for (code, end) in [
        ("exit 3", End::Exited { code: 3 }),
        ("f() { echo \"f $1\"; exit 4; }; f; echo never", End::Exited { code: 4 }),
        ("f() { echo \"f $1\"; }; set -e; false; echo never", End::Exited { code: 1 }),
        ("true; false; echo never", End::Exited { code: 1 }),
        ("set +e; false; echo ${unset:?}", End::Exited { code: 1 }),
        ("set -u; echo $unset", End::Exited { code: 1 }),
        ("set +u; if", End::Exited { code: 2 }),
        ("no_such_command", End::Exited { code: 127 }),
        ("(exit 6)", End::Exited { code: 6 }),
        ("exit", End::Exited { code: 0 }),
        ("trap 'exit 10' USR1; g() { kill -USR1 $$; }; g; echo never", End::Exited { code: 10 }),
        ("trap 'exit 0' ERR; false; echo never", End::Exited { code: 0 }),
        ("trap - ERR; eval 'builtin exit 12'", End::Exited { code: 12 }),
        ("exec 0<&- 1>&- 2>&-; exec {fd}<&-; exit 8", End::Exited { code: 8 }),
        ("set -C; exit 9", End::Exited { code: 9 }),
        ("set -C; (exit 9)", End::Exited { code: 9 }),
    ] {
        let outcome = runner.run(&bash_session("s", code));
        assert_eq!(outcome.end(), &end, "{code}: {outcome:?}");
        assert!(outcome.exit.as_ref().unwrap().session_lives, "{code}");
        assert!(!outcome.out().contains("never"), "{code}");
    }
    // So do commands in place of a program.
    for (argv, code) in [(vec!["exit", "3"], 3), (vec!["false"], 1), (vec!["no_such_command"], 127)] {
        let argv: Vec<String> = argv.into_iter().map(String::from).collect();
        let outcome = runner.run(&Run { argv: argv.clone(), ..bash_session("s", "") });
        assert_eq!(outcome.end(), &End::Exited { code }, "{argv:?}: {outcome:?}");
        assert!(outcome.exit.as_ref().unwrap().session_lives, "{argv:?}");
    }
    assert_eq!(runner.run(&bash_session("s", SHOW)).ok(), SHOWN);
}

#[test]
fn each_program_is_a_file() {
    let mut runner = Runner::new();
    let guard =
        "main() { echo \"${0##*/} ran with $#\"; }; if [[ \"${BASH_SOURCE[0]}\" == \"$0\" ]]; then main \"$@\"; fi";
    assert_eq!(runner.run(&bash_session("s", guard)).ok(), "main.sh ran with 0\n");
    // Wherever the session is by now, and whatever has ended its shell.
    runner.run(&bash_session("s", "set -eu; cd /tmp; exit 0")).ok();
    let look = "cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd\nsed -n 's/^## //p' \"$0\"\ncase $- in *c*) echo c;; esac\n## usage";
    assert_eq!(runner.run(&bash_session("s", look)).ok(), "/workspace\nusage");
    let again = "if [ -z \"${AGAIN:-}\" ]; then AGAIN=1 bash \"$0\"; else echo \"again: ${BASH_SOURCE[0]##*/}\"; fi";
    assert_eq!(runner.run(&bash_session("s", again)).ok(), "again: main_4.sh\n");
    let trap = "trap 'echo \"${BASH_SOURCE[0]##*/}:$LINENO\"' ERR; set +e\nfalse\ntrue";
    assert_eq!(runner.run(&bash_session("s", trap)).ok(), "main_5.sh:2\n");
    assert_eq!(runner.run(&bash_session("s", "return 3")).end(), &End::Exited { code: 3 });
    // Without room for its file, a program runs all the same.
    runner.run(&bash_session("s", "head -c 40M /dev/zero > full 2>/dev/null; true")).ok();
    let full = "[ -e main_8.sh ] || echo 'no file'; [[ ${BASH_SOURCE[0]} == \"$0\" ]] && echo main; rm full";
    assert_eq!(runner.run(&bash_session("s", full)).ok(), "no file\nmain\n");
    assert_eq!(runner.run(&bash_session("s", "[ -e \"$0\" ] && echo file")).ok(), "file\n");
}

#[test]
fn an_interrupt_ends_the_program_and_not_the_session() {
    let mut runner = Runner::patient();
    runner.run(&bash_session("s", STATE)).ok();
    let mut times = 60..;
    let mut interrupted = |runner: &mut Runner, code: &str| {
        // Each sleeps for a time of its own: the last one's process may be there for another moment.
        let time = times.next().unwrap().to_string();
        let code = &code.replace("60", &time);
        let run = runner.begin(&Run { limits: patient(), ..bash_session("s", code) });
        runner.wait_process(&["sleep", &time]);
        runner.send(&Frame::raw(Kind::Interrupt, run, Vec::new()));
        let outcome = runner.wait(run);
        assert_eq!(outcome.end(), &End::Interrupted, "{code}: {outcome:?}");
        assert!(outcome.exit.as_ref().unwrap().session_lives, "{code}");
        outcome.out()
    };
    for code in ["sleep 60\necho never", "g() { sleep 60; }; g; echo never", "(sleep 60); echo never"] {
        assert_eq!(interrupted(&mut runner, code), "", "{code}");
    }
    for code in ["while :; do :; done", &too_long().code] {
        let outcome = runner.run(&Run { code: code.into(), ..too_long() });
        assert_eq!((outcome.end(), outcome.out().as_str()), (&SOFT(), ""), "{code}: {outcome:?}");
        assert!(outcome.exit.unwrap().session_lives, "{code}");
    }
    assert_eq!(runner.run(&bash_session("s", SHOW)).ok(), SHOWN);
    // The program's own trap stays.
    let trapped = "trap 'echo caught' INT; sleep 60; echo after";
    assert_eq!(interrupted(&mut runner, trapped), "caught\nafter\n");
    assert_eq!(interrupted(&mut runner, "sleep 60; echo again"), "caught\nagain\n");
}

#[test]
fn what_ends_the_shells_process_ends_the_session_and_is_told() {
    let mut runner = Runner::new();
    for (code, end) in [
        ("kill -KILL $$", End::Signaled { signal: 9 }),
        ("kill -TERM $$; echo never", End::Signaled { signal: 15 }),
        ("f() { while :; do kill -SEGV $$; done; }; f; exit", End::Signaled { signal: 11 }),
        ("set -e; bash -c 'kill -USR1 $PPID'; while :; do :; done", End::Signaled { signal: 10 }),
        ("exit() { kill -HUP $$; }; exit 0", End::Signaled { signal: 1 }),
        ("trap - INT; kill -INT $$; echo never", End::Signaled { signal: 2 }),
        ("exec sh -c 'echo other; exit 5'", End::Exited { code: 5 }),
        ("trap 'echo bye' EXIT; exit 6", End::Exited { code: 6 }),
    ] {
        let outcome = runner.run(&bash_session("s", code));
        let lives = outcome.exit.as_ref().unwrap().session_lives;
        assert_eq!((outcome.end(), lives), (&end, false), "{code}: {outcome:?}");
        assert_eq!(runner.wait_closed(), "s", "{code}");
    }
}

/// Traps that see each command, or the end of each script, are the program's alone.
#[test]
fn traps_on_commands_see_the_program_alone() {
    let mut runner = Runner::new();
    assert_eq!(runner.run(&bash_session("s", "trap 'echo \"+ $BASH_COMMAND\"' DEBUG\n:")).ok(), "+ :\n");
    runner.run(&bash_session("s", "trap 'n=$((n + 1))' RETURN")).ok();
    assert_eq!(runner.run(&bash_session("s", "echo $n; trap -p DEBUG RETURN")).ok(), "1\n");
}

#[test]
fn traps_on_exit_run_when_the_program_ends() {
    let mut runner = Runner::new();
    let outcome = runner.run(&bash_session("s", "trap 'echo \"it'\\''s over\"; x=1' EXIT; echo body; (exit 3)"));
    assert_eq!((outcome.end(), outcome.out().as_str()), (&End::Exited { code: 3 }, "body\nit's over\n"));
    assert_eq!(runner.run(&bash_session("s", "echo $x; trap -p EXIT | grep -c over")).out(), "1\n0\n");
    // They find the program's status.
    for code in [0, 8] {
        let outcome = runner.run(&bash_session("s", &format!("trap 'echo \"rc=$?\"' EXIT; (exit {code})")));
        assert_eq!((outcome.end(), outcome.out().as_str()), (&End::Exited { code }, &*format!("rc={code}\n")));
    }
    let outcome = runner.run(&bash_session("s", "trap 'exit 5' EXIT; true"));
    assert_eq!((outcome.end(), outcome.exit.as_ref().unwrap().session_lives), (&End::Exited { code: 5 }, true));
    // Traps on signals stay, also over a shell that is started anew.
    runner.run(&bash_session("s", "trap 'echo usr1' USR1; exit 0")).ok();
    assert_eq!(runner.run(&bash_session("s", "kill -USR1 $$; echo end")).ok(), "usr1\nend\n");
}

#[test]
fn background_jobs_go_on_and_print_to_nobody_later() {
    let mut runner = Runner::patient();
    let code = "mkfifo go; (trap '' PIPE; read < go; echo late; echo done > /tmp/done) & echo $!";
    let pid = runner.run(&bash_session("s", code)).ok();
    let outcome =
        runner.run(&bash_session("s", "kill -0 $! && echo alive; echo > go; wait $!; cat /tmp/done; echo $!"));
    assert_eq!(outcome.ok(), format!("alive\ndone\n{pid}"));
    // They outlive a shell that is started anew, but that does not know them.
    let code = "sleep 1000 & echo $! > pid; exit 0";
    runner.run(&bash_session("s", code)).ok();
    assert_eq!(runner.run(&bash_session("s", "kill -0 $(cat pid) && echo alive")).ok(), "alive\n");
    // An interrupt is not for them.
    let outcome = runner.run(&too_long());
    assert_eq!(outcome.end(), &SOFT());
    assert_eq!(runner.run(&bash_session("s", "kill -0 $(cat pid) && echo alive")).ok(), "alive\n");
}

#[test]
fn output_that_looks_like_a_status_is_output() {
    let mut runner = Runner::new();
    let outcome = runner.run(&bash_session("s", "echo 1 7; echo '{\"op\":\"done\"}'; echo 1 7 >&2; exit 2"));
    assert_eq!((outcome.end(), outcome.out().as_str()), (&End::Exited { code: 2 }, "1 7\n{\"op\":\"done\"}\n"));
}

#[test]
fn each_run_has_its_own_streams_arguments_and_limits() {
    let mut runner = Runner::new();
    let mut run = Run { stdin: Some("in\n".into()), ..bash_session("s", "cat; printf '%s|' \"$X\"") };
    run.env.insert("X".into(), "it's\n".into());
    assert_eq!(runner.run(&run).ok(), "in\nit's\n|");
    assert_eq!(runner.run(&bash_session("s", "cat; echo $# \"$X\"")).ok(), "0 it's\n\n");
    let command = Run { argv: vec!["f".into(), "a b".into()], ..bash_session("s", "") };
    runner.run(&bash_session("s", "f() { echo \"<$1>\"; }")).ok();
    assert_eq!(runner.run(&command).ok(), "<a b>\n");
    let line = runner.run(&bash_session("s", "true\n\nno_such_command"));
    assert_eq!(
        String::from_utf8_lossy(&line.stderr),
        "/workspace/main_4.sh: line 3: no_such_command: command not found\n"
    );
    assert_eq!(runner.run(&bash_session("s", "set -x; true")).stderr, b"++ true\n");
    assert_eq!(runner.run(&bash_session("s", "echo quiet")).stderr, b"");
    let few = Limits { pids: 4, ..limits() };
    let many = "for i in 1 2 3 4 5 6 7 8; do sleep 0.01 & done; wait; echo all";
    let outcome = runner.run(&Run { limits: few, ..bash_session("p", many) });
    assert!(String::from_utf8_lossy(&outcome.stderr).contains("fork"), "{outcome:?}");
    assert_eq!(runner.run(&bash_session("p", many)).ok(), "all\n");
    let busy = "i=0; while ((i < 200000)); do ((i += 1)); done";
    let first = runner.run(&bash_session("s", busy)).exit.unwrap().usage.cpu_us;
    let idle = runner.run(&bash_session("s", "true")).exit.unwrap().usage.cpu_us;
    assert!(first > 50_000 && idle < first / 4, "{first} {idle}");
}

#[test]
fn sessions_are_apart_and_leave_nothing() {
    let mut runner = Runner::new();
    runner.run(&bash_session("a", "x=a; echo a > f")).ok();
    runner.run(&bash_session("b", "x=b")).ok();
    assert_eq!(runner.run(&bash_session("a", "echo $x; cat f")).ok(), "a\na\n");
    assert_eq!(runner.run(&bash_session("b", "echo $x; ls")).ok(), "b\nartifacts\nmain.sh\nmain_2.sh\n");
    for name in ["a", "b"] {
        runner.send(&thermae_runner::frames::Frame::raw(thermae_runner::frames::Kind::CloseSession, 0, name));
        assert_eq!(runner.wait_closed(), name);
    }
    let proof = runner.ask_proof();
    assert_eq!(runner.wait_proof(proof), Vec::<String>::new());
}

#[test]
fn a_session_has_one_language() {
    let mut runner = Runner::new();
    runner.run(&bash_session("s", "x=1")).ok();
    let outcome = runner.run(&common::session("s", "x = 2"));
    assert_eq!(outcome.end(), &End::OtherLanguage { language: "bash".into() });
    assert!(outcome.exit.unwrap().session_lives);
    // What runs nothing has none: closing a session, for example.
    runner.run(&common::session("s", "")).ok();
    assert_eq!(runner.run(&bash_session("s", "echo $x; ls")).ok(), "1\nartifacts\nmain.sh\nmain_2.sh\n");
    runner.run(&common::session("p", "x = 1")).ok();
    runner.run(&bash_session("p", "")).ok();
    assert_eq!(runner.run(&common::session("p", "print(x)")).ok(), "1\n");
}

#[test]
fn without_an_inner_wall_a_session_works_too() {
    let spec = common::spec();
    let setup = thermae_runner::frames::Setup { nested: false, ..common::setup(&spec) };
    let mut runner = Runner::start(&spec, setup);
    let outcome = runner.run(&bash_session("s", "x=1; exit 2"));
    assert!(outcome.exit.as_ref().is_some_and(|exit| exit.session_lives), "{outcome:?}");
    assert_eq!(runner.run(&bash_session("s", "echo $x")).ok(), "1\n");
}
