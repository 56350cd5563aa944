//! Frames on their way to the SDK, and the flow control of requests.
//!
//! A request that gets bytes has a *lane*. Its frames leave in order, and those with a payload only while the lane has
//! credit. So an SDK that doesn't take one request's bytes holds up no other request, and what waits is bounded: in a
//! lane by its window, and behind it by all windows together.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::frames::Frame;
use crate::lane::{Lane, size};
use crate::terms::Holds;

/// Largest window. A client that asks for more gets this.
const LARGEST_WINDOW: u64 = 64 << 20;

/// Bytes that the writer takes at once.
const TAKEN: usize = 256 << 10;

pub(crate) struct Outbox {
    state: Mutex<State>,
    /// Wakes the writer.
    written: Notify,
    /// Wakes whoever waits for room for an answer.
    released: Notify,
    holds: Arc<dyn Holds>,
    /// Whether more waits than may.
    overfull: CancellationToken,
}

/// Bytes of an answer to a tool call, which are held until this is dropped.
pub(crate) struct HeldAnswer {
    outbox: Arc<Outbox>,
    bytes: usize,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Frame>,
    lanes: HashMap<u64, Lane>,
    /// Whether flow control has ended, because the client takes everything that still comes.
    unlimited: bool,
    closed: bool,
    /// Bytes of all frames that wait, of the requests under way, and of the SDK's answers to tool calls.
    held: usize,
    /// Number of these answers.
    answers: usize,
    /// Bytes of the frames that the writer took last. They are held until it takes the next ones.
    taken: usize,
}

impl Outbox {
    pub(crate) fn new(holds: Arc<dyn Holds>) -> Self {
        let (state, written, released, overfull) = Default::default();
        Self { state, written, released, holds, overfull }
    }

    /// Waits until more frames wait than may.
    pub(crate) async fn overfull(&self) {
        self.overfull.cancelled().await;
    }

    /// Holds bytes of a request, if that is allowed.
    pub(crate) fn hold(&self, bytes: usize) -> bool {
        let mut state = self.lock();
        let may = bytes == 0 || self.holds.hold(state.held + bytes);
        if may {
            state.held += bytes;
        } else {
            self.holds.hold(state.held);
        }
        may
    }

    /// Holds them no more.
    pub(crate) fn release(&self, bytes: usize) {
        let mut state = self.lock();
        state.held = state.held.saturating_sub(bytes);
        self.holds.hold(state.held);
        self.released.notify_one();
    }

    /// Holds the bytes of an answer to a tool call as soon as that is allowed, or no other answer is held. Nothing that
    /// the SDK sends is read meanwhile, so only one task waits for this.
    pub(crate) async fn hold_answer(self: &Arc<Self>, bytes: usize) -> HeldAnswer {
        while !self.holds_answer(bytes) {
            self.released.notified().await;
        }
        HeldAnswer { outbox: self.clone(), bytes }
    }

    fn holds_answer(&self, bytes: usize) -> bool {
        let mut state = self.lock();
        let may = self.holds.hold(state.held + bytes) || state.answers == 0;
        if may {
            state.held += bytes;
            state.answers += 1;
        } else {
            self.holds.hold(state.held);
        }
        may
    }

    /// Holds bytes of frames that come. If more wait than may, the connection ends, and what waits is dropped at once:
    /// the writer would only copy it.
    fn more(&self, state: &mut State, bytes: usize) {
        state.held += bytes;
        if !self.holds.hold(state.held) {
            self.overfull.cancel();
            let waiting = state.lanes.values_mut().flat_map(Lane::clear);
            let dropped: usize = waiting.chain(std::mem::take(&mut state.ready)).map(|frame| size(&frame)).sum();
            state.held = state.held.saturating_sub(dropped);
            self.holds.hold(state.held);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a lane. Returns `false` if there is one with this id.
    pub(crate) fn begin(&self, id: u64, window: u64) -> bool {
        let mut state = self.lock();
        let free = !state.lanes.contains_key(&id);
        if free {
            let window = window.min(LARGEST_WINDOW);
            state.lanes.insert(id, Lane::new(window));
        }
        free
    }

    /// Whether a lane with this id is open, or has frames that wait.
    pub(crate) fn has(&self, id: u64) -> bool {
        self.lock().lanes.contains_key(&id)
    }

    /// Sends a frame that belongs to no lane.
    pub(crate) fn send(&self, frame: Frame) {
        let mut state = self.lock();
        if !state.closed {
            self.more(&mut state, size(&frame));
            state.ready.push_back(frame);
            self.written.notify_one();
        }
    }

    /// Sends a frame in a lane. Returns `false` if the lane has ended, or if the frame would have to wait and there is
    /// no room.
    pub(crate) fn offer(&self, id: u64, frame: Frame) -> bool {
        self.in_lane(id, |lane, unlimited| {
            let bytes = size(&frame);
            let waits = !lane.waiting.is_empty() || (lane.credit <= 0 && !unlimited);
            let fits = !waits || lane.waiting_bytes + frame.payload.len() <= lane.room;
            if fits {
                lane.push(frame);
            }
            (fits, if fits { bytes } else { 0 })
        })
    }

    /// Sends the last frames of a lane. Nothing happens if the lane has ended.
    pub(crate) fn finish(&self, id: u64, frames: impl IntoIterator<Item = Frame>) {
        self.in_lane(id, |lane, _| {
            let mut bytes = 0;
            for frame in frames {
                bytes += size(&frame);
                lane.push(frame);
            }
            lane.ended = true;
            (true, bytes)
        });
    }

    /// Gives a lane more credit.
    pub(crate) fn credit(&self, id: u64, bytes: u64) {
        let mut state = self.lock();
        let State { ready, lanes, unlimited, .. } = &mut *state;
        let Some(lane) = lanes.get_mut(&id) else { return };
        // No client owes more than it got.
        lane.credit = lane.credit.saturating_add_unsigned(bytes).min(LARGEST_WINDOW as i64);
        lane.send(*unlimited, ready);
        lane.credited.notify_one();
        self.settle(&mut state, id);
    }

    /// Waits until a lane has credit and nothing waits in it. Returns `false` if the lane has ended. Only one task may
    /// wait for each lane.
    pub(crate) async fn writable(&self, id: u64) -> bool {
        loop {
            let credited = {
                let state = self.lock();
                match state.lanes.get(&id) {
                    None => return false,
                    Some(lane) if lane.ended => return false,
                    Some(lane) if lane.waiting.is_empty() && (lane.credit > 0 || state.unlimited) => return true,
                    Some(lane) => lane.credited.clone(),
                }
            };
            credited.notified().await;
        }
    }

    /// Ends flow control: everything may leave at once.
    pub(crate) fn unlimit(&self) {
        let mut state = self.lock();
        state.unlimited = true;
        let State { ready, lanes, .. } = &mut *state;
        lanes.values_mut().for_each(|lane| {
            lane.send(true, ready);
            lane.credited.notify_one();
        });
        lanes.retain(|_, lane| !lane.ended);
        self.written.notify_one();
    }

    /// Takes no more frames. The writer ends when it has written those that may leave.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.written.notify_one();
    }

    /// The frames that may leave; `None` after the last ones. Only one task may take them.
    pub(crate) async fn take(&self) -> Option<Vec<Frame>> {
        loop {
            {
                let mut state = self.lock();
                let written = std::mem::take(&mut state.taken);
                if written > 0 {
                    state.held = state.held.saturating_sub(written);
                    self.holds.hold(state.held);
                }
                let (mut taken, mut bytes) = (Vec::new(), 0);
                while bytes < TAKEN
                    && let Some(frame) = state.ready.pop_front()
                {
                    bytes += size(&frame);
                    taken.push(frame);
                }
                if !taken.is_empty() {
                    state.taken = bytes;
                    return Some(taken);
                }
                if state.closed {
                    return None;
                }
            }
            self.written.notified().await;
        }
    }

    /// Does something with a lane, which says whether it was done, and how many bytes came.
    fn in_lane(&self, id: u64, act: impl FnOnce(&mut Lane, bool) -> (bool, usize)) -> bool {
        let mut state = self.lock();
        let State { ready, lanes, unlimited, closed, .. } = &mut *state;
        let Some(lane) = lanes.get_mut(&id).filter(|lane| !lane.ended && !*closed) else { return false };
        let (acted, bytes) = act(lane, *unlimited);
        lane.send(*unlimited, ready);
        self.more(&mut state, bytes);
        self.settle(&mut state, id);
        acted
    }

    /// Removes a lane whose last frame has left, and wakes the writer if there is work for it.
    fn settle(&self, state: &mut State, id: u64) {
        if state.lanes.get(&id).is_some_and(|lane| lane.ended && lane.waiting.is_empty()) {
            state.lanes.remove(&id);
        }
        if !state.ready.is_empty() {
            self.written.notify_one();
        }
    }
}

impl Drop for HeldAnswer {
    fn drop(&mut self) {
        self.outbox.lock().answers -= 1;
        self.outbox.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::FutureExt;

    use super::*;
    use crate::Terms;

    impl Default for Outbox {
        fn default() -> Self {
            Self::new(Terms::default().holds)
        }
    }

    /// Lets a connection hold this many bytes.
    struct Most(usize);

    impl Holds for Most {
        fn hold(&self, bytes: usize) -> bool {
            bytes <= self.0
        }
    }

    fn frame(name: &'static str, bytes: usize) -> Frame {
        Frame { header: name.into(), payload: Bytes::from(vec![0; bytes]) }
    }

    fn sent(outbox: &Outbox) -> Vec<Bytes> {
        let frames = outbox.take().now_or_never().flatten().unwrap_or_default();
        frames.into_iter().map(|frame| frame.header).collect()
    }

    #[test]
    fn a_lane_without_credit_holds_up_only_itself() {
        let outbox = Outbox::default();
        assert!(outbox.begin(1, 10) && outbox.begin(2, 10) && !outbox.begin(1, 10));
        assert!(outbox.offer(1, frame("a", 8)) && outbox.offer(1, frame("b", 8)), "the last frame may take more");
        assert!(outbox.offer(1, frame("waits", 8)), "the window's bytes may wait");
        assert!(!outbox.offer(1, frame("no room", 8)));
        assert!(outbox.offer(2, frame("c", 8)));
        assert_eq!(sent(&outbox), ["a", "b", "c"]);
        outbox.credit(1, 6);
        assert!(sent(&outbox).is_empty(), "the credit is not above zero yet");
        outbox.credit(1, 1);
        assert_eq!(sent(&outbox), ["waits"]);
    }

    #[test]
    fn the_end_is_never_left_out_and_keeps_its_place() {
        let outbox = Outbox::default();
        outbox.begin(1, 1);
        assert!(outbox.offer(1, frame("a", 100)) && !outbox.offer(1, frame("no room", 100)));
        outbox.finish(1, [frame("result", 1000), frame("done", 0)]);
        assert!(!outbox.offer(1, frame("late", 0)));
        assert_eq!(sent(&outbox), ["a"]);
        outbox.credit(1, 100);
        assert_eq!(sent(&outbox), ["result", "done"]);
        outbox.finish(1, [frame("again", 0)]);
        outbox.credit(1, u64::MAX);
        assert!(sent(&outbox).is_empty() && outbox.begin(1, 1), "the lane is gone");
    }

    #[test]
    fn credit_beyond_what_a_client_got_adds_nothing() {
        let outbox = Outbox::default();
        outbox.begin(1, u64::MAX);
        (0..3).for_each(|_| outbox.credit(1, u64::MAX));
        assert!(outbox.offer(1, frame("a", 65 << 20)) && outbox.offer(1, frame("b", 1)));
        assert_eq!(sent(&outbox), ["a"]);
    }

    #[tokio::test]
    async fn whoever_waits_for_credit_goes_on_when_it_comes_or_the_lane_ends() {
        let outbox = Arc::new(Outbox::default());
        outbox.begin(1, 1);
        assert!(outbox.writable(1).await);
        outbox.offer(1, frame("a", 2));
        assert!(outbox.writable(1).now_or_never().is_none());
        let waiting = tokio::spawn({
            let outbox = outbox.clone();
            async move { outbox.writable(1).await }
        });
        outbox.credit(1, 2);
        assert!(waiting.await.unwrap());
        outbox.offer(1, frame("b", 2));
        outbox.unlimit();
        assert!(outbox.writable(1).await);
        outbox.finish(1, []);
        assert!(!outbox.writable(1).await);
    }

    #[tokio::test]
    async fn the_writer_ends_after_what_may_leave() {
        let outbox = Outbox::default();
        outbox.send(frame("a", 0));
        outbox.close();
        outbox.send(frame("late", 0));
        assert_eq!(sent(&outbox), ["a"]);
        assert!(outbox.take().await.is_none());
    }

    #[test]
    fn what_waits_is_counted_until_it_is_written() {
        let outbox = Outbox::new(Arc::new(Most(3000)));
        assert!(outbox.hold(1000) && !outbox.hold(2500), "a request that is refused holds nothing");
        outbox.begin(1, 10);
        assert!(outbox.offer(1, frame("a", 1500)) && outbox.overfull().now_or_never().is_none());
        assert_eq!(sent(&outbox), ["a"]);
        assert!(!outbox.hold(1900), "it may not be written yet");
        assert!(sent(&outbox).is_empty() && outbox.hold(1900), "it is written");
        outbox.release(2900);
        // Frames that belong to no lane count, too, and so do those that wait for credit.
        outbox.finish(1, [frame("result", 1000)]);
        (0..9).for_each(|_| outbox.send(frame("e", 0)));
        assert!(outbox.overfull().now_or_never().is_none());
        (0..9).for_each(|_| outbox.send(frame("e", 0)));
        assert!(outbox.overfull().now_or_never().is_some());
    }

    #[test]
    fn what_is_too_much_is_dropped_but_not_the_reason() {
        let outbox = Outbox::new(Arc::new(Most(3000)));
        outbox.begin(1, 10);
        assert!(outbox.offer(1, frame("a", 1000)) && outbox.offer(1, frame("waits", 10)));
        outbox.finish(1, [frame("result", 2000)]);
        assert!(outbox.overfull().now_or_never().is_some() && outbox.hold(3000), "nothing is held any more");
        outbox.send(frame("too_slow", 0));
        assert_eq!(sent(&outbox), ["too_slow"]);
    }

    #[test]
    fn answers_wait_for_room_but_one_is_always_taken() {
        let outbox = Arc::new(Outbox::new(Arc::new(Most(3000))));
        let hold = |bytes| outbox.hold_answer(bytes).now_or_never();
        let large = hold(5000).expect("the only one is taken");
        assert!(hold(1).is_none());
        drop(large);
        let (first, second) = (hold(1500).unwrap(), hold(1500).unwrap());
        let mut third = Box::pin(outbox.hold_answer(1500));
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.now_or_never().is_some(), "there is room again");
        drop(second);
        assert!(outbox.hold(3000), "all of it is free");
    }
}
