//! Checkpoints of sessions: what is in them, what a new session makes of them, and what hostile sessions try.

mod common;

use std::time::Instant;

use common::{Outcome, Runner, session, setup, spec};
use thermae_runner::frames::{End, Part, PartKind, Setup, Why};

const PARTS: u32 = 100_000;
const BYTES: u64 = 16 << 20;

fn file(path: &str, mode: u32) -> Part {
    Part { path: path.into(), kind: PartKind::File { mode } }
}

fn directory(path: &str, mode: u32) -> Part {
    Part { path: path.into(), kind: PartKind::Directory { mode } }
}

fn link(path: &str, target: &str) -> Part {
    Part { path: path.into(), kind: PartKind::Link { target: target.into() } }
}

fn failure(outcome: &Outcome) -> (&str, &str) {
    match outcome.end() {
        End::Failed(failure) => (&failure.errno, &failure.message),
        other => panic!("{other:?}"),
    }
}

/// What a program prints about what is below a path, without the files of programs.
const LOOK: &str = "
import os, stat
def look(root):
    for base, dirs, files in os.walk(os.fsencode(root)):
        dirs.sort()
        for name in sorted(name for name in dirs + files if not name.startswith(b'main')):
            path = os.path.join(base, name)
            status = os.lstat(path)
            mode = oct(stat.S_IMODE(status.st_mode))
            if stat.S_ISLNK(status.st_mode):
                print(path, '->', os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                print(path, mode)
            else:
                print(path, mode, open(path, 'rb').read(20))
";

#[test]
fn a_new_session_finds_the_files_modes_links_and_directories_of_the_old_one() {
    let mut runner = Runner::new();
    let code = "
import os
os.makedirs('/workspace/deep/empty')
os.chmod('/workspace/deep/empty', 0o750)
open('/workspace/run.sh', 'w').write('#!/bin/sh\\n')
os.chmod('/workspace/run.sh', 0o4755)
os.symlink('deep/no-such-file', '/workspace/broken')
os.symlink('/etc', '/session/etc')
open(b'/session/\\xff\\n', 'w').write('odd')
os.chmod(b'/session/\\xff\\n', 0o600)
os.makedirs('/session/locked')
open('/session/locked/in', 'w').write('x' * 300000)
os.chmod('/session/locked', 0o500)
open('/session/artifacts/a', 'w').write('artifact')
os.mkfifo('/session/fifo')
y = 1
";
    runner.run(&session("s", code)).ok();
    let taken = runner.checkpoint("s", PARTS, BYTES);
    assert!(matches!(taken.end(), End::Exited { code: 0 }) && taken.exit.as_ref().unwrap().session_lives);
    assert_eq!(taken.left_out(), [("/session/fifo".to_owned(), Why::Special)]);
    let find = |path: &[u8]| taken.parts.iter().find(|(part, _)| part.path.0 == path).unwrap();
    assert_eq!(find(b"/workspace/run.sh").0, file("/workspace/run.sh", 0o755), "no set-user-id bit");
    assert_eq!(find(b"/workspace/deep/empty").0, directory("/workspace/deep/empty", 0o750));
    assert_eq!(find(b"/session/etc").0, link("/session/etc", "/etc"));
    assert_eq!(find(b"/session/\xff\n").1, b"odd");
    assert_eq!(find(b"/session/locked/in").1.len(), 300_000);
    assert!(!taken.parts.iter().any(|(part, _)| part.path.0.starts_with(b"/etc")));
    let look = format!("{LOOK}\nlook('/workspace')\nlook('/session')\n");
    let before = runner.run(&session(
        "s",
        &format!("os.unlink('/session/fifo')\nos.chmod('/workspace/run.sh', 0o755)\nprint(y)\n{look}"),
    ));
    let before = before.ok();
    assert!(before.starts_with("1\n"), "it goes on");

    let number = runner.begin_from(&taken.parts, &[("/session/artifacts/b", b"own")], &session("t", &look));
    let after = runner.wait(number);
    let found = after.ok();
    assert_eq!(
        found.lines().filter(|line| !line.contains("artifacts/b")).collect::<Vec<_>>().join("\n"),
        before[2..].trim_end()
    );
    assert_eq!(after.left(), [], "what was put there is not new");
    assert_eq!(runner.checkpoint("nobody", PARTS, BYTES).end(), &End::NoSession);
}

#[test]
fn files_of_programs_are_no_parts_unless_they_were_changed() {
    let mut runner = Runner::new();
    let code = "open('main.txt', 'w').write('mine')";
    runner.run(&session("s", code)).ok();
    runner.run(&session("s", "open(__file__, 'a').write('# mine')")).ok();
    runner.run(&session("s", "import os\nos.rename(__file__, 'kept.py')")).ok();
    let taken = runner.checkpoint("s", PARTS, BYTES);
    let paths: Vec<String> = taken.parts.iter().map(|(part, _)| part.path.to_string()).collect();
    let own = ["artifacts", "kept.py", "main.txt", "main_2.py"].map(|name| format!("/workspace/{name}"));
    assert_eq!(paths[..4], own, "{paths:?}");
    // The programs of a session that begins with it have the next names.
    let number = runner.begin_from(&taken.parts, &[], &session("t", "print(__file__)"));
    assert_eq!(runner.wait(number).ok(), "/workspace/main.py\n");
    assert_eq!(runner.run(&session("t", "print(__file__)")).ok(), "/workspace/main_3.py\n");
}

#[test]
fn no_part_leads_out_of_the_sandboxs_storage() {
    let mut runner = Runner::new();
    let victim = tempfile::tempdir().unwrap();
    let outside = victim.path().to_str().unwrap();
    let hostile: [&[Part]; 10] = [
        &[link("/workspace/a", outside), file("/workspace/a/x", 0o644)],
        &[link("/workspace/a", ".."), directory("/workspace/a/x", 0o755)],
        &[link("/session/a", outside), link("/session/a/x", "/etc/passwd")],
        &[file("/workspace/../x", 0o644)],
        &[file("/session/a/../../x", 0o644)],
        &[directory("/session/..", 0o777)],
        &[file("/etc/x", 0o644)],
        &[file("/workspace", 0o644)],
        &[file("/workspace//x", 0o644)],
        &[link("/session/x\0y", "z")],
    ];
    for (n, parts) in hostile.iter().enumerate() {
        let parts: Vec<_> = parts.iter().map(|part| (part.clone(), Vec::new())).collect();
        let number = runner.begin_from(&parts, &[], &session(&format!("h{n}"), "print('ran')"));
        let outcome = runner.wait(number);
        assert!(matches!(outcome.end(), End::BadFile { .. }), "{parts:?}: {:?}", outcome.end());
        assert_eq!(outcome.out(), "");
    }
    assert_eq!(std::fs::read_dir(victim.path()).unwrap().count(), 0);
    // A link whose name a file takes is replaced, not followed.
    let parts = [(link("/workspace/a", "/workspace/b"), Vec::new()), (file("/workspace/a", 0o6777), b"mine".to_vec())];
    let look = format!("{LOOK}\nlook('/workspace')\n");
    let number = runner.begin_from(&parts, &[], &session("ok", &look));
    assert_eq!(runner.wait(number).ok(), "b'/workspace/a' 0o777 b'mine'\nb'/workspace/artifacts' 0o755\n");
}

#[test]
fn a_session_that_swaps_its_names_leads_the_walk_nowhere() {
    let mut runner = Runner::new();
    let code = "
import os, threading
os.makedirs('/session/d')
open('/session/d/f', 'w').write('mine')
for n in range(200):
    open(f'/session/{n:03}', 'w').write('mine')
stop = False
def swap():
    while not stop:
        for at in ['/session/d', '/session/100']:
            try:
                os.rename(at, at + '.old')
                os.symlink('/etc/passwd' if at.endswith('0') else '/etc', at)
                os.unlink(at)
                os.rename(at + '.old', at)
            except OSError:
                pass
        with open('/session/change', 'w') as f:
            f.write('mine' * 1000)
        os.unlink('/session/change')
thread = threading.Thread(target=swap)
thread.start()
";
    runner.run(&session("s", code)).ok();
    for _ in 0..30 {
        let taken = runner.checkpoint("s", PARTS, BYTES);
        assert!(matches!(taken.end(), End::Exited { code: 0 }), "{:?}", taken.end());
        for (part, bytes) in &taken.parts {
            assert!(bytes.chunks(4).all(|piece| b"mine".starts_with(piece)), "{part:?}");
        }
    }
    assert_eq!(runner.run(&session("s", "stop = True\nthread.join()\nprint('still here')")).ok(), "still here\n");
}

#[test]
fn more_than_the_bounds_is_no_checkpoint_and_the_session_goes_on() {
    let mut runner = Runner::new();
    let code = "
for n in range(20):
    open(f'/session/{n}', 'w').write('x' * 1000)
import os
with open('/workspace/sparse', 'w') as f:
    os.ftruncate(f.fileno(), 20 << 20)
";
    runner.run(&session("s", code)).ok();
    let (errno, message) = (runner.checkpoint("s", PARTS, BYTES), "more bytes");
    assert_eq!((failure(&errno).0, failure(&errno).1.contains(message)), ("EDQUOT", true));
    runner.run(&session("s", "os.unlink('/workspace/sparse')")).ok();
    assert_eq!(failure(&runner.checkpoint("s", 10, BYTES)).0, "EDQUOT");
    assert_eq!(failure(&runner.checkpoint("s", PARTS, 19_999)).0, "EDQUOT");
    let all = runner.checkpoint("s", 22, 20_000);
    assert_eq!(all.parts.len(), 22, "with two directories of artifacts: {:?}", all.end());
    runner.run(&session("s", "os.makedirs('/session/' + 'd/' * 70)")).ok();
    assert_eq!(failure(&runner.checkpoint("s", PARTS, BYTES)).0, "ELOOP");
    assert_eq!(runner.run(&session("s", "print('still here')")).ok(), "still here\n");
}

#[test]
fn a_cancelled_checkpoint_is_not_taken_for_a_complete_one() {
    let mut runner = Runner::new();
    runner.run(&session("s", "open('/session/f', 'wb').write(bytes(12 << 20))")).ok();
    let number = runner.begin_checkpoint("s", PARTS, BYTES);
    runner.send(&thermae_runner::frames::Frame::raw(thermae_runner::frames::Kind::Kill, number, Vec::new()));
    let outcome = runner.wait(number);
    // The kill may come too late: then everything has been sent.
    match outcome.end() {
        End::Failed(failure) => assert_eq!(failure.errno, "ECANCELED"),
        End::Exited { code: 0 } => assert_eq!(outcome.parts.iter().map(|(_, b)| b.len()).sum::<usize>(), 12 << 20),
        other => panic!("{other:?}"),
    }
    assert_eq!(runner.run(&session("s", "print('still here')")).ok(), "still here\n");
}

#[test]
fn many_small_files_are_taken_and_put_back() {
    let spec = spec();
    let setup = Setup { disk_bytes: 1 << 30, ..setup(&spec) };
    let mut runner = Runner::start(&spec, setup);
    let code = "
import os
for d in range(100):
    os.makedirs(f'/session/{d}')
    for n in range(999):
        with open(f'/session/{d}/{n}', 'w') as f:
            if n % 10 == 0: f.write('x')
";
    runner.run(&session("s", code)).ok();
    let begun = Instant::now();
    let taken = runner.checkpoint("s", PARTS + 2, BYTES);
    assert_eq!(taken.parts.len(), 100_000 + 2, "{:?}", taken.end());
    let took = begun.elapsed();
    let begun = Instant::now();
    let look = "import os\nprint(sum(len(files) for _, _, files in os.walk('/session')))";
    let number = runner.begin_from(&taken.parts, &[], &session("t", look));
    assert_eq!(runner.wait(number).ok(), "99900\n");
    println!("100,000 files and directories: taken in {took:?}, put back in {:?}", begun.elapsed());
}
