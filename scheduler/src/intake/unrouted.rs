//! Jobs whose key no queue is bound to: the first ones of a tenant, and those that name what there is not.

use thermae_backplane::bus::{Delivery, Forged, Message, QueueSpec};
use thermae_schemas::{ErrorCode, ErrorInfo, TenantName, names};

use super::Lanes;
use crate::age;
use crate::answer::{acknowledge, give_back};
use crate::context::now_ms;
use crate::error::Trouble;
use crate::lane::Lane;
use crate::outage::Backoff;
use crate::validate::{self, Refusal};

/// Messages held at once. They are dealt with in order, so more would not help.
const PREFETCH: u16 = 64;

/// Runs until this scheduler leads no more.
pub(super) async fn run(lanes: Lanes) -> Result<(), Trouble> {
    let ctx = lanes.0.ctx.clone();
    let mut pause = Backoff::default();
    loop {
        let mut consumer = ctx.consume(&QueueSpec::unrouted(), PREFETCH).await?;
        loop {
            let delivery = tokio::select! {
                biased;
                () = ctx.stop.cancelled() => return Err(Trouble::Stopped),
                delivery = consumer.next() => delivery,
            };
            let Some(delivery) = delivery else { break };
            match route(&lanes, &delivery).await {
                Ok(()) => pause.reset(),
                Err(Trouble::Stopped) => return Err(Trouble::Stopped),
                Err(error) => {
                    ctx.outages.note(&error);
                    give_back(&delivery).await;
                    pause.wait().await;
                }
            }
        }
        pause.wait().await;
    }
}

/// Makes the lane that a message needs and publishes it there; or refuses it.
async fn route(lanes: &Lanes, delivery: &Delivery) -> Result<(), Trouble> {
    let ctx = &lanes.0.ctx;
    let message = &delivery.message;
    // What comes by the alternate exchange still names the exchange that it was published to.
    let tenant = match ctx.identity.sender(message, names::SUBMIT, |_| message.key.clone()) {
        Ok(tenant) => tenant,
        Err(Forged::Unsigned(tenant)) => {
            return ctx.refuse(&tenant, None, validate::unsigned(message), delivery).await;
        }
        Err(why) => {
            ctx.forged(message, &why);
            acknowledge(delivery).await;
            return Ok(());
        }
    };
    let Some(lane) = Lane::parse(&message.key) else { return refuse_key(lanes, &tenant, delivery).await };
    let fleet = ctx.fleet.borrow().clone();
    if let Err(refusal) = validate::check(&ctx.options, &fleet, &lane, message) {
        return ctx.refuse(&lane.tenant, Some(&lane.pool), refusal, delivery).await;
    }
    // No lane is given up between its declaration and the message's arrival in it.
    let _routing = lanes.0.routing.lock().await;
    lanes.ensure(&lane).await?;
    // Known or not: the message would not be here if the queue were.
    lanes.declare(&lane).await?;
    let mut routed =
        Message { exchange: names::SUBMIT.to_owned(), mandatory: true, persistent: true, ..message.clone() };
    ctx.vouch(&mut routed, &tenant);
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

async fn refuse_key(lanes: &Lanes, tenant: &TenantName, delivery: &Delivery) -> Result<(), Trouble> {
    let message = &delivery.message;
    let why = format!("routing key {:?} is not <tenant>.<high|normal|low>.<pool>", message.key);
    let job = validate::id_of(message);
    let refusal = Refusal { job, error: ErrorInfo::new(ErrorCode::SchemaViolation, why) };
    lanes.0.ctx.refuse(tenant, None, refusal, delivery).await
}
