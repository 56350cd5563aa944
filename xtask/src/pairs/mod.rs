//! `cargo xtask pairs`: the bench's rows with the binaries of two checkouts, in turns.
//!
//! A machine's speed changes by more than a change of the code does. So each pair measures both checkouts, one right
//! after the other. The report gives the ratio within the pairs, as a mean with its 95 % interval. A row is slower only
//! if that whole interval is above [`BAR`].
//!
//! - Each checkout has a RabbitMQ and a Redis of its own, with the configuration of this checkout. They run only while
//!   their checkout is measured.
//! - Both checkouts use one Docker engine, and images that share all but the runner, so that both read the same files
//!   of the same disk.
//! - Servers, scheduler, worker and containers are new in each pair. Differences between two starts, such as the place
//!   of something in memory, would otherwise be the same in all pairs, and the intervals would not show them.
//! - Rows on the fleet are timed once it has settled.

mod side;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::services::{Service, set::Set};
use crate::{bench, paths, stats, supervise};
use side::{Figure, Side};

/// A row is slower if its whole interval is above this ratio.
const BAR: f64 = 1.05;

/// What is compared, and for how long.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Checkout to compare with. What it lacks is built there.
    #[arg(long, value_name = "CHECKOUT")]
    before: PathBuf,
    /// Number of pairs.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(2..))]
    pairs: u32,
    /// Number of timed jobs for each row of a measurement, with one in flight.
    ///
    /// Programs in sessions, tool calls and bare forks are timed twenty times as often.
    #[arg(long, default_value_t = 100)]
    jobs: u32,
    /// Time to measure each rate, in seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Python interpreter with pandas, for the embedded fleets; by default, one that is made below `target`.
    ///
    /// Older binaries refuse an interpreter below `/tmp`.
    #[arg(long, value_name = "INTERPRETER")]
    python: Option<PathBuf>,
}

/// Measures all pairs, and prints and writes the report. Fails if a row got slower.
pub(crate) fn run(options: &Options) -> Result<()> {
    supervise::begin()?;
    let before = options.before.canonicalize().with_context(|| format!("{}", options.before.display()))?;
    let [old, new] = [&before, &paths::root()].map(|root| paths::target_in(root));
    ensure!(old != new, "both checkouts build in {}; unset CARGO_TARGET_DIR, or name another checkout", new.display());
    let dir = paths::root().join("target/pairs");
    fs::create_dir_all(&dir)?;
    let python = match &options.python {
        Some(python) => python.clone(),
        None => bench::venv(&paths::root().join("target/bench"))?,
    };
    let mut sides = [Side::open("before", before)?, Side::open("after", paths::root())?];
    let mut engine = Set::open("pairs-engine")?;
    // An earlier run leaves the engine behind if it is killed.
    engine.stop()?;
    let measured = measure(options, &mut engine, &mut sides, &dir, &python.display().to_string());
    let mut stopped: Vec<_> = sides.iter_mut().map(Side::stop).collect();
    stopped.push(engine.stop());
    let pairs = measured?;
    stopped.into_iter().collect::<Result<()>>()?;

    let report = report(&pairs)?;
    let file = dir.join("latest.json");
    fs::write(&file, serde_json::to_vec_pretty(&report)?)?;
    println!("written to {}", file.display());
    let slower: Vec<_> =
        report.iter().filter(|row| row["slower"] == true).map(|row| row["figure"].to_string()).collect();
    ensure!(slower.is_empty(), "slower than before: {}", slower.join(", "));
    Ok(())
}

/// The figures of both checkouts (before, after) in each pair.
type Pairs = Vec<[BTreeMap<Figure, f64>; 2]>;

fn measure(
    options: &Options,
    engine: &mut Set,
    sides: &mut [Side; 2],
    dir: &std::path::Path,
    python: &str,
) -> Result<Pairs> {
    engine.start(&[Service::Docker])?;
    for side in &*sides {
        side.make_image(engine)?;
    }
    let mut pairs = Pairs::new();
    for n in 0..options.pairs as usize {
        ensure!(!supervise::interrupted(), "interrupted");
        println!("pair {} of {}", n + 1, options.pairs);
        let mut pair = [BTreeMap::new(), BTreeMap::new()];
        for at in [n % 2, 1 - n % 2] {
            pair[at] = sides[at].measure(engine, dir, python, options.jobs, options.seconds)?;
        }
        pairs.push(pair);
    }
    Ok(pairs)
}

/// Prints all figures. Gives the ratios of those that both checkouts have.
fn report(pairs: &Pairs) -> Result<Vec<Value>> {
    let of =
        |figure: &Figure, at: usize| pairs.iter().filter_map(|pair| pair[at].get(figure).copied()).collect::<Vec<_>>();
    let figures = pairs.iter().flatten().flat_map(BTreeMap::keys).collect::<std::collections::BTreeSet<_>>();
    println!("{:<34} {:>10} {:>10} {:>7}  95 %", "figure", "before", "after", "ratio");
    let mut rows = Vec::new();
    for figure in figures {
        let (before, after) = (of(figure, 0), of(figure, 1));
        let name = figure.to_string();
        if before.len() != pairs.len() || after.len() != pairs.len() {
            println!("{name:<34} {:>10.3} {:>10.3}", stats::median(before), stats::median(after));
            continue;
        }
        let ratios: Vec<f64> = before.iter().zip(&after).map(|(before, after)| after / before).collect();
        let ratio = stats::ratio(&ratios).with_context(|| format!("no ratio of {name}"))?;
        let slower = ratio.low > BAR;
        println!(
            "{name:<34} {:>10.3} {:>10.3} {:>7.3}  {:.3} to {:.3}{}",
            stats::median(before.clone()),
            stats::median(after.clone()),
            ratio.mean,
            ratio.low,
            ratio.high,
            if slower { "  slower" } else { "" }
        );
        rows.push(json!({
            "figure": name, "before": before, "after": after, "ratio": ratio.mean, "low": ratio.low,
            "high": ratio.high, "slower": slower,
        }));
    }
    ensure!(!rows.is_empty(), "the two checkouts have no row in common");
    Ok(rows)
}
