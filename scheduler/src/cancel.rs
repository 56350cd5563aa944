//! Cancels: a job that has not started ends here. A job that runs is ended by its worker.

use thermae_backplane::bus::{self, Message};
use thermae_backplane::record::{EndUnstarted, Record, State};
use thermae_backplane::registry::JobKey;
use thermae_schemas::{Body, Cancel, ErrorCode, ErrorInfo, Outcome, Status, TenantName, names};

use crate::answer::{Address, Meant};
use crate::context::Context;
use crate::error::Trouble;

/// Handles one cancel of a tenant.
pub(crate) async fn cancel(ctx: &Context, tenant: &TenantName, message: &Message) -> Result<(), Trouble> {
    let Ok(cancel) = Cancel::parse(&message.body) else {
        tracing::warn!(key = message.key, "a cancel that can't be read is dropped");
        ctx.metrics.cancelled("malformed");
        return Ok(());
    };
    if !ctx.fleet.borrow().reads(cancel.protocol) {
        tracing::warn!(protocol = cancel.protocol, "a cancel of an unsupported protocol is dropped");
        ctx.metrics.cancelled("malformed");
        return Ok(());
    }
    let key = JobKey::new(tenant.clone(), cancel.job);
    // The answer goes to the client that has the run. If the job is unknown or has ended, it goes to the client that
    // cancels.
    let record = ctx.registry.lookup(&key).await?.filter(|record| !matches!(record.state, State::Terminal { .. }));
    let to = match record.as_ref().and_then(Record::address) {
        Some(address) => address.into(),
        None => Address::of(&key.tenant, message),
    };
    let error = ErrorInfo::new(ErrorCode::Cancelled, "the job was cancelled before it started");
    let answer =
        ctx.end_unstarted(&key, None, Outcome::with_error(Status::Cancelled, error), &to, Meant::ToCancel).await?;
    match answer {
        EndUnstarted::Won => ctx.metrics.cancelled("waiting"),
        EndUnstarted::Terminal(_) | EndUnstarted::Conflict => ctx.metrics.cancelled("ended"),
        EndUnstarted::Started { owner, .. } => {
            ctx.metrics.cancelled("running");
            let mut control = Message {
                exchange: names::WORK.to_owned(),
                key: names::control_key(&owner),
                body: message.body.clone(),
                message_id: Some(key.job.to_string()),
                mandatory: true,
                ..Message::default()
            };
            control.headers.set_text(names::H_TENANT, key.tenant.as_str());
            match ctx.publish(control).await {
                // The worker is gone, so the job will be resolved, and its record says that it is cancelled.
                Err(Trouble::Bus(bus::Error::Unroutable { .. })) => {
                    tracing::debug!(job.id = %key.job, worker = %owner, "the worker of a cancelled job is gone");
                }
                sent => sent?,
            }
        }
    }
    Ok(())
}
