//! What can happen to a job, and the strategies that draw a random history.

use proptest::prelude::*;

use super::super::*;
use super::world::{GRACE, SKEW};

/// Whether the message says when it was submitted, and by how many milliseconds the client's clock is ahead.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stamp {
    None,
    Ahead(Millis),
}

/// The next thing that happens. `who` picks one of the messages that it can happen to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Happening {
    Submit {
        who: usize,
        crash: Crash,
    },
    Resend,
    Deliver {
        who: usize,
        worker: usize,
        lost_reply: bool,
    },
    Retry {
        worker: usize,
        lost_reply: bool,
    },
    Finish {
        worker: usize,
        lost_reply: bool,
        crash: bool,
    },
    Abandon {
        worker: usize,
    },
    Crash {
        worker: usize,
    },
    LoseConnection {
        worker: usize,
    },
    Heartbeat {
        worker: usize,
    },
    Resolve {
        who: usize,
        crash: Crash,
    },
    Cancel,
    /// A client takes the run over.
    TakeOver {
        client: usize,
    },
    /// The store now has the outcome.
    Shelve,
    /// The outcome is no longer kept. Only the tombstone is left.
    Shrink,
    Empty,
    Wait {
        millis: Millis,
    },
}

/// When a scheduler crashes while it handles a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    No,
    BeforePublish,
    BeforeAck,
}

pub(super) fn crash() -> impl Strategy<Value = Crash> {
    prop_oneof![4 => Just(Crash::No), 1 => Just(Crash::BeforePublish), 1 => Just(Crash::BeforeAck)]
}

pub(super) fn happening(empties: bool) -> impl Strategy<Value = Happening> {
    let lost = || prop::bool::weighted(0.2);
    let worker = || 0usize..3;
    prop_oneof![
        4 => (0usize..4, crash()).prop_map(|(who, crash)| Happening::Submit { who, crash }),
        1 => Just(Happening::Resend),
        6 => (0usize..4, worker(), lost())
            .prop_map(|(who, worker, lost_reply)| Happening::Deliver { who, worker, lost_reply }),
        2 => (worker(), lost()).prop_map(|(worker, lost_reply)| Happening::Retry { worker, lost_reply }),
        2 => (worker(), lost(), lost())
            .prop_map(|(worker, lost_reply, crash)| Happening::Finish { worker, lost_reply, crash }),
        1 => worker().prop_map(|worker| Happening::Abandon { worker }),
        2 => worker().prop_map(|worker| Happening::Crash { worker }),
        2 => worker().prop_map(|worker| Happening::LoseConnection { worker }),
        3 => worker().prop_map(|worker| Happening::Heartbeat { worker }),
        4 => (0usize..4, crash()).prop_map(|(who, crash)| Happening::Resolve { who, crash }),
        1 => Just(Happening::Cancel),
        2 => (0usize..3).prop_map(|client| Happening::TakeOver { client }),
        1 => Just(Happening::Shelve),
        1 => Just(Happening::Shrink),
        2 => Just(if empties { Happening::Empty } else { Happening::Resend }),
        4 => (1..GRACE).prop_map(|millis| Happening::Wait { millis }),
    ]
}

pub(super) fn stamp() -> impl Strategy<Value = Stamp> {
    prop_oneof![1 => Just(Stamp::None), 3 => (0..=SKEW).prop_map(Stamp::Ahead)]
}
