//! The commands of docs/gateway.md that begin with a gateway for several tenants.

use std::process::Command;

use thermae_testkit::page::{self, Kind};

use crate::program::free;

/// The id that the page shows.
const SHOWN: &str = "1f0c9d3b7a5e4826";

/// Separates what the page's commands print.
const MARK: &str = "-- the next command --";

#[test]
fn the_commands_of_the_page_work() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_thermae-gateway");
    // The program is built, and `thermae key` starts it with the same arguments.
    let mut script = format!(
        "trap 'kill $(jobs -p)' EXIT\ncargo() {{ :; }}\nthermae() {{ {program} \"$@\"; }}\n\
         thermae-gateway() {{ exec {program}; }}\n"
    );
    let commands = page::only(Kind::Tenants).commands();
    for (number, (command, _)) in commands.iter().enumerate() {
        let command = command.replace(SHOWN, "\"$id\"");
        script += &format!("{{ {command}\n}} > told{number} 2>&1\necho '{MARK}'\ncat told{number}\n");
        script += &format!("id=$(grep -o 'thm_[0-9a-f]*' told{number} | cut -c 5- || echo \"${{id:-}}\")\n");
    }
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", &script]).current_dir(folder.path()).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("THERMAE_LISTEN", free()).env("THERMAE_GATEWAY__LISTEN", free()).env("THERMAE_TELEMETRY__LOG", "error");
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{out}\n{err}");
    let printed: Vec<&str> = out.split(&format!("{MARK}\n")).skip(1).collect();
    let text = printed.iter().find_map(|told| told.lines().find(|line| line.starts_with("thm_"))).unwrap();
    let (id, secret) = (&text[4..20], &text[21..]);
    for ((command, shown), printed) in commands.iter().zip(&printed) {
        let printed = printed.replace(id, SHOWN).replace(secret, "…");
        assert_eq!(printed.trim_end(), shown.trim_end(), "{command}");
    }
    assert_eq!(printed.len(), commands.len());
}
