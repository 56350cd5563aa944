//! Commands beside a session's program.

mod common;

use common::beside::{argv, shell};
use common::{Runner, bash_session, limits, preloading, program, session, setup, spec};
use thermae_runner::frames::{Beside, End, Frame, Kind, Limits, Run, Setup, Work};

/// A runner with a session in Python.
fn with_session() -> Runner {
    let mut runner = Runner::new();
    runner.run(&session("s", "x = 1")).ok();
    runner
}

/// Begins a program that runs until it is killed or interrupted.
fn busy(runner: &mut Runner, code: &str) -> u32 {
    let run = runner.begin(&session("s", &format!("print('on', flush=True)\n{code}")));
    runner.wait_output(run, "on");
    run
}

#[test]
fn a_command_is_a_process_of_the_session() {
    let mut runner = with_session();
    runner.run(&session("s", "open('f', 'w').write('mine')")).ok();
    let outcome = runner.beside(&argv("s", &["cat", "f"]));
    assert_eq!(outcome.ok(), "mine");
    let exit = outcome.exit.unwrap();
    assert!(exit.session_lives && outcome.started && exit.usage.output_bytes == 4, "{exit:?}");
    assert!(exit.usage.memory_bytes > 100_000 && exit.usage.wall_us > 0, "{exit:?}");
    let line =
        "pwd; id -u; hostname; echo x > g; echo \"$HOME ${PATH##*:}\"; ls -d /proc/[0-9]* | wc -l; echo e >&2; exit 7";
    let outcome = runner.beside(&shell("s", line));
    assert_eq!(outcome.end(), &End::Exited { code: 7 });
    let lines: Vec<String> = outcome.out().lines().map(str::to_owned).collect();
    assert_eq!(lines[..4], ["/workspace", "1000", "sandbox", "/workspace /bin"], "{lines:?}");
    assert!(lines[4].parse::<u32>().unwrap() >= 3, "the session's own process shows: {lines:?}");
    assert_eq!(outcome.stderr, b"e\n");
    assert_eq!(runner.run(&session("s", "print(x, open('g').read())")).ok(), "1 x\n\n");
}

/// As for a job, nothing is left of a way to more rights.
#[test]
fn a_command_has_the_jobs_bounds() {
    let mut runner = with_session();
    let line = "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; ulimit -n; unshare -r true; ls /proc/1/fd; echo x > /etc/x; ls /proc/self/fd";
    let outcome = runner.beside(&shell("s", line));
    let want = "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n1024\n0\n1\n2\n3\n";
    assert_eq!(outcome.out(), want, "{}", String::from_utf8_lossy(&outcome.stderr));
    let told = String::from_utf8_lossy(&outcome.stderr).into_owned();
    for part in ["unshare", "/proc/1/fd", "/etc/x"] {
        assert!(told.contains(part), "{told}");
    }
    let namespaces = "import os\nprint([os.readlink('/proc/self/ns/' + n) for n in ('pid', 'mnt', 'ipc', 'uts', 'user', 'net', 'cgroup')])";
    let own = runner.run(&session("s", namespaces)).ok();
    assert_eq!(runner.beside(&argv("s", &["python3", "-c", namespaces])).ok(), own);
}

#[test]
fn directory_environment_and_lookup_are_as_asked() {
    let mut runner = with_session();
    let mut asked = shell("s", "pwd; echo \"$A $TMPDIR\"; mytool");
    let Work::Command(command) = &mut asked.work else { unreachable!() };
    command.cwd = Some("/tmp".into());
    command.env = [("A", "it's"), ("TMPDIR", "/x"), ("PATH", "/nowhere:/workspace/bin:/bin")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    runner.beside(&shell("s", "mkdir bin; printf '#!/bin/sh\necho tool' > bin/mytool; chmod 755 bin/mytool")).ok();
    assert_eq!(runner.beside(&asked).ok(), "/tmp\nit's /x\ntool\n");
    if let Work::Command(command) = &mut asked.work {
        command.cwd = Some("bin".into());
    }
    assert!(runner.beside(&asked).ok().starts_with("/workspace/bin\n"));
    for (words, errno) in [
        (&["no-such-program"][..], "ENOENT"),
        (&["/workspace"], "EACCES"),
        (&["./bin/none"], "ENOENT"),
        (&["/workspace/f/x"], "ENOENT"),
        (&[], "ENOENT"),
        (&[""], "ENOENT"),
        (&["a\0b"], "EINVAL"),
    ] {
        let outcome = runner.beside(&argv("s", words));
        assert_eq!(outcome.errno(), errno, "{words:?}");
    }
    let mut lost = argv("s", &["ls"]);
    if let Work::Command(command) = &mut lost.work {
        command.cwd = Some("/no/such".into());
    }
    let outcome = runner.beside(&lost);
    assert_eq!((outcome.errno(), outcome.failure().path.to_string()), ("ENOENT", "/no/such".to_owned()));
}

#[test]
fn a_session_in_bash_takes_commands_too() {
    let mut runner = Runner::new();
    runner.run(&bash_session("b", "v=1; echo in > f")).ok();
    assert_eq!(runner.beside(&argv("b", &["cat", "f"])).ok(), "in\n");
    let run = runner.begin(&bash_session("b", "echo on; while [ ! -e stop ]; do sleep 0.01; done; echo \"$v\""));
    runner.wait_output(run, "on");
    runner.beside(&shell("b", "touch stop")).ok();
    assert_eq!(runner.wait(run).ok(), "on\n1\n");
}

/// The zygote of commands is none of bash's.
#[test]
fn a_container_without_the_language_bash_takes_commands() {
    let spec = spec();
    let mut runner = Runner::start(&spec, preloading(&spec, &[], true));
    assert_eq!(runner.ready.languages.keys().collect::<Vec<_>>(), ["python"]);
    runner.run(&session("s", "1")).ok();
    assert_eq!(runner.beside(&argv("s", &["echo", "a b"])).ok(), "a b\n");
    let nameless = Run { language: String::new(), ..program("1") };
    assert!(matches!(runner.run(&nameless).end(), End::NotStarted { .. }));
    let asked = runner.ask_proof();
    runner.send(&Frame::raw(Kind::CloseSession, 0, *b"s"));
    assert_eq!(runner.wait_proof(asked), Vec::<String>::new());
}

#[test]
fn only_a_session_that_is_there_has_a_place_beside_its_program() {
    let mut runner = with_session();
    assert_eq!(runner.beside(&argv("t", &["ls"])).end(), &End::NoSession);
    for bad in [
        Beside { wall_ms: 0, ..argv("s", &["ls"]) },
        Beside { window: 0, ..argv("s", &["ls"]) },
        Beside { window: Beside::MAX_WINDOW + 1, ..argv("s", &["ls"]) },
        Beside { output_bytes: Some(0), ..argv("s", &["ls"]) },
    ] {
        assert!(matches!(runner.beside(&bad).end(), End::NotStarted { .. }));
    }
    runner.send(&Frame::raw(Kind::CloseSession, 0, *b"s"));
    assert_eq!(runner.beside(&argv("s", &["ls"])).end(), &End::NoSession);
    let spec = spec();
    let mut runner = Runner::start(&spec, Setup { nested: false, ..setup(&spec) });
    runner.run(&session("s", "1")).ok();
    let outcome = runner.beside(&argv("s", &["ls"]));
    assert!(matches!(outcome.end(), End::NotStarted { reason } if reason.contains("inner wall")), "{outcome:?}");
}

#[test]
fn input_reaches_the_command_and_its_end_too() {
    let mut runner = with_session();
    let run = runner.begin_beside(&argv("s", &["cat"]));
    runner.input(run, b"a\n\xff\0");
    runner.wait_output(run, "a");
    runner.input(run, b"b");
    runner.wait_output(run, "b");
    runner.end_input(run);
    let outcome = runner.wait(run);
    assert_eq!((outcome.end(), &*outcome.stdout), (&End::Exited { code: 0 }, &b"a\n\xff\0b"[..]));
    assert_eq!(runner.beside_with(&[b'x'; 500_000], &argv("s", &["wc", "-c"])).ok(), "500000\n");
    assert_eq!(runner.beside_with(&[b'x'; 500_000], &argv("s", &["true"])).ok(), "", "nobody reads it");
    // Input without its end does not keep a command.
    let run = runner.begin_beside(&argv("s", &["echo", "done"]));
    assert_eq!(runner.wait(run).ok(), "done\n");
}

#[test]
fn more_input_than_the_window_ends_the_command() {
    let mut runner = with_session();
    let run = runner.begin_beside(&Beside { window: 1000, ..argv("s", &["sleep", "60"]) });
    runner.input(run, &[0; 1001]);
    let outcome = runner.wait(run);
    assert_eq!(outcome.end(), &End::Raised);
    assert!(outcome.exit.unwrap().error.unwrap().message.contains("1000 bytes"));
}

#[test]
fn eight_at_once_neither_wait_for_a_busy_program_nor_end_it() {
    let mut runner = with_session();
    for code in ["while True: pass", "import time\ntime.sleep(60)"] {
        let run = busy(&mut runner, code);
        let all: Vec<u32> = (0..8).map(|n| runner.begin_beside(&shell("s", &format!("read x; echo $x {n}")))).collect();
        for number in &all {
            runner.wait_started(*number);
        }
        // All of them run, and none has ended.
        for number in &all {
            runner.input(*number, b"hi\n");
        }
        for (n, number) in all.into_iter().enumerate() {
            assert_eq!(runner.wait(number).ok(), format!("hi {n}\n"));
        }
        assert!(runner.so_far(run).exit.is_none());
        runner.send(&Frame::raw(Kind::Interrupt, run, Vec::new()));
        assert_eq!(runner.wait(run).end(), &End::Interrupted);
        assert_eq!(runner.run(&session("s", "print(x)")).ok(), "1\n");
    }
}

#[test]
fn what_a_command_uses_does_not_count_as_the_programs() {
    let mut runner = with_session();
    let few = Limits { cpu_ms: 200, ..limits() };
    let code = "import time\nprint('on', flush=True)\ntime.sleep(3)";
    let run = runner.begin(&Run { limits: few, ..session("s", code) });
    runner.wait_output(run, "on");
    let burn = "import os, time\nchild = os.fork()\nwhile time.process_time() < 0.2: pass\nif child: os.wait()";
    let burns: Vec<u32> = (0..2).map(|_| runner.begin_beside(&argv("s", &["python3", "-c", burn]))).collect();
    for number in burns {
        let outcome = runner.wait(number);
        outcome.ok();
        assert!(outcome.exit.unwrap().usage.cpu_us > 350_000);
    }
    let outcome = runner.wait(run);
    outcome.ok();
    assert!(outcome.exit.unwrap().usage.cpu_us < 200_000);
    // The program's own time counts as before.
    let burns = Run { limits: few, ..session("s", "while True: pass") };
    assert_eq!(runner.run(&burns).end(), &End::TimedOut { limit: "cpu".into(), soft: false });
}

#[test]
fn kill_and_signals_are_for_the_commands_group_only() {
    let mut runner = with_session();
    let run = busy(&mut runner, "import time\ntime.sleep(60)");
    let group = runner.begin_beside(&shell("s", "trap '' TERM; sleep 60 & echo on; wait"));
    runner.wait_output(group, "on");
    runner.signal(group, 15);
    runner.signal(group, 0);
    runner.signal(group, 999);
    runner.kill(group);
    assert_eq!(runner.wait(group).end(), &End::Killed);
    let trapped =
        runner.begin_beside(&shell("s", "trap 'echo got; exit 5' TERM; echo on; while :; do sleep 0.01; done"));
    runner.wait_output(trapped, "on");
    runner.signal(trapped, 15);
    let outcome = runner.wait(trapped);
    assert_eq!((outcome.end(), &*outcome.out()), (&End::Exited { code: 5 }, "on\ngot\n"));
    let early = runner.begin_beside(&argv("s", &["sleep", "60"]));
    runner.signal(early, 15);
    assert_eq!(runner.wait(early).end(), &End::Signaled { signal: 15 }, "a signal waits for its command");
    let plain = runner.begin_beside(&shell("s", "echo on; exec sleep 60"));
    runner.wait_output(plain, "on");
    runner.send(&Frame::raw(Kind::Interrupt, plain, Vec::new()));
    assert_eq!(runner.wait(plain).end(), &End::Signaled { signal: 2 });
    assert_eq!(
        runner.beside(&shell("s", "pgrep -c sleep || true")).out().trim(),
        "0",
        "no process of the group is left"
    );
    assert!(runner.so_far(run).exit.is_none());
    runner.kill(run);
    runner.wait(run);
}

#[test]
fn a_command_that_is_killed_at_once_never_begins_or_is_dead() {
    let mut runner = with_session();
    for _ in 0..50 {
        let number = runner.begin_beside(&shell("s", "touch done-$$; sleep 60"));
        runner.kill(number);
        assert_eq!(runner.wait(number).end(), &End::Killed);
    }
    assert_eq!(runner.run(&session("s", "print(x)")).ok(), "1\n");
    runner.send(&Frame::raw(Kind::CloseSession, 0, *b"s"));
    let asked = runner.ask_proof();
    assert_eq!(runner.wait_proof(asked), Vec::<String>::new());
}

#[test]
fn the_wall_clock_and_the_output_limit_end_the_group() {
    let mut runner = with_session();
    let slow = Beside { wall_ms: 3000, ..shell("s", "echo on; trap '' TERM INT; sleep 60") };
    let outcome = runner.beside(&slow);
    assert_eq!(outcome.end(), &End::TimedOut { limit: "wall".into(), soft: false });
    assert_eq!(outcome.out(), "on\n");
    let flood = Beside { output_bytes: Some(1000), ..argv("s", &["yes"]) };
    let outcome = runner.beside(&flood);
    assert_eq!((outcome.end(), outcome.stdout.len()), (&End::OutputLimit, 1000));
    assert_eq!(runner.run(&session("s", "print(x)")).ok(), "1\n");
}

#[test]
fn a_detached_child_outlives_its_command_and_not_its_session() {
    let mut runner = with_session();
    let line = "setsid sh -c 'sleep 600 & echo $! > pid; wait' & while [ ! -s pid ]; do sleep 0.01; done; echo out";
    assert_eq!(runner.beside(&shell("s", line)).ok(), "out\n", "the child still holds the pipe");
    runner.beside(&shell("s", "kill -0 $(cat pid)")).ok();
    let run = runner.run(&session("s", "import os\nos.kill(int(open('pid').read()), 0)\nprint('lives')"));
    assert_eq!(run.ok(), "lives\n");
    runner.send(&Frame::raw(Kind::CloseSession, 0, *b"s"));
    assert_eq!(runner.wait_closed(), "s");
    let asked = runner.ask_proof();
    assert_eq!(runner.wait_proof(asked), Vec::<String>::new());
}

#[test]
fn a_session_that_ends_takes_its_commands_along() {
    let mut runner = with_session();
    for end in ["close", "exit", "kill", "timeout"] {
        runner.run(&session("s", "x = 1")).ok();
        let short = Limits { wall_ms: 2000, grace_ms: 0, ..limits() };
        let hang = Run { limits: short, ..session("s", "import time\nprint('on', flush=True)\ntime.sleep(60)") };
        let run = match end {
            "kill" => Some(busy(&mut runner, "import time\ntime.sleep(60)")),
            "timeout" => Some(runner.begin(&hang)),
            _ => None,
        };
        let all: Vec<u32> = (0..4).map(|_| runner.begin_beside(&shell("s", "echo on; exec sleep 60"))).collect();
        if end != "timeout" {
            all.iter().for_each(|number| runner.wait_output(*number, "on"));
        }
        match end {
            "close" => runner.send(&Frame::raw(Kind::CloseSession, 0, *b"s")),
            "exit" => drop(runner.run(&session("s", "import os\nos._exit(3)"))),
            "kill" => runner.kill(run.unwrap()),
            _ => {}
        }
        assert_eq!(runner.wait_closed(), "s");
        for number in all {
            let outcome = runner.wait(number);
            assert_eq!(outcome.end(), &End::SessionEnded, "{end}");
            assert!(!outcome.exit.unwrap().session_lives);
        }
        if let Some(run) = run {
            runner.wait(run);
        }
        let asked = runner.ask_proof();
        assert_eq!(runner.wait_proof(asked), Vec::<String>::new(), "{end}");
    }
}

/// No run goes on, but a command does.
#[test]
fn a_proof_waits_for_the_session_and_so_for_its_commands() {
    let mut runner = with_session();
    let command = runner.begin_beside(&shell("s", "echo on; sleep 60"));
    runner.wait_output(command, "on");
    let asked = runner.ask_proof();
    runner.ping();
    assert!(!runner.has_proof(asked));
    runner.send(&Frame::raw(Kind::CloseSession, 0, *b"s"));
    assert_eq!(runner.wait_proof(asked), Vec::<String>::new());
    assert_eq!(runner.wait(command).end(), &End::SessionEnded);
}
