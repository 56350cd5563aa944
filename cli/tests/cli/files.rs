//! Tests of files that go in (`--file`) and come out (`--artifacts`).

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;

use crate::thermae::Thermae;

#[test]
fn files_go_in_and_what_the_code_leaves_comes_out() {
    let code = "
import os, subprocess
print(open('in.csv').read().strip(), len(open('deep/large', 'rb').read()), flush=True)
print(subprocess.run(['./tool.sh'], capture_output=True, text=True).stdout.strip())
os.makedirs('artifacts/a')
open('artifacts/a/same', 'wb').write(b'\\xff1')
open('artifacts/same', 'w').write('2')
os.symlink('/etc/passwd', 'artifacts/link')
";
    let thermae = Thermae::with("main.py", code);
    thermae.file("in.csv", "a,b\n");
    thermae.file("large.txt", &"x".repeat(3 << 20));
    thermae.file("tool.sh", "#!/bin/sh\necho tool\n");
    let tool = thermae.path().join("tool.sh");
    std::fs::set_permissions(tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let files = ["--file", "in.csv", "--file", "large.txt:deep/large", "--file", "tool.sh"];
    let answer = thermae.call(&[&["run", "main.py", "--artifacts", "out/here"], &files[..]].concat());
    assert_eq!((answer.status, answer.stdout.as_str()), (0, "a,b 3145728\ntool\n"), "{answer:?}");
    let note = "note: saved 2 files in out/here\nnote: left out: /workspace/artifacts/link: it is a link, or lies behind one: links are not followed\n";
    assert_eq!(answer.stderr, note);
    assert_eq!(std::fs::read(thermae.path().join("out/here/a/same")).unwrap(), b"\xff1");
    assert_eq!(thermae.read("out/here/same"), "2");
    assert!(!thermae.path().join("out/here/link").exists());
}

#[test]
fn a_link_in_our_folder_is_never_followed() {
    let thermae = Thermae::with("main.py", "open('artifacts/f', 'w').write('new')\nprint(1)");
    thermae.file("victim", "safe");
    thermae.file("out/other", "kept");
    symlink(thermae.path().join("victim"), thermae.path().join("out/f")).unwrap();
    let answer = thermae.call(&["run", "main.py", "--artifacts", "out"]);
    assert_eq!((answer.status, answer.stdout.as_str()), (2, "1\n"), "{answer:?}");
    assert!(answer.stderr.contains("something with this name is there already"), "{answer:?}");
    assert!(thermae.read("victim") == "safe" && thermae.path().join("out/f").is_symlink());
    assert_eq!(thermae.read("out/other"), "kept");

    thermae.file("taken", "no folder");
    let answer = thermae.call(&["run", "main.py", "--artifacts", "taken"]);
    assert_eq!((answer.status, answer.stdout.as_str()), (2, "1\n"), "the outcome is told nevertheless: {answer:?}");
    assert!(answer.stderr.contains("error[artifacts_not_written]: "), "{answer:?}");
}

#[test]
fn no_file_that_is_there_is_replaced() {
    let thermae = Thermae::with("main.py", "for n in 'ab': open(f'artifacts/{n}', 'w').write('new')\nprint(1)");
    thermae.file("out/a", "old");
    let answer = thermae.call(&["run", "main.py", "--artifacts", "out"]);
    assert_eq!((answer.status, answer.stdout.as_str()), (2, "1\n"), "{answer:?}");
    assert!(answer.stderr.contains("error[artifacts_not_written]: can't write out/a"), "{answer:?}");
    assert_eq!((thermae.read("out/a"), thermae.read("out/b")), ("old".into(), "new".into()), "all others are there");
    // A file with the same content is no conflict, so that a program can be run again.
    thermae.file("out/a", "new");
    let again = thermae.call(&["run", "main.py", "--artifacts", "out"]);
    assert_eq!((again.status, again.stderr.as_str()), (0, "note: saved 2 files in out\n"), "{again:?}");
}

#[test]
fn a_batchs_second_run_of_a_job_leaves_the_files_of_the_first() {
    let thermae = Thermae::new();
    thermae.file(
        "jobs.jsonl",
        "{\"id\": \"a\", \"code\": \"import time; open('artifacts/f', 'w').write(str(time.time_ns()))\"}\n",
    );
    let batch = |out: &str| thermae.call(&["batch", "jobs.jsonl", "--out", out, "--artifacts", "kept"]);
    assert_eq!(batch("one.jsonl").status, 0);
    let first = thermae.read("kept/a/f");
    let second = batch("two.jsonl");
    assert!(second.status == 0 && second.stderr.contains("kept/a~2"), "{second:?}");
    assert_eq!(thermae.read("kept/a/f"), first);
    assert_ne!(thermae.read("kept/a~2/f"), first);
}

#[test]
fn without_a_folder_the_outcome_says_what_was_left() {
    let thermae = Thermae::with("main.py", "open('artifacts/plot.png', 'w').write('x')");
    let answer = thermae.call(&["run", "main.py"]);
    assert_eq!(answer.stderr, "note: the code left 1 file; use --artifacts DIR to save what it leaves\n");
    let answer = thermae.call(&["run", "main.py", "--json", "--artifacts", "out"]);
    assert_eq!((answer.status, answer.stderr.as_str()), (0, ""), "{answer:?}");
    let line: Value = serde_json::from_str(&answer.stdout).unwrap();
    let artifact = &line["artifacts"][0];
    assert_eq!(artifact["path"], "/workspace/artifacts/plot.png");
    assert_eq!((&artifact["media_type"], &artifact["size"]), (&"image/png".into(), &1.into()));
    assert_eq!(line["artifact_map"]["/workspace/artifacts/plot.png"], artifact["id"]);
    assert_eq!(thermae.read("out/plot.png"), "x");
}

#[test]
fn a_file_that_can_not_be_used_is_named_before_anything_runs() {
    let thermae = Thermae::with("main.py", "print('never')");
    for (file, code) in
        [("nowhere.csv", "file_not_read"), (".", "usage"), ("main.py:../x", "usage"), ("main.py:/etc/x", "usage")]
    {
        let answer = thermae.call(&["run", "main.py", "--file", file]);
        assert_eq!((answer.status, answer.stdout.as_str()), (2, ""), "{file}: {answer:?}");
        assert!(answer.stderr.starts_with(&format!("error[{code}]: ")), "{file}: {answer:?}");
    }
}

#[test]
fn a_batchs_files_have_a_folder_for_each_job() {
    let thermae = Thermae::new();
    let line = |id: &str, code: &str| {
        let files = serde_json::json!([{ "path": "in", "text": id }]);
        serde_json::json!({ "id": id, "code": code, "files": files }).to_string() + "\n"
    };
    let code = "open('artifacts/out', 'w').write(open('in').read())";
    thermae.file("jobs.jsonl", &(line("a/1", code) + &line("..", code) + &line("none", "pass")));
    let answer = thermae.call(&["batch", "jobs.jsonl", "--out", "out.jsonl", "--artifacts", "kept"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    assert_eq!((thermae.read("kept/a%2F1/out"), thermae.read("kept/%2E./out")), ("a/1".into(), "..".into()));
    assert!(!thermae.path().join("kept/none").exists());
    assert_eq!(thermae.read("out.jsonl").lines().count(), 3);
}
