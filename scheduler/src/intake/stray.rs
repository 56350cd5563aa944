//! A message that reached no submit queue: a cancel, a question, a request to a session, the first job of its lane, or
//! a message to refuse.

use std::time::Duration;

use thermae_backplane::bus::{Delivery, Forged, Message};
use thermae_schemas::{ErrorCode, ErrorInfo, PoolName, TenantName, names};
use thermae_service::backoff::Backoff;

use super::Lanes;
use crate::age;
use crate::answer::{acknowledge, give_back};
use crate::cancel::cancel;
use crate::context::{Context, now_ms};
use crate::error::Trouble;
use crate::lane::Lane;
use crate::query::answer;
use crate::request::forward;
use crate::validate::{self, Refusal};

/// The kinds of such messages.
pub(super) enum Stray {
    /// A job whose lane doesn't exist yet.
    Job(TenantName, Lane),
    Cancel(TenantName),
    Question(TenantName),
    /// A request to a live session.
    Request(TenantName),
    /// A message to refuse.
    Refused(TenantName, Option<PoolName>, Refusal),
    /// A message to drop, because its tenant didn't send it.
    Forged(Forged),
}

impl Stray {
    pub(super) fn of(ctx: &Context, message: &Message) -> Self {
        // A message that came through the alternate exchange still names the exchange that it was published to.
        let sender = ctx.identity.sender(message, names::SUBMIT, |_| message.key.clone());
        let asks = |tenant: &TenantName| match &message.key {
            key if *key == names::cancel_key(tenant) => Some(Self::Cancel(tenant.clone())),
            key if *key == names::query_key(tenant) => Some(Self::Question(tenant.clone())),
            key if *key == names::request_key(tenant) => Some(Self::Request(tenant.clone())),
            _ => None,
        };
        let tenant = match sender {
            Ok(tenant) => tenant,
            Err(Forged::Unsigned(tenant)) if asks(&tenant).is_none() => {
                return Self::Refused(tenant, None, validate::unsigned(&ctx.options, message));
            }
            Err(why) => return Self::Forged(why),
        };
        if let Some(asked) = asks(&tenant) {
            return asked;
        }
        let Some(lane) = Lane::parse(&message.key) else { return Self::Refused(tenant, None, no_key(ctx, message)) };
        let fleet = ctx.fleet.borrow().clone();
        match validate::check(&ctx.options, &fleet, &lane, message) {
            Ok(_) => Self::Job(tenant, lane),
            Err(refusal) => Self::Refused(lane.tenant, Some(lane.pool), refusal),
        }
    }
}

fn no_key(ctx: &Context, message: &Message) -> Refusal {
    let why = format!("routing key {:?} is not <tenant>.<high|normal|low>.<pool>", message.key);
    let job = validate::id_of(message, ctx.options.max_job_bytes.as_u64());
    Refusal { job, error: ErrorInfo::new(ErrorCode::SchemaViolation, why) }
}

impl Lanes {
    /// Handles a message and acknowledges it, through outages. Returns how long to wait before its tenant's next one.
    pub(super) async fn deal(&self, stray: Stray, delivery: &Delivery) -> Result<Duration, Trouble> {
        let (ctx, message) = (&self.0.ctx, &delivery.message);
        let done = match stray {
            Stray::Job(tenant, lane) => return self.route(&tenant, &lane, delivery).await.map(|()| Duration::ZERO),
            Stray::Refused(tenant, pool, why) => return self.refuse(&tenant, pool.as_ref(), why, delivery).await,
            Stray::Cancel(tenant) => {
                let wait = ctx.charge(&tenant, message.body.len());
                ctx.persist(|| cancel(ctx, &tenant, message)).await.map(|()| wait)
            }
            Stray::Question(tenant) => {
                let wait = ctx.charge(&tenant, message.body.len());
                answer(ctx, &tenant, message).await.map(|()| wait)
            }
            Stray::Request(tenant) => {
                let wait = ctx.charge(&tenant, message.body.len());
                forward(ctx, &tenant, delivery).await.map(|()| wait)
            }
            Stray::Forged(why) => {
                ctx.forged(message, &why);
                Ok(Duration::ZERO)
            }
        };
        let wait = match done {
            Ok(wait) => wait,
            Err(Trouble::Stopped) => return Err(Trouble::Stopped),
            Err(error) => {
                tracing::error!(%error, key = message.key, "a message could not be handled and is dropped");
                Duration::ZERO
            }
        };
        acknowledge(delivery).await;
        Ok(wait)
    }

    /// Routes a job into its lane. If that fails, the job goes back to its queue after a pause.
    async fn route(&self, tenant: &TenantName, lane: &Lane, delivery: &Delivery) -> Result<(), Trouble> {
        match self.publish(tenant, lane, delivery).await {
            Err(error) if !matches!(error, Trouble::Stopped) => {
                self.0.ctx.outages.note(&error);
                Backoff::default().wait().await;
                give_back(delivery).await;
                Ok(())
            }
            done => done,
        }
    }

    /// Makes the lane of a job, and publishes the job there.
    async fn publish(&self, tenant: &TenantName, lane: &Lane, delivery: &Delivery) -> Result<(), Trouble> {
        let (ctx, message) = (&self.0.ctx, &delivery.message);
        // Keeps the lane from being deleted between its declaration and the arrival of the message.
        let _routing = self.0.routing.lock().await;
        self.ensure(lane).await?;
        // Even if the lane is known: its queue can't exist, or the message would not be here.
        self.declare(lane).await?;
        let mut routed = Message {
            exchange: names::SUBMIT.to_owned(),
            mandatory: true,
            persistent: true,
            ..message.as_ref().clone()
        };
        ctx.vouch(&mut routed, tenant);
        let now = now_ms();
        if delivery.redelivered {
            routed.headers.set_flag(names::H_RESEND, true);
        }
        if !delivery.redelivered || age::submitted(message, now).is_some() {
            age::stamp(&mut routed, now);
        }
        ctx.publish(routed).await?;
        ctx.outages.over();
        acknowledge(delivery).await;
        Ok(())
    }
}
