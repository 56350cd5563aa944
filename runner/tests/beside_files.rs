//! Operations on the files of a session, beside its program.

mod common;

use common::beside::{argv, file, shell};
use common::{Runner, session};
use thermae_runner::frames::{
    Beside, ByteString, Digested, End, FileKind, FileOp, FileStat, Found, Listing, Matches, Resolved, Transferred,
    Work, WriteMode,
};

/// A runner with a session in which this has run.
fn with(line: &str) -> Runner {
    let mut runner = Runner::new();
    runner.run(&session("s", "x = 1")).ok();
    runner.beside(&shell("s", line)).ok();
    runner
}

fn stat(path: &str) -> FileOp {
    FileOp::Stat { path: path.into(), link: false }
}

fn read(path: &str) -> FileOp {
    FileOp::Read { path: path.into(), offset: 0, length: None }
}

fn write(path: &str, mode: WriteMode) -> Beside {
    file("s", FileOp::Write { path: path.into(), mode, permissions: None })
}

fn list(path: &str, depth: u32, most: u32) -> FileOp {
    FileOp::List { path: path.into(), depth, most }
}

fn grep(path: &str, pattern: &str) -> FileOp {
    FileOp::Grep { path: path.into(), pattern: pattern.into(), glob: None, ignore_case: false, most: 100 }
}

fn texts(paths: &[ByteString]) -> Vec<String> {
    paths.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_at_a_path() {
    let mut runner =
        with("printf abc > f; chmod 640 f; touch -d @7.5 f; mkdir d; ln -s f l; ln -s none broken; mkfifo p");
    let stat_of = |runner: &mut Runner, path: &str, link| {
        runner.file("s", FileOp::Stat { path: path.into(), link }).result::<FileStat>()
    };
    let f = FileStat { kind: FileKind::File, size: 3, permissions: 0o640, modified_ns: 7_500_000_000, target: None };
    assert_eq!(stat_of(&mut runner, "f", false), f);
    assert_eq!(stat_of(&mut runner, "/workspace/l", false), f);
    let link = stat_of(&mut runner, "l", true);
    assert_eq!((link.kind, link.target), (FileKind::Link, Some("f".into())));
    assert_eq!(stat_of(&mut runner, "d", false).kind, FileKind::Directory);
    assert_eq!(stat_of(&mut runner, "p", false).kind, FileKind::Fifo);
    assert_eq!(stat_of(&mut runner, "/dev/null", false).kind, FileKind::Device);
    let outcome = runner.file("s", stat("broken"));
    assert_eq!((outcome.errno(), &*outcome.failure().message), ("ENOENT", "No such file or directory"));
    assert_eq!(outcome.failure().path, "broken".into());
    assert_eq!(runner.file("s", stat("f/x")).errno(), "ENOTDIR");
    assert_eq!(runner.file("s", stat("")).errno(), "ENOENT");
    assert_eq!(runner.file("s", stat("a\0b")).errno(), "EINVAL");
    assert_eq!(runner.file("s", stat(&"x".repeat(300))).errno(), "ENAMETOOLONG");
}

#[test]
fn parts_of_a_file_are_read() {
    let mut runner = with("printf '0123456789' > f; mkdir d; touch none; chmod 000 none");
    assert_eq!(runner.file("s", read("f")).ok(), "0123456789");
    let part = |offset, length| FileOp::Read { path: "/workspace/f".into(), offset, length: Some(length) };
    let outcome = runner.file("s", part(3, 4));
    assert_eq!((&*outcome.out(), outcome.result::<Transferred>()), ("3456", Transferred { bytes: 4, size: 10 }));
    assert_eq!(runner.file("s", part(8, 100)).out(), "89");
    assert_eq!(runner.file("s", part(100, 1)).ok(), "");
    assert_eq!(runner.file("s", part(u64::MAX, 1)).errno(), "EINVAL");
    assert_eq!(runner.file("s", read("d")).errno(), "EISDIR");
    assert_eq!(runner.file("s", read("none")).errno(), "EACCES");
    assert_eq!(runner.file("s", read("/proc/version")).out().split(' ').next(), Some("Linux"));
}

#[test]
fn a_write_is_whole_or_not_at_all() {
    let mut runner = with("echo old > f; chmod 751 f; ln -s f l; mkdir d");
    let outcome = runner.beside_with(b"new\xff\0", &write("l", WriteMode::Truncate));
    assert_eq!(outcome.result::<Transferred>(), Transferred { bytes: 5, size: 5 });
    assert_eq!(runner.file("s", read("f")).stdout, b"new\xff\0", "the link stays a link");
    assert_eq!(runner.file("s", stat("f")).result::<FileStat>().permissions, 0o751);
    // Readers see the old content until the new one is complete.
    let number = runner.begin_beside(&write("f", WriteMode::Truncate));
    runner.input(number, &[b'x'; 200_000]);
    runner.wait_started(number);
    assert_eq!(runner.file("s", read("f")).stdout, b"new\xff\0");
    runner.kill(number);
    assert_eq!(runner.wait(number).end(), &End::Killed);
    assert_eq!(runner.file("s", read("f")).stdout, b"new\xff\0");
    let names = runner.file("s", list(".", 1, 100)).result::<Listing>();
    let names: Vec<_> = names.entries.into_iter().map(|entry| entry.path).collect();
    assert_eq!(texts(&names), ["artifacts", "d", "f", "l"], "nothing else is left");
    let mut with_mode = write("run.sh", WriteMode::Truncate);
    if let Work::File(FileOp::Write { permissions, .. }) = &mut with_mode.work {
        *permissions = Some(0o755);
    }
    runner.beside_with(b"#!/bin/sh\necho ran\n", &with_mode).ok();
    assert_eq!(runner.beside(&argv("s", &["./run.sh"])).ok(), "ran\n");
    assert_eq!(runner.beside_with(b"x", &write("d", WriteMode::Truncate)).errno(), "EISDIR");
    assert_eq!(runner.beside_with(b"x", &write("d/", WriteMode::CreateNew)).errno(), "EEXIST");
    assert_eq!(runner.beside_with(b"x", &write("none/f", WriteMode::Truncate)).errno(), "ENOENT");
    for work in [write("/etc/hosts", WriteMode::Truncate), write("/usr/f", WriteMode::CreateNew)] {
        let outcome = runner.beside_with(b"x", &work);
        assert!(["EROFS", "EACCES"].contains(&outcome.errno()), "{outcome:?}");
    }
    assert_eq!(runner.beside_with(b"x", &write("new/", WriteMode::CreateNew)).errno(), "EISDIR");
}

#[test]
fn a_write_adds_makes_or_changes() {
    let mut runner = with("printf 0123 > f; ln -s none broken");
    runner.beside_with(b"45", &write("f", WriteMode::Append)).ok();
    runner.beside_with(b"ab", &write("f", WriteMode::At(1))).ok();
    assert_eq!(runner.file("s", read("f")).ok(), "0ab345");
    let outcome = runner.beside_with(b"z", &write("f", WriteMode::At(8)));
    assert_eq!(outcome.result::<Transferred>(), Transferred { bytes: 1, size: 9 });
    assert_eq!(runner.file("s", read("f")).ok(), "0ab345\0\0z");
    runner.beside_with(b"1", &write("g", WriteMode::Append)).ok();
    runner.beside_with(b"2", &write("h", WriteMode::CreateNew)).ok();
    assert_eq!(runner.file("s", read("h")).ok(), "2");
    assert_eq!(runner.file("s", stat("h")).result::<FileStat>().permissions, 0o644);
    for there in ["f", "broken"] {
        assert_eq!(runner.beside_with(b"2", &write(there, WriteMode::CreateNew)).errno(), "EEXIST");
    }
    runner.beside_with(b"3", &write("broken", WriteMode::Truncate)).ok();
    assert_eq!(runner.file("s", read("broken")).ok(), "3");
}

#[test]
fn a_file_is_extended_only_where_it_ends() {
    let mut runner = with("printf abc > f");
    runner.beside_with(b"def", &write("f", WriteMode::Extend(3))).ok();
    for (end, errno) in [(3, "ESTALE"), (5, "ESTALE"), (7, "ESTALE")] {
        assert_eq!(runner.beside_with(b"x", &write("f", WriteMode::Extend(end))).errno(), errno, "{end}");
    }
    assert_eq!(runner.beside_with(b"x", &write("none", WriteMode::Extend(0))).errno(), "ENOENT");
    assert_eq!(runner.file("s", stat("none")).errno(), "ENOENT");
    assert_eq!(runner.file("s", read("f")).ok(), "abcdef");
    let digest = |path: &str| FileOp::Digest { path: path.into() };
    let sha256 = "bef57ec7f53a6d40beb640a780a639c83bc29ac8a9816f1fc6c5c6dcd93c4721".to_owned();
    assert_eq!(runner.file("s", digest("f")).result::<Digested>(), Digested { size: 6, sha256 });
    assert_eq!(runner.file("s", digest("none")).errno(), "ENOENT");
    assert_eq!(runner.file("s", digest(".")).errno(), "EISDIR");
}

#[test]
fn a_full_disk_is_told_and_leaves_the_old_file() {
    let mut runner = with("echo old > f; head -c 30M /dev/zero > large");
    let input = vec![1; 900_000];
    let mut errors = 0;
    for n in 0..4 {
        let outcome = runner.beside_with(&input, &write(&format!("n{n}"), WriteMode::CreateNew));
        if !matches!(outcome.end(), End::Exited { .. }) {
            assert_eq!(outcome.errno(), "ENOSPC");
            errors += 1;
        }
    }
    assert!(errors > 0);
    assert_eq!(runner.beside_with(&input, &write("f", WriteMode::Truncate)).errno(), "ENOSPC");
    assert_eq!(runner.file("s", read("f")).ok(), "old\n");
    assert_eq!(runner.beside_with(b"x", &write("g", WriteMode::At(1 << 40))).errno(), "EFBIG");
    // What was added before the disk was full is taken back, so that it can be added again.
    assert_eq!(runner.beside_with(&input, &write("f", WriteMode::Extend(4))).errno(), "ENOSPC");
    assert_eq!(runner.file("s", read("f")).ok(), "old\n");
}

#[test]
fn directories_are_made_and_listed() {
    let mut runner = with("mkdir -p a/b; echo 12 > a/f; ln -s / a/root; printf x > $'a/b/\\xff'");
    let make = |path: &str, parents| FileOp::MakeDir { path: path.into(), parents };
    runner.file("s", make("m", false)).ok();
    assert_eq!(runner.file("s", make("m", false)).errno(), "EEXIST");
    assert_eq!(runner.file("s", make("p/q", false)).errno(), "ENOENT");
    runner.file("s", make("p/q", true)).ok();
    runner.file("s", make("p/q", true)).ok();
    assert_eq!(runner.file("s", make("a/f/x", true)).errno(), "ENOTDIR");
    let listing = runner.file("s", list("a", 9, 100)).result::<Listing>();
    let seen: Vec<_> = listing.entries.iter().map(|e| (e.path.0.as_slice(), e.stat.kind, e.stat.size)).collect();
    assert_eq!(seen[0].0, b"b");
    assert_eq!(
        seen[1..],
        [(&b"b/\xff"[..], FileKind::File, 1), (b"f", FileKind::File, 3), (b"root", FileKind::Link, 1)]
    );
    assert!(!listing.cut);
    assert_eq!(listing.entries[3].stat.target, Some("/".into()), "a link's target");
    let listing = runner.file("s", list("a", 1, 2)).result::<Listing>();
    assert_eq!((listing.entries.len(), listing.cut), (2, true));
    assert_eq!(runner.file("s", list("a/f", 1, 9)).errno(), "ENOTDIR");
    // A name that is no text comes back as it was sent.
    let odd = FileOp::Read { path: ByteString(b"a/b/\xff".to_vec()), offset: 0, length: None };
    assert_eq!(runner.file("s", odd).ok(), "x");
    let many = "import os\nos.mkdir('many')\nfor n in range(4000): os.mkdir(f'many/{n}-' + 'x' * 200)";
    runner.run(&session("s", many)).ok();
    let listing = runner.file("s", list("many", 1, u32::MAX)).result::<Listing>();
    assert!(listing.cut && listing.entries.len() > 1000, "a result has a bound in bytes, too");
}

#[test]
fn files_are_moved_and_removed() {
    let mut runner = with(
        "echo 1 > a; chmod 600 a; touch -d @9 a; echo 2 > b; mkdir -p d/e; touch d/e/f; ln -s d l; ln -s / d/root",
    );
    let go = |from: &str, to: &str| FileOp::Move { from: from.into(), to: to.into() };
    runner.file("s", go("a", "b")).ok();
    assert_eq!(runner.file("s", read("b")).ok(), "1\n");
    let outcome = runner.file("s", go("a", "c"));
    assert_eq!((outcome.errno(), outcome.failure().path.to_string()), ("ENOENT", "a".to_owned()));
    let outcome = runner.file("s", go("b", "none/b"));
    assert_eq!((outcome.errno(), outcome.failure().path.to_string()), ("ENOENT", "none/b".to_owned()));
    runner.file("s", go("b", "/tmp/b")).ok();
    let moved = runner.file("s", stat("/tmp/b")).result::<FileStat>();
    assert_eq!((moved.permissions, moved.modified_ns, moved.size), (0o600, 9_000_000_000, 2));
    assert_eq!(runner.file("s", stat("b")).errno(), "ENOENT");
    assert_eq!(runner.file("s", go("d", "/tmp/d")).errno(), "EXDEV");
    let remove = |path: &str, recursive| FileOp::Remove { path: path.into(), recursive };
    assert_eq!(runner.file("s", remove("d", false)).errno(), "ENOTEMPTY");
    runner.file("s", remove("l", true)).ok();
    runner.file("s", stat("d/e/f")).ok();
    runner.file("s", remove("d", true)).ok();
    assert_eq!(runner.file("s", remove("d", true)).errno(), "ENOENT");
    assert_eq!(runner.file("s", remove("/usr/bin", true)).errno(), "EROFS");
    runner.file("s", stat("/usr/bin/env")).ok();
}

#[test]
fn files_of_programs_are_found_once_they_are_changed() {
    let mut runner = with("echo main > main.txt");
    for line in ["'main'", "open(__file__, 'a').write('# main')"] {
        runner.run(&session("s", line)).ok();
    }
    let changed = ["main.txt", "main_3.py"];
    let pattern = FileOp::Glob { path: ".".into(), pattern: "main*".into(), most: 9 };
    assert_eq!(texts(&runner.file("s", pattern).result::<Found>().paths), changed);
    let listed = runner.file("s", list("/workspace", 1, 9)).result::<Listing>();
    assert_eq!(listed.entries.iter().map(|entry| entry.path.to_string()).collect::<Vec<_>>()[1..], changed);
    let lines = runner.file("s", grep("/workspace", "main")).result::<Matches>().lines;
    assert_eq!(lines.iter().map(|line| line.path.to_string()).collect::<Vec<_>>(), changed);
    assert_eq!(runner.file("s", read("main_2.py")).ok(), "'main'", "its name is enough");
}

#[test]
fn patterns_find_paths_and_lines() {
    let mut runner = with(
        "mkdir -p src/deep; printf 'one\\ntwo two\\n\\xffthree' > src/a.py; printf 'Two\\0two\\n' > src/deep/b.bin; echo two > c.txt; chmod 000 c.txt; mkfifo src/p",
    );
    let glob = |path: &str, pattern: &str, most| FileOp::Glob { path: path.into(), pattern: pattern.into(), most };
    let found = runner.file("s", glob("/workspace", "**/*.[pb]*", 9)).result::<Found>();
    assert_eq!(texts(&found.paths), ["src/a.py", "src/deep/b.bin"]);
    assert_eq!(texts(&runner.file("s", glob("src", "*", 2)).result::<Found>().paths), ["a.py", "deep"]);
    assert!(runner.file("s", glob("src", "*", 2)).result::<Found>().cut);
    assert_eq!(runner.file("s", glob(".", "[z-a]", 2)).errno(), "EINVAL");
    assert_eq!(runner.file("s", glob(".", "/workspace/*", 2)).errno(), "EINVAL", "a pattern is relative");
    let lines = |matches: &Matches| -> Vec<_> {
        matches.lines.iter().map(|m| (m.path.to_string(), m.line, m.offset, m.text.0.clone())).collect()
    };
    let matches = runner.file("s", grep(".", "two|three")).result::<Matches>();
    let py = "src/a.py".to_owned();
    assert_eq!(
        lines(&matches),
        [
            (py.clone(), 2, 4, b"two two".to_vec()),
            (py, 3, 12, b"\xffthree".to_vec()),
            ("src/deep/b.bin".to_owned(), 1, 0, b"Two\0two".to_vec()),
        ]
    );
    assert_eq!((matches.cut, matches.skipped), (false, 1), "one may not be read");
    let mut narrow = grep(".", "TWO");
    if let FileOp::Grep { glob, ignore_case, most, .. } = &mut narrow {
        (*glob, *ignore_case, *most) = (Some("**/*.py".into()), true, 1);
    }
    assert_eq!(runner.file("s", narrow).result::<Matches>().lines.len(), 1);
    let matches = runner.file("s", grep("src/a.py", "^one$")).result::<Matches>();
    assert_eq!(lines(&matches), [(String::new(), 1, 0, b"one".to_vec())]);
    assert_eq!(runner.file("s", grep(".", "(")).errno(), "EINVAL");
    assert_eq!(runner.file("s", grep("src/p", "x")).errno(), "EINVAL");
    let long = "head -c 3M /dev/zero | tr '\\0' x > long; echo end >> long; printf 'y\\n' >> long";
    runner.beside(&shell("s", long)).ok();
    let matches = runner.file("s", grep("long", "end|y")).result::<Matches>();
    let (mega, short) = (3 << 20, (2, (3 << 20) + 4));
    assert_eq!((matches.lines[0].line, matches.lines[0].offset), (1, mega));
    assert_eq!((matches.lines[1].line, matches.lines[1].offset), short);
}

#[test]
fn links_lead_where_they_lead_the_job() {
    let mut runner = with(
        "ln -s /etc/shadow shadow; ln -s ../../../../../../etc etc; mkdir d; ln -s .. d/up; echo in > f; ln -s loop loop",
    );
    let real = |path: &str| FileOp::RealPath { path: path.into() };
    let of = |outcome: common::Outcome| outcome.result::<Resolved>().path.to_string();
    assert_eq!(of(runner.file("s", real("d/up/d/../f"))), "/workspace/f");
    assert_eq!(of(runner.file("s", real("etc"))), "/etc");
    assert_eq!(runner.file("s", real("loop")).errno(), "ELOOP");
    // The job reads the same, or gets the same error.
    let own = runner.run(&session("s", "try: print(open('shadow').read())\nexcept OSError as e:\n    import errno\n    print(errno.errorcode[e.errno])")).ok();
    let outcome = runner.file("s", read("shadow"));
    assert_eq!(outcome.errno(), own.trim());
    let mine = runner.file("s", list("etc", 1, 1000)).result::<Listing>();
    let jobs = runner.run(&session("s", "import os\nprint(sorted(os.listdir('/etc')))")).ok();
    let names: Vec<_> = mine.entries.iter().map(|entry| format!("'{}'", entry.path)).collect();
    assert_eq!(format!("[{}]\n", names.join(", ")), jobs);
}

/// None of these may wait, and none may have an effect.
#[test]
fn fifos_devices_and_sockets_are_refused_at_once() {
    let mut runner = with("mkfifo p");
    runner.run(&session("s", "import socket\nk = socket.socket(socket.AF_UNIX)\nk.bind('/workspace/k')")).ok();
    let writer = runner.begin_beside(&shell("s", "echo on; echo data > p; echo gone"));
    runner.wait_output(writer, "on");
    for path in ["p", "k", "/dev/null", "/dev/zero", "/dev/urandom"] {
        for work in [
            file("s", read(path)),
            file("s", grep(path, "x")),
            write(path, WriteMode::Truncate),
            write(path, WriteMode::Append),
            write(path, WriteMode::At(0)),
        ] {
            let outcome = runner.beside_with(b"x", &work);
            assert_eq!(outcome.errno(), "EINVAL", "{work:?}");
            assert!(outcome.failure().message.contains("not a regular file"), "{outcome:?}");
        }
    }
    assert!(!runner.so_far(writer).out().contains("gone"), "no operation opened the FIFO");
    assert_eq!(runner.beside(&argv("s", &["cat", "p"])).ok(), "data\n");
    runner.wait(writer).ok();
}

/// An operation's own entries in `/proc` show the runner.
#[test]
fn no_operation_reads_its_own_process_or_what_a_process_holds_open() {
    let mut runner = with("ln -s /proc/self s; ln -s /proc/self/fd/0 in");
    for path in
        ["/proc/self/exe", "/proc/self/fd/0", "s/fd/1", "in", "/dev/stdin", "/proc/self/cwd/f", "s/root/etc/passwd"]
    {
        assert_eq!(runner.file("s", read(path)).errno(), "ELOOP", "{path}");
        assert_eq!(runner.beside_with(b"x", &write(path, WriteMode::Truncate)).errno(), "ELOOP", "{path}");
    }
    for path in ["/proc/self/environ", "s/maps", "/proc/self/mem", "/proc/thread-self/status", "/proc/self/task"] {
        assert_eq!(runner.file("s", read(path)).errno(), "EACCES", "{path}");
        assert_eq!(runner.file("s", list(path, 9, 1000)).errno(), "EACCES", "{path}");
        assert_eq!(runner.file("s", grep(path, ".")).errno(), "EACCES", "{path}");
    }
    // What goes through /proc as a whole leaves the processes out.
    let listing = runner.file("s", list("/proc", 9, 100_000)).result::<Listing>();
    assert!(listing.entries.iter().all(|entry| !entry.path.0.contains(&b'/')), "{listing:?}");
    let listing = runner.file("s", list("/", 3, 100_000)).result::<Listing>();
    assert!(listing.entries.iter().all(|entry| !entry.path.0.starts_with(b"proc/")));
    // The program's own process can be read like by any other process of the job.
    let pid = runner.run(&session("s", "import os\nprint(os.getpid())")).ok();
    runner.file("s", read(&format!("/proc/{}/status", pid.trim()))).ok();
}

#[test]
fn a_session_in_bash_and_a_busy_program_take_file_operations() {
    let mut runner = Runner::new();
    runner.run(&common::bash_session("s", "echo bash > f")).ok();
    let run = runner.begin(&common::bash_session("s", "echo on; while :; do :; done"));
    runner.wait_output(run, "on");
    assert_eq!(runner.file("s", read("f")).ok(), "bash\n");
    runner.kill(run);
    runner.wait(run);
}
