//! Frames on their way to the SDK, and the flow control of requests.
//!
//! A request that gets bytes has a *lane*. Its frames leave in order, and those with a payload only while the lane has
//! credit. So an SDK that doesn't take one request's bytes holds up no other request, and what waits is bounded: in a
//! lane by its window, and behind it by all windows together.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::frames::Frame;

/// Largest window. A client that asks for more gets this.
const LARGEST_WINDOW: u64 = 64 << 20;

#[derive(Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    /// Wakes the writer.
    written: Notify,
}

#[derive(Default)]
struct State {
    ready: Vec<Frame>,
    lanes: HashMap<u64, Lane>,
    /// Whether flow control has ended, because the client takes everything that still comes.
    unlimited: bool,
    closed: bool,
}

struct Lane {
    /// Payload bytes that may be sent. A frame may take more than is left.
    credit: i64,
    /// Most payload bytes that may wait.
    room: usize,
    waiting: VecDeque<Frame>,
    waiting_bytes: usize,
    /// Whether the last frame is here.
    ended: bool,
    /// Wakes whoever waits for credit.
    credited: Arc<Notify>,
}

impl Lane {
    /// Moves the frames that may leave.
    fn send(&mut self, unlimited: bool, ready: &mut Vec<Frame>) {
        while let Some(frame) = self.waiting.pop_front() {
            let bytes = frame.payload.len();
            if bytes > 0 && self.credit <= 0 && !unlimited {
                return self.waiting.push_front(frame);
            }
            self.credit = self.credit.saturating_sub_unsigned(bytes as u64);
            self.waiting_bytes -= bytes;
            ready.push(frame);
        }
    }

    fn push(&mut self, frame: Frame) {
        self.waiting_bytes += frame.payload.len();
        self.waiting.push_back(frame);
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a lane. Returns `false` if there is one with this id.
    pub(crate) fn begin(&self, id: u64, window: u64) -> bool {
        let mut state = self.lock();
        let free = !state.lanes.contains_key(&id);
        if free {
            let window = window.min(LARGEST_WINDOW);
            let lane = Lane {
                credit: window as i64,
                room: window as usize,
                waiting: VecDeque::new(),
                waiting_bytes: 0,
                ended: false,
                credited: Arc::default(),
            };
            state.lanes.insert(id, lane);
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
            state.ready.push(frame);
            self.written.notify_one();
        }
    }

    /// Sends a frame in a lane. Returns `false` if the lane has ended, or if the frame would have to wait and there is
    /// no room.
    pub(crate) fn offer(&self, id: u64, frame: Frame) -> bool {
        self.in_lane(id, |lane, unlimited| {
            let waits = !lane.waiting.is_empty() || (lane.credit <= 0 && !unlimited);
            let fits = !waits || lane.waiting_bytes + frame.payload.len() <= lane.room;
            if fits {
                lane.push(frame);
            }
            fits
        })
    }

    /// Sends the last frames of a lane. Nothing happens if the lane has ended.
    pub(crate) fn finish(&self, id: u64, frames: impl IntoIterator<Item = Frame>) {
        self.in_lane(id, |lane, _| {
            frames.into_iter().for_each(|frame| lane.push(frame));
            lane.ended = true;
            true
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
                if !state.ready.is_empty() {
                    return Some(std::mem::take(&mut state.ready));
                }
                if state.closed {
                    return None;
                }
            }
            self.written.notified().await;
        }
    }

    fn in_lane(&self, id: u64, act: impl FnOnce(&mut Lane, bool) -> bool) -> bool {
        let mut state = self.lock();
        let State { ready, lanes, unlimited, closed } = &mut *state;
        let Some(lane) = lanes.get_mut(&id).filter(|lane| !lane.ended && !*closed) else { return false };
        let acted = act(lane, *unlimited);
        lane.send(*unlimited, ready);
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::FutureExt;

    use super::*;

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
}
