//! Names of exchanges, queues, routing keys and headers. Nobody else spells them.
//!
//! ```text
//! submit   <tenant>.<class>.<pool>     ─▶ submit.<tenant>.<class>.<pool>
//!          no such queue, <tenant>.cancel, <tenant>.query ─▶ submit.<tenant>.rest, where the tenant has one, or submit.unrouted
//! work     pool.<pool>                 ─▶ work.pool.<pool>
//!          worker.<worker>             ─▶ work.worker.<worker>
//!          control.<worker>            ─▶ work.control.<worker>
//!          lanes                       ─▶ submit.lanes
//!          rests                       ─▶ submit.rests
//!          workers                     ─▶ work.workers
//!          epochs                      ─▶ work.epochs
//!          outcomes                    ─▶ work.outcomes
//! resolve  (fan-out)                   ─▶ resolve
//! replies  <tenant>.<client>           ─▶ replies.<tenant>.<client>
//! calls    <tenant>.<worker>           ─▶ calls.<worker>.<tenant>, where the tenant has one, or calls.<worker> (bound with *.<worker>)
//! ```

use crate::{Class, ClientId, PoolName, TenantName, WorkerId};

/// Exchange for jobs, cancels and questions; clients write it under their tenant's key.
pub const SUBMIT: &str = "submit";
/// Exchange behind [`SUBMIT`] for keys that no queue is bound to (its alternate exchange; fan-out). Leads to [`TENANTS`].
pub const UNROUTED: &str = "submit.unrouted";
/// Exchange behind [`SUBMIT`] and [`UNROUTED`]: tenants that send much beside jobs have queues of their own for it.
pub const TENANTS: &str = "submit.tenants";
/// Exchange behind [`TENANTS`], for all other tenants (its alternate exchange; fan-out).
pub const OTHERS: &str = "submit.others";
/// Exchange for assigned jobs; the fleet's own.
pub const WORK: &str = "work";
/// Exchange for jobs whose fate must be decided; the fleet's own (fan-out).
pub const RESOLVE: &str = "resolve";
/// Exchange for events to clients; clients bind their own keys.
pub const REPLIES: &str = "replies";
/// Exchange for answers to tool calls; clients write it under their tenant's key. Leads to [`CALLS_TENANTS`].
pub const CALLS: &str = "calls";
/// Exchange behind [`CALLS`]: tenants that send many answers that no call waits for have queues of their own.
pub const CALLS_TENANTS: &str = "calls.tenants";
/// Exchange behind [`CALLS_TENANTS`], for all other tenants (its alternate exchange).
pub const CALLS_OTHERS: &str = "calls.others";

/// Queue of all that no submit queue takes: cancels, questions, and jobs of new tenants or for unknown pools.
pub const UNROUTED_QUEUE: &str = "submit.unrouted";
/// Queue of cancels up to release 0.1.0; nothing is routed to it any more.
pub const OLD_CANCEL_QUEUE: &str = "submit.cancel";
/// Key of all cancels on [`SUBMIT`]; leads to [`TENANTS`].
pub const CANCEL_BINDING: &str = "*.cancel";
/// Queue of questions up to release 0.1.0; nothing is routed to it any more.
pub const OLD_QUERY_QUEUE: &str = "submit.query";
/// Key of all questions on [`SUBMIT`]; leads to [`TENANTS`].
pub const QUERY_BINDING: &str = "*.query";
/// Queue that remembers which tenants have a queue for all that no submit queue takes, for the next scheduler.
pub const RESTS_QUEUE: &str = "submit.rests";
/// Binding key of [`RESTS_QUEUE`], on [`WORK`].
pub const RESTS_KEY: &str = "rests";
/// Queue that remembers which submit queues exist, for the next scheduler.
pub const LANES_QUEUE: &str = "submit.lanes";
/// Binding key of [`LANES_QUEUE`], on [`WORK`].
pub const LANES_KEY: &str = "lanes";
/// Queue that remembers which workers have queues of their own, for the scheduler that finds them dead.
pub const WORKERS_QUEUE: &str = "work.workers";
/// Binding key of [`WORKERS_QUEUE`], on [`WORK`].
pub const WORKERS_KEY: &str = "workers";
/// Queue that remembers the first epoch of the registry that this RabbitMQ has seen.
pub const EPOCHS_QUEUE: &str = "work.epochs";
/// Binding key of [`EPOCHS_QUEUE`], on [`WORK`].
pub const EPOCHS_KEY: &str = "epochs";
/// Queue of requests for outcomes that the fleet's store keeps; workers that have the store answer them.
pub const OUTCOMES_QUEUE: &str = "work.outcomes";
/// Binding key of [`OUTCOMES_QUEUE`], on [`WORK`].
pub const OUTCOMES_KEY: &str = "outcomes";
/// Queue of jobs whose fate must be decided.
pub const RESOLVE_QUEUE: &str = "resolve";

/// Header: number of the attempt, from 1.
pub const H_ATTEMPT: &str = "x-attempt";
/// Header: epoch of the registry in which the job was assigned.
pub const H_EPOCH: &str = "x-epoch";
/// Header: the job's `max_attempts`.
pub const H_MAX_ATTEMPTS: &str = "x-max-attempts";
/// Header: the tenant. It counts only in messages of the fleet's own user; a client's is ignored.
pub const H_TENANT: &str = "x-tenant";
/// Header: the moment before which the code must start, in milliseconds since 1970.
pub const H_DEADLINE: &str = "x-deadline";
/// Header: set unless no earlier copy of the message can exist.
pub const H_MAYBE_DUPLICATE: &str = "x-maybe-duplicate";
/// Header: whether a session's job may make its session on the worker.
pub const H_SESSION_CREATE: &str = "x-session-create";
/// Header: set by a client that sends a job again after an unconfirmed publish.
pub const H_RESEND: &str = "x-resend";
/// Header: when the client submitted, in milliseconds since 1970 by its clock; `start_within_ms` counts from there.
pub const H_SUBMITTED: &str = "x-submitted";
/// Header: when the message reached the broker, in milliseconds since 1970; RabbitMQ's interceptor `set_header_timestamp` sets it.
pub const H_RECEIVED: &str = "timestamp_in_ms";
/// Header: of a work message, the moment after which nothing is started from it, in milliseconds since 1970.
pub const H_EXPIRES: &str = "x-expires";
/// Header: how often the message was dead-lettered and handed out again.
pub const H_DEATHS: &str = "x-deaths";
/// Header: on the queue [`RESOLVE_QUEUE`], the job whose outcome this message waits for.
pub const H_FOLLOWS: &str = "x-follows";
/// Header: why RabbitMQ dead-lettered the message first; absent where it never did.
pub const H_DEAD_REASON: &str = "x-first-death-reason";
/// Header: from which queue RabbitMQ dead-lettered the message first.
pub const H_DEAD_QUEUE: &str = "x-first-death-queue";
/// Header: W3C trace context.
pub const H_TRACEPARENT: &str = "traceparent";
/// Header: W3C trace state.
pub const H_TRACESTATE: &str = "tracestate";

/// Routing key of a job on [`SUBMIT`].
pub fn submit_key(tenant: &TenantName, class: Class, pool: &PoolName) -> String {
    format!("{tenant}.{}.{pool}", class.as_str())
}

/// Queue of a tenant's jobs of one class for one pool.
pub fn submit_queue(tenant: &TenantName, class: Class, pool: &PoolName) -> String {
    format!("submit.{tenant}.{}.{pool}", class.as_str())
}

/// Queue of all that a tenant sends and no submit queue takes.
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

/// The tenant that a routing key on [`SUBMIT`] or [`CALLS`], a reply key, or the name of a tenant's RabbitMQ user begins with.
pub fn tenant_of(key: &str) -> Option<TenantName> {
    TenantName::new(key.split('.').next().unwrap_or_default()).ok()
}

/// Routing key of a pool's jobs on [`WORK`].
pub fn pool_key(pool: &PoolName) -> String {
    format!("pool.{pool}")
}

/// Queue of a pool's jobs.
pub fn pool_queue(pool: &PoolName) -> String {
    format!("work.pool.{pool}")
}

/// Routing key, on [`WORK`], of jobs for one worker only.
pub fn worker_key(worker: &WorkerId) -> String {
    format!("worker.{worker}")
}

/// Queue of jobs for one worker only.
pub fn worker_queue(worker: &WorkerId) -> String {
    format!("work.worker.{worker}")
}

/// Routing key, on [`WORK`], of cancels for one worker.
pub fn control_key(worker: &WorkerId) -> String {
    format!("control.{worker}")
}

/// Queue of cancels for one worker.
pub fn control_queue(worker: &WorkerId) -> String {
    format!("work.control.{worker}")
}

/// Routing key on [`REPLIES`], and a job's `reply_to`.
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

/// Routing key on [`CALLS`] of answers to one worker's tool calls for one tenant.
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

/// Queue of answers to one worker's tool calls, of a tenant that sends many that no call waits for.
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
