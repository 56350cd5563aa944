//! Files that others could change where a loose umask lets them.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::Result;

use crate::evidence::Evidence;
use crate::thermae::{Thermae, finish};

pub(super) const SHEET: &str = r#"
tries = "has a folder of keys and an audit log made with a umask of 0, as some containers and services have"
wins = "a key of another user's among those that make tokens valid; an audit log without what was done"
guard = "what decides who may do what, and what tells what was done, can be written to by its owner alone, whatever the umask"
control = {}
held = { there = 4, written = [], read = [] }
open = { there = 4, written = ["calls.jsonl", "issuer.pem", "keys", "keys/1.pem"], read = ["issuer.pem"] }
"#;

const MADE: [&str; 4] = ["calls.jsonl", "issuer.pem", "keys", "keys/1.pem"];

pub(super) fn attempt(lifted: bool) -> Result<Evidence> {
    let thermae = Thermae::new()?;
    if lifted {
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 0; mkdir keys; touch calls.jsonl issuer.pem keys/1.pem"]);
        finish(thermae.prepared(shell))?;
    } else {
        thermae.file("main.py", "await look()")?;
        let keygen = ["keygen", "--key", "issuer.pem", "--keys", "keys", "--id", "1"];
        let run = ["run", "main.py", "--tool", "look=true", "--audit", "calls.jsonl"];
        for (program, args) in [("thermae-token", &keygen[..]), ("thermae", &run)] {
            finish(thermae.with_loose_umask(program, args)?)?;
        }
    }
    let modes: Vec<_> = MADE
        .into_iter()
        .filter_map(|name| Some((name, std::fs::metadata(thermae.path().join(name)).ok()?.permissions().mode())))
        .collect();
    let open = |names: &[&str], bits: u32| -> Vec<&str> {
        modes.iter().filter(|(name, mode)| names.contains(name) && mode & bits != 0).map(|(name, _)| *name).collect()
    };
    let mut evidence = Evidence::default();
    evidence.note("there", modes.len());
    evidence.note("written", open(&MADE, 0o022));
    evidence.note("read", open(&["issuer.pem"], 0o044));
    Ok(evidence)
}
