//! Runs the attacks on native containers as an ordinary user. This program is copied to a folder that the user can
//! read, and started there again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use thermae_attacks::machine::{Changed, Setting};
use thermae_attacks::program::Attack;
use thermae_attacks::report::Report;
use thermae_attacks::site::Place;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// A user id that nobody has.
const USER: u32 = 61_613;

/// Runs the attacks as that user. Shows each report when it comes.
pub(crate) async fn run(
    place: &Place,
    python: &Path,
    folder: &Path,
    attacks: &[Attack],
    mut show: impl FnMut(&Report) -> Result<()>,
) -> Result<Vec<Report>> {
    let stage = tempfile::tempdir().context("make a folder for the ordinary user")?;
    let (program, programs, own) =
        (stage.path().join("thermae-attacks"), stage.path().join("programs"), stage.path().join("tmp"));
    fs::set_permissions(stage.path(), fs::Permissions::from_mode(0o755))?;
    fs::copy(std::env::current_exe()?, &program).context("copy this program")?;
    copy(folder, &programs)?;
    fs::create_dir(&own)?;
    std::os::unix::fs::chown(&own, Some(USER), Some(USER)).context("give a folder away")?;
    // Only root can change these settings.
    let wanted = |setting: &Setting| attacks.iter().any(|attack| attack.sheet.machine == Some(*setting));
    let changed = Setting::ALL.into_iter().filter(wanted).map(Changed::make).collect::<Result<Vec<_>>>()?;
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", &USER.to_string(), "--regid", &USER.to_string(), "--clear-groups", "--inh-caps=-all"])
        .arg(&program)
        .args(["--backend", &place.to_string(), "--json", "--no-controls", "--programs"])
        .arg(&programs)
        .arg("--python")
        .arg(python)
        .args(["--only", &attacks.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(",")]);
    if let Some(first) = changed.first() {
        command.arg("--changed").arg(first.cores());
    }
    let mut child = command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env("TMPDIR", &own)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("start setpriv")?;
    let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let mut reports = Vec::new();
    while let Some(line) = lines.next_line().await? {
        let report: Report = serde_json::from_str(&line).with_context(|| format!("not a report: {line}"))?;
        show(&report)?;
        reports.push(report);
    }
    let status = child.wait().await?;
    ensure!(!reports.is_empty(), "the ordinary user's run ended with {status} and no report");
    Ok(reports)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
