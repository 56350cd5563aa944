//! One message that no submit queue took: a cancel, a question, the first job of its lane, or what is to be refused.

use std::time::Duration;

use thermae_backplane::bus::{Delivery, Forged, Message};
use thermae_schemas::{ErrorCode, ErrorInfo, PoolName, TenantName, names};

use super::Lanes;
use crate::age;
use crate::answer::{acknowledge, give_back};
use crate::cancel::cancel;
use crate::context::{Context, now_ms};
use crate::error::Trouble;
use crate::lane::Lane;
use crate::outage::Backoff;
use crate::query::answer;
use crate::validate::{self, Refusal};

/// What a message is.
pub(super) enum Stray {
    /// A job, of a lane that is yet to be made.
    Job(TenantName, Lane),
    Cancel(TenantName),
    Question(TenantName),
    /// To be refused.
    Refused(TenantName, Option<PoolName>, Refusal),
    /// To be dropped: its tenant did not send it.
    Forged(Forged),
}

impl Stray {
    pub(super) fn of(ctx: &Context, message: &Message) -> Self {
        // What comes by the alternate exchange still names the exchange that it was published to.
        let sender = ctx.identity.sender(message, names::SUBMIT, |_| message.key.clone());
        let asks = |tenant: &TenantName| match &message.key {
            key if *key == names::cancel_key(tenant) => Some(Self::Cancel(tenant.clone())),
            key if *key == names::query_key(tenant) => Some(Self::Question(tenant.clone())),
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
    /// Deals with a message and acknowledges it, through outages. How long to wait before its tenant's next one.
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
                ctx.persist(|| answer(ctx, &tenant, message)).await.map(|()| wait)
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
                tracing::error!(%error, key = message.key, "a message could not be dealt with and is dropped");
                Duration::ZERO
            }
        };
        acknowledge(delivery).await;
        Ok(wait)
    }

    /// Brings a job into its lane. What fails goes back after a pause.
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

    /// Makes the lane that a job needs and publishes it there.
    async fn publish(&self, tenant: &TenantName, lane: &Lane, delivery: &Delivery) -> Result<(), Trouble> {
        let (ctx, message) = (&self.0.ctx, &delivery.message);
        // No lane is given up between its declaration and the message's arrival in it.
        let _routing = self.0.routing.lock().await;
        self.ensure(lane).await?;
        // Known or not: the message would not be here if the queue were.
        self.declare(lane).await?;
        let mut routed =
            Message { exchange: names::SUBMIT.to_owned(), mandatory: true, persistent: true, ..message.clone() };
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
