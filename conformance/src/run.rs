//! Runs modules on both sides, a few at once, and judges what they tell.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use futures::StreamExt;

use crate::compare::{self, Compared, Difference, Judged};
use crate::inside::{AT_ONCE, Inside};
use crate::list::List;
use crate::outside::Outside;
use crate::report::{self, Summary};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The interpreter; its package `test` must be whole.
    #[arg(long, default_value = "/usr/bin/python3")]
    pub python: PathBuf,
    /// Only these modules.
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only the few fast ones.
    #[arg(long)]
    pub quick: bool,
}

/// One module, judged.
#[derive(Debug)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// Cases, and how many went alike.
    pub compared: Compared,
    /// What did not.
    pub judged: Judged,
    /// Cases that differed the first time and not the second.
    pub unsteady: Vec<Difference>,
    /// How long each side took, in milliseconds.
    pub took_ms: (u64, u64),
}

/// Runs what the options ask for and prints a line a module; the sum.
///
/// # Errors
/// No sandbox can be made here, or no interpreter started.
pub async fn run(options: &Options) -> Result<Summary> {
    let list = List::read()?;
    let names = chosen(&list, options)?;
    let begun = Instant::now();
    let inside = Inside::start(&options.python).await?;
    let outside = Outside::new(&options.python, inside.environment().await?)?;
    let mut modules = futures::stream::iter(names)
        .map(|name| examine(name, &list, &inside, &outside))
        .buffer_unordered(AT_ONCE as usize);
    let mut summary = Summary::default();
    while let Some(module) = modules.next().await {
        let module = module?;
        report::print(&module);
        summary.add(&module);
    }
    drop(modules);
    inside.close().await;
    summary.seconds = begun.elapsed().as_secs();
    Ok(summary)
}

fn chosen(list: &List, options: &Options) -> Result<Vec<String>> {
    if options.quick {
        return Ok(list.quick.clone());
    }
    if options.only.is_empty() {
        return Ok(list.modules.clone());
    }
    for name in &options.only {
        ensure!(list.modules.contains(name), "{name} is not in cpython.toml's `modules`");
    }
    Ok(options.only.clone())
}

async fn examine(name: String, list: &List, inside: &Inside, outside: &Outside) -> Result<Module> {
    let reasons = list.differs.get(&name);
    let skip = list.skip(&name);
    let once = async || -> Result<(Compared, (u64, u64))> {
        let (here, there) = (inside.run(&name, &skip).await?, outside.run(&name, &skip).await?);
        Ok((compare::compare(&here, &there), (here.took_ms, there.took_ms)))
    };
    let (mut compared, took_ms) = once().await?;
    let mut judged = compare::judge(compared.differences.clone(), reasons);
    let mut unsteady = Vec::new();
    if !judged.unexplained.is_empty() {
        // Some of CPython's own tests depend on the machine's load: only what differs again is a difference. The others are told.
        let (again, _) = once().await?;
        let stays = |d: &Difference| again.differences.iter().any(|a| a.case == d.case);
        (judged.unexplained, unsteady) = judged.unexplained.into_iter().partition(stays);
        compared.same += unsteady.len();
    }
    Ok(Module { name, compared, judged, unsteady, took_ms })
}
