//! What `thermae run` leaves behind when it is killed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::thermae::{Answer, Thermae};

#[test]
fn what_a_killed_run_leaves_behind_goes_with_the_next() {
    let thermae = Thermae::with("main.py", "print('running', flush=True)\nawait here()");
    thermae.file("tmp/.keep", "");
    thermae.file("next.py", "print('next')");
    let folders = || {
        let entries = std::fs::read_dir(thermae.path().join("tmp")).unwrap().map(|entry| entry.unwrap().file_name());
        entries.filter(|name| name.to_string_lossy().starts_with("thermae-")).collect::<Vec<_>>()
    };
    let command = |args: &[&str]| {
        let mut command = thermae.command(args);
        command.env("TMPDIR", thermae.path().join("tmp")).env_remove("XDG_RUNTIME_DIR");
        command
    };
    let mut child = command(&["run", "main.py", "--stream", "--tool", "here=sleep 600"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let left = folders();
    assert_eq!((line.as_str(), left.len()), ("running\n", 2), "a folder of sockets and one of artifacts: {left:?}");
    for folder in &left {
        // A child of the killed process that has not executed its program yet may still hold the locks, for a moment.
        // Nothing that lives longer may hold them, such as the tool.
        let lock = File::open(thermae.path().join("tmp").join(folder).join("lock")).unwrap();
        let begun = Instant::now();
        while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "something holds the lock of {folder:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let answer = Answer::from(command(&["run", "next.py"]).output().unwrap());
    assert_eq!((answer.status, answer.stdout.as_str()), (0, "next\n"), "{answer:?}");
    assert_eq!(folders(), Vec::<OsString>::new(), "the killed run had {left:?}");
}
