//! What a client has said about a request, and its task has not taken yet.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use thermae_schemas::Say;
use tokio::sync::Notify;

/// Most signals that may wait.
const MOST_SIGNALS: usize = 64;

/// Why what a client says can't be used. The request then ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unwanted {
    #[error("it can't be read")]
    Unreadable,
    #[error("a part of the input before it is missing")]
    Gap,
    #[error("it is more input than the worker has allowed")]
    TooMuch,
    #[error("it is input after the end of the input")]
    AfterEnd,
}

/// What there is to do for a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The client sent something that can't be used.
    Spoiled(Unwanted),
    /// The client cancels the request.
    Cancel,
    /// Send this signal.
    Signal(i32),
    /// Allow this many bytes more of output.
    Credit(u64),
    /// Hand on more input.
    Input(Bytes),
    /// The input has ended.
    EndOfInput,
}

/// A request's inbox. Messages that are repeated change nothing.
pub(super) struct Inbox {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug)]
struct State {
    input: VecDeque<Bytes>,
    /// Bytes of input that have come in all.
    came: u64,
    /// Bytes of input that the client may have sent in all.
    allowed: u64,
    /// Whether the last byte of the input has come.
    complete: bool,
    /// Whether the end of the input was handed on.
    told: bool,
    /// Bytes of output that the client has allowed in all, and those of them that were handed on.
    credit: u64,
    credited: u64,
    signals: VecDeque<i32>,
    cancelled: bool,
    spoiled: Option<Unwanted>,
}

impl Inbox {
    /// An inbox with the beginning of the input. `window` bytes may be sent in each direction.
    pub(super) fn new(window: u32, input: Bytes, complete: bool) -> Self {
        let state = State {
            came: input.len() as u64,
            input: Some(input).filter(|input| !input.is_empty()).into_iter().collect(),
            allowed: window.into(),
            complete,
            told: false,
            credit: window.into(),
            credited: window.into(),
            signals: VecDeque::new(),
            cancelled: false,
            spoiled: None,
        };
        Self { state: Mutex::new(state), news: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the client says.
    ///
    /// # Errors
    /// It can't be used.
    pub(super) fn take(&self, say: Say) -> Result<(), Unwanted> {
        self.state().take(say)?;
        self.news.notify_one();
        Ok(())
    }

    /// Notes that the client has sent something that can't be used.
    pub(super) fn spoil(&self, why: Unwanted) {
        self.state().spoiled.get_or_insert(why);
        self.news.notify_one();
    }

    /// Allows more input. Returns how much the client may have sent in all.
    pub(super) fn allow(&self, bytes: u64) -> u64 {
        let mut state = self.state();
        state.allowed = state.allowed.saturating_add(bytes);
        state.allowed
    }

    /// Waits until there is something to do. Cancel-safe.
    pub(super) async fn next(&self) -> Next {
        loop {
            if let Some(next) = self.state().next() {
                return next;
            }
            self.news.notified().await;
        }
    }

    /// Waits until the client no longer wants the request, or can't have it.
    pub(super) async fn given_up(&self) -> Next {
        loop {
            {
                let mut state = self.state();
                if state.cancelled || state.spoiled.is_some() {
                    return state.next().unwrap_or(Next::Cancel);
                }
            }
            self.news.notified().await;
        }
    }
}

impl State {
    fn take(&mut self, say: Say) -> Result<(), Unwanted> {
        match say {
            Say::Cancel {} => self.cancelled = true,
            Say::Credit(total) => self.credit = self.credit.max(total),
            Say::Signal(signal) if self.signals.len() < MOST_SIGNALS => self.signals.push_back(signal),
            Say::Signal(_) => {}
            Say::Input { offset, data, end } => return self.input(offset, data.into(), end),
        }
        Ok(())
    }

    fn input(&mut self, offset: u64, data: Bytes, end: bool) -> Result<(), Unwanted> {
        let Some(known) = self.came.checked_sub(offset) else { return Err(Unwanted::Gap) };
        let new = data.slice(usize::try_from(known).unwrap_or(usize::MAX).min(data.len())..);
        if !new.is_empty() && self.complete {
            return Err(Unwanted::AfterEnd);
        }
        self.came = self.came.saturating_add(new.len() as u64);
        if self.came > self.allowed {
            return Err(Unwanted::TooMuch);
        }
        self.complete |= end && offset + data.len() as u64 == self.came;
        if !new.is_empty() {
            self.input.push_back(new);
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Next> {
        if let Some(why) = self.spoiled.take() {
            return Some(Next::Spoiled(why));
        }
        if std::mem::take(&mut self.cancelled) {
            return Some(Next::Cancel);
        }
        if let Some(signal) = self.signals.pop_front() {
            return Some(Next::Signal(signal));
        }
        if self.credit > self.credited {
            let more = self.credit - std::mem::replace(&mut self.credited, self.credit);
            return Some(Next::Credit(more));
        }
        if let Some(input) = self.input.pop_front() {
            return Some(Next::Input(input));
        }
        (self.complete && !std::mem::replace(&mut self.told, true)).then_some(Next::EndOfInput)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(offset: u64, data: &str, end: bool) -> Say {
        Say::Input { offset, data: data.as_bytes().to_vec().into(), end }
    }

    fn all(inbox: &Inbox) -> Vec<Next> {
        std::iter::from_fn(|| inbox.state().next()).collect()
    }

    #[test]
    fn repeats_change_nothing() {
        let inbox = Inbox::new(100, "ab".into(), false);
        for _ in 0..2 {
            inbox.take(input(2, "cd", false)).unwrap();
            inbox.take(Say::Credit(150)).unwrap();
        }
        inbox.take(input(3, "def", true)).unwrap();
        inbox.take(input(3, "def", true)).unwrap();
        inbox.take(Say::Credit(120)).unwrap();
        let text = |text: &'static str| Next::Input(Bytes::from_static(text.as_bytes()));
        assert_eq!(all(&inbox), [Next::Credit(50), text("ab"), text("cd"), text("ef"), Next::EndOfInput]);
        assert_eq!(all(&inbox), []);
    }

    #[test]
    fn what_is_not_allowed_is_refused() {
        let inbox = Inbox::new(4, "ab".into(), false);
        assert_eq!(inbox.take(input(3, "x", false)), Err(Unwanted::Gap));
        assert_eq!(inbox.take(input(2, "cde", false)), Err(Unwanted::TooMuch));
        let inbox = Inbox::new(4, "ab".into(), false);
        assert_eq!(inbox.allow(1), 5);
        inbox.take(input(2, "cde", true)).unwrap();
        assert_eq!(inbox.take(input(5, "f", false)), Err(Unwanted::AfterEnd));
        inbox.take(input(u64::MAX, "", true)).unwrap_err();
    }

    #[test]
    fn a_cancel_comes_first() {
        let inbox = Inbox::new(9, "ab".into(), true);
        inbox.take(Say::Signal(2)).unwrap();
        inbox.take(Say::Cancel {}).unwrap();
        assert_eq!(all(&inbox)[..2], [Next::Cancel, Next::Signal(2)]);
        inbox.spoil(Unwanted::Gap);
        assert_eq!(all(&inbox), [Next::Spoiled(Unwanted::Gap)]);
    }
}
