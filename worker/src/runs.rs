//! Questions about runs that are under way on this worker. A client can take a run over with its question: from then
//! on, the run's calls, output and result go there. The registry has decided that before the question comes here.

use std::time::Duration;

use bytes::Bytes;
use thermae_backplane::bus::Message;
use thermae_backplane::record::{Address, Taker};
use thermae_backplane::registry::JobKey;
use thermae_backplane::stored::Wanted;
use thermae_schemas::{Asked, Body, Event, EventBody, JobId, Query, RunInfo, RunState, TenantName, names};

use crate::context::Context;
use crate::running::Entry;
use crate::wire;

/// How long one message may hold up what comes after it.
const WITHIN: Duration = Duration::from_millis(200);

/// Answers a question that the scheduler has passed on. Answers can get lost: then the client asks again.
pub(crate) async fn answer(ctx: &Context, tenant: TenantName, question: &Message) {
    let read = Query::parse(&question.body).ok();
    let Some(Query { id, what: Asked::Run(asked), .. }) = read else {
        return tracing::warn!("a question about a run can't be read");
    };
    let Some(reply_key) = question.reply_to.clone() else { return };
    let to = Address { reply_key, correlation_id: question.correlation_id.clone() };
    let key = JobKey::new(tenant, asked.job);
    let Some(entry) = ctx.table.entry(&key) else { return not_here(ctx, &key, &id, to).await };
    let taken = question.headers.int(names::H_TAKEN).and_then(|at| u64::try_from(at).ok());
    let loser = taken.and_then(|at| entry.hand_over(Taker { address: to.clone(), at }));
    let (stdout, stderr) = entry.course.parts(asked.stdout_from, asked.stderr_from);
    let info = RunInfo {
        worker: Some(ctx.id.clone()),
        stdout: Some(stdout),
        stderr: Some(stderr),
        ..RunInfo::new(key.job.clone(), entry.course.state())
    };
    let reply_to = names::calls_key(&key.tenant, &ctx.id);
    let written = {
        let (calls, id, attempt) = (entry.course.pending.list(), id.clone(), entry.claim.attempt);
        let bytes = calls.iter().filter_map(|call| call.event.as_ref()).map(Bytes::len).sum();
        ctx.heavy.scan(bytes, move || wire::run(id.as_str(), attempt, &info, &calls, &reply_to)).await
    };
    match written {
        Ok(body) => {
            if let Some(pool) = ctx.pool(&entry.pool) {
                pool.traffic().count(&key.tenant, body.len());
            }
            publish(ctx, message(id.to_string(), body, to)).await;
        }
        Err(error) => tracing::error!(%error, "an answer about a run can't be written as JSON"),
    }
    if let Some(loser) = loser {
        tracing::info!(job.id = %key.job, job.tenant = %key.tenant, "a client takes the run over");
        superseded(ctx, &entry, loser).await;
    }
}

/// Tells a client that another one has taken the run over.
pub(crate) async fn superseded(ctx: &Context, entry: &Entry, to: Address) {
    send(ctx, Event::new(entry.key.job.clone(), entry.claim.attempt, EventBody::Superseded {}), to).await;
}

/// The run has ended since the question was passed on, or its worker is another one by now.
async fn not_here(ctx: &Context, key: &JobKey, id: &JobId, to: Address) {
    let ended = match ctx.registry.lookup(key).await {
        Ok(record) => record.and_then(|record| record.ended()),
        Err(error) => return tracing::debug!(job.id = %key.job, %error, "a question about a run is not answered"),
    };
    let Some(ended) = ended else {
        return tracing::debug!(job.id = %key.job, "a question about a run that is not here is not answered");
    };
    send(ctx, Event::new(id.clone(), 0, EventBody::Run(RunInfo::new(key.job.clone(), RunState::Ended))), to.clone())
        .await;
    let outcome = match Wanted::new(key, &ended) {
        Some(wanted) => wanted.message(to.reply_key, to.correlation_id),
        None => Message { persistent: true, ..message(key.job.to_string(), ended.result(&key.job), to) },
    };
    publish(ctx, outcome).await;
}

/// Sends an event that nobody needs to get: whoever misses it asks again.
pub(crate) async fn send(ctx: &Context, event: Event, to: Address) {
    // Writing plain structures to memory can't fail.
    let body = event.to_json().unwrap_or_default();
    publish(ctx, message(event.job.to_string(), body.into(), to)).await;
}

fn message(id: String, body: bytes::Bytes, to: Address) -> Message {
    Message {
        exchange: names::REPLIES.to_owned(),
        key: to.reply_key,
        body,
        message_id: Some(id),
        correlation_id: to.correlation_id,
        ..Message::default()
    }
}

async fn publish(ctx: &Context, message: Message) {
    match tokio::time::timeout(WITHIN, ctx.bus.publish(message)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an answer about a run may be lost"),
        Err(error) => tracing::debug!(%error, "an answer about a run may be lost"),
    }
}
