//! What the Python package costs: prints through it, in turns with the same prints on an embedded fleet in this
//! process.
//!
//! Each side has an embedded fleet of its own. The package's is in a bridge of the same build, in a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::report::Row;
use crate::target;
use crate::turns::{self, Side, Size, Turn};

/// How much is measured, and with what.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Folder of the package's source; it has `src` and `scripts`.
    #[arg(long)]
    pub package: PathBuf,
    /// Path of the program `thermae`; by default, the one beside this program.
    #[arg(long)]
    pub program: Option<PathBuf>,
    /// How many prints.
    #[command(flatten)]
    pub size: Size,
}

/// Measures `print` through `Sandbox` (the row `sdk`) and `AsyncSandbox` (`sdk_async`), in turns with the embedded
/// fleet of this process (`beside_sdk`).
///
/// # Errors
/// There is no embedded fleet, the package's program can't be started, or an answer is wrong.
pub async fn measure(target: &target::Options, options: &Options) -> Result<Vec<Row>> {
    ensure!(target.amqp.is_none(), "the package is compared with the embedded fleet: leave --amqp out");
    let beside = || anyhow::Ok(std::env::current_exe()?.with_file_name("thermae"));
    let program = options.program.clone().map_or_else(beside, Ok)?;
    let python = target.python.clone().unwrap_or_else(|| "python3".into());
    let here = target.open().await?;
    here.ready().await;
    let package = |class| Package::start(&python, &options.package, &program, class);
    let (mut plain, mut on_a_loop) = (package("Sandbox")?, package("AsyncSandbox")?);
    let mut sides = ["beside_sdk", "sdk", "sdk_async"].map(Side::new);
    for (prints, at_once, counts) in options.size.turns() {
        let turns = [
            turns::prints(&here.client, prints, at_once).await?,
            plain.turn(prints, at_once)?,
            on_a_loop.turn(prints, at_once)?,
        ];
        for (side, turn) in sides.iter_mut().zip(turns).filter(|_| counts) {
            side.add(prints, &turn)?;
        }
    }
    plain.end()?;
    on_a_loop.end()?;
    here.close().await;
    Ok(sides.iter().map(Side::row).collect())
}

/// A program that uses the package. It ends when its input does, or with this object.
struct Package {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Package {
    fn start(python: &Path, package: &Path, program: &Path, class: &str) -> Result<Self> {
        let mut command = Command::new(python);
        command.arg(package.join("scripts/prints.py")).arg(class);
        command.env("PYTHONPATH", package.join("src")).env("THERMAE_BIN", program).env_remove("THERMAE_URL");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start Python")?;
        let (input, output) = (process.stdin.take(), process.stdout.take().context("no output")?);
        Ok(Self { process, input, output: BufReader::new(output) })
    }

    fn turn(&mut self, prints: u32, at_once: u32) -> Result<Turn> {
        let input = self.input.as_mut().context("no input")?;
        writeln!(input, r#"{{"prints": {prints}, "at_once": {at_once}}}"#)?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).context("the program that uses the package has failed")
    }

    fn end(mut self) -> Result<()> {
        self.input = None;
        let status = self.process.wait()?;
        ensure!(status.success(), "the program that uses the package: {status}");
        Ok(())
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
