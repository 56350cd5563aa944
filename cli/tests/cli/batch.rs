//! Tests of `thermae batch`.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::thermae::Thermae;

fn results(thermae: &Thermae) -> BTreeMap<String, Value> {
    let mut results = BTreeMap::new();
    for line in thermae.read("out.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let id = line["id"].as_str().unwrap().to_owned();
        assert!(results.insert(id.clone(), line).is_none(), "{id} has two results");
    }
    results
}

fn jobs(lines: &[(&str, &str)]) -> String {
    lines.iter().map(|(id, code)| format!("{}\n", serde_json::json!({ "id": id, "code": code }))).collect()
}

/// The first two words of each line of the summary: names and counts, but no times.
fn counts(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().take(2).collect()).collect()
}

#[test]
fn the_example_gives_a_result_for_every_job() {
    let thermae = Thermae::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/batch.jsonl");
    let answer = thermae.call(&["batch", example, "--out", "out.jsonl"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    assert_eq!(counts(&answer.stdout), [["succeeded", "11"], ["jobs", "11"]]);
    let results = results(&thermae);
    assert_eq!(results.len(), 11);
    assert_eq!(results["sum"]["stdout"], "5050\n");
    assert_eq!(results["stdin"]["stdout"], "42\n");
    assert_eq!(results["environment"]["stdout"], "salve\n");
    assert_eq!(results["await"]["stdout"], "[0, 2, 4, 6]\n");
    for line in results.values() {
        assert!(line["usage"]["wall_ms"].is_f64() && line["stderr"] == "" && line["status"] == "succeeded", "{line}");
    }
}

#[test]
fn a_rerun_does_only_what_is_missing() {
    let code = "print(1)";
    let thermae =
        Thermae::with("jobs.jsonl", &jobs(&[("a", code), ("b", code), ("c", "raise OSError('x')"), ("d", code)]));
    thermae
        .file("out.jsonl", "{\"id\":\"a\",\"status\":\"succeeded\",\"stdout\":\"from before\"}\n{\"id\":\"b\",\"stat");
    let answer = thermae.call(&["batch", "jobs.jsonl", "--out", "out.jsonl"]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert_eq!(counts(&answer.stdout), [["succeeded", "3"], ["failed", "1"], ["jobs", "4"]]);
    let first = results(&thermae);
    assert_eq!((first.len(), first["a"]["stdout"].as_str()), (4, Some("from before")));
    assert_eq!(first["c"]["error"]["exception"], "OSError");

    let again = thermae.call(&["batch", "jobs.jsonl", "--out", "out.jsonl", "--json"]);
    assert_eq!(again.status, 1, "the file's failures count still");
    let summary: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((summary["before"].as_u64(), summary["done"].as_u64()), (Some(4), Some(0)), "{summary}");
    assert_eq!(results(&thermae), first);

    let retried = thermae.call(&["batch", "jobs.jsonl", "--out", "out.jsonl", "--retry", "failed", "--json"]);
    let summary: Value = serde_json::from_str(&retried.stdout).unwrap();
    assert_eq!((summary["before"].as_u64(), summary["done"].as_u64()), (Some(3), Some(1)), "{summary}");
}

#[test]
fn ctrl_c_leaves_a_file_that_the_next_run_goes_on_from() {
    let mut lines: Vec<(String, String)> = (0..6).map(|n| (format!("quick{n}"), format!("print({n})"))).collect();
    lines.extend((0..4).map(|n| (format!("slow{n}"), "import time\ntime.sleep(25)".to_owned())));
    let lines: Vec<(&str, &str)> = lines.iter().map(|(id, code)| (id.as_str(), code.as_str())).collect();
    let thermae = Thermae::with("jobs.jsonl", &jobs(&lines));
    let args = ["batch", "jobs.jsonl", "--out", "out.jsonl", "--concurrency", "2"];
    let mut child = thermae.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = thermae.path().join("out.jsonl");
    while std::fs::read_to_string(&out).unwrap_or_default().lines().count() < 6 {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let answer = crate::thermae::Answer::from(child.wait_with_output().unwrap());
    assert_eq!(answer.status, 130, "{answer:?}");
    assert!(answer.stderr.contains("run the same command again to continue"), "{answer:?}");
    let kept = results(&thermae);
    assert_eq!(kept.keys().filter(|id| id.starts_with("quick")).count(), 6);
    assert_eq!(kept.len(), 6, "what was cancelled has no result");

    thermae.file("jobs.jsonl", &jobs(&[("quick0", ""), ("slow0", "print('now')")]));
    let answer = thermae.call(&["batch", "jobs.jsonl", "--out", "out.jsonl"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    assert!(answer.stderr.contains("5 results of jobs that are not in jobs.jsonl"), "{answer:?}");
    assert_eq!(results(&thermae)["slow0"]["stdout"], "now\n");
}

#[test]
fn bad_lines_are_named_and_nothing_runs() {
    let text = "{\"id\": \"a\", \"code\": \"\"}\nnot json\n{\"id\": \"a\", \"code\": \"\"}\n{\"id\": \"b\", \"code\": \"\", \"kode\": 1}\n";
    let thermae = Thermae::with("jobs.jsonl", text);
    let answer = thermae.call(&["batch", "jobs.jsonl", "--out", "out.jsonl"]);
    assert_eq!((answer.status, answer.stdout.as_str()), (2, ""));
    insta::assert_snapshot!(answer.stderr.split(", expected one of").next().unwrap(), @r#"
    error[bad_jobs_file]: jobs.jsonl has lines that are not jobs; nothing was run
      jobs.jsonl:2: not JSON: expected ident at column 2
      jobs.jsonl:3: the id "a" is already on line 1
      jobs.jsonl:4: unknown field `kode`
    "#);
    assert!(!thermae.path().join("out.jsonl").exists());
}

#[test]
fn files_that_can_not_be_used_are_status_2() {
    let thermae = Thermae::with("jobs.jsonl", &jobs(&[("a", "")]));
    let missing = thermae.call(&["batch", "nowhere.jsonl", "--out", "out.jsonl"]);
    assert_eq!(missing.status, 2, "{missing:?}");
    assert!(missing.stderr.starts_with("error[bad_jobs_file]: can't read nowhere.jsonl"), "{missing:?}");
    assert!(std::process::Command::new("mkfifo").arg(thermae.path().join("pipe.jsonl")).status().unwrap().success());
    let pipe = thermae.call(&["batch", "pipe.jsonl", "--out", "out.jsonl"]);
    assert_eq!(pipe.status, 2, "{pipe:?}");
    assert!(pipe.stderr.contains("it is not a regular file"), "{pipe:?}");
    let unwritable = thermae.call(&["batch", "jobs.jsonl", "--out", "no/such/dir/out.jsonl"]);
    assert_eq!(unwritable.status, 2, "{unwritable:?}");
    thermae.file("diary.txt", "dear diary\n");
    let other = thermae.call(&["batch", "jobs.jsonl", "--out", "diary.txt"]);
    assert_eq!((other.status, thermae.read("diary.txt").as_str()), (2, "dear diary\n"), "{other:?}");
    let status = thermae.call(&["batch", "jobs.jsonl", "--out", "out.jsonl", "--retry", "sometimes"]);
    assert_eq!(status.status, 2, "{status:?}");
}

#[test]
fn an_empty_file_is_done_at_once() {
    let answer = Thermae::with("jobs.jsonl", "\n\n").call(&["batch", "jobs.jsonl", "--out", "out.jsonl"]);
    assert_eq!(answer.status, 0, "{answer:?}");
}

#[test]
fn a_job_or_the_command_makes_tools_synchronous() {
    let line =
        |id: &str, sync| format!("{}\n", serde_json::json!({"id": id, "code": "three() + 1", "sync_tools": sync}));
    let thermae = Thermae::with("jobs.jsonl", &(line("says", true) + &line("silent", false)));
    let notes = |options: &[&str]| {
        let ran = ["batch", "jobs.jsonl", "--out", "out.jsonl", "--tool", "three=echo 3"];
        thermae.call(&[&ran, options].concat());
        let found = results(&thermae);
        std::fs::remove_file(thermae.path().join("out.jsonl")).unwrap();
        ["says", "silent"].map(|id| (found[id]["value"]["text/plain"] == "4", found[id]["notes"][0] != Value::Null))
    };
    assert_eq!(notes(&[]), [(true, false), (false, true)]);
    assert_eq!(notes(&["--sync-tools"]), [(true, false); 2]);
}

#[test]
fn tools_serve_every_job_of_a_batch() {
    let lines: Vec<(String, String)> = (0..5).map(|n| (n.to_string(), format!("print(await square(n={n}))"))).collect();
    let lines: Vec<(&str, &str)> = lines.iter().map(|(id, code)| (id.as_str(), code.as_str())).collect();
    let thermae = Thermae::with("jobs.jsonl", &jobs(&lines));
    thermae.file(
        "thermae.toml",
        "[tools.square]\ncommand = [\"python3\", \"-c\", \"import json, sys; print(json.load(sys.stdin)['n'] ** 2)\"]\n",
    );
    assert_eq!(thermae.call(&["trust"]).status, 0);
    let answer = thermae.call(&["batch", "jobs.jsonl", "--out", "out.jsonl"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    for (id, line) in results(&thermae) {
        let n: u32 = id.parse().unwrap();
        assert_eq!(line["stdout"], format!("{}\n", n * n));
        assert_eq!(line["usage"]["tool_calls"], 1);
    }
}
