//! Takes the answers to tool calls from RabbitMQ, and hands each to the call that waits for it. Also takes what clients
//! say about their requests to sessions, and decisions about calls that wait for approval.
//!
//! The answers of all tenants come through one queue. RabbitMQ writes each of them to its disk before the worker can
//! tell that no call waits for it. So a tenant that sends many such answers gets its own queue. Only that queue waits.
//! When it is full, RabbitMQ refuses what the tenant publishes, without writing it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use thermae_backplane::allowance::Allowance;
use thermae_backplane::bus::{self, AckBatch, Delivery, Identity, QueueSpec};
use thermae_schemas::{ErrorCode, TenantName, names};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::outstanding::{Outstanding, Unwanted};
use crate::consume::subscribe;
use crate::context::Context;
use crate::requests::Requests;
use crate::tools::Approvals;

/// Answers that may be unacknowledged at once. There are few, because clients can make each as large as the broker
/// accepts.
const PREFETCH: u16 = 16;
/// The least that an answer that no call waits for costs its tenant, in bytes.
const LEAST: u64 = 4096;
/// A tenant may send this many seconds' worth of such answers at once.
const BURST: Duration = Duration::from_secs(16);
/// Longest time that a tenant's queue waits after one such answer.
const MOST: Duration = Duration::from_secs(60);
/// A tenant's queue is deleted after this time without an answer.
const IDLE: Duration = Duration::from_secs(60);
/// A queue that was unbound is empty after this time without a delivery.
const SILENCE: Duration = Duration::from_secs(1);

/// Takes answers to these calls until `end`.
pub(super) async fn run(
    ctx: Arc<Context>,
    calls: Outstanding,
    requests: Arc<Requests>,
    approvals: Arc<Approvals>,
    end: CancellationToken,
) {
    let queue = QueueSpec::calls(&ctx.id);
    let answers = Arc::new(Answers {
        identity: Identity::new(ctx.bus.as_ref(), &[]),
        ctx,
        calls,
        requests,
        approvals,
        end,
        allowance: Allowance::new(BURST, MOST),
        apart: Mutex::default(),
        tasks: TaskTracker::new(),
    });
    while let Some(mut consumer) = subscribe(&answers.ctx, &queue, PREFETCH, &answers.end).await {
        let mut done = AckBatch::new(PREFETCH);
        loop {
            let next = tokio::select! {
                biased;
                () = answers.end.cancelled() => None,
                next = consumer.next() => next,
                () = done.due() => {
                    let _ = done.send().await;
                    continue;
                }
            };
            let Some(delivery) = next else { break };
            if let Some((tenant, _)) = answers.take(&delivery).await
                && answers.allowance.is_low(&tenant, Instant::now())
            {
                answers.set_apart(tenant);
            }
            let _ = done.push(delivery).await;
        }
        let _ = done.send().await;
    }
    answers.tasks.close();
    answers.tasks.wait().await;
}

struct Answers {
    ctx: Arc<Context>,
    calls: Outstanding,
    requests: Arc<Requests>,
    approvals: Arc<Approvals>,
    end: CancellationToken,
    identity: Identity,
    allowance: Allowance,
    /// Tenants that have their own queues.
    apart: Mutex<HashSet<TenantName>>,
    tasks: TaskTracker,
}

impl Answers {
    /// Takes an answer. If no call accepts it, it costs a tenant a part of its allowance: returns this tenant, and how
    /// long to wait.
    async fn take(&self, delivery: &Delivery) -> Option<(TenantName, Duration)> {
        let (message, ctx) = (&delivery.message, &self.ctx);
        // RabbitMQ lets only those who may approve publish to this exchange, and the message keeps its name on the way.
        let decides = message.exchange == names::APPROVALS;
        let exchange = if decides { names::APPROVALS } else { names::CALLS };
        let tenant = match self.identity.sender(message, exchange, |tenant| names::calls_key(tenant, &ctx.id)) {
            Ok(tenant) => {
                let wanted = match message.headers.text(names::H_REQUEST) {
                    _ if decides => self.approvals.decide(ctx, &tenant, message).await,
                    Some(request) => self.requests.say(&tenant, request, &message.body),
                    None => self.answer(&tenant, message.body.clone()).await,
                };
                if wanted {
                    return None;
                }
                tenant
            }
            Err(why) => {
                let key = &message.key;
                tracing::warn!(key, %why, "an answer or a decision about a tool call is dropped: its tenant did not send it here");
                ctx.metrics.forged.inc();
                why.culprit(message)?
            }
        };
        let (bytes, rate) = (message.body.len() as u64, ctx.options.refused_bytes.0);
        let wait = self.allowance.spend(&tenant, bytes.max(LEAST), rate, Instant::now());
        Some((tenant, wait))
    }

    /// Hands an answer to the call that waits for it, or tells the call what is wrong with the answer. Returns whether
    /// the answer was accepted.
    async fn answer(&self, tenant: &TenantName, body: Bytes) -> bool {
        let ctx = &self.ctx;
        let (calls, author) = (self.calls.clone(), tenant.clone());
        let taken = ctx.heavy.scan(body.len(), move || calls.answer(&author, &body)).await;
        match &taken {
            Ok(()) => {}
            // The call itself counts this.
            Err(e @ Unwanted::Told(_)) => {
                tracing::warn!(job.tenant = %tenant, error = %e, "an answer to a tool call is not accepted");
            }
            Err(e) => {
                if matches!(e, Unwanted::Unreadable(_)) {
                    ctx.metrics.tool_calls.with_label_values(&[ErrorCode::ToolAnswer.as_str()]).inc();
                }
                tracing::debug!(job.tenant = %tenant, error = %e, "an answer to a tool call is not accepted");
            }
        }
        taken.is_ok()
    }

    fn apart(&self) -> MutexGuard<'_, HashSet<TenantName>> {
        self.apart.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a tenant its own queue, unless it has one.
    fn set_apart(self: &Arc<Self>, tenant: TenantName) {
        if !self.apart().insert(tenant.clone()) {
            return;
        }
        tracing::warn!(
            job.tenant = %tenant,
            "the tenant sends too many answers that no call waits for; they get their own queue"
        );
        let answers = Arc::clone(self);
        self.tasks.spawn(async move {
            if let Err(error) = answers.serve(&tenant).await {
                tracing::warn!(%error, job.tenant = %tenant, "the tenant's answers use the shared queue again");
            }
            answers.apart().remove(&tenant);
        });
    }

    /// Serves a tenant's queue until it is not used any more, or the worker ends. If this process can't delete the
    /// queue, RabbitMQ does.
    async fn serve(&self, tenant: &TenantName) -> Result<(), bus::Error> {
        let (bus, spec) = (&self.ctx.bus, QueueSpec::calls_apart(tenant, &self.ctx.id));
        bus.declare_queue(&spec).await?;
        // One at a time, because the next one may have to wait.
        while let Some(mut consumer) = subscribe(&self.ctx, &spec, 1, &self.end).await {
            let mut bound = true;
            loop {
                let within = if bound { IDLE } else { SILENCE };
                let next = tokio::time::timeout(within, consumer.next());
                match self.end.run_until_cancelled(next).await {
                    None => return Ok(()),
                    Some(Ok(None)) => break,
                    Some(Ok(Some(delivery))) => {
                        let taken = self.take(&delivery).await;
                        let _ = delivery.ack().await;
                        if let Some((_, wait)) = taken {
                            self.end.run_until_cancelled(tokio::time::sleep(wait)).await;
                        }
                    }
                    Some(Err(_)) if bound => {
                        bus.unbind_queue(&spec).await?;
                        bound = false;
                    }
                    Some(Err(_)) => {
                        tracing::info!(job.tenant = %tenant, "the tenant's own queue for answers is deleted");
                        return bus.delete_queue(&spec.name).await;
                    }
                }
            }
        }
        Ok(())
    }
}
