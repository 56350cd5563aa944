//! Jobs whose key no queue is bound to: the first ones of a tenant, and those that name what there is not.

use thermae_backplane::bus::{Delivery, Message, QueueSpec};
use thermae_schemas::{ErrorCode, ErrorInfo, names};

use super::Lanes;
use crate::answer::{acknowledge, give_back};
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
    if message.came_as_dead_letter() {
        tracing::warn!(key = message.key, "a message that its tenant did not send here is dropped");
        ctx.metrics.forged();
        acknowledge(delivery).await;
        return Ok(());
    }
    let Some(lane) = Lane::parse(&message.key) else { return refuse_key(lanes, delivery).await };
    let fleet = ctx.fleet.borrow().clone();
    if let Err(refusal) = validate::check(&ctx.options, &fleet, &lane, message) {
        return ctx.refuse(&lane.tenant, None, refusal, delivery).await;
    }
    lanes.ensure(&lane).await?;
    // Known or not: the message would not be here if the queue were.
    lanes.declare(&lane).await?;
    let mut routed =
        Message { exchange: names::SUBMIT.to_owned(), mandatory: true, persistent: true, ..message.clone() };
    if delivery.redelivered {
        routed.headers.set_flag(names::H_RESEND, true);
    }
    ctx.publish(routed).await?;
    ctx.outages.over();
    acknowledge(delivery).await;
    Ok(())
}

async fn refuse_key(lanes: &Lanes, delivery: &Delivery) -> Result<(), Trouble> {
    let message = &delivery.message;
    let Some(tenant) = names::tenant_of(&message.key) else {
        tracing::warn!(key = message.key, "a message under a key without a tenant is dropped");
        acknowledge(delivery).await;
        return Ok(());
    };
    let why = format!("routing key {:?} is not <tenant>.<high|normal|low>.<pool>", message.key);
    let job = validate::id_of(message);
    let refusal = Refusal { job, error: ErrorInfo::new(ErrorCode::SchemaViolation, why) };
    lanes.0.ctx.refuse(&tenant, None, refusal, delivery).await
}
