//! The fleet's exchanges and queues, as data: who declares what, with which properties.

use std::time::Duration;

use thermae_schemas::{Class, ClientId, PoolName, TenantName, WorkerId, names};

/// How an exchange routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeKind {
    /// By patterns of dotted words.
    Topic,
    /// To every bound queue.
    Fanout,
}

/// An exchange; all are durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeSpec {
    /// Name.
    pub name: String,
    /// How it routes.
    pub kind: ExchangeKind,
    /// Where messages go that no queue is bound for.
    pub alternate: Option<String>,
    /// Exchange and key of each binding by which another exchange passes messages on to this one.
    pub bindings: Vec<(String, String)>,
}

/// What a queue is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// Replicated and durable: jobs.
    Quorum,
    /// Durable on one node, cheap: replies and tool results.
    Classic,
}

/// A queue and its bindings; all are durable and none is auto-delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSpec {
    /// Name.
    pub name: String,
    /// What it is made of.
    pub kind: QueueKind,
    /// Exchange and key of each binding.
    pub bindings: Vec<(String, String)>,
    /// Deliveries of one message before it is dead-lettered; quorum queues only. A high backstop: dropped connections count.
    pub delivery_limit: Option<u32>,
    /// Exchange that dead letters go to, at least once.
    pub dead_letter: Option<String>,
    /// Deleted after so long without a consumer.
    pub expires: Option<Duration>,
}

/// Deliveries before a message counts as poisonous.
const DELIVERY_LIMIT: u32 = 50;

/// How long a client may stay away before its reply queue is deleted.
pub const REPLIES_EXPIRE: Duration = Duration::from_secs(15 * 60);

/// How long a worker's queue of tool answers outlives it.
const CALLS_EXPIRE: Duration = Duration::from_secs(5 * 60);

fn topic(name: &str, alternate: Option<&str>) -> ExchangeSpec {
    let alternate = alternate.map(str::to_owned);
    ExchangeSpec { name: name.to_owned(), kind: ExchangeKind::Topic, alternate, bindings: Vec::new() }
}

impl ExchangeSpec {
    /// The fleet's exchanges, in order of declaration.
    pub fn fleet() -> Vec<Self> {
        let fanout = |name: &str| Self {
            name: name.to_owned(),
            kind: ExchangeKind::Fanout,
            alternate: None,
            bindings: Vec::new(),
        };
        // Cancels and questions have bindings of their own: a queue that somebody binds to see what passes must not keep them.
        let bindings =
            [(names::UNROUTED, ""), (names::SUBMIT, names::CANCEL_BINDING), (names::SUBMIT, names::QUERY_BINDING)];
        let bindings = bindings.map(|(exchange, key)| (exchange.to_owned(), key.to_owned())).to_vec();
        vec![
            fanout(names::UNROUTED),
            fanout(names::OTHERS),
            topic(names::SUBMIT, Some(names::UNROUTED)),
            Self { bindings, ..topic(names::TENANTS, Some(names::OTHERS)) },
            topic(names::WORK, None),
            fanout(names::RESOLVE),
            topic(names::REPLIES, None),
            topic(names::CALLS, None),
            topic(names::CALLS_OTHERS, None),
            Self {
                bindings: vec![(names::CALLS.to_owned(), "#".to_owned())],
                ..topic(names::CALLS_TENANTS, Some(names::CALLS_OTHERS))
            },
        ]
    }
}

impl QueueSpec {
    fn quorum(name: String, exchange: &str, key: String) -> Self {
        Self {
            name,
            kind: QueueKind::Quorum,
            bindings: vec![(exchange.to_owned(), key)],
            delivery_limit: Some(DELIVERY_LIMIT),
            dead_letter: Some(names::RESOLVE.to_owned()),
            expires: None,
        }
    }

    fn classic(name: String, exchange: &str, key: String, expires: Duration) -> Self {
        Self {
            name,
            kind: QueueKind::Classic,
            bindings: vec![(exchange.to_owned(), key)],
            delivery_limit: None,
            dead_letter: None,
            expires: Some(expires),
        }
    }

    /// Jobs of a tenant, of one class, for one pool.
    pub fn submit(tenant: &TenantName, class: Class, pool: &PoolName) -> Self {
        Self::quorum(names::submit_queue(tenant, class, pool), names::SUBMIT, names::submit_key(tenant, class, pool))
    }

    /// All that no submit queue takes, of tenants that have no queue of their own for it.
    pub fn unrouted() -> Self {
        Self::quorum(names::UNROUTED_QUEUE.to_owned(), names::OTHERS, String::new())
    }

    /// All that a tenant sends and no submit queue takes.
    pub fn rest(tenant: &TenantName) -> Self {
        Self::quorum(names::rest_queue(tenant), names::TENANTS, names::rest_binding(tenant))
    }

    /// Which tenants have a queue of their own for that. Nothing is ever discarded from it.
    pub fn rests() -> Self {
        Self {
            delivery_limit: None,
            dead_letter: None,
            ..Self::quorum(names::RESTS_QUEUE.to_owned(), names::WORK, names::RESTS_KEY.to_owned())
        }
    }

    /// Queues by other bindings, or altogether, of release 0.1.0: what those bindings lead to them comes by [`Self::unrouted`] now.
    pub fn of_0_1_0() -> Vec<Self> {
        let asked = |queue: &str, key: &str| Self {
            dead_letter: None,
            ..Self::quorum(queue.to_owned(), names::SUBMIT, key.to_owned())
        };
        vec![
            Self::quorum(names::UNROUTED_QUEUE.to_owned(), names::UNROUTED, String::new()),
            asked(names::OLD_CANCEL_QUEUE, names::CANCEL_BINDING),
            asked(names::OLD_QUERY_QUEUE, names::QUERY_BINDING),
        ]
    }

    /// Jobs whose fate must be decided. Nothing is ever discarded from it.
    pub fn resolve() -> Self {
        Self {
            delivery_limit: None,
            dead_letter: None,
            ..Self::quorum(names::RESOLVE_QUEUE.to_owned(), names::RESOLVE, String::new())
        }
    }

    /// Which submit queues exist. Nothing is ever discarded from it.
    pub fn lanes() -> Self {
        Self {
            delivery_limit: None,
            dead_letter: None,
            ..Self::quorum(names::LANES_QUEUE.to_owned(), names::WORK, names::LANES_KEY.to_owned())
        }
    }

    /// Which workers have queues of their own. Nothing is ever discarded from it.
    pub fn workers() -> Self {
        Self {
            delivery_limit: None,
            dead_letter: None,
            ..Self::quorum(names::WORKERS_QUEUE.to_owned(), names::WORK, names::WORKERS_KEY.to_owned())
        }
    }

    /// The first epoch of the registry. Nothing is ever discarded from it.
    pub fn epochs() -> Self {
        Self {
            delivery_limit: None,
            dead_letter: None,
            ..Self::quorum(names::EPOCHS_QUEUE.to_owned(), names::WORK, names::EPOCHS_KEY.to_owned())
        }
    }

    /// Requests for outcomes that the store keeps.
    pub fn outcomes() -> Self {
        Self {
            dead_letter: None,
            ..Self::quorum(names::OUTCOMES_QUEUE.to_owned(), names::WORK, names::OUTCOMES_KEY.to_owned())
        }
    }

    /// A pool's jobs.
    pub fn pool(pool: &PoolName) -> Self {
        Self::quorum(names::pool_queue(pool), names::WORK, names::pool_key(pool))
    }

    /// Jobs for one worker only. Drained by the scheduler when the worker is dead, never deleted with anything in it.
    pub fn worker(worker: &WorkerId) -> Self {
        Self::quorum(names::worker_queue(worker), names::WORK, names::worker_key(worker))
    }

    /// Cancels for one worker.
    pub fn control(worker: &WorkerId) -> Self {
        Self::classic(names::control_queue(worker), names::WORK, names::control_key(worker), CALLS_EXPIRE)
    }

    /// Answers to one worker's tool calls.
    pub fn calls(worker: &WorkerId) -> Self {
        Self::classic(names::calls_queue(worker), names::CALLS_OTHERS, names::calls_binding(worker), CALLS_EXPIRE)
    }

    /// The same of one tenant, which sends many that no call waits for.
    pub fn calls_apart(tenant: &TenantName, worker: &WorkerId) -> Self {
        let (queue, key) = (names::calls_apart_queue(tenant, worker), names::calls_key(tenant, worker));
        Self::classic(queue, names::CALLS_TENANTS, key, CALLS_EXPIRE)
    }

    /// A client's events.
    pub fn replies(tenant: &TenantName, client: &ClientId) -> Self {
        Self::classic(
            names::reply_queue(tenant, client),
            names::REPLIES,
            names::reply_key(tenant, client),
            REPLIES_EXPIRE,
        )
    }
}
