//! Commands beside a hostile program, and hostile commands.

mod common;

use common::beside::{argv, file, shell};
use common::{Runner, limits, session};
use thermae_runner::frames::{End, FileOp, Frame, Kind, Limits, Run, Transferred, Work, WriteMode};
use thermae_runner::outer::Spec;

fn with_session() -> Runner {
    let mut runner = Runner::new();
    runner.run(&session("s", "x = 1")).ok();
    runner
}

#[track_caller]
fn clean(runner: &mut Runner) {
    runner.send(&Frame::raw(Kind::CloseSession, 0, *b"s"));
    let asked = runner.ask_proof();
    assert_eq!(runner.wait_proof(asked), Vec::<String>::new());
}

/// The program and the commands have one user, so they may kill each other. The runner tells what happened.
#[test]
fn a_program_that_kills_all_it_sees_ends_commands_and_nothing_else() {
    let mut runner = with_session();
    let all: Vec<u32> = (0..4).map(|_| runner.begin_beside(&shell("s", "echo on; exec sleep 60"))).collect();
    all.iter().for_each(|number| runner.wait_output(*number, "on"));
    runner.run(&session("s", "import os, signal\nos.kill(-1, 9)")).ok();
    for number in all {
        let outcome = runner.wait(number);
        assert_eq!(outcome.end(), &End::Signaled { signal: 9 });
        assert!(outcome.exit.unwrap().session_lives);
    }
    // It goes on killing and stopping while commands begin.
    let storm = "import os, time\nprint('on', flush=True)\nwhile not os.path.exists('stop'):\n    for pid in os.listdir('/proc'):\n        if pid.isdigit() and int(pid) not in (1, os.getpid()):\n            try: os.kill(int(pid), 19 if int(pid) % 2 else 9)\n            except OSError: pass";
    let run = runner.begin(&session("s", storm));
    runner.wait_output(run, "on");
    for n in 0..16 {
        let number = runner.begin_beside(&shell("s", "echo out"));
        if n % 2 == 1 {
            while !runner.so_far(number).started && runner.so_far(number).exit.is_none() {
                runner.step();
            }
        }
        runner.kill(number);
        let end = runner.wait(number);
        let fair = matches!(
            end.end(),
            End::Killed | End::Signaled { signal: 9 } | End::NotStarted { .. } | End::Exited { code: 0 }
        );
        assert!(fair, "{end:?}");
    }
    runner.kill(run);
    runner.wait(run);
    assert_eq!(runner.wait_closed(), "s");
    runner.run(&session("s", "1")).ok();
    clean(&mut runner);
}

#[test]
fn nobody_reads_or_writes_a_file_operations_memory() {
    let mut runner = with_session();
    let op = FileOp::Write { path: "w".into(), mode: WriteMode::Truncate, permissions: None };
    let number = runner.begin_beside(&file("s", op));
    runner.wait_started(number);
    let look = "import os\nseen = []\nfor pid in os.listdir('/proc'):\n    if pid.isdigit() and int(pid) not in (1, os.getpid()):\n        for name in ('mem', 'environ', 'maps', 'fd/0', 'exe'):\n            try: open(f'/proc/{pid}/{name}', 'rb').read(1); seen.append(name)\n            except OSError as e: seen.append(e.errno)\nprint(seen)";
    assert_eq!(runner.run(&session("s", look)).ok(), "[13, 13, 13, 13, 13]\n");
    runner.input(number, b"abc");
    runner.end_input(number);
    assert_eq!(runner.wait(number).result::<Transferred>(), Transferred { bytes: 3, size: 3 });
}

#[test]
fn a_fork_bomb_counts_against_the_session_and_leaves_commands_possible() {
    let mut runner = with_session();
    let bomb = runner
        .begin_beside(&shell("s", "f() { f | f & }; echo on; f 2>/dev/null; while :; do sleep 1; done 2>/dev/null"));
    runner.wait_output(bomb, "on");
    // No process of the session can fork as long as the bomb fills its bound, but a command needs no fork.
    let few = "import os\ncount = 0\nfor n in range(200):\n    try: pid = os.fork()\n    except BlockingIOError: break\n    if pid == 0:\n        import time; time.sleep(60); os._exit(0)\n    count += 1\nprint(count <= 64)\nos.kill(-1, 9)";
    assert_eq!(runner.run(&session("s", few)).ok(), "True\n");
    runner.wait(bomb);
    assert_eq!(runner.beside(&argv("s", &["echo", "on"])).ok(), "on\n");
    let full = runner.begin(&session("s", "import os, time\nfor n in range(200):\n    try:\n        if os.fork() == 0: time.sleep(60)\n    except BlockingIOError: break\nprint('full', flush=True)\ntime.sleep(60)"));
    runner.wait_output(full, "full");
    assert_eq!(runner.beside(&argv("s", &["echo", "on"])).ok(), "on\n");
    assert_ne!(runner.beside(&shell("s", "(echo a); (echo b)")).end(), &End::Exited { code: 0 });
    runner.kill(full);
    runner.wait(full);
    clean(&mut runner);
}

#[test]
fn commands_share_the_sessions_memory_and_end_with_it() {
    let hog = "x = bytearray(180 << 20)\nfor at in range(0, len(x), 4096): x[at] = 1\nprint('on', flush=True)\nimport time; time.sleep(60)";
    let mut runner = with_session();
    // The sum of two is too much, while no program runs and while one does.
    for program in [false, true] {
        runner.run(&session("s", "x = 1")).ok();
        let run = program.then(|| runner.begin(&session("s", "import time\ntime.sleep(60)")));
        let all: Vec<u32> = (0..2).map(|_| runner.begin_beside(&argv("s", &["python3", "-c", hog]))).collect();
        assert_eq!(runner.wait_closed(), "s");
        for number in all {
            assert_eq!(runner.wait(number).end(), &End::OutOfMemory);
        }
        if let Some(run) = run {
            assert_eq!(runner.wait(run).end(), &End::OutOfMemory);
        }
    }
    // One by itself is refused by the kernel, and the session lives on.
    runner.run(&session("s", "x = 1")).ok();
    let outcome = runner.beside(&argv("s", &["python3", "-c", "bytearray(400 << 20)"]));
    assert_eq!(outcome.end(), &End::Exited { code: 1 });
    assert!(String::from_utf8_lossy(&outcome.stderr).contains("MemoryError"));
    assert_eq!(runner.run(&session("s", "print(x)")).ok(), "1\n");
    let small = Run {
        limits: Limits { memory_bytes: 16 << 20, ..limits() },
        ..session("s", "import time\ntime.sleep(0.3)\nprint(2)")
    };
    let run = runner.begin(&small);
    assert_eq!(runner.beside(&argv("s", &["echo", "a"])).ok(), "a\n");
    assert_eq!(runner.wait(run).ok(), "2\n");
    clean(&mut runner);
}

#[test]
fn output_that_somebody_else_takes_out_of_the_pipe_does_not_keep_the_command() {
    let mut runner = with_session();
    let mut thieves = common::beside::shell(
        "s",
        "head -c 3000 /dev/zero; (setsid sh -c 'echo $$ > thief; exec cat <&3' 3</proc/self/fd/1 >/dev/null) & while [ ! -s thief ]; do :; done; sleep 0.2",
    );
    thieves.window = 1000;
    let number = runner.begin_beside(&thieves);
    runner.wait_started(number);
    while runner.so_far(number).stdout.len() < 1000 {
        runner.step();
    }
    runner.beside(&shell("s", "while [ ! -s thief ]; do sleep 0.01; done; sleep 0.4")).ok();
    runner.allow(number, 5000);
    runner.wait(number).ok();
    clean(&mut runner);
}

/// Before a process becomes a command, its program is the runner's. No command may execute that file where its user
/// owns it.
#[test]
fn no_command_executes_the_runner_that_an_ordinary_user_owns() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let binary = dir.path().join("runner");
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_thermae-runner"), &binary).unwrap();
    std::os::unix::fs::chown(&binary, Some(65_533), Some(65_533)).unwrap();
    let mut spec = Spec::for_python(Some(std::path::Path::new("/usr/bin/python3"))).unwrap();
    spec.memory_bytes = Some(1 << 30);
    let mut command = std::process::Command::new(&binary);
    command.uid(65_533).gid(65_533);
    let mut runner = Runner::launch(command, Some(&spec), common::setup(&spec));
    runner.run(&session("s", "x = 1")).ok();
    let make =
        "printf '#!/proc/self/exe\\nreadlink /proc/$$/exe\\n' > evil; chmod 755 evil; mkdir bin; cp evil bin/bash";
    runner.beside(&shell("s", make)).ok();
    let shells = ["/usr/bin/dash\n", "/usr/bin/bash\n", "/bin/dash\n", "/bin/bash\n"];
    let outcome = runner.beside(&argv("s", &["/proc/self/exe", "-c", "readlink /proc/$$/exe"]));
    assert!(shells.contains(&&*outcome.ok()), "{outcome:?}");
    let outcome = runner.beside(&argv("s", &["./evil"]));
    assert!(shells.contains(&&*outcome.ok()), "{outcome:?}");
    let mut lured = shell("s", "true");
    if let Work::Command(command) = &mut lured.work {
        command.env.insert("PATH".into(), "/workspace/bin:/usr/bin:/bin".into());
    }
    assert!(shells.contains(&&*runner.beside(&lured).ok()));
    // Commands work as elsewhere.
    assert_eq!(runner.beside(&argv("s", &["printf", "%s-", "a b", "$c", ""])).ok(), "a b-$c--");
    for (word, errno) in [("none", "ENOENT"), ("/workspace", "EACCES"), ("./bin", "EACCES")] {
        assert_eq!(runner.beside(&argv("s", &[word])).errno(), errno);
    }
    // Without the detour, the runner would be executed. Here, its file is not the job's.
    let mut runner = with_session();
    let outcome = runner.beside(&argv("s", &["/proc/self/exe", "-c"]));
    assert!(String::from_utf8_lossy(&outcome.stderr).contains("thermae-runner"), "{outcome:?}");
    let write = "import os, time\nfd = os.open('/proc/self/exe', os.O_RDONLY)\nfor f in (lambda: os.fchmod(fd, 0o777), lambda: open('/proc/self/exe', 'ab')):\n    try: f()\n    except OSError as e: print(e.errno)";
    assert_eq!(runner.beside(&argv("s", &["python3", "-c", write])).ok().lines().count(), 2);
}
