//! `thermae run`: runs one program, prints its output, and ends with an exit status for its outcome.

mod capabilities;
mod files;
mod inputs;
mod job;
mod output;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use thermae_client::{Events, JobHandle};
use thermae_schemas::{BatchLine, EventBody, Job, Outcome, json};
use tokio_util::sync::CancellationToken;

use crate::approvals::Approver;
use crate::args::{RunArgs, Stream};
use crate::failure::{Exit, Failure};
use crate::tools::{Tools, Trust};
use crate::{artifacts, fleet, style};
pub(crate) use job::limits;
use output::Printer;

/// How long to wait for the outcome of an interrupted job.
const CANCEL_WITHIN: Duration = Duration::from_secs(2);

/// The job and its tools, read from the command line and from the files that it names.
struct Prepared {
    tools: Arc<Tools>,
    job: Job,
}

fn prepare(args: &RunArgs) -> Result<Prepared, Failure> {
    let files = args.tools.tools_file.as_deref();
    // A program in bash can't call tools. Those of a file that happens to be beside it are not meant for it.
    let beside = if job::language(args)?.calls_tools() { beside(args) } else { None };
    let tools = Arc::new(Tools::gather(&args.tools.tools, files, beside, &Trust::of_user())?);
    Ok(Prepared { job: job::job(args, &tools)?, tools })
}

/// The folder of the program; `None` if the program comes from standard input.
fn beside(args: &RunArgs) -> Option<&Path> {
    args.file.as_deref().filter(|file| file.as_os_str() != "-").and_then(Path::parent)
}

/// Runs the program.
///
/// # Errors
/// A file or an option can't be used, the fleet can't be reached or fails, or artifacts can't be saved.
pub(crate) async fn run(args: &RunArgs, interrupt: &CancellationToken) -> Result<Exit, Failure> {
    // Prepare on another thread: reading a pipe or a terminal may block forever, and an interrupt must still end the
    // command.
    let own = args.clone();
    let prepared = tokio::select! {
        prepared = tokio::task::spawn_blocking(move || prepare(&own)) => prepared,
        () = interrupt.cancelled() => return Ok(Exit::Interrupted),
    };
    let failed = |error| Failure::fleet("internal", format!("the job could not be prepared: {error}"));
    let Prepared { tools, mut job } = prepared.map_err(failed)??;
    let embedded = fleet::embedded(&args.fleet, &args.embedded, &job.limits, Some(1))?;
    let live = !args.json
        && match args.stream {
            Stream::Always => true,
            Stream::Never => false,
            Stream::Auto => std::io::IsTerminal::is_terminal(&std::io::stdout()),
        };
    // Stream output even if nobody watches: otherwise an interrupt would lose lines that are still in the job's
    // buffers.
    job.stream = vec![thermae_schemas::Stream::Output];
    if live {
        job.stream.push(thermae_schemas::Stream::Display);
    }
    if job.session.is_some() && !args.fleet.is_remote() && !args.json {
        style::note(
            "the embedded fleet ends with this command, and so does the session (--amqp names a fleet that stays up)",
        );
    }
    let id = job.id.clone();
    let fleet = fleet::open(&args.fleet, embedded, interrupt).await?;
    if args.artifacts.is_some() {
        artifacts::ask(&fleet, &mut job);
    }
    let approver = Approver::of(&job, &fleet);
    let mut handle = tokio::select! {
        submitted = fleet.submit(job, tools.handler()) => submitted.map_err(fleet::failed)?,
        () = interrupt.cancelled() => return Ok(Exit::Interrupted),
    };
    let mut printer = Printer::default();
    let events = (live || approver.is_some()).then(|| handle.events());
    let (mut outcome, interrupted) = tokio::select! {
        outcome = follow(&handle, events, live.then_some(&mut printer), approver.as_ref()) => (outcome?, false),
        why = fleet.unfit() => {
            fleet.close().await;
            return Err(fleet::unfit(why));
        }
        () = interrupt.cancelled() => {
            let ended = tokio::time::timeout(CANCEL_WITHIN, async {
                let _ = handle.cancel().await;
                handle.result().await.ok()
            });
            let Ok(Some(outcome)) = ended.await else {
                fleet.close().await;
                return Ok(Exit::Interrupted);
            };
            // Show what is known of an interrupted job, such as its output so far.
            (outcome, true)
        }
    };
    let exit = match interrupted {
        true => Exit::Interrupted,
        false => Exit::of(outcome.status, outcome.error.as_ref().map(|error| error.code)),
    };
    let saved = match &args.artifacts {
        Some(into) => Some(artifacts::save(&fleet, &mut outcome, into, &tools.folders(beside(args))).await),
        None => None,
    };
    if args.json {
        let line = BatchLine { id: id.to_string(), outcome };
        let text = json::line(&line)
            .map_err(|error| Failure::fleet("internal", format!("the outcome can't be written as JSON: {error}")))?;
        style::print(&text);
    } else {
        printer.finish(&outcome, args.value);
        let into = args.artifacts.as_deref();
        output::files(&outcome, into.zip(saved.as_ref().and_then(|saved| saved.as_ref().ok())));
    }
    fleet.close().await;
    saved.transpose()?;
    Ok(exit)
}

/// Follows a job to its outcome. `printer` gets what it shows meanwhile, and `approver` the calls that wait for
/// approval. While a question is open in the terminal, the output waits.
async fn follow(
    handle: &JobHandle,
    events: Option<Events>,
    mut printer: Option<&mut Printer>,
    approver: Option<&Approver>,
) -> Result<Outcome, Failure> {
    let mut waiting = Vec::new();
    if let Some(mut events) = events {
        loop {
            let answered = OptionFuture::from(approver.map(Approver::answered));
            let event = tokio::select! {
                event = events.next() => match event {
                    Some(event) => Some(event.body),
                    None => break,
                },
                _ = answered, if !waiting.is_empty() => None,
            };
            if let Some(approver) = approver
                && let Some(EventBody::Approval(_) | EventBody::Decided(_)) = &event
            {
                event.into_iter().for_each(|event| approver.hear(event));
            } else if let Some(printer) = &mut printer {
                waiting.extend(event);
                let mut print = || waiting.drain(..).for_each(|event| printer.event(&event));
                match approver {
                    Some(approver) => approver.unless_asking(print),
                    None => print(),
                }
            }
        }
    }
    if let Some(printer) = printer {
        waiting.iter().for_each(|event| printer.event(event));
    }
    handle.result().await.map_err(fleet::failed)
}
