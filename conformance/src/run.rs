//! Runs modules on both sides, a few at once, and judges the differences.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use futures::StreamExt;

use crate::compare::{self, Compared, Difference};
use crate::inside::{AT_ONCE, Inside};
use crate::list::List;
use crate::outside::Outside;
use crate::report::{self, Module, Summary};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Python interpreter to test. It must have the whole package `test`.
    #[arg(long, default_value = "/usr/bin/python3")]
    pub python: PathBuf,
    /// Run only these modules (comma-separated).
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Run only a dozen fast modules.
    #[arg(long)]
    pub quick: bool,
}

/// Runs the modules that the options select, prints a line for each, and gives the summary.
///
/// # Errors
/// No sandbox can be made here, or the interpreter can't be started.
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
        // Some of CPython's own tests depend on the machine's load. Only a case that differs again counts as a
        // difference; the others are reported as unsteady.
        let (again, _) = once().await?;
        let stays = |d: &Difference| again.differences.iter().any(|a| a.case == d.case);
        (judged.unexplained, unsteady) = judged.unexplained.into_iter().partition(stays);
        compared.same += unsteady.len();
    }
    Ok(Module { name, compared, judged, unsteady, took_ms })
}
