//! The handle of a request to a session.

use std::sync::Arc;

use bytes::Bytes;
use thermae_schemas::{JobId, OutputStream, RequestDone};

use super::course::Course;
use crate::Error;

/// A request under way. Its methods may be used at the same time, for example to give input while output is read. Until
/// a worker has opened the request, input and signals wait. If the handle is dropped, the request is cancelled.
pub struct RequestHandle(Arc<Course>);

impl RequestHandle {
    pub(super) fn new(course: Arc<Course>) -> Self {
        Self(course)
    }

    /// Id of the request.
    pub fn id(&self) -> &JobId {
        &self.0.id
    }

    /// The next piece of output; `None` after the last one. A command whose output is not read stops after
    /// [`Request::window`] bytes of it. The future may be dropped half-way without losing output.
    ///
    /// [`Request::window`]: thermae_schemas::Request::window
    pub async fn output(&self) -> Option<(OutputStream, Bytes)> {
        self.0
            .when(|state| match state.output.take() {
                None => state.end.is_some().then_some(None),
                piece => Some(piece),
            })
            .await
    }

    /// Waits for the end of the request. Read the output first, or at the same time. Further calls return the same end.
    ///
    /// # Errors
    /// The fleet could not be asked: as for [`crate::Client::submit`], [`Error::AlreadyRequested`], or the client ended
    /// before the request did. What goes wrong with the request itself is reported in its end.
    pub async fn done(&self) -> Result<RequestDone, Error> {
        self.0.when(|state| state.end.clone()).await
    }

    /// Gives input, waiting for the command to take earlier input. Returns `false` if no more input is taken: the
    /// request has ended, or the input has. If the future is dropped half-way, a part of `data` may have been given.
    pub async fn input(&self, mut data: Bytes) -> bool {
        while !data.is_empty() {
            let given = self.0.when(|state| {
                if state.end.is_some() || !state.input.is_open() {
                    return Some(false);
                }
                let fits = data.len().min(usize::try_from(state.input.free()).unwrap_or(usize::MAX));
                (fits > 0).then(|| state.input.give(data.split_to(fits), false))
            });
            if !given.await {
                return false;
            }
        }
        true
    }

    /// Ends the input.
    pub fn end_input(&self) {
        self.0.change(|state| state.input.give(Bytes::new(), true));
    }

    /// As [`RequestHandle::input`] and then, if `end` is set, [`RequestHandle::end_input`], without waiting. Returns
    /// `false`, and does nothing, if this is more input than [`RequestHandle::input_allowed`], or if the input has
    /// ended. After the end of the request, input is dropped.
    pub fn try_input(&self, data: Bytes, end: bool) -> bool {
        self.0.change(|state| state.end.is_some() || state.input.give(data, end))
    }

    /// Waits until more than `beyond` bytes of input may be given in all, and returns how many may be. At first, these
    /// are [`Request::window`] bytes, including [`Request::input`]. Never returns after the end of the request.
    ///
    /// [`Request::window`]: thermae_schemas::Request::window
    /// [`Request::input`]: thermae_schemas::Request::input
    pub async fn input_allowed(&self, beyond: u64) -> u64 {
        self.0.when(|state| Some(state.input.room()).filter(|room| *room > beyond)).await
    }

    /// Sends a signal to the command's process group, after the input that was given. If the connection to the broker
    /// is lost, the signal may arrive twice.
    pub fn signal(&self, signal: i32) {
        self.0.change(|state| state.input.signal(signal));
    }

    /// Kills the command, or ends the file operation. The end comes as usual.
    pub fn cancel(&self) {
        self.0.change(|state| state.cancel());
    }
}

impl Drop for RequestHandle {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.cancel();
            state.output.drop_all();
        });
    }
}

impl std::fmt::Debug for RequestHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RequestHandle").field(self.id()).finish()
    }
}
