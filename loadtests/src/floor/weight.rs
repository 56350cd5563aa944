//! The memory of a container that waits for a job: that of its processes, where each process counts its share (`Pss`)
//! of the memory that several processes map. Several containers are weighed together, as a worker has them, because
//! files that they all map are in memory only once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::spawn_blocking;

use super::site::Site;
use crate::cases::Case;
use crate::process;
use crate::report::Weight;

/// Number of containers that are weighed together.
const CONTAINERS: u32 = 4;

/// Number of spares in the containers that show what one spare weighs.
const SPARES: u32 = 5;

/// Programs that each container runs before it is weighed. After these, its zygotes grow no further.
const WARM_UP: u32 = 5;

/// Time until the last program's remains are gone and the spares are made.
const PAUSE: Duration = Duration::from_millis(500);

/// Weighs containers without a preload list, what each spare adds to them, and containers that have numpy and pandas
/// loaded.
///
/// # Errors
/// No container can be made here.
pub async fn weigh(python: Option<PathBuf>) -> Result<Vec<Weight>> {
    let bare = idle(python.clone(), Case::Print, 1, false).await?;
    let stocked = idle(python.clone(), Case::Print, SPARES, false).await?;
    let loaded = idle(python, Case::Pandas, 1, true).await?;
    let spare = (stocked - bare) / f64::from(SPARES - 1);
    let weights = [("container", bare), ("container with pandas", loaded), ("spare", spare)];
    Ok(weights.into_iter().map(|(what, bytes)| Weight::new(what, bytes)).collect())
}

async fn idle(python: Option<PathBuf>, case: Case, spares: u32, preload: bool) -> Result<f64> {
    let mut site = Site::open(python)?;
    site.change(|pool| {
        pool.spares = spares;
        pool.preload_eager = preload;
        if !preload {
            pool.preload.clear();
        }
    });
    let mut containers = Vec::new();
    for _ in 0..CONTAINERS {
        let mut container = site.container().await?;
        let warm = move || (0..WARM_UP).try_for_each(|_| container.once(case).map(drop)).map(|()| container);
        containers.push(spawn_blocking(warm).await.context("the warm-up panicked")??);
    }
    tokio::time::sleep(PAUSE).await;
    let weight = descendants(std::process::id()).into_iter().filter_map(share).sum::<u64>();
    for container in containers {
        container.end().await;
    }
    Ok(weight as f64 / f64::from(CONTAINERS))
}

/// All processes below this one, by their ids in this process's pid namespace.
fn descendants(of: u32) -> BTreeSet<u32> {
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in brackets may contain anything, brackets too, but the fields after it can't.
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: BTreeMap<u32, u32> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = BTreeSet::new();
    loop {
        let is_new =
            |(pid, parent): &(&u32, &u32)| !found.contains(*pid) && (**parent == of || found.contains(*parent));
        let more: Vec<u32> = parents.iter().filter(is_new).map(|(pid, _)| *pid).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// A process's share of the memory that it maps, in bytes; `None` if the process is gone.
fn share(pid: u32) -> Option<u64> {
    process::bytes(pid, "smaps_rollup", "Pss")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_and_weighs_something() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = descendants(std::process::id());
        assert!(found.contains(&child.id()) && share(child.id()).unwrap() > 0);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
