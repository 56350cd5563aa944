//! The fleet's exchanges and queues, as data: their names, properties and bindings. Schedulers, workers and clients
//! declare them through [`super::Bus`].

use std::time::Duration;

use thermae_schemas::{Class, ClientId, PoolName, TenantName, WorkerId, names};

/// How an exchange routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeKind {
    /// By patterns of words that are separated by dots.
    Topic,
    /// To every bound queue.
    Fanout,
}

/// An exchange. All exchanges are durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeSpec {
    /// Name of the exchange.
    pub name: String,
    /// How the exchange routes.
    pub kind: ExchangeKind,
    /// The exchange that gets the messages whose key no queue is bound to.
    pub alternate: Option<String>,
    /// Bindings to other exchanges, which pass messages on to this one: the source exchange and the key of each.
    pub bindings: Vec<(String, String)>,
}

/// RabbitMQ's type of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// Replicated and durable. For jobs and everything else that must not be lost.
    Quorum,
    /// On one node, and cheap. For replies, and for what only one worker reads: cancels, requests to its sessions, and
    /// what clients publish to [`names::CALLS`].
    Classic,
}

/// A queue and its bindings. All queues are durable, and none is auto-delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSpec {
    /// Name of the queue.
    pub name: String,
    /// RabbitMQ's type of the queue.
    pub kind: QueueKind,
    /// Exchange and key of each binding.
    pub bindings: Vec<(String, String)>,
    /// How often one message is delivered before it is dead-lettered. `None` means without a limit. Only quorum queues
    /// have one. It is a high backstop, because deliveries on connections that were lost count, too.
    pub delivery_limit: Option<u32>,
    /// The exchange that gets dead letters. A quorum queue passes them on at least once.
    pub dead_letter: Option<String>,
    /// The queue is deleted after this time without a consumer. `None` means never.
    pub expires: Option<Duration>,
}

/// How often a message is delivered before it counts as poisonous.
const DELIVERY_LIMIT: u32 = 50;

/// How long a client may be away before its reply queue is deleted.
pub const REPLIES_EXPIRE: Duration = Duration::from_secs(15 * 60);

/// How long a worker's classic queues outlive the worker.
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
        // Cancels, questions and requests to sessions have bindings to the tenants' exchange. So if somebody binds a
        // queue to `submit` to see what passes, that queue doesn't keep them from getting there.
        let bindings = [
            (names::UNROUTED, ""),
            (names::SUBMIT, names::CANCEL_BINDING),
            (names::SUBMIT, names::QUERY_BINDING),
            (names::SUBMIT, names::REQUEST_BINDING),
        ];
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
            topic(names::APPROVALS, None),
            topic(names::CALLS_OTHERS, None),
            Self {
                // Decisions take the way of answers: what bounds one tenant's answers bounds its decisions, too.
                bindings: [names::CALLS, names::APPROVALS].map(|from| (from.to_owned(), "#".to_owned())).to_vec(),
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

    /// A lane: jobs of one tenant and class for one pool.
    pub fn submit(tenant: &TenantName, class: Class, pool: &PoolName) -> Self {
        Self::quorum(names::submit_queue(tenant, class, pool), names::SUBMIT, names::submit_key(tenant, class, pool))
    }

    /// Everything that no submit queue takes, of the tenants that have no [`Self::rest`].
    pub fn unrouted() -> Self {
        Self::quorum(names::UNROUTED_QUEUE.to_owned(), names::OTHERS, String::new())
    }

    /// Everything of one tenant that no submit queue takes: for a tenant that sends too much of it.
    pub fn rest(tenant: &TenantName) -> Self {
        Self::quorum(names::rest_queue(tenant), names::TENANTS, names::rest_binding(tenant))
    }

    /// The journal of the tenants that have a [`Self::rest`]. Nothing is ever discarded from it.
    pub fn rests() -> Self {
        Self {
            delivery_limit: None,
            dead_letter: None,
            ..Self::quorum(names::RESTS_QUEUE.to_owned(), names::WORK, names::RESTS_KEY.to_owned())
        }
    }

    /// Copies of jobs whose fate must be decided. Nothing is ever discarded from it.
    pub fn resolve() -> Self {
        Self {
            delivery_limit: None,
            dead_letter: None,
            ..Self::quorum(names::RESOLVE_QUEUE.to_owned(), names::RESOLVE, String::new())
        }
    }

    /// The journal of the lanes, the submit queues that exist. Nothing is ever discarded from it.
    pub fn lanes() -> Self {
        Self {
            delivery_limit: None,
            dead_letter: None,
            ..Self::quorum(names::LANES_QUEUE.to_owned(), names::WORK, names::LANES_KEY.to_owned())
        }
    }

    /// The journal of the workers that have queues of their own. Nothing is ever discarded from it.
    pub fn workers() -> Self {
        Self {
            delivery_limit: None,
            dead_letter: None,
            ..Self::quorum(names::WORKERS_QUEUE.to_owned(), names::WORK, names::WORKERS_KEY.to_owned())
        }
    }

    /// The journal that holds the first epoch of the registry. Nothing is ever discarded from it.
    pub fn epochs() -> Self {
        Self {
            delivery_limit: None,
            dead_letter: None,
            ..Self::quorum(names::EPOCHS_QUEUE.to_owned(), names::WORK, names::EPOCHS_KEY.to_owned())
        }
    }

    /// Requests to send outcomes that the store keeps. Workers that have the store answer them.
    pub fn outcomes() -> Self {
        Self {
            dead_letter: None,
            ..Self::quorum(names::OUTCOMES_QUEUE.to_owned(), names::WORK, names::OUTCOMES_KEY.to_owned())
        }
    }

    /// Jobs of one version of the protocol, for any worker of one pool that speaks it.
    pub fn pool(pool: &PoolName, protocol: u32) -> Self {
        Self::quorum(names::pool_queue(pool, protocol), names::WORK, names::pool_key(pool, protocol))
    }

    /// Jobs for one worker only. When the worker is dead, the scheduler drains the queue before it deletes it.
    pub fn worker(worker: &WorkerId) -> Self {
        Self::quorum(names::worker_queue(worker), names::WORK, names::worker_key(worker))
    }

    /// Cancels, and requests to sessions, for one worker.
    pub fn control(worker: &WorkerId) -> Self {
        Self::classic(names::control_queue(worker), names::WORK, names::control_key(worker), CALLS_EXPIRE)
    }

    /// Answers to one worker's tool calls.
    pub fn calls(worker: &WorkerId) -> Self {
        Self::classic(names::calls_queue(worker), names::CALLS_OTHERS, names::calls_binding(worker), CALLS_EXPIRE)
    }

    /// Answers of one tenant to one worker's tool calls: for a tenant that sends many that no call waits for.
    pub fn calls_apart(tenant: &TenantName, worker: &WorkerId) -> Self {
        let (queue, key) = (names::calls_apart_queue(tenant, worker), names::calls_key(tenant, worker));
        Self::classic(queue, names::CALLS_TENANTS, key, CALLS_EXPIRE)
    }

    /// Events for one client.
    pub fn replies(tenant: &TenantName, client: &ClientId) -> Self {
        Self::classic(
            names::reply_queue(tenant, client),
            names::REPLIES,
            names::reply_key(tenant, client),
            REPLIES_EXPIRE,
        )
    }
}
