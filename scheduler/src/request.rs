//! Requests to live sessions: each goes on to the worker that holds its session. If there is none, it ends here.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use thermae_backplane::bus::{self, Delivery, Message};
use thermae_backplane::registry::{Gone, Holder};
use thermae_schemas::{
    Body, ErrorCode, ErrorInfo, Event, EventBody, JobId, Request, RequestDone, RequestEnd, TenantName, WorkerId, names,
    read_object,
};

use crate::answer::Address;
use crate::context::Context;
use crate::error::Trouble;
use crate::fleet::FleetView;
use crate::options::Options;
use crate::validate::{self, Refusal};

/// What becomes of a request that can be carried out.
enum Fate {
    /// The session's worker has it.
    Sent,
    /// Its session is gone, or never was.
    Gone(ErrorInfo),
    /// The session's worker can't carry it out.
    OlderWorker(ErrorInfo),
    /// Nobody answers it now. Its client sends it again.
    Dropped,
}

/// Hands one request of a tenant to its session's worker, or answers it.
pub(crate) async fn forward(ctx: &Context, tenant: &TenantName, delivery: &Delivery) -> Result<(), Trouble> {
    let message = &delivery.message;
    let to = Address::of(tenant, message);
    if to.reply_key.is_none() {
        tracing::warn!(%tenant, "a request without a usable reply key is dropped");
        ctx.metrics.requested("malformed");
        return Ok(());
    }
    let fleet = ctx.fleet.borrow().clone();
    let request = match check(&ctx.options, &fleet, message) {
        Ok(request) => request,
        Err(Refusal { job, error }) => {
            ctx.metrics.requested("malformed");
            let Some(id) = job else {
                tracing::warn!(%tenant, "a request that can't be read is dropped");
                return Ok(());
            };
            let event = refused(id, error);
            return ctx.persist(|| ctx.send_event(&event, &to)).await;
        }
    };
    // Whether an earlier copy may have reached a worker. A part of the request may then have been carried out.
    let sent_before = AtomicBool::new(delivery.redelivered || message.headers.flag(names::H_RESEND));
    ctx.persist(|| async {
        let fate = hand_over(ctx, tenant, &request, &to, message).await;
        let (met, error) = match fate.inspect_err(|_| sent_before.store(true, Ordering::Relaxed))? {
            Fate::Sent => ("live", None),
            Fate::Gone(error) => ("gone", Some(error)),
            Fate::OlderWorker(error) => ("older_worker", Some(error)),
            Fate::Dropped => ("unsettled", None),
        };
        if let Some(mut error) = error {
            error.safe_to_retry &= !sent_before.load(Ordering::Relaxed);
            ctx.send_event(&refused(request.id.clone(), error), &to).await?;
        }
        ctx.metrics.requested(met);
        Ok(())
    })
    .await
}

async fn hand_over(
    ctx: &Context,
    tenant: &TenantName,
    request: &Request,
    to: &Address,
    message: &Message,
) -> Result<Fate, Trouble> {
    let lost = |why| Fate::Gone(ErrorInfo::new(ErrorCode::SessionLost, why));
    Ok(match ctx.registry.session_holder(tenant, &request.session).await? {
        Holder::Worker(worker) if !ctx.fleet.borrow().speaks(&worker, request.protocol) => {
            let why = format!("the worker that holds the session does not speak protocol {}", request.protocol);
            Fate::OlderWorker(ErrorInfo::new(ErrorCode::UnsupportedProtocol, why))
        }
        Holder::Worker(worker) => match ctx.publish(control(tenant, &worker, &request.id, to, message)).await {
            Err(Trouble::Bus(bus::Error::Unroutable { .. })) => lost("the session was lost with its worker"),
            sent => sent.map(|()| Fate::Sent)?,
        },
        Holder::Gone(Gone::Expired) => {
            let why = "the session was idle for too long and was closed";
            Fate::Gone(ErrorInfo::new(ErrorCode::SessionExpired, why))
        }
        Holder::Gone(Gone::Evicted) => {
            let why = "the session was ended to make room for another one of its tenant";
            Fate::Gone(ErrorInfo::new(ErrorCode::SessionEvicted, why))
        }
        Holder::Gone(Gone::Lost | Gone::Closed) => lost("the session was lost with its worker or sandbox"),
        Holder::Nobody => lost("there is no session of this name"),
        Holder::Unsettled => Fate::Dropped,
    })
}

/// The message to the worker. Nothing in it is the client's word but the body and the correlation id.
fn control(tenant: &TenantName, worker: &WorkerId, id: &JobId, to: &Address, message: &Message) -> Message {
    let mut control = Message {
        exchange: names::WORK.to_owned(),
        key: names::control_key(worker),
        body: message.body.clone(),
        message_id: Some(id.to_string()),
        reply_to: to.reply_key.clone(),
        correlation_id: to.correlation_id.clone(),
        mandatory: true,
        ..Message::default()
    };
    control.headers.set_text(names::H_TENANT, tenant.as_str());
    control.headers.set_text(names::H_REQUEST, id.as_str());
    control
}

/// The end of a request that no worker carries out.
fn refused(id: JobId, error: ErrorInfo) -> Event {
    Event::new(id, 0, EventBody::Done(RequestDone::bare(RequestEnd::Error { error })))
}

/// Reads a request, and checks all that can be checked without asking a server.
pub(crate) fn check(options: &Options, fleet: &FleetView, message: &Message) -> Result<Request, Refusal> {
    #[derive(Deserialize)]
    struct Versioned {
        protocol: u32,
    }
    let (body, limit) = (&message.body, options.max_job_bytes.as_u64());
    let refuse = |code, why| Refusal { job: validate::id_of(message, limit), error: ErrorInfo::new(code, why) };
    if body.len() as u64 > limit {
        let why = format!("the request has {} bytes; the fleet accepts at most {limit}", body.len());
        return Err(refuse(ErrorCode::SchemaViolation, why));
    }
    let read = Request::parse(body);
    // A request of another version may have other fields.
    let protocol = match &read {
        Ok(request) => Some(request.protocol),
        Err(_) => read_object::<Versioned>(body).ok().map(|named| named.protocol),
    };
    if let Some(protocol) = protocol.filter(|protocol| !fleet.reads(*protocol)) {
        let job = validate::id_of(message, limit);
        return Err(Refusal { job, error: validate::unsupported(u64::from(protocol), fleet.newest) });
    }
    let request = read.map_err(|error| refuse(ErrorCode::SchemaViolation, validate::cut(error.to_string())))?;
    match request.trouble() {
        Some(why) => Err(refuse(ErrorCode::SchemaViolation, why)),
        None => Ok(request),
    }
}
