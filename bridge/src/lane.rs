//! A lane of the outbox: the frames of one request, in their order.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::frames::Frame;

/// What a frame takes in memory beside its bytes.
const OVERHEAD: usize = 128;

/// What a frame takes in memory.
pub(crate) fn size(frame: &Frame) -> usize {
    OVERHEAD + frame.header.len() + frame.payload.len()
}

/// Frames of one request that wait for credit.
pub(crate) struct Lane {
    /// Payload bytes that may be sent. A frame may take more than is left.
    pub(crate) credit: i64,
    /// Most payload bytes that may wait.
    pub(crate) room: usize,
    pub(crate) waiting: VecDeque<Frame>,
    pub(crate) waiting_bytes: usize,
    /// Whether the last frame is here.
    pub(crate) ended: bool,
    /// Wakes whoever waits for credit.
    pub(crate) credited: Arc<Notify>,
}

impl Lane {
    pub(crate) fn new(window: u64) -> Self {
        let (credit, room) = (window as i64, window as usize);
        Self { credit, room, waiting: VecDeque::new(), waiting_bytes: 0, ended: false, credited: Arc::default() }
    }

    /// Moves the frames that may leave.
    pub(crate) fn send(&mut self, unlimited: bool, ready: &mut VecDeque<Frame>) {
        while let Some(frame) = self.waiting.pop_front() {
            let bytes = frame.payload.len();
            if bytes > 0 && self.credit <= 0 && !unlimited {
                return self.waiting.push_front(frame);
            }
            self.credit = self.credit.saturating_sub_unsigned(bytes as u64);
            self.waiting_bytes -= bytes;
            ready.push_back(frame);
        }
    }

    /// Takes out all frames that wait.
    pub(crate) fn clear(&mut self) -> VecDeque<Frame> {
        self.waiting_bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Adds a frame behind the others.
    pub(crate) fn push(&mut self, frame: Frame) {
        self.waiting_bytes += frame.payload.len();
        self.waiting.push_back(frame);
    }
}
