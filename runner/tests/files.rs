//! Files in and out, by friendly and by hostile programs.

mod common;

use common::{Runner, limits, program, session, setup, spec};
use thermae_runner::frames::{ArtifactLimits, End, Frame, Kind, Limits, Run, Setup, Why};

fn bounded(artifacts: ArtifactLimits) -> Runner {
    let spec = spec();
    let setup = Setup { artifacts, ..setup(&spec) };
    Runner::start(&spec, setup)
}

/// A program that starts in its artifacts directory.
fn within(code: &str) -> String {
    format!("import os\nos.chdir('/workspace/artifacts')\n{code}")
}

fn paths(left: &[(String, Vec<u8>)]) -> Vec<&str> {
    left.iter().map(|(path, _)| path.as_str()).collect()
}

#[test]
fn what_a_program_leaves_comes_with_its_exit_in_the_order_of_names() {
    let mut runner = Runner::new();
    let code = "open('b.txt', 'w').write('two')\nos.makedirs('a/deep')\nopen('a/deep/b.txt', 'wb').write(bytes(range(256)))\nopen('empty', 'w')\nos.chmod('b.txt', 0)\nprint('done')";
    let outcome = runner.python(&within(code));
    assert_eq!(outcome.ok(), "done\n");
    let left = outcome.left();
    let root = "/workspace/artifacts";
    assert_eq!(paths(&left), [format!("{root}/a/deep/b.txt"), format!("{root}/b.txt"), format!("{root}/empty")]);
    assert_eq!((left[0].1.len(), left[1].1.as_slice(), left[2].1.len()), (256, b"two".as_slice(), 0));
    assert_eq!(outcome.left_out(), []);
    // The next run finds nothing of it, and leaves nothing.
    let next = runner.python("import os\nprint(os.listdir('/work/artifacts'), os.listdir('/session'))");
    assert_eq!((next.ok().as_str(), next.artifacts.len()), ("[] ['artifacts']\n", 0));
}

#[test]
fn a_fresh_run_leaves_files_in_both_directories() {
    let mut runner = bounded(ArtifactLimits { files: 3, bytes: 1000, entries: 50, depth: 4 });
    let outcome = runner.python(
        "import os\nos.makedirs('/session/artifacts/a')\nopen('/session/artifacts/a/b', 'w').write('s')\n\
         open('/workspace/artifacts/a', 'w').write('w')",
    );
    outcome.ok();
    let file = |path: &str, text: &str| (path.to_string(), text.as_bytes().to_vec());
    assert_eq!(outcome.left(), [file("/workspace/artifacts/a", "w"), file("/session/artifacts/a/b", "s")]);
    // Both share the limits, and what can't be collected is named.
    let outcome = runner.python(
        "import os\nos.symlink('/etc/passwd', '/session/artifacts/link')\n\
         for n in range(2): open(f'/session/artifacts/{n}', 'w')\n\
         for n in range(2): open(f'/workspace/artifacts/{n}', 'w')",
    );
    outcome.ok();
    let root = "/workspace/artifacts";
    assert_eq!(
        paths(&outcome.left()),
        [&format!("{root}/0"), &format!("{root}/1"), "/session/artifacts/0"].map(|path| path as &str)
    );
    let told = |path: &str, why| (path.to_string(), why);
    assert_eq!(
        outcome.left_out(),
        [told("/session/artifacts/1", Why::TooMany), told("/session/artifacts/link", Why::Link)]
    );
    let swapped = runner.python("import os\nos.rmdir('/session/artifacts')\nos.symlink('/etc', '/session/artifacts')");
    assert_eq!((swapped.artifacts.len(), swapped.left_out()), (0, vec![told("/session/artifacts", Why::Link)]));
    let next = runner.python("import os\nprint(os.listdir('/session/artifacts'))");
    assert_eq!((next.ok().as_str(), next.artifacts.len(), next.left_out().len()), ("[]\n", 0, 0));
}

#[test]
fn files_are_collected_however_the_code_ended() {
    let mut runner = Runner::new();
    // However busy the machine is, the file is there when the code has used as much as that.
    let little = Limits { cpu_ms: 1000, ..limits() };
    let leave = "open('f', 'w').write('x')\n";
    for end in ["1 / 0", "os._exit(3)", "os.kill(os.getpid(), 9)", "while True: pass"] {
        let code = within(&format!("{leave}{end}"));
        let outcome = runner.run(&Run { limits: little, ..program(&code) });
        assert_eq!(paths(&outcome.left()), ["/workspace/artifacts/f"], "{end}: {:?}", outcome.end());
    }
    // The files of a cancelled run are not collected.
    let number =
        runner.begin(&program(&within("open('f', 'w')\nimport time\nprint('in', flush=True)\ntime.sleep(60)")));
    runner.wait_output(number, "in");
    runner.send(&Frame::raw(Kind::Kill, number, Vec::new()));
    let outcome = runner.wait(number);
    assert_eq!((outcome.end(), outcome.artifacts.len()), (&End::Killed, 0));
}

#[test]
fn a_fresh_sandbox_is_dead_before_its_files_are_read() {
    let mut runner = Runner::new();
    // A child outlives the program and writes forever. Nevertheless, every file that comes is whole.
    let code = "open('f', 'w').write('start')\nif os.fork() == 0:\n    while True:\n        for n in range(1, 40): open('f', 'w').write('x' * 10000 * n)\nimport time\ntime.sleep(0.1)";
    for _ in 0..5 {
        let outcome = runner.python(&within(code));
        assert_eq!(paths(&outcome.left()), ["/workspace/artifacts/f"]);
    }
}

#[test]
fn large_files_come_whole_and_others_are_served_meanwhile() {
    let mut runner = Runner::new();
    let code = "import random\nrandom.seed(7)\nfor n in range(5): open(str(n), 'wb').write(random.randbytes(5 << 20))";
    let outcome = runner.python(&within(code));
    let left = outcome.left();
    assert_eq!(left.iter().map(|(_, bytes)| bytes.len()).sum::<usize>(), 25 << 20);
    runner.ping();
    assert_eq!(runner.python("print(1)").ok(), "1\n");
}

#[test]
fn nothing_outside_is_ever_read() {
    let mut runner = Runner::new();
    let code = "
os.symlink('/etc/passwd', 'passwd')
os.symlink('/etc', 'etc')
os.symlink('/proc/self/environ', 'environ')
os.mkfifo('fifo')
import socket
socket.socket(socket.AF_UNIX).bind('socket')
open('real', 'w').write('mine')
os.link('real', 'twin')
try:
    os.link('/etc/passwd', 'hard')
except OSError as e:
    print(e.errno)
try:
    os.mknod('device', 0o20666, os.makedev(1, 3))
except OSError as e:
    print(e.errno)
";
    let outcome = runner.python(&within(code));
    assert_eq!(outcome.ok(), "18\n1\n");
    assert_eq!(paths(&outcome.left()), ["/workspace/artifacts/real", "/workspace/artifacts/twin"]);
    let told: Vec<(String, Why)> =
        outcome.left_out().into_iter().map(|(p, why)| (p.replace("/workspace/artifacts/", ""), why)).collect();
    let link = |name: &str| (name.to_string(), Why::Link);
    let special = |name: &str| (name.to_string(), Why::Special);
    assert_eq!(told, [link("environ"), link("etc"), special("fifo"), link("passwd"), special("socket")]);
    // The artifacts directory is moved away and replaced by a link, by a file, or by nothing.
    for (swap, told) in [
        ("os.symlink('/etc', 'artifacts')", vec![Why::Link]),
        ("open('artifacts', 'w').write('x')", vec![Why::Link]),
        ("pass", vec![]),
    ] {
        let outcome =
            runner.python(&format!("import os\nos.rename('artifacts', 'other')\nopen('other/f', 'w')\n{swap}"));
        outcome.ok();
        assert_eq!(outcome.artifacts.len(), 0, "{swap}");
        assert_eq!(outcome.left_out().into_iter().map(|(_, why)| why).collect::<Vec<_>>(), told, "{swap}");
    }
}

#[test]
fn what_exceeds_a_limit_is_told_and_the_rest_comes() {
    let mut runner = bounded(ArtifactLimits { files: 3, bytes: 1000, entries: 50, depth: 4 });
    let left = |code: &str, runner: &mut Runner| {
        let outcome = runner.python(&within(code));
        outcome.ok();
        (outcome.left().len(), outcome.left_out(), outcome.exit.unwrap().left_out.more)
    };
    let (sent, out, _) = left("for n in range(5): open(str(n), 'w').write('x')", &mut runner);
    assert_eq!((sent, out.len(), out[0].1), (3, 2, Why::TooMany));
    let (sent, out, _) =
        left("open('a', 'w').write('x' * 600)\nopen('b', 'w').write('x' * 600)\nopen('c', 'w')", &mut runner);
    assert_eq!((sent, out), (2, vec![("/workspace/artifacts/b".to_string(), Why::TooLarge)]));
    let (sent, out, _) = left("with open('sparse', 'wb') as f: f.truncate(31 << 20)", &mut runner);
    assert_eq!((sent, out[0].1), (0, Why::TooLarge));
    let (sent, out, _) = left("os.makedirs('/'.join('abcdefgh'))\nopen('z', 'w')", &mut runner);
    assert_eq!((sent, out), (1, vec![("/workspace/artifacts/a/b/c/d".to_string(), Why::TooDeep)]));
    let (sent, out, more) = left("for n in range(100): open(str(n), 'w')", &mut runner);
    assert_eq!(sent, 3);
    assert_eq!(out[0], ("/workspace/artifacts".to_string(), Why::TooManyEntries));
    assert_eq!(out.len() as u64 + more, 48);
}

#[test]
fn a_tree_of_bombs_is_bounded_in_work_and_in_words() {
    let mut runner = Runner::new();
    let code = "
at = os.open('.', os.O_RDONLY)
for n in range(300):
    os.mkdir('d', dir_fd=at)
    at, old = os.open('d', os.O_RDONLY, dir_fd=at), at
    os.close(old)
n = 0
try:
    for n in range(100_000): os.close(os.open('x%d' % n, os.O_CREAT | os.O_WRONLY))
except OSError as e: print(e.errno)
";
    let outcome = runner.python(&within(code));
    assert_eq!(outcome.end(), &End::Exited { code: 0 });
    let told = &outcome.exit.as_ref().unwrap().left_out;
    assert!(told.list.len() <= 64 && told.more > 0, "{} {}", told.list.len(), told.more);
    assert!(told.list.iter().any(|o| o.why == Why::TooDeep));
    assert!(outcome.artifacts.len() <= 256);
    assert_eq!(runner.python("print(1)").ok(), "1\n");
}

#[test]
fn odd_names_arrive_byte_for_byte() {
    let mut runner = Runner::new();
    let outcome = runner.python(&within(
        "for name in [b'new\\nline', b'\\xff\\xfe', b'a\\\\b', 'é'.encode(), b'x' * 255]: open(name, 'w')",
    ));
    outcome.ok();
    let mut names: Vec<&[u8]> =
        outcome.artifacts.iter().map(|a| a.head.path.strip_prefix(b"/workspace/artifacts/").unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, [b"a\\b".as_slice(), b"new\nline", &[b'x'; 255], "é".as_bytes(), b"\xff\xfe"]);
}

#[test]
fn files_are_there_before_the_code_starts() {
    let mut runner = Runner::new();
    let large = vec![7; 3 << 20];
    let files: [(&str, &[u8]); 4] = [
        ("data/in.csv", b"a,b"),
        ("run.sh", b"#!/bin/sh\necho ran"),
        ("large", &large),
        ("artifacts/base.txt", b"base"),
    ];
    let code = "
import os, subprocess
print(open('data/in.csv').read(), len(open('large', 'rb').read()), flush=True)
subprocess.run(['./run.sh'])
print(oct(os.stat('run.sh').st_mode), oct(os.stat('large').st_mode), open('/work/data/in.csv').read())
open('data/in.csv', 'a').write('mine')
open('artifacts/new', 'w')
";
    let outcome = runner.run_with(&files, &program(code));
    assert_eq!(outcome.ok(), "a,b 3145728\nran\n0o100755 0o100644 a,b\n");
    // An input that has not changed is no artifact.
    assert_eq!(paths(&outcome.left()), ["/workspace/artifacts/new"]);
    let changed = runner.run_with(&files, &program("open('artifacts/base.txt', 'w').write('edit')"));
    assert_eq!(changed.left(), [("/workspace/artifacts/base.txt".to_string(), b"edit".to_vec())]);
    assert_eq!(runner.python("import os\nprint(sorted(os.listdir()))").ok(), "['artifacts', 'main.py']\n");
}

#[test]
fn a_file_that_does_not_fit_ends_the_run_and_nothing_else() {
    let mut runner = Runner::new();
    let outcome = runner.run_with(&[("../out", b"x")], &program("print(1)"));
    assert!(matches!(outcome.end(), End::BadFile { path, .. } if path == "../out"), "{outcome:?}");
    assert!(!outcome.started);
    let huge = vec![0; 33 << 20];
    let outcome = runner.run_with(&[("huge", &huge)], &program("print(1)"));
    assert!(matches!(outcome.end(), End::NotStarted { reason } if reason.contains("storage")), "{:?}", outcome.end());
    assert_eq!(runner.python("import os\nprint(sorted(os.listdir()))").ok(), "['artifacts', 'main.py']\n");
    // A session goes on, with its variables.
    runner.run(&session("s", "import os\nx = 5\nos.symlink('/etc', 'link')")).ok();
    let outcome = runner.run_with(&[("link/passwd", b"root")], &session("s", "print('never')"));
    assert!(matches!(outcome.end(), End::BadFile { .. }), "{outcome:?}");
    assert!(outcome.exit.as_ref().unwrap().session_lives && !outcome.started);
    assert_eq!(runner.run(&session("s", "print(x)")).ok(), "5\n");
}

#[test]
fn a_session_tells_only_what_is_new_or_changed() {
    let mut runner = Runner::new();
    let mut left = |code: &str| {
        let outcome = runner.run(&session("s", code));
        outcome.ok();
        outcome.left()
    };
    let file = |path: &str, text: &str| (path.to_string(), text.as_bytes().to_vec());
    assert_eq!(left("open('artifacts/a', 'w').write('1')"), [file("/workspace/artifacts/a", "1")]);
    assert_eq!(left("pass"), []);
    // As fast as possible and of the same size, so that no clock shows the change.
    for n in ["2", "3", "4", "5", "6"] {
        let code = format!("open('artifacts/a', 'r+').write('{n}')");
        assert_eq!(left(&code), [file("/workspace/artifacts/a", n)]);
    }
    assert_eq!(left("import os\nos.utime('artifacts/a')"), [], "touched, and the same");
    let code = "import time\ntime.sleep(0.05)\nopen('/session/artifacts/b', 'w').write('b')";
    assert_eq!(left(code), [file("/session/artifacts/b", "b")]);
    let disguise = "s = os.stat('/session/artifacts/b')\nopen('/session/artifacts/b', 'r+').write('c')\nos.utime('/session/artifacts/b', ns=(s.st_atime_ns, s.st_mtime_ns))";
    assert_eq!(left(disguise), [file("/session/artifacts/b", "c")]);
    assert_eq!(left("os.rename('/session/artifacts/b', '/session/artifacts/c')"), [file("/session/artifacts/c", "c")]);
    let inputs = runner.run_with(&[("artifacts/a", b"6"), ("artifacts/in", b"in")], &session("s", "pass"));
    assert_eq!(inputs.left(), []);
}

#[test]
fn a_session_that_swaps_its_files_while_they_are_read_gets_nothing_out() {
    let mut runner = Runner::new();
    let code = "
import os, threading
os.chdir('/workspace')
os.makedirs('artifacts/d')
open('plain', 'w').write('mine')
open('artifacts/d/f', 'w').write('mine')
stop = False
def swap():
    while not stop:
        for target in ['/etc/passwd', '/workspace/plain']:
            os.symlink(target, 'artifacts/tmp')
            os.rename('artifacts/tmp', 'artifacts/file')
        os.link('plain', 'artifacts/tmp')
        os.rename('artifacts/tmp', 'artifacts/file')
        os.rename('artifacts/d', 'artifacts/e')
        os.symlink('/etc', 'artifacts/d')
        os.unlink('artifacts/d')
        os.rename('artifacts/e', 'artifacts/d')
        with open('artifacts/grow', 'wb') as f:
            for _ in range(64): f.write(b'g' * 4096)
thread = threading.Thread(target=swap, daemon=True)
thread.start()
";
    runner.run(&session("s", code)).ok();
    let mut seen = 0;
    for _ in 0..200 {
        let outcome = runner.run(&session("s", "pass"));
        outcome.ok();
        for artifact in &outcome.artifacts {
            seen += 1;
            let path = String::from_utf8_lossy(&artifact.head.path).into_owned();
            let expected: &[u8] = if path.ends_with("grow") { b"g" } else { b"mine" };
            assert!(artifact.bytes.len() as u64 <= artifact.head.size, "{path}");
            assert!(
                artifact.bytes.is_empty() || artifact.bytes.starts_with(expected),
                "{path}: {:?}",
                String::from_utf8_lossy(&artifact.bytes)
            );
        }
    }
    assert!(seen > 0, "the walk met the swapping");
    assert_eq!(runner.run(&session("s", "stop = True\nthread.join()\nprint('still here')")).ok(), "still here\n");
}

#[test]
fn a_session_that_dies_under_the_walk_is_told_once() {
    let mut runner = Runner::new();
    let code = "import os, threading\nopen('artifacts/f', 'wb').write(b'x' * (8 << 20))\nthreading.Timer(0.001, lambda: os._exit(1)).start()";
    let outcome = runner.run(&session("s", code));
    assert_eq!(outcome.artifacts.len(), 1);
    assert_eq!(runner.wait_closed(), "s");
    assert_eq!(runner.python("print(1)").ok(), "1\n");
}
