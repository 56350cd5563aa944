//! `thermae run`: one program, its output as it comes, its outcome as the exit status.

mod files;
mod job;
mod output;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thermae_client::{Events, JobHandle};
use thermae_schemas::{BatchLine, EventBody, Job, Outcome};
use tokio_util::sync::CancellationToken;

use crate::args::{RunArgs, Stream};
use crate::failure::{Exit, Failure};
use crate::tools::{Tools, Trust};
use crate::{artifacts, fleet, style};
use files::Given;
pub(crate) use job::limits;
use output::Printer;

/// How long an interrupted job's outcome is waited for.
const CANCEL_WITHIN: Duration = Duration::from_secs(2);

/// What the command line and the files that it names amount to.
struct Prepared {
    tools: Arc<Tools>,
    job: Job,
    given: Vec<Given>,
}

fn prepare(args: &RunArgs) -> Result<Prepared, Failure> {
    let files = args.tools.tools_file.as_deref();
    let tools = Arc::new(Tools::gather(&args.tools.tools, files, beside(args), &Trust::of_user())?);
    Ok(Prepared { job: job::job(args, &tools)?, given: files::read(&args.job.files)?, tools })
}

/// The folder of the program, where it is a file.
fn beside(args: &RunArgs) -> Option<&Path> {
    (args.file.as_os_str() != "-").then(|| args.file.parent()).flatten()
}

/// Runs the command.
///
/// # Errors
/// A file or option that can't be used, a fleet that can't be reached.
pub(crate) async fn run(args: &RunArgs, interrupt: &CancellationToken) -> Result<Exit, Failure> {
    // On a thread of its own: who reads a pipe or a terminal may wait for ever, and an interrupt is to end that.
    let own = args.clone();
    let prepared = tokio::select! {
        prepared = tokio::task::spawn_blocking(move || prepare(&own)) => prepared,
        () = interrupt.cancelled() => return Ok(Exit::Interrupted),
    };
    let failed = |error| Failure::fleet("internal", format!("the job could not be prepared: {error}"));
    let Prepared { tools, mut job, given } = prepared.map_err(failed)??;
    let embedded = fleet::embedded(&args.fleet, &args.embedded, &job.limits, Some(1))?;
    let live = !args.json
        && match args.stream {
            Stream::Always => true,
            Stream::Never => false,
            Stream::Auto => std::io::IsTerminal::is_terminal(&std::io::stdout()),
        };
    // Also where nobody watches: a job that streams its output is not left with lines in its buffers when it is interrupted.
    job.stream = vec![thermae_schemas::Stream::Output];
    if live {
        job.stream.push(thermae_schemas::Stream::Display);
    }
    if job.session.is_some() && !args.fleet.is_remote() && !args.json {
        style::note(
            "the embedded fleet ends with this command, and the session with it (--amqp names a fleet that stays)",
        );
    }
    let id = job.id.clone();
    let fleet = fleet::open(&args.fleet, embedded, interrupt).await?;
    job.files = files::bring(&fleet, given).await?;
    if args.artifacts.is_some() {
        artifacts::ask(&fleet, &mut job);
    }
    let mut handle = tokio::select! {
        submitted = fleet.submit(job, tools.handler()) => submitted.map_err(fleet::failed)?,
        () = interrupt.cancelled() => return Ok(Exit::Interrupted),
    };
    let mut printer = Printer::default();
    let events = live.then(|| handle.events());
    let (mut outcome, interrupted) = tokio::select! {
        outcome = follow(&handle, events, &mut printer) => (outcome?, false),
        why = fleet.unfit() => {
            fleet.close().await;
            return Err(fleet::unfit(why, &args.fleet));
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
            // What it had printed until then is shown, like all else that is known of it.
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
        let text = serde_json::to_string(&line)
            .map_err(|error| Failure::fleet("internal", format!("the outcome can't be written as JSON: {error}")))?;
        style::print(format!("{text}\n").as_bytes());
    } else {
        printer.finish(&outcome, args.value);
        let into = args.artifacts.as_deref();
        output::files(&outcome, into.zip(saved.as_ref().and_then(|saved| saved.as_ref().ok())));
    }
    fleet.close().await;
    saved.transpose()?;
    Ok(exit)
}

async fn follow(handle: &JobHandle, events: Option<Events>, printer: &mut Printer) -> Result<Outcome, Failure> {
    if let Some(mut events) = events {
        while let Some(event) = events.next().await {
            match event.body {
                EventBody::Stdout { seq, text } => printer.stdout(seq, &text),
                EventBody::Stderr { seq, text } => printer.stderr(seq, &text),
                EventBody::Display { data } => printer.display(&data),
                _ => {}
            }
        }
    }
    handle.result().await.map_err(fleet::failed)
}
