//! A job that names what the fleet's store has of its tenant beside artifacts.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::evidence::Evidence;
use crate::thermae::{Answer, Thermae};

pub(super) const SHEET: &str = r#"
tries = "names the checkpoint of another session of its tenant as an input file, by each of the store's keys of it"
wins = "the files of a session that the caller's key may not cover"
guard = "a `ref` is the id of an artifact, 64 hexadecimal digits; a key of anything else in the store is no such id"
control = {}
held = { keys = true, refused = true, read = false }
open = { keys = true, refused = false, read = true }
"#;

pub(super) fn attempt(lifted: bool) -> Result<Evidence> {
    let thermae = Thermae::new()?;
    let batch = |name: &str, jobs: &[Value]| -> Result<Answer> {
        let lines: String = jobs.iter().map(|job| format!("{job}\n")).collect();
        let (file, out) = (format!("{name}.jsonl"), format!("{name}.out.jsonl"));
        thermae.file(&file, &lines)?;
        thermae.call(&["batch", &file, "--out", &out, "--store", "store"])
    };
    let code = "open('/session/secret', 'w').write('of the session')";
    batch("victim", &[json!({ "id": "victim", "code": code, "session": { "id": "s", "checkpoint": "after_job" } })])?;
    let mut keys = Vec::new();
    for path in thermae.listed("store") {
        let (tenant, key) = path.split_once('/').context("an object of no tenant")?;
        if key.contains("checkpoints/") {
            let mut key = key.to_owned();
            if lifted {
                // As an artifact, the same content can be named.
                let artifact = format!("{:064x}", keys.len());
                std::fs::copy(
                    thermae.path().join("store").join(&path),
                    thermae.path().join(format!("store/{tenant}/{artifact}")),
                )?;
                key = artifact;
            }
            keys.push(key);
        }
    }
    let code = "print(b'of the session' in open('taken', 'rb').read())";
    let thief = |(n, key): (usize, &String)| json!({ "id": format!("thief-{n}"), "code": code, "files": [{ "path": "taken", "ref": key }] });
    let answer = batch("thief", &keys.iter().enumerate().map(thief).collect::<Vec<_>>())?;
    let mut evidence = Evidence::default();
    evidence.note("keys", !keys.is_empty());
    evidence.note("refused", answer.stderr.contains("is not valid: the id of an artifact"));
    evidence.note("read", thermae.read("thief.out.jsonl").contains("True\\n"));
    Ok(evidence)
}
