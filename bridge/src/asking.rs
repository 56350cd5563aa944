//! Requests that have one short answer: to open the fleet, questions to the fleet, and what a connection says about
//! runs that it need not follow.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use thermae_schemas::{Decision, JobId, RunQuery, ToolSpec, Verdict};
use tokio::sync::Semaphore;

use crate::connection::{ANSWER_WITHIN, Shared};
use crate::open::Opener;
use crate::terms::Approves;
use crate::{Refusal, reply, run};

/// Checks of tools at once, in all connections: each may keep a core busy.
static CHECKS: Semaphore = Semaphore::const_new(2);

/// Opens the fleet, and watches whether it can run anything.
pub(crate) async fn open(
    shared: Arc<Shared>,
    opener: Arc<dyn Opener>,
    id: u64,
    ask: Map<String, Value>,
) -> Result<(), Refusal> {
    let opened = opener.open(ask).await.map(Arc::new);
    shared.opened.send_replace(Some(opened.clone()));
    let opened = opened?;
    shared.outbox.send(reply::opened(id, opened.facts()));
    tokio::select! {
        why = opened.fleet.unfit() => {
            shared.unfit.send_replace(Some(thermae_fleet::Error::Embedded(why).into()));
        }
        () = shared.ending.cancelled() => {}
    }
    Ok(())
}

/// The live sessions.
pub(crate) async fn sessions(shared: Arc<Shared>, id: u64) -> Result<(), Refusal> {
    let opened = shared.opened().await?;
    let sessions = opened.client.sessions(ANSWER_WITHIN).await?;
    let listed = serde_json::to_vec(&sessions).map_err(|error| Refusal::new("internal", error.to_string()))?;
    shared.outbox.send(reply::done_with(id, listed));
    Ok(())
}

/// Whether a job may declare these tools, and its code call them. A worker would refuse calls of a tool whose schema it
/// can't read, and so the SDK's user hears of it before a program does.
pub(crate) async fn check_tools(shared: Arc<Shared>, id: u64, payload: Bytes) -> Result<(), Refusal> {
    shared.opened().await?;
    let internal = |error: &dyn std::fmt::Display| Refusal::new("internal", error.to_string());
    let _permit = CHECKS.acquire().await.map_err(|error| internal(&error))?;
    let checked = tokio::task::spawn_blocking(move || {
        let tools: Vec<ToolSpec> = serde_json::from_slice(&payload).map_err(|error| error.to_string())?;
        thermae_worker::check_tools(&tools)
    });
    let checked = checked.await.map_err(|error| internal(&error))?;
    checked.map_err(|why| Refusal::new("bad_tool", why).advice("correct the tool's schema"))?;
    shared.outbox.send(reply::done(id));
    Ok(())
}

/// What the fleet knows of a run: the event `run`, byte for byte.
pub(crate) async fn run_info(shared: Arc<Shared>, id: u64, query: RunQuery) -> Result<(), Refusal> {
    let opened = shared.opened().await?;
    let (_, text) = opened.client.ask_for_run(query, ANSWER_WITHIN).await?;
    shared.outbox.send(reply::done_with(id, text));
    Ok(())
}

/// Cancels a run. Its outcome goes to whoever follows it.
pub(crate) async fn cancel_run(shared: Arc<Shared>, id: u64, job: JobId) -> Result<(), Refusal> {
    let opened = shared.opened().await?;
    opened.client.cancel(&job).await?;
    shared.outbox.send(reply::done(id));
    Ok(())
}

/// Answers a tool call of any run.
pub(crate) async fn answer(
    shared: Arc<Shared>,
    id: u64,
    call: String,
    reply_to: String,
    payload: Bytes,
) -> Result<(), Refusal> {
    let opened = shared.opened().await?;
    opened.client.answer(&call, &reply_to, run::answer(&payload)).await?;
    shared.outbox.send(reply::done(id));
    Ok(())
}

/// Decides about a call that waits for approval, of any run.
pub(crate) async fn decide(
    shared: Arc<Shared>,
    id: u64,
    run: JobId,
    call: String,
    reply_to: Option<String>,
    payload: Bytes,
) -> Result<(), Refusal> {
    let Approves { may, by } = shared.approves.clone();
    if !may {
        let why = "the decision needs the scope `approve`, which the API key does not have";
        return Err(Refusal::new("missing_scope", why).advice("use a key that has the scope"));
    }
    let bad = |why: String| Refusal::new("bad_request", format!("decide: {why}"));
    let verdict: Verdict = serde_json::from_slice(&payload).map_err(|error| bad(error.to_string()))?;
    verdict.check().map_err(bad)?;
    let opened = shared.opened().await?;
    let decision = Decision { by, ..Decision::new(run, call, verdict) };
    let decided = opened.client.decide(&decision, reply_to.as_deref(), ANSWER_WITHIN).await?;
    if let Some(error) = decided.error {
        return Err(Refusal::new(error.code.as_str(), error.message));
    }
    let told = serde_json::to_vec(&decided).map_err(|error| Refusal::new("internal", error.to_string()))?;
    shared.outbox.send(reply::done_with(id, told));
    Ok(())
}
