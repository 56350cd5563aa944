//! Job ids that make a batch's folders for artifacts unsafe.

use anyhow::Result;
use serde_json::json;

use crate::evidence::Evidence;
use crate::thermae::Thermae;

pub(super) const SHEET: &str = r#"
tries = "names a batch's jobs so that their folders would be elsewhere, replace the results, be hidden, or run as programs: `..`, `/tmp/thermae-attack`, `.git`, `../out.jsonl`, `a/../../x`"
wins = "files outside the folder, or in places where programs execute them"
guard = "each job gets a new folder, named by its id with unsafe characters replaced"
uncontrolled = "no setting changes how the folders are named"
held = { outside = [], results = 7, inside = 7 }
"#;

pub(super) fn attempt(_lifted: bool) -> Result<Evidence> {
    let thermae = Thermae::new()?;
    let ids = ["..", "/tmp/thermae-attack", ".git", "../out.jsonl", "a/../../x", "x\n\u{1b}[2J", "..\\..\\y"];
    let line = |id: &&str| json!({ "id": id, "code": "open('artifacts/f', 'w').write('x')" }).to_string() + "\n";
    thermae.file("work/jobs.jsonl", &ids.iter().map(line).collect::<String>())?;
    thermae.call(&["batch", "work/jobs.jsonl", "--out", "work/out.jsonl", "--artifacts", "work/kept"])?;
    let mut outside = thermae.listed("");
    outside.retain(|name| !name.starts_with("work/kept/") && !name.starts_with(".state"));
    outside.retain(|name| name != "work/jobs.jsonl" && name != "work/out.jsonl");
    let mut evidence = Evidence::default();
    evidence.note("outside", outside);
    evidence.note("results", thermae.read("work/out.jsonl").lines().count());
    evidence.note("inside", thermae.listed("work/kept").len());
    Ok(evidence)
}
