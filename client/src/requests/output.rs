//! The output of a request: what came of it, and what the worker may send.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use thermae_schemas::{OutputStream, Request};

/// All numbers are totals in bytes, from the beginning of the request.
pub(super) struct Output {
    window: u64,
    received: u64,
    /// What the handle took.
    taken: u64,
    /// What the worker may have sent.
    allowed: u64,
    /// What came and was not taken: at most `window` bytes.
    waiting: VecDeque<(OutputStream, BytesMut)>,
    /// Whether nobody takes output any more.
    unwanted: bool,
}

impl Output {
    pub(super) fn new(window: u64) -> Self {
        Self { window, received: 0, taken: 0, allowed: window, waiting: VecDeque::new(), unwanted: false }
    }

    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Adds what came. A repeat adds nothing. Returns `false` if output before it is missing, or if it is more than the
    /// worker may send.
    pub(super) fn add(&mut self, stream: OutputStream, offset: u64, mut data: Bytes) -> bool {
        let Some(known) = self.received.checked_sub(offset) else { return false };
        if known >= data.len() as u64 {
            return true;
        }
        let new = data.split_off(known as usize);
        if self.received + new.len() as u64 > self.allowed {
            return false;
        }
        self.received += new.len() as u64;
        if self.unwanted {
            self.taken = self.received;
            return true;
        }
        // Small pieces are put together, so that what waits is little more than its bytes.
        match self.waiting.back_mut() {
            Some((last, piece)) if *last == stream && piece.len() + new.len() <= Request::CHUNK => {
                piece.extend_from_slice(&new);
            }
            _ => self.waiting.push_back((stream, new.into())),
        }
        true
    }

    /// The next piece.
    pub(super) fn take(&mut self) -> Option<(OutputStream, Bytes)> {
        let (stream, piece) = self.waiting.pop_front()?;
        self.taken += piece.len() as u64;
        Some((stream, piece.freeze()))
    }

    /// Drops all output from now on.
    pub(super) fn drop_all(&mut self) {
        self.unwanted = true;
        self.waiting.clear();
        self.taken = self.received;
    }

    /// What the worker may have sent, if it should hear that now: when half a window was taken, or if it must hear it
    /// `again`.
    pub(super) fn credit(&mut self, again: bool) -> Option<u64> {
        let total = self.taken + self.window;
        let due = again || total - self.allowed >= (self.window / 2).max(1);
        due.then(|| {
            self.allowed = total;
            total
        })
    }
}

#[cfg(test)]
mod tests {
    use super::OutputStream::{Stderr, Stdout};
    use super::*;

    fn taken(output: &mut Output) -> Vec<(OutputStream, Bytes)> {
        std::iter::from_fn(|| output.take()).collect()
    }

    #[test]
    fn repeats_add_nothing_and_gaps_are_noticed() {
        let mut output = Output::new(100);
        assert!(output.add(Stdout, 0, "abc".into()));
        assert!(output.add(Stdout, 0, "abc".into()) && output.add(Stdout, 1, "b".into()), "known");
        assert!(output.add(Stdout, 2, "cd".into()), "the new part counts");
        assert!(output.add(Stderr, 4, "e".into()) && output.add(Stdout, 5, "".into()));
        assert!(!output.add(Stdout, 6, "g".into()) && !output.add(Stdout, 6, "".into()) && output.received() == 5);
        assert_eq!(taken(&mut output), [(Stdout, "abcd".into()), (Stderr, "e".into())]);
        assert!(!output.add(Stdout, u64::MAX, "x".into()));
    }

    #[test]
    fn at_most_a_window_waits() {
        let mut output = Output::new(4);
        assert!(output.add(Stdout, 0, "abcd".into()) && !output.add(Stdout, 4, "e".into()));
        assert_eq!(output.credit(false), None);
        assert_eq!(taken(&mut output).len(), 1);
        assert!(!output.add(Stdout, 4, "e".into()), "the worker does not know yet that it may send more");
        assert_eq!((output.credit(false), output.credit(false), output.credit(true)), (Some(8), None, Some(8)));
        assert!(output.add(Stdout, 4, "e".into()));
    }

    #[test]
    fn credit_goes_out_in_halves_of_a_window_however_small() {
        let mut output = Output::new(10);
        for (offset, credit) in [(0, None), (2, None), (4, Some(16)), (6, None)] {
            assert!(output.add(Stdout, offset, "12".into()) && output.take().is_some());
            assert_eq!(output.credit(false), credit);
        }
        let mut smallest = Output::new(1);
        assert!(smallest.add(Stdout, 0, "1".into()) && smallest.take().is_some());
        assert_eq!(smallest.credit(false), Some(2));
    }

    #[test]
    fn output_that_nobody_wants_is_dropped_and_does_not_stop_the_command() {
        let mut output = Output::new(4);
        assert!(output.add(Stdout, 0, "ab".into()));
        output.drop_all();
        assert_eq!((output.take(), output.credit(false)), (None, Some(6)));
        assert!(output.add(Stdout, 2, "cdef".into()));
        assert_eq!((output.take(), output.credit(false)), (None, Some(10)));
    }
}
