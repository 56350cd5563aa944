//! The calls that a history consists of, and the strategies that draw one.

use std::time::Duration;

use proptest::prelude::*;
use thermae_backplane::registry::{Budget, Keep};

use super::super::KEEP;

pub(super) const JOBS: [&str; 3] = ["a", "b", "c"];

pub(super) const WORKERS: [&str; 2] = ["w", "v"];

pub(super) const FAR: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone)]
pub(super) enum Call {
    Admit {
        job: usize,
        credit: u32,
        limit: Option<u32>,
        share: Option<u32>,
        key: bool,
        digest: bool,
        session: Option<(usize, bool)>,
        max: u32,
        submitted: Submitted,
        first_epoch: bool,
        brief: bool,
    },
    Start {
        job: usize,
        worker: usize,
        attempt: u32,
        nonce: u8,
        only_copy: bool,
        this_epoch: bool,
        lease: bool,
    },
    Finish {
        job: usize,
        worker: usize,
        attempt: u32,
        nonce: u8,
        outcome: u8,
        kept: Kept,
    },
    Resolve {
        job: usize,
        attempt: u32,
        max: u32,
        grace: bool,
        kept: Kept,
    },
    EndUnstarted {
        job: usize,
        outcome: u8,
        pool: bool,
        digest: Option<bool>,
        cancel: bool,
        kept: Kept,
    },
    Shelve {
        job: usize,
        outcome: u8,
    },
    /// Loses everything, like a `FLUSHALL`.
    Empty,
    Abandon {
        job: usize,
        worker: usize,
        attempt: u32,
        nonce: u8,
    },
    TakeOver {
        job: usize,
        client: u8,
        mark: Option<u8>,
    },
    Heartbeat {
        worker: usize,
        running: Vec<Running>,
        sessions: bool,
    },
    Leave {
        worker: usize,
    },
    Bury {
        worker: usize,
    },
    EndSession {
        worker: usize,
        gone: u8,
    },
    Lead {
        who: u8,
    },
}

/// A running job in a heartbeat.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    pub(super) job: usize,
    pub(super) attempt: u32,
    pub(super) nonce: u8,
    pub(super) paused: bool,
}

/// When a job was submitted first, if it may be a repeat.
#[derive(Debug, Clone, Copy)]
pub(super) enum Submitted {
    /// It isn't a repeat.
    Once,
    Undated,
    Before,
    /// So close to the beginning of the epoch that the clocks' difference matters.
    Within,
    After,
}

/// What is kept of a job that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kept {
    All,
    Tombstone,
    Nothing,
    WithinBudget,
}

impl Kept {
    /// A record that may be handed out again must not be forgotten at once.
    pub(super) fn of_something(self) -> Self {
        if matches!(self, Self::Nothing) { Self::Tombstone } else { self }
    }

    pub(super) fn keep(self) -> Keep {
        match self {
            Self::All => KEEP,
            Self::Tombstone => Keep { outcome: Duration::ZERO, ..KEEP },
            Self::Nothing => Keep { record: Duration::ZERO, ..KEEP },
            // Half of the budget has room for one outcome.
            Self::WithinBudget => Keep { budget: Budget { tenant: 500, all: 500 }, ..KEEP },
        }
    }
}

pub(super) fn kept() -> impl Strategy<Value = Kept> {
    prop_oneof![
        4 => Just(Kept::All),
        2 => Just(Kept::Tombstone),
        1 => Just(Kept::Nothing),
        1 => Just(Kept::WithinBudget),
    ]
}

pub(super) fn submitted() -> impl Strategy<Value = Submitted> {
    prop_oneof![
        6 => Just(Submitted::Once),
        1 => Just(Submitted::Undated),
        1 => Just(Submitted::Before),
        1 => Just(Submitted::Within),
        1 => Just(Submitted::After),
    ]
}

pub(super) fn call() -> impl Strategy<Value = Call> {
    let (job, who) = (|| 0..JOBS.len(), || 0..WORKERS.len());
    let (attempt, nonce) = (|| 1u32..4, || 0u8..2);
    let running = (job(), attempt(), nonce(), any::<bool>()).prop_map(|(job, attempt, nonce, paused)| Running {
        job,
        attempt,
        nonce,
        paused,
    });
    let session = || prop::option::weighted(0.4, (0..WORKERS.len(), any::<bool>()));
    prop_oneof![
        4 => (
            (job(), 1u32..4, prop::option::of(1u32..3), prop::option::of(1u32..3), any::<bool>(), prop::bool::weighted(0.2)),
            (session(), 1u32..4, submitted(), prop::bool::weighted(0.3), prop::bool::weighted(0.1)),
        )
            .prop_map(|((job, credit, limit, share, key, digest), (session, max, submitted, first_epoch, brief))| Call::Admit {
                job, credit, limit, share, key, digest, session, max, submitted, first_epoch, brief
            }),
        4 => (job(), who(), attempt(), nonce(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(job, worker, attempt, nonce, only_copy, this_epoch, lease)| Call::Start {
                job, worker, attempt, nonce, only_copy, this_epoch, lease
            }
        ),
        2 => (job(), who(), attempt(), nonce(), 0u8..2, kept()).prop_map(
            |(job, worker, attempt, nonce, outcome, kept)| Call::Finish { job, worker, attempt, nonce, outcome, kept }
        ),
        4 => (job(), attempt(), 1u32..4, prop::bool::weighted(0.2), kept().prop_map(Kept::of_something))
            .prop_map(|(job, attempt, max, grace, kept)| Call::Resolve { job, attempt, max, grace, kept }),
        2 => (job(), 0u8..2, any::<bool>(), prop::option::of(prop::bool::weighted(0.2)), any::<bool>(), kept())
            .prop_map(|(job, outcome, pool, digest, cancel, kept)| Call::EndUnstarted {
                job, outcome, pool, digest, cancel, kept
            }),
        2 => (job(), 0u8..2).prop_map(|(job, outcome)| Call::Shelve { job, outcome }),
        1 => Just(Call::Empty),
        2 => (job(), who(), attempt(), nonce())
            .prop_map(|(job, worker, attempt, nonce)| Call::Abandon { job, worker, attempt, nonce }),
        3 => (job(), 0u8..3, prop::option::of(0u8..2))
            .prop_map(|(job, client, mark)| Call::TakeOver { job, client, mark }),
        3 => (who(), prop::collection::vec(running, 0..3), any::<bool>())
            .prop_map(|(worker, running, sessions)| Call::Heartbeat { worker, running, sessions }),
        1 => who().prop_map(|worker| Call::Leave { worker }),
        1 => who().prop_map(|worker| Call::Bury { worker }),
        1 => (who(), 0u8..4).prop_map(|(worker, gone)| Call::EndSession { worker, gone }),
        1 => (0u8..2).prop_map(|who| Call::Lead { who }),
    ]
}
