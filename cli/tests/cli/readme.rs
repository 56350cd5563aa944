//! Checks what the README and the pages in `docs/` say. `cargo xtask test` runs the blocks that need a fleet, beside
//! one.

use std::path::{Path, PathBuf};
use std::process::Command;

use thermae_worker::{LimitOptions, PoolOptions};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// The README's command blocks that need only this program: no fleet, and no packages from an index.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(fence) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
        let block = block.join("\n");
        let needs_more = [":5672", "docker compose", "pip install"].iter().any(|word| block.contains(word));
        if fence == "sh" && !needs_more {
            blocks.push(block);
        }
    }
    blocks
}

#[test]
fn the_commands_that_need_no_fleet_work() {
    let dir = tempfile::tempdir().unwrap();
    let blocks = blocks(&readme());
    assert!(blocks.len() >= 4, "{blocks:?}");
    for block in blocks {
        let script = block
            .replace("target/release/thermae", env!("CARGO_BIN_EXE_thermae"))
            .replace("cargo run --release --", env!("CARGO_BIN_EXE_thermae"))
            .replace(" target/", &format!(" {}/", dir.path().display()));
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", &script]).current_dir(root()).env_remove("THERMAE_AMQP");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{block}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "{block}");
    }
}

#[test]
fn the_default_limits_are_the_programs() {
    let (text, LimitOptions { default, ceiling, .. }, pool) =
        (readme(), LimitOptions::default(), PoolOptions::default());
    let spaced = |value: String| {
        let unit = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
        format!("{} {}", &value[..unit], &value[unit..]).trim_end().to_owned()
    };
    let seconds = |value: thermae_service::units::Millis| format!("{} s", value.duration().as_secs());
    for (name, default, ceiling) in [
        ("wall clock", seconds(default.wall), seconds(ceiling.wall)),
        ("CPU time", seconds(default.cpu), seconds(ceiling.cpu)),
        ("memory", spaced(default.memory.to_string()), spaced(ceiling.memory.to_string())),
        ("processes and threads", default.pids.to_string(), ceiling.pids.to_string()),
        ("output", spaced(default.output.to_string()), spaced(ceiling.output.to_string())),
        ("files", spaced(pool.disk.to_string()), String::new()),
        ("artifacts", spaced(pool.artifacts.max_bytes.to_string()), String::new()),
        ("artifacts, number", pool.artifacts.max_files.to_string(), String::new()),
        ("wait for a tool", seconds(default.tool_wait), seconds(ceiling.tool_wait)),
        ("all waits for tools", seconds(default.pause), seconds(ceiling.pause)),
        ("a session's idle time", seconds(pool.session_idle), String::new()),
        ("a job's message", spaced(thermae_scheduler::Options::default().max_job_bytes.to_string()), String::new()),
    ] {
        let row = if ceiling.is_empty() {
            format!("| {name} | {default} | |")
        } else {
            format!("| {name} | {default} | {ceiling} |")
        };
        assert!(text.contains(&row), "README.md has not the row {row}");
    }
}

#[test]
fn links_lead_somewhere() {
    let mut pages = vec![root().join("README.md")];
    for dir in ["docs", "docs/decisions", "docs/python"] {
        let entries = std::fs::read_dir(root().join(dir)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let elsewhere = link.is_empty() || link.contains("://") || link.contains(' ');
            let target = page.parent().unwrap().join(link);
            assert!(elsewhere || target.exists(), "{} links to {link}, which is not there", page.display());
        }
    }
}
