//! One program, one sandbox: output, errors, exit statuses, signals, what libraries need.

mod common;

use common::{Runner, program, session};
use thermae_runner::frames::{End, Frame, Kind, Run};

#[test]
fn a_sandbox_knows_where_it_is() {
    let mut runner = Runner::new();
    let code = "import socket\nprint(socket.gethostname(), socket.gethostbyname(socket.gethostname()))\nprint(open('/etc/hostname').read())";
    assert_eq!(runner.python(code).ok(), "sandbox 127.0.0.1\nsandbox\n\n");
}

#[test]
fn a_program_prints_in_a_sandbox_made_ahead() {
    let mut runner = Runner::new();
    assert!(runner.ready.nested, "{:?}", runner.ready.warnings);
    let languages = &runner.ready.languages;
    assert!(languages["python"].starts_with("Python 3.") && languages["bash"].starts_with("bash "), "{languages:?}");
    let outcome = runner.python("x = b'x' * (2 << 20)\nprint(1 + 1)");
    assert_eq!(outcome.ok(), "2\n");
    assert!(outcome.started);
    let exit = outcome.exit.unwrap();
    assert!(exit.warm);
    assert_eq!(exit.usage.output_bytes, 2);
    assert!(exit.usage.memory_bytes > 1 << 20 && exit.usage.wall_us > 0, "{:?}", exit.usage);
    assert_eq!(exit.phases.keys().collect::<Vec<_>>(), ["acquire", "collect", "run", "start"]);
}

#[test]
fn an_exception_has_the_programs_own_lines() {
    let mut runner = Runner::new();
    let outcome = runner.python("def f():\n    return 1 / 0\n\nf()\n");
    assert_eq!(outcome.end(), &End::Raised);
    let error = outcome.exit.unwrap().error.unwrap();
    assert_eq!(error.kind, "ZeroDivisionError");
    assert!(error.traceback.contains("line 4") && error.traceback.contains("return 1 / 0"), "{}", error.traceback);
    assert!(!error.traceback.contains("harness"), "{}", error.traceback);
}

#[test]
fn exits_and_signals_are_the_kernels_word() {
    let mut runner = Runner::new();
    for (code, end) in [
        ("import sys\nsys.exit(3)", End::Exited { code: 3 }),
        ("import os\nos._exit(7)", End::Exited { code: 7 }),
        ("raise SystemExit", End::Exited { code: 0 }),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", End::Signaled { signal: 15 }),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", End::Signaled { signal: 9 }),
        ("import signal\nsignal.alarm(1)\nsignal.pause()", End::Signaled { signal: 14 }),
        ("import os\nos.abort()", End::Signaled { signal: 6 }),
        ("import ctypes\nctypes.string_at(0)", End::Signaled { signal: 11 }),
    ] {
        assert_eq!(runner.python(code).end(), &end, "{code}");
    }
}

#[test]
fn the_last_expression_has_a_value_and_streams_are_bytes() {
    let mut runner = Runner::new();
    let code = "import sys\nsys.stdout.buffer.write(b'\\xff\\x00\\r\\n\\n')\nsys.stderr.write('e')\n[1, 2]";
    let outcome = runner.python(code);
    assert_eq!(outcome.end(), &End::Exited { code: 0 });
    assert_eq!(outcome.stdout, b"\xff\x00\r\n\n");
    assert_eq!(outcome.stderr, b"e");
    assert_eq!(outcome.exit.unwrap().value.unwrap().get(), r#"{"text/plain":"[1, 2]"}"#);
    let outcome = runner.python("display({'a': 1})");
    assert_eq!(outcome.displays, [serde_json::json!({"text/plain": "{'a': 1}"})]);
}

#[test]
fn input_and_environment_arrive() {
    let mut runner = Runner::new();
    let big = "x".repeat(300_000);
    let mut run = program("import os, sys\nt = sys.stdin.read()\nprint(len(t), t[:1], os.environ['WHO'])");
    run.stdin = Some(big);
    run.env.insert("WHO".into(), "me".into());
    assert_eq!(runner.run(&run).ok(), "300000 x me\n");
    assert_eq!(runner.python("import sys\nprint(repr(sys.stdin.read()))").ok(), "''\n");
    // Input that nobody reads does not keep the run from ending.
    run.code = "print('done')".into();
    assert_eq!(runner.run(&run).ok(), "done\n");
}

#[test]
fn a_large_program_arrives_whole() {
    let mut runner = Runner::new();
    let code = format!("s = '{}'\nprint(len(s))", "y".repeat(3_000_000));
    assert_eq!(runner.python(&code).ok(), "3000000\n");
}

#[test]
fn what_libraries_need_is_allowed() {
    let mut runner = Runner::new();
    let programs = [
        ("import threading\nt = threading.Thread(target=lambda: print('t'))\nt.start(); t.join()", "t\n"),
        (
            "import subprocess\nprint(subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout, end='')",
            "hi\n",
        ),
        ("import asyncio\nasync def f(): return 5\nprint(asyncio.run(f()))", "5\n"),
        (
            "import sqlite3\nc = sqlite3.connect('a.db')\nc.execute('create table t(x)')\nc.execute('insert into t values (3)')\nc.commit()\nprint(c.execute('select x from t').fetchone()[0])",
            "3\n",
        ),
        (
            "import multiprocessing as m\ndef f(x): return x * 2\nwith m.Pool(2) as p: print(p.map(f, [1, 2]))",
            "[2, 4]\n",
        ),
        ("import tempfile, os\nwith tempfile.NamedTemporaryFile() as f: print(os.path.dirname(f.name))", "/tmp\n"),
        (
            "import os\npid = os.fork()\nif pid == 0: os._exit(4)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
            "4\n",
        ),
        (
            "import socket\ns = socket.create_server(('127.0.0.1', 0))\nc = socket.create_connection(s.getsockname())\nprint('up')",
            "up\n",
        ),
        (
            "import os\nprint(os.getcwd(), os.path.realpath('/work'), os.getuid(), os.uname().nodename)",
            "/workspace /workspace 1000 sandbox\n",
        ),
        ("import uuid, ssl, hashlib, ctypes, decimal\nprint('ok')", "ok\n"),
        (
            "from multiprocessing import shared_memory as s\nm = s.SharedMemory(create=True, size=64)\nm.buf[0] = 7\nprint(m.buf[0]); m.close(); m.unlink()",
            "7\n",
        ),
    ];
    for (code, expected) in programs {
        assert_eq!(runner.python(code).ok(), expected, "{code}");
    }
}

#[test]
fn several_runs_go_on_at_once() {
    let mut runner = Runner::new();
    let slow = runner.begin(&program(
        "import sys\nprint('a', flush=True)\nsys.stdin.read()\nimport time\ntime.sleep(0.3)\nprint('b')",
    ));
    runner.wait_output(slow, "a");
    assert_eq!(runner.python("print('quick')").ok(), "quick\n");
    assert_eq!(runner.wait(slow).ok(), "a\nb\n");
}

#[test]
fn what_is_no_run_is_refused_before_anything_starts() {
    let mut runner = Runner::new();
    let mut zero = program("print(1)");
    zero.limits.pids = 0;
    for run in [Run { language: "cobol".into(), ..program("") }, zero] {
        let outcome = runner.run(&run);
        assert!(matches!(outcome.end(), End::NotStarted { .. }), "{outcome:?}");
        assert!(!outcome.started);
    }
    runner.send(&thermae_runner::frames::Frame::raw(Kind::Run, 99, *b"{not json"));
    runner.ping();
    assert_eq!(runner.python("print(1)").ok(), "1\n");
}

#[test]
fn followed_output_comes_line_by_line() {
    let mut runner = Runner::new();
    let code = "import sys\nprint('one')\nprint('two', file=sys.stderr)\nimport time\ntime.sleep(600)";
    let run = runner.begin(&Run { follow: true, ..program(code) });
    runner.wait_output(run, "one\n");
    runner.send(&Frame::raw(Kind::Kill, run, Vec::new()));
    assert_eq!(runner.wait(run).out(), "one\n");
}

#[test]
fn asyncio_starts_alike_with_and_without_an_await_at_the_top_level() {
    let mut runner = Runner::new();
    let begin = "import asyncio, threading\nasync def f(n=5):\n    await asyncio.sleep(0)\n    return n\n";
    for (code, printed) in [
        ("print(asyncio.run(f()), asyncio.run(f(6)))", "5 6\n"),
        ("def g(): return asyncio.run(f())\nprint(g())", "5\n"),
        ("with asyncio.Runner() as runner: print(runner.run(f()), runner.run(f(6)))", "5 6\n"),
        ("loop = asyncio.new_event_loop()\nprint(loop.run_until_complete(f()))\nloop.close()", "5\n"),
        ("task = asyncio.create_task(f(), name='mine')\nprint(task.done(), task.get_name())", "False mine\n"),
        ("async def no(): 1 / 0\ntry: asyncio.run(no())\nexcept ZeroDivisionError: print('no')", "no\n"),
        ("async def two(): asyncio.run(f())\ntry: asyncio.run(two())\nexcept RuntimeError: print('one')", "one\n"),
        ("t = threading.Thread(target=lambda: print(asyncio.run(f())))\nt.start()\nt.join()", "5\n"),
        (
            "def g():\n    c = f()\n    try: asyncio.create_task(c)\n    except RuntimeError: print('no loop')\n    c.close()\n\
             t = threading.Thread(target=g)\nt.start()\nt.join()",
            "no loop\n",
        ),
    ] {
        let alone = runner.python(&format!("{begin}{code}"));
        assert_eq!(alone.ok(), printed, "{code}");
        let awaits = "before = asyncio.get_running_loop()\nprint(await f(1))";
        let after = "print(await f(2), before is asyncio.get_running_loop(), asyncio.current_task() is not None)";
        let beside = runner.python(&format!("{begin}{awaits}\n{code}\n{after}"));
        assert_eq!(beside.ok(), format!("1\n{printed}2 True True\n"), "{code}");
    }
    // A session keeps the loop: what one program makes, the next one can await.
    runner.run(&session("loop", &format!("{begin}task = asyncio.create_task(f())"))).ok();
    assert_eq!(runner.run(&session("loop", "print(asyncio.run(f(6)), await task)")).ok(), "6 5\n");
    let outcome = runner.python(&format!("{begin}task = asyncio.create_task(f())"));
    let note = "You made a task of f that had not ended when the program did, and was cancelled: await it.";
    assert_eq!((outcome.ok().as_str(), outcome.exit.unwrap().notes), ("", vec![note.to_owned()]));
}
