//! Jobs whose key no queue is bound to: the first ones of a tenant, and those that name what there is not.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use thermae_backplane::bus::{Delivery, Forged, Message, QueueSpec};
use thermae_schemas::{ErrorCode, ErrorInfo, PoolName, TenantName, names};

use super::Lanes;
use crate::age;
use crate::answer::{acknowledge, give_back};
use crate::context::{Context, now_ms};
use crate::error::Trouble;
use crate::lane::Lane;
use crate::outage::Backoff;
use crate::validate::{self, Refusal};

/// Messages held at once. Those that become jobs are dealt with in order; what is refused holds none of them up.
const PREFETCH: u16 = 64;

/// What a message is.
enum Kind {
    /// A job, of a lane that is yet to be made.
    Job(TenantName, Lane),
    /// To be refused.
    Refused(TenantName, Option<PoolName>, Refusal),
    /// To be dropped: its tenant did not send it.
    Forged(Forged),
}

/// Runs until this scheduler leads no more.
pub(super) async fn run(lanes: Lanes) -> Result<(), Trouble> {
    let ctx = lanes.0.ctx.clone();
    let mut pause = Backoff::default();
    loop {
        let mut consumer = ctx.consume(&QueueSpec::unrouted(), PREFETCH).await?;
        let mut refusals = FuturesUnordered::new();
        loop {
            let delivery = tokio::select! {
                biased;
                () = ctx.stop.cancelled() => return Err(Trouble::Stopped),
                Some(refused) = refusals.next(), if !refusals.is_empty() => {
                    // This queue is everybody's: it does not wait.
                    let _wait = refused?;
                    continue;
                }
                delivery = consumer.next() => delivery,
            };
            let Some(delivery) = delivery else { break };
            match kind(&ctx, &delivery.message) {
                Kind::Job(tenant, lane) => match route(&lanes, &tenant, &lane, &delivery).await {
                    Ok(()) => pause.reset(),
                    Err(Trouble::Stopped) => return Err(Trouble::Stopped),
                    Err(error) => {
                        ctx.outages.note(&error);
                        give_back(&delivery).await;
                        pause.wait().await;
                    }
                },
                Kind::Refused(tenant, pool, why) => {
                    let lanes = &lanes;
                    refusals.push(async move { lanes.refuse(&tenant, pool.as_ref(), why, &delivery).await });
                }
                Kind::Forged(why) => {
                    ctx.forged(&delivery.message, &why);
                    acknowledge(&delivery).await;
                }
            }
        }
        pause.wait().await;
    }
}

fn kind(ctx: &Context, message: &Message) -> Kind {
    // What comes by the alternate exchange still names the exchange that it was published to.
    let tenant = match ctx.identity.sender(message, names::SUBMIT, |_| message.key.clone()) {
        Ok(tenant) => tenant,
        Err(Forged::Unsigned(tenant)) => return Kind::Refused(tenant, None, validate::unsigned(&ctx.options, message)),
        Err(why) => return Kind::Forged(why),
    };
    let Some(lane) = Lane::parse(&message.key) else { return Kind::Refused(tenant, None, no_key(ctx, message)) };
    let fleet = ctx.fleet.borrow().clone();
    match validate::check(&ctx.options, &fleet, &lane, message) {
        Ok(_) => Kind::Job(tenant, lane),
        Err(refusal) => Kind::Refused(lane.tenant, Some(lane.pool), refusal),
    }
}

fn no_key(ctx: &Context, message: &Message) -> Refusal {
    let why = format!("routing key {:?} is not <tenant>.<high|normal|low>.<pool>", message.key);
    let job = validate::id_of(message, ctx.options.max_job_bytes.as_u64());
    Refusal { job, error: ErrorInfo::new(ErrorCode::SchemaViolation, why) }
}

/// Makes the lane that a job needs and publishes it there.
async fn route(lanes: &Lanes, tenant: &TenantName, lane: &Lane, delivery: &Delivery) -> Result<(), Trouble> {
    let (ctx, message) = (&lanes.0.ctx, &delivery.message);
    // No lane is given up between its declaration and the message's arrival in it.
    let _routing = lanes.0.routing.lock().await;
    lanes.ensure(lane).await?;
    // Known or not: the message would not be here if the queue were.
    lanes.declare(lane).await?;
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
