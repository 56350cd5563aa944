//! `thermae batch`: reads a file of jobs, and writes a file of results.
//!
//! The `id` of each line is for the files only: on the fleet, every run of a line is a new job with a new id. A job
//! with a result in the file is never run again, and a job counts as done only when its result is in the file. So the
//! same command can be run again after a kill, and goes on where the killed one was.

mod drive;
pub(crate) mod jobs;
mod progress;
mod results;
mod summary;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thermae_fleet::Fleet;
use thermae_schemas::{BatchLine, Job, Outcome, Status};
use tokio_util::sync::CancellationToken;

use crate::approvals::Approver;
use crate::args::BatchArgs;
use crate::failure::{Exit, Failure};
use crate::run::limits;
use crate::tools::{Tools, Trust};
use crate::{artifacts, fleet, style};
use jobs::{Defaults, Index};
use progress::Progress;
use results::{Ended, Results};
use summary::Summary;

/// Number of jobs in flight on a real fleet, by default.
const ON_A_FLEET: usize = 32;
/// Number of bad lines that are shown. The others are only counted.
const SHOWN: usize = 20;
/// How long sending a cancel may take after the batch is told to stop.
const CANCEL_WITHIN: Duration = Duration::from_secs(2);

/// Runs the batch.
///
/// # Errors
/// A file can't be used, or the fleet can't be reached, or the fleet fails during the batch.
pub(crate) async fn batch(args: &BatchArgs, interrupt: &CancellationToken) -> Result<Exit, Failure> {
    let beside = args.jobs.parent();
    let tools =
        Arc::new(Tools::gather(&args.tools.tools, args.tools.tools_file.as_deref(), beside, &Trust::of_user())?);
    let limits = limits(&args.limits)?;
    let embedded = fleet::embedded(&args.fleet, &args.embedded, &limits, None)?;
    let defaults =
        Defaults { max_attempts: args.max_attempts, limits, tools: tools.specs(), sync_tools: args.tools.sync_tools };
    let retry = statuses(&args.retry)?;
    let unreadable =
        |error: std::io::Error| Failure::usage("bad_jobs_file", format!("can't read {}: {error}", args.jobs.display()));
    let mut file = jobs::open(&args.jobs).map_err(unreadable)?;
    let index = jobs::scan(&mut file, &defaults).map_err(unreadable)?;
    refuse_problems(&index, args)?;
    let (mut results, had) = Results::open(&args.out, &retry)?;

    let ids: HashSet<&str> = index.entries.iter().map(|entry| entry.id.as_str()).collect();
    let mut summary = Summary { jobs: ids.len(), ..Summary::default() };
    for (_, ended) in had.iter().filter(|(id, _)| ids.contains(id.as_str())) {
        summary.before += 1;
        summary.count(*ended);
    }
    if had.len() > summary.before && !args.json {
        let others = had.len() - summary.before;
        style::note(&format!(
            "{} has {others} results of jobs that are not in {}",
            args.out.display(),
            args.jobs.display()
        ));
    }
    let mut todo = index.entries.iter().filter(|entry| !had.contains_key(&entry.id));
    if summary.missing() == 0 {
        return Ok(finish(args, &summary, Duration::ZERO));
    }

    let fleet = fleet::open(&args.fleet, embedded, interrupt).await?;
    let at_once = args.concurrency.map_or_else(|| default_concurrency(&fleet), |n| n as usize);
    let mut progress = Progress::new(summary.missing() as u64, args.json);
    let next = || match todo.next() {
        None => Ok(None),
        Some(entry) => jobs::read(&mut file, entry, &defaults)
            .map(|job| Some((entry.id.clone(), job)))
            .map_err(|why| Failure::usage("bad_jobs_file", format!("{}:{}: {why}", args.jobs.display(), entry.line))),
    };
    let done = |id: String, outcome: Outcome| {
        let ended = Ended { status: outcome.status, code: outcome.error.as_ref().map(|error| error.code) };
        results.add(&BatchLine { id, outcome })?;
        summary.done += 1;
        summary.count(ended);
        progress.ended(ended.status == Status::Succeeded);
        Ok(())
    };
    let stop = interrupt.child_token();
    let kept = args.artifacts.as_deref().map(|into| (into, tools.folders(beside)));
    let run = |id: String, job| run(&fleet, id, job, &tools, &stop, kept.as_ref());
    let driven = tokio::select! {
        driven = drive::drive(at_once, &stop, next, run, done) => driven,
        why = fleet.unfit() => Err(fleet::unfit(why)),
    };
    let elapsed = progress.finish();
    results.sync();
    fleet.close().await;
    let exit = finish(args, &summary, elapsed);
    driven?;
    if interrupt.is_cancelled() {
        if !args.json {
            style::note("interrupted; run the same command again to continue");
        }
        return Ok(Exit::Interrupted);
    }
    Ok(exit)
}

/// Submits one job, waits for its outcome, and saves its artifacts. When `stop` is cancelled, cancels the job and gives
/// `None`.
async fn run(
    fleet: &Fleet,
    id: String,
    mut job: Job,
    tools: &Arc<Tools>,
    stop: &CancellationToken,
    into: Option<&(&Path, Vec<PathBuf>)>,
) -> Result<Option<Outcome>, Failure> {
    if into.is_some() {
        artifacts::ask(fleet, &mut job);
    }
    let approver = Approver::unattended(&job, fleet);
    let mut handle = tokio::select! {
        submitted = fleet.submit(job, tools.handler()) => submitted.map_err(fleet::failed)?,
        () = stop.cancelled() => return Ok(None),
    };
    let events = approver.is_some().then(|| handle.events());
    let ended = async {
        if let Some((approver, events)) = approver.as_ref().zip(events) {
            approver.hear_all(events).await;
        }
        handle.result().await
    };
    let mut outcome = tokio::select! {
        biased;
        outcome = ended => outcome.map_err(fleet::failed)?,
        () = stop.cancelled() => {
            let _ = tokio::time::timeout(CANCEL_WITHIN, handle.cancel()).await;
            return Ok(None);
        }
    };
    // Save artifacts before the result is written: if the batch is killed in between, the job runs again.
    if let Some((into, run_from)) = into.filter(|_| !outcome.artifacts.is_empty()) {
        let folder = artifacts::new_folder_of(into, &id)?;
        artifacts::save(fleet, &mut outcome, &folder, run_from).await?;
    }
    Ok(Some(outcome))
}

fn default_concurrency(fleet: &Fleet) -> usize {
    if fleet.is_embedded() { 2 * std::thread::available_parallelism().map_or(1, |n| n.get()) } else { ON_A_FLEET }
}

fn statuses(names: &[String]) -> Result<Vec<Status>, Failure> {
    let known = || Status::ALL.map(Status::as_str).join(", ");
    let find = |name: &String| {
        Status::ALL.into_iter().find(|status| status.as_str() == name.trim()).ok_or_else(|| {
            Failure::usage("usage", format!("--retry {name:?} is not a status"))
                .help(format!("use one or more of: {}", known()))
        })
    };
    names.iter().map(find).collect()
}

fn refuse_problems(index: &Index, args: &BatchArgs) -> Result<(), Failure> {
    if index.problems.is_empty() {
        return Ok(());
    }
    let mut text = format!("{} has lines that are not jobs; nothing was run", args.jobs.display());
    for problem in index.problems.iter().take(SHOWN) {
        text.push_str(&format!("\n  {}:{}: {}", args.jobs.display(), problem.line, problem.message));
    }
    if index.problems.len() > SHOWN {
        text.push_str(&format!("\n  … and {} more", index.problems.len() - SHOWN));
    }
    Err(Failure::usage("bad_jobs_file", text)
        .help("each line is one JSON object: {\"id\": \"a\", \"code\": \"print(1)\"}"))
}

fn finish(args: &BatchArgs, summary: &Summary, elapsed: Duration) -> Exit {
    if args.json {
        style::print(format!("{}\n", summary.json(elapsed)).as_bytes());
    } else {
        style::print_styled(&summary.table(elapsed));
    }
    summary.exit()
}
