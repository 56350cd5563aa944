//! Tokens: what an epoll event is about.

use rustix::event::epoll;

/// What an epoll event is about. In the event's 64 bits of data, the upper half is the kind, and the lower half is the
/// number of a sandbox, of a guest in one or of a zygote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    Worker,
    Signals,
    Nursery,
    Zygote(u32),
    Channel(u32),
    Stdout(u32),
    Stderr(u32),
    Stdin(u32),
    /// Every process of that sandbox is dead.
    Dead(u32),
}

impl Token {
    /// The token as an event's data.
    pub(crate) fn data(self) -> epoll::EventData {
        let (kind, id) = match self {
            Self::Worker => (0, 0),
            Self::Signals => (1, 0),
            Self::Nursery => (2, 0),
            Self::Zygote(n) => (3, n),
            Self::Channel(n) => (4, n),
            Self::Stdout(n) => (5, n),
            Self::Stderr(n) => (6, n),
            Self::Stdin(n) => (7, n),
            Self::Dead(n) => (8, n),
        };
        epoll::EventData::new_u64((kind << 32) | u64::from(id))
    }

    /// The token of an event's data.
    pub(crate) fn of(data: u64) -> Self {
        let id = data as u32;
        match data >> 32 {
            0 => Self::Worker,
            1 => Self::Signals,
            2 => Self::Nursery,
            3 => Self::Zygote(id),
            4 => Self::Channel(id),
            5 => Self::Stdout(id),
            6 => Self::Stderr(id),
            7 => Self::Stdin(id),
            _ => Self::Dead(id),
        }
    }
}
