//! The positive control: runs an attack's programs without a sandbox, where they must get through.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;
use tokio::process::Command;

use crate::evidence::{Evidence, LINE, compare};
use crate::program::{Attack, Payload, Preludes};
use crate::sheet::{Control, Mode};
use crate::targets::Map;

/// Longer than a control takes.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(90);

/// Errors that mean that this machine lacks what is attacked, or denies it even to this user.
const LACKING: [&str; 8] =
    ["ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EOPNOTSUPP", "ENODEV", "EPERM", "EACCES"];

/// What a control showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// With the guard off, the program gets through: the attack is a real one.
    Through,
    /// The attack has no control, for this reason.
    None(String),
    /// The control can't be run on this machine, for this reason. Then only the evidence from inside the sandbox
    /// counts.
    CannotRun(String),
    /// The program does not get through even with the guard off, so the attack proves nothing.
    Failed(String),
}

/// Runs an attack's control with the interpreter `python`.
pub async fn run(attack: &Attack, python: &Path, folder: &Path, preludes: &Preludes, map: &Map) -> Shown {
    let Some(control) = &attack.sheet.control else {
        return Shown::None(attack.sheet.uncontrolled.clone().unwrap_or_default());
    };
    match evidence(attack, control, python, folder, preludes, map).await {
        Err(error) => Shown::Failed(format!("{error:#}")),
        Ok(evidence) => {
            let problems = compare(&evidence, &attack.sheet.open, false);
            if problems.is_empty() {
                Shown::Through
            } else {
                let lacking = |problem: &String| LACKING.iter().any(|l| problem.contains(&format!("{l:?}")));
                let text = problems.join("; ");
                if problems.iter().all(lacking) { Shown::CannotRun(text) } else { Shown::Failed(text) }
            }
        }
    }
}

/// A program in Python that runs one in bash and takes its observations.
fn started(code: &str) -> String {
    let code = json!(code);
    format!(
        "import subprocess\nran = subprocess.run(['bash', '-c', {code}, 'main.sh'], stdout=subprocess.PIPE, text=True, env=dict(os.environ, ATTACK=json.dumps(TARGET)))\n\
         for line in ran.stdout.splitlines():\n    if line.startswith('{LINE}'):\n        EVIDENCE.update(json.loads(line[{}:]))\n",
        LINE.len()
    )
}

async fn evidence(
    attack: &Attack,
    control: &Control,
    python: &Path,
    folder: &Path,
    preludes: &Preludes,
    map: &Map,
) -> Result<Vec<Evidence>> {
    let report = tempfile::NamedTempFile::new()?;
    let mut target = serde_json::to_value(map)?;
    target["report"] = json!(report.path());
    let whole = |code: &String| match attack.language {
        Payload::Python => preludes.whole(Payload::Python, code),
        Payload::Bash => preludes.whole(Payload::Python, &started(&preludes.whole(Payload::Bash, code))),
    };
    let plan = json!({
        "mode": match control.mode { Mode::Apart => "apart", Mode::Fork => "fork", Mode::Same => "same" },
        "jobs": attack.jobs.iter().map(whole).collect::<Vec<_>>(),
        "neighbour": attack.neighbour.as_ref().map(whole),
        "target": target.to_string(),
    });
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(plan.to_string().as_bytes())?;
    let script = folder.join("control.py");
    let line = [python.as_os_str(), "-I".as_ref(), script.as_os_str(), file.path().as_os_str()];
    let mut words = control.within.iter().map(AsRef::as_ref).chain(line);
    let mut command = Command::new(words.next().context("no command")?);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = tokio::time::timeout(CONTROL_TIMEOUT, command.output()).await.context("the control hangs")??;
    let told: Vec<_> =
        std::fs::read_to_string(report.path())?.lines().map(Evidence::parse).collect::<Result<_, _>>()?;
    if told.is_empty() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("no evidence ({}): {}", output.status, words.lines().last().unwrap_or_default());
    }
    Ok(told)
}
