//! Names of exchanges, queues, routing keys and headers. All other code takes them from here.
//!
//! ```text
//! submit   <tenant>.<class>.<pool>     ─▶ submit.<tenant>.<class>.<pool>
//!          <tenant>.cancel, <tenant>.query, <tenant>.request, and keys that no queue is bound for
//!                                      ─▶ submit.<tenant>.rest if the tenant has one, else submit.unrouted
//! work     pool.<pool>                 ─▶ work.pool.<pool>
//!          pool.<pool>.v<version>      ─▶ work.pool.<pool>.v<version>
//!          worker.<worker>             ─▶ work.worker.<worker>
//!          control.<worker>            ─▶ work.control.<worker>
//!          lanes                       ─▶ submit.lanes
//!          rests                       ─▶ submit.rests
//!          workers                     ─▶ work.workers
//!          epochs                      ─▶ work.epochs
//!          outcomes                    ─▶ work.outcomes
//! resolve  (fan-out)                   ─▶ resolve
//! replies  <tenant>.<client>           ─▶ replies.<tenant>.<client>
//! calls    <tenant>.<worker>           ─▶ calls.<worker>.<tenant> if the tenant has one,
//!                                         else calls.<worker> (bound with *.<worker>)
//! approvals <tenant>.<worker>          ─▶ as calls
//! ```

use crate::{Class, ClientId, PoolName, TenantName, WorkerId};

/// Exchange to which clients publish jobs, cancels, questions and requests to sessions, under their tenant's keys.
pub const SUBMIT: &str = "submit";
/// Alternate exchange of [`SUBMIT`], for keys that no queue is bound for (fan-out). Leads to [`TENANTS`].
pub const UNROUTED: &str = "submit.unrouted";
/// Exchange for all that is not for a submit queue. It is behind [`UNROUTED`], and behind [`SUBMIT`] for cancels,
/// questions and requests. A tenant that sends too much of it has its own queue here ([`rest_queue`]).
pub const TENANTS: &str = "submit.tenants";
/// Alternate exchange of [`TENANTS`], for all other tenants (fan-out). Leads to [`UNROUTED_QUEUE`].
pub const OTHERS: &str = "submit.others";
/// Exchange for assigned jobs. Only the fleet publishes to it.
pub const WORK: &str = "work";
/// Exchange for jobs whose fate must be decided (fan-out). Only the fleet publishes to it.
pub const RESOLVE: &str = "resolve";
/// Exchange for events to clients. Each client binds its queue with its own key.
pub const REPLIES: &str = "replies";
/// Exchange to which clients publish answers to tool calls, and more about requests to sessions, under their tenant's
/// keys. Leads to [`CALLS_TENANTS`].
pub const CALLS: &str = "calls";
/// Exchange behind [`CALLS`]. A tenant that sends too many answers that no call waits for has its own queues here.
pub const CALLS_TENANTS: &str = "calls.tenants";
/// Exchange to which clients publish decisions about calls that wait for approval, under their tenant's keys. Only users
/// who may approve can write to it. Leads to [`CALLS_TENANTS`], too.
pub const APPROVALS: &str = "approvals";
/// Alternate exchange of [`CALLS_TENANTS`], for all other tenants.
pub const CALLS_OTHERS: &str = "calls.others";

/// Queue of all that no submit queue takes: cancels, questions, requests to sessions, and jobs of new tenants or for
/// unknown pools. Tenants that have a [`rest_queue`] do not use it.
pub const UNROUTED_QUEUE: &str = "submit.unrouted";
/// Binding key of all cancels on [`SUBMIT`]. The binding leads to [`TENANTS`].
pub const CANCEL_BINDING: &str = "*.cancel";
/// Binding key of all questions on [`SUBMIT`]. The binding leads to [`TENANTS`].
pub const QUERY_BINDING: &str = "*.query";
/// Binding key of all requests to sessions on [`SUBMIT`]. The binding leads to [`TENANTS`].
pub const REQUEST_BINDING: &str = "*.request";
/// Journal of the tenants that have a [`rest_queue`], for the next scheduler.
pub const RESTS_QUEUE: &str = "submit.rests";
/// Binding key of [`RESTS_QUEUE`], on [`WORK`].
pub const RESTS_KEY: &str = "rests";
/// Journal of the submit queues that exist, for the next scheduler.
pub const LANES_QUEUE: &str = "submit.lanes";
/// Binding key of [`LANES_QUEUE`], on [`WORK`].
pub const LANES_KEY: &str = "lanes";
/// Journal of the workers that have queues of their own, for the scheduler that finds them dead.
pub const WORKERS_QUEUE: &str = "work.workers";
/// Binding key of [`WORKERS_QUEUE`], on [`WORK`].
pub const WORKERS_KEY: &str = "workers";
/// Queue that keeps the first epoch of the registry that this RabbitMQ has seen.
pub const EPOCHS_QUEUE: &str = "work.epochs";
/// Binding key of [`EPOCHS_QUEUE`], on [`WORK`].
pub const EPOCHS_KEY: &str = "epochs";
/// Queue of requests for outcomes that are in the fleet's store. The workers that have the store answer them.
pub const OUTCOMES_QUEUE: &str = "work.outcomes";
/// Binding key of [`OUTCOMES_QUEUE`], on [`WORK`].
pub const OUTCOMES_KEY: &str = "outcomes";
/// Queue of jobs whose fate must be decided.
pub const RESOLVE_QUEUE: &str = "resolve";

/// Header: number of the attempt, from 1.
pub const H_ATTEMPT: &str = "x-attempt";
/// Header: the registry's epoch in which the job was assigned.
pub const H_EPOCH: &str = "x-epoch";
/// Header: the job's `max_attempts`.
pub const H_MAX_ATTEMPTS: &str = "x-max-attempts";
/// Header: the tenant. It counts only in messages of the fleet's own users, and is ignored in a client's message.
pub const H_TENANT: &str = "x-tenant";
/// Header: the time before which the code must start, in milliseconds since 1970.
pub const H_DEADLINE: &str = "x-deadline";
/// Header: set if an earlier copy of the message may exist.
pub const H_MAYBE_DUPLICATE: &str = "x-maybe-duplicate";
/// Header: whether the worker may make the session of this job.
pub const H_SESSION_CREATE: &str = "x-session-create";
/// Header: set by a client that publishes a job again because the confirm did not arrive.
pub const H_RESEND: &str = "x-resend";
/// Header: when the client submitted the job, in milliseconds since 1970 by the client's clock. `start_within_ms`
/// counts from this time.
pub const H_SUBMITTED: &str = "x-submitted";
/// Header: when the message reached the broker, in milliseconds since 1970. RabbitMQ's interceptor
/// `set_header_timestamp` sets it.
pub const H_RECEIVED: &str = "timestamp_in_ms";
/// Header of a work message: the time after which no job is started from it, in milliseconds since 1970.
pub const H_EXPIRES: &str = "x-expires";
/// Header: how often the message was dead-lettered and handed out again.
pub const H_DEATHS: &str = "x-deaths";
/// Header of a message on [`RESOLVE_QUEUE`]: the job whose outcome the message waits for.
pub const H_FOLLOWS: &str = "x-follows";
/// Header: why RabbitMQ dead-lettered the message first. Missing if it never did.
pub const H_DEAD_REASON: &str = "x-first-death-reason";
/// Header: the queue from which RabbitMQ dead-lettered the message first.
pub const H_DEAD_QUEUE: &str = "x-first-death-queue";
/// Header of a message on [`CALLS`] that is about a request to a session and not an answer to a tool call: the
/// request's id.
pub const H_REQUEST: &str = "x-request";
/// The kind of a question that the scheduler passes on to a worker, in a control message.
pub const H_QUERY: &str = "x-query";
/// [`H_QUERY`] of a question about a run.
pub const QUERY_RUN: &str = "run";
/// When the sender of such a question took the run over, in milliseconds since 1970 by the registry's clock, in a control
/// message. Missing if it didn't.
pub const H_TAKEN: &str = "x-taken";
/// Header: W3C trace context.
pub const H_TRACEPARENT: &str = "traceparent";
/// Header: W3C trace state.
pub const H_TRACESTATE: &str = "tracestate";

/// Routing key of a job on [`SUBMIT`].
pub fn submit_key(tenant: &TenantName, class: Class, pool: &PoolName) -> String {
    format!("{tenant}.{}.{pool}", class.as_str())
}

/// Submit queue (lane): a tenant's jobs of one class for one pool.
pub fn submit_queue(tenant: &TenantName, class: Class, pool: &PoolName) -> String {
    format!("submit.{tenant}.{}.{pool}", class.as_str())
}

/// Queue of all that a tenant sends and no submit queue takes. Only a tenant that sends too much of it has this queue.
pub fn rest_queue(tenant: &TenantName) -> String {
    format!("submit.{tenant}.rest")
}

/// Binding key of a [`rest_queue`], on [`TENANTS`].
pub fn rest_binding(tenant: &TenantName) -> String {
    format!("{tenant}.#")
}

/// Routing key of a cancel on [`SUBMIT`].
pub fn cancel_key(tenant: &TenantName) -> String {
    format!("{tenant}.cancel")
}

/// Routing key of a question on [`SUBMIT`].
pub fn query_key(tenant: &TenantName) -> String {
    format!("{tenant}.query")
}

/// Routing key of a request to a session on [`SUBMIT`].
pub fn request_key(tenant: &TenantName) -> String {
    format!("{tenant}.request")
}

/// The tenant that is named by the first word of `key`: a routing key on [`SUBMIT`], [`CALLS`] or [`APPROVALS`], a reply
/// key, or the name of a RabbitMQ user.
pub fn tenant_of(key: &str) -> Option<TenantName> {
    TenantName::new(first_word(key)).ok()
}

/// Whether the first word of `key`, as in [`tenant_of`], names this tenant.
pub fn is_of(key: &str, tenant: &TenantName) -> bool {
    first_word(key) == tenant.as_str()
}

fn first_word(key: &str) -> &str {
    key.split('.').next().unwrap_or_default()
}

/// Routing key of a pool's jobs on [`WORK`]. Jobs of each version of the protocol have their own, because only workers
/// that speak the version may take them. That of version 1 has no suffix.
pub fn pool_key(pool: &PoolName, protocol: u32) -> String {
    match protocol {
        ..=1 => format!("pool.{pool}"),
        version => format!("pool.{pool}.v{version}"),
    }
}

/// Queue of a pool's jobs of one version of the protocol.
pub fn pool_queue(pool: &PoolName, protocol: u32) -> String {
    format!("work.{}", pool_key(pool, protocol))
}

/// Routing key, on [`WORK`], of jobs for one worker only.
pub fn worker_key(worker: &WorkerId) -> String {
    format!("worker.{worker}")
}

/// Queue of jobs for one worker only.
pub fn worker_queue(worker: &WorkerId) -> String {
    format!("work.worker.{worker}")
}

/// Routing key, on [`WORK`], of cancels, and requests to sessions, for one worker.
pub fn control_key(worker: &WorkerId) -> String {
    format!("control.{worker}")
}

/// Queue of cancels, and requests to sessions, for one worker.
pub fn control_queue(worker: &WorkerId) -> String {
    format!("work.control.{worker}")
}

/// Routing key of a client's events on [`REPLIES`], and `reply_to` of its jobs.
pub fn reply_key(tenant: &TenantName, client: &ClientId) -> String {
    format!("{tenant}.{client}")
}

/// Queue of a client's events.
pub fn reply_queue(tenant: &TenantName, client: &ClientId) -> String {
    format!("replies.{tenant}.{client}")
}

/// Whether a reply key belongs to this tenant.
pub fn owns_reply_key(tenant: &TenantName, key: &str) -> bool {
    key.split_once('.').is_some_and(|(t, client)| t == tenant.as_str() && ClientId::new(client).is_ok())
}

/// Routing key on [`CALLS`] and [`APPROVALS`] of what one tenant sends to one worker: answers to tool calls, more about
/// requests to sessions, and decisions.
pub fn calls_key(tenant: &TenantName, worker: &WorkerId) -> String {
    format!("{tenant}.{worker}")
}

/// Binding key of a worker's queue on [`CALLS_OTHERS`].
pub fn calls_binding(worker: &WorkerId) -> String {
    format!("*.{worker}")
}

/// Queue of answers to one worker's tool calls.
pub fn calls_queue(worker: &WorkerId) -> String {
    format!("calls.{worker}")
}

/// Queue of one tenant's answers to one worker's tool calls. Only a tenant that sends too many answers that no call
/// waits for has this queue.
pub fn calls_apart_queue(tenant: &TenantName, worker: &WorkerId) -> String {
    format!("calls.{worker}.{tenant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_key_belongs_to_one_tenant() {
        let acme = TenantName::new("acme").unwrap();
        assert!(owns_reply_key(&acme, "acme.c1"));
        for bad in ["", "acme", "acme.", "globex.c1", "acme2.c1", "acme.c1.x", "acme.*", ".c1"] {
            assert!(!owns_reply_key(&acme, bad), "{bad:?}");
        }
    }
}
