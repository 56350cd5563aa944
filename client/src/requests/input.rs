//! What the client says about a request while it runs, in order: input and signals.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use thermae_schemas::{Request, Say};

/// All numbers are totals in bytes, from the beginning of the request.
pub(super) struct Input {
    /// Whether input follows the request at all.
    follows: bool,
    /// Whether the handle may give more.
    open: bool,
    /// What the handle gave.
    given: u64,
    sent: u64,
    /// What may be given.
    room: u64,
    waiting: VecDeque<Waiting>,
}

#[derive(PartialEq)]
enum Waiting {
    Input(BytesMut),
    Signal(i32),
}

impl Input {
    pub(super) fn new(request: &Request) -> Self {
        let (first, follows) = (request.input.len() as u64, request.more_input);
        let room = request.window.into();
        Self { follows, open: follows, given: first, sent: first, room, waiting: VecDeque::new() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    pub(super) fn room(&self) -> u64 {
        self.room
    }

    /// How many bytes may be given now.
    pub(super) fn free(&self) -> u64 {
        self.room.saturating_sub(self.given)
    }

    /// The worker takes this many bytes in all.
    pub(super) fn allow(&mut self, total: u64) {
        self.room = self.room.max(total);
    }

    /// Adds input, of which this may be the end. Returns `false` if it is not allowed: then nothing is added.
    pub(super) fn give(&mut self, mut data: Bytes, end: bool) -> bool {
        if !self.open || data.len() as u64 > self.free() {
            return false;
        }
        self.given += data.len() as u64;
        self.open = !end;
        while !data.is_empty() {
            // Small pieces are put together, so that what waits is little more than its bytes.
            match self.waiting.back_mut() {
                Some(Waiting::Input(last)) if last.len() < Request::CHUNK => {
                    let fits = data.len().min(Request::CHUNK - last.len());
                    last.extend_from_slice(&data.split_to(fits));
                }
                _ => self.waiting.push_back(Waiting::Input(data.split_to(data.len().min(Request::CHUNK)).into())),
            }
        }
        if end && !self.input_waits() {
            self.waiting.push_back(Waiting::Input(BytesMut::new()));
        }
        true
    }

    /// Adds a signal after the input that was given. As in Unix, a signal that already waits is not added twice.
    pub(super) fn signal(&mut self, signal: i32) {
        if !self.waiting.contains(&Waiting::Signal(signal)) {
            self.waiting.push_back(Waiting::Signal(signal));
        }
    }

    /// Says again how much was sent, so that the worker notices a gap.
    pub(super) fn again(&mut self) {
        if self.follows && !matches!(self.waiting.front(), Some(Waiting::Input(_))) {
            self.waiting.push_front(Waiting::Input(BytesMut::new()));
        }
    }

    /// What to say next.
    pub(super) fn next(&mut self) -> Option<Say> {
        let data = match self.waiting.pop_front()? {
            Waiting::Signal(signal) => return Some(Say::Signal(signal)),
            Waiting::Input(data) => data.freeze(),
        };
        let offset = self.sent;
        self.sent += data.len() as u64;
        let end = !self.open && !self.input_waits();
        Some(Say::Input { offset, data: data.into(), end })
    }

    fn input_waits(&self) -> bool {
        self.waiting.iter().any(|waiting| matches!(waiting, Waiting::Input(_)))
    }
}

#[cfg(test)]
mod tests {
    use thermae_schemas::{JobId, RequestWork, SessionName};

    use super::*;

    fn input(window: u32, first: &'static [u8]) -> Input {
        let (id, session) = (JobId::new("r").unwrap(), SessionName::new("s").unwrap());
        let request = Request::new(id, session, RequestWork::Keepalive {});
        Input::new(&Request { window, input: first.to_vec().into(), more_input: true, ..request })
    }

    fn said(offset: u64, data: &'static str, end: bool) -> Say {
        Say::Input { offset, data: data.as_bytes().to_vec().into(), end }
    }

    fn all(input: &mut Input) -> Vec<Say> {
        std::iter::from_fn(|| input.next()).collect()
    }

    #[test]
    fn input_goes_out_in_order_within_the_window() {
        let mut input = input(6, b"ab");
        assert!(input.give("c".into(), false) && input.give("d".into(), false) && !input.give("efg".into(), false));
        assert_eq!(all(&mut input), [said(2, "cd", false)]);
        assert!(input.give("ef".into(), false) && !input.give("g".into(), false));
        input.signal(2);
        input.signal(2);
        input.allow(8);
        input.allow(7);
        assert!(input.give("gh".into(), true) && !input.give("".into(), false));
        assert_eq!(all(&mut input), [said(4, "ef", false), Say::Signal(2), said(6, "gh", true)]);
        assert!(input.next().is_none());
    }

    #[test]
    fn the_end_goes_out_once_with_the_last_piece_or_alone() {
        let mut alone = input(6, b"ab");
        assert!(alone.give("".into(), true));
        assert_eq!(all(&mut alone), [said(2, "", true)]);
        let mut with = input(6, b"");
        assert!(with.give("ab".into(), false));
        with.signal(1);
        assert!(with.give("".into(), true));
        assert_eq!(all(&mut with), [said(0, "ab", true), Say::Signal(1)]);
    }

    #[test]
    fn large_input_goes_out_in_chunks() {
        let mut input = input(Request::MAX_WINDOW, b"");
        let data = vec![7; 2 * Request::CHUNK + 1];
        assert!(input.give(data[..5].to_vec().into(), false) && input.give(data[5..].to_vec().into(), true));
        let sizes: Vec<_> = all(&mut input)
            .into_iter()
            .map(|say| match say {
                Say::Input { offset, data, end } => (offset as usize, data.len(), end),
                say => panic!("{say:?}"),
            })
            .collect();
        let chunk = Request::CHUNK;
        assert_eq!(sizes, [(0, chunk, false), (chunk, chunk, false), (2 * chunk, 1, true)]);
    }

    #[test]
    fn what_was_sent_is_said_again_without_its_bytes() {
        let mut input = input(6, b"ab");
        assert!(input.give("cd".into(), false));
        input.again();
        assert_eq!(all(&mut input), [said(2, "cd", false)], "what waits shows the gap as well");
        input.again();
        assert_eq!(all(&mut input), [said(4, "", false)]);
        assert!(input.give("".into(), true));
        assert_eq!(all(&mut input), [said(4, "", true)]);
        input.again();
        assert_eq!(all(&mut input), [said(4, "", true)]);
        let mut bare = Input { follows: false, ..input };
        bare.again();
        assert!(bare.next().is_none());
    }
}
