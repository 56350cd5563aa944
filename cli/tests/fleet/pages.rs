//! Commands of docs/approval.md that need a real fleet.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use thermae_testkit::page::{self, Kind, fits};

use crate::Test;
use crate::fleet::Fleet;
use crate::servers::binary;

pub(crate) const TESTS: &[(&str, Test)] = &[("pages::a_call_is_approved_as_the_page_shows", approval)];

/// Separates what the page's commands print.
const MARK: &str = "-- the next command --\n";

/// A shell in the project's folder, which has `thermae`.
fn shell(script: &str) -> Result<Command> {
    let program = binary("thermae")?;
    let programs = program.parent().unwrap_or(Path::new("/")).display().to_string();
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script]).current_dir(page::path(""));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("THERMAE_")) {
        command.env_remove(name);
    }
    command.env("PATH", format!("{programs}:{}", std::env::var("PATH")?));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// One block starts a run, whose call waits, and shows the ids of both. The other decides about the call.
fn approval(fleet: &Fleet) -> Result<()> {
    let (_, blocks) = page::all(Kind::Fleet).into_iter().next().context("a page")?;
    let [runs, decides] = &blocks[..] else { anyhow::bail!("not two blocks: {blocks:?}") };
    let here = fleet.servers.acme.split_once('@').context("the URL has a user")?.1;
    let here = |text: &str| text.replace("127.0.0.1:5672", here.trim_end_matches("/%2f"));

    let (lines, shown): (Vec<_>, Vec<_>) = runs.commands().into_iter().unzip();
    let shown = shown.concat();
    let mut run = shell(&here(&lines.join("\n")))?.spawn()?;
    let mut said = BufReader::new(run.stderr.take().context("a pipe")?);
    let mut note = String::new();
    said.read_line(&mut note)?;
    let ids: Vec<_> = note.split("thermae approvals approve ").nth(1).unwrap_or("").split(' ').take(2).collect();
    let [id, call] = ids[..] else { anyhow::bail!("the program said {note:?}") };
    let (id, call) = (id.to_owned(), call.to_owned());
    let as_shown = |text: &str| text.replace(&id, "RUN").replace(&call, "CALL");

    let commands = decides.commands();
    let lines: Vec<_> = commands.iter().map(|(command, _)| format!("{command}\nprintf -- '{MARK}'\n")).collect();
    let output = shell(&here(&lines.concat()).replace("RUN", &id).replace("CALL", &call))?.output()?;
    ensure!(output.status.success(), "{output:?}");
    let printed = as_shown(&String::from_utf8(output.stdout)?);
    for ((command, shown), printed) in commands.iter().zip(printed.split_terminator(MARK)) {
        ensure!(fits(shown, printed), "{command} shows\n{shown}\nand prints\n{printed}");
    }

    let mut printed = as_shown(&note);
    run.stdout.take().context("a pipe")?.read_to_string(&mut printed)?;
    said.read_to_string(&mut printed)?;
    ensure!(run.wait()?.success() && fits(&shown, &printed), "the page shows\n{shown}\nand it is\n{printed}");
    Ok(())
}
