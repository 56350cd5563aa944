//! The course of one request: what came of it, what waits to be said, and how it ended. The reader of the reply queue,
//! the request's handle and the task that sends share it. Nothing here sends anything.

use std::time::Duration;

use bytes::Bytes;
use thermae_schemas::{ErrorCode, ErrorInfo, EventBody, JobId, OutputStream, Request, RequestDone, RequestEnd, Say};
use tokio::sync::watch;
use tokio::time::Instant;

use super::input::Input;
use super::output::Output;
use crate::{Error, Options};

/// A request under way.
pub(crate) struct Course {
    pub(super) id: JobId,
    state: watch::Sender<State>,
}

pub(super) struct State {
    pub(super) output: Output,
    pub(super) input: Input,
    /// Routing key of what the client says; `None` until a worker has opened the request.
    reply_to: Option<String>,
    /// When the request was last sent, or an event of it came.
    heard: Instant,
    answered: bool,
    /// Whether the request must be sent again now.
    ask: bool,
    cancelled: bool,
    /// Whether the worker must hear of the cancel.
    say_cancel: bool,
    /// Whether the worker must hear again how much output it may send.
    say_credit: bool,
    /// Whether a part of the output is lost.
    interrupted: bool,
    pub(super) end: Option<Result<RequestDone, Error>>,
}

impl State {
    pub(super) fn cancel(&mut self) {
        self.say_cancel |= !self.cancelled;
        self.cancelled = true;
    }

    /// What to say to the worker next, and under which key.
    pub(super) fn next_say(&mut self) -> Option<(String, Say)> {
        let key = self.reply_to.clone()?;
        let say = if std::mem::take(&mut self.say_cancel) {
            Say::Cancel {}
        } else if let Some(total) = self.output.credit(std::mem::take(&mut self.say_credit)) {
            Say::Credit(total)
        } else {
            self.input.next()?
        };
        Some((key, say))
    }

    fn event(&mut self, event: EventBody) {
        (self.heard, self.answered) = (Instant::now(), true);
        match event {
            EventBody::Opened { reply_to } => self.opened(reply_to),
            EventBody::Output { stream, offset, data } => self.came(stream, offset, data.into()),
            EventBody::Credit { input } => self.input.allow(input),
            EventBody::Done(done) => self.done(done),
            _ => {}
        }
    }

    fn opened(&mut self, reply_to: String) {
        if self.reply_to.replace(reply_to).is_some() {
            // What was said before may be lost.
            self.say_cancel = self.cancelled;
            self.say_credit = true;
            self.input.again();
        }
    }

    fn came(&mut self, stream: OutputStream, offset: u64, data: Bytes) {
        if !self.interrupted && !self.output.add(stream, offset, data) {
            self.interrupted = true;
            self.cancel();
        }
    }

    fn done(&mut self, mut done: RequestDone) {
        let lost = self.interrupted || done.output > self.output.received();
        if lost && !matches!(done.end, RequestEnd::Error { .. }) {
            let message = "A part of the request's output was lost on its way to the client.";
            done.end = RequestEnd::Error { error: ErrorInfo::new(ErrorCode::RequestInterrupted, message) };
        }
        self.end = Some(Ok(done));
    }
}

impl Course {
    pub(super) fn new(request: &Request) -> Self {
        let state = State {
            output: Output::new(request.window.into()),
            input: Input::new(request),
            reply_to: None,
            heard: Instant::now(),
            answered: false,
            ask: false,
            cancelled: false,
            say_cancel: false,
            say_credit: false,
            interrupted: false,
            end: None,
        };
        Self { id: request.id.clone(), state: watch::Sender::new(state) }
    }

    /// Changes the state. Whoever waits for something looks again.
    pub(super) fn change<T: Default>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut changed = T::default();
        self.state.send_modify(|state| changed = change(state));
        changed
    }

    /// Waits until `take` takes something. This may be given up half-way without a loss.
    pub(super) async fn when<T>(&self, mut take: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut changes = self.state.subscribe();
        loop {
            let mut taken = None;
            self.state.send_if_modified(|state| {
                taken = take(state);
                taken.is_some()
            });
            if let Some(taken) = taken {
                return taken;
            }
            // The sender lives as long as `self`.
            let _ = changes.changed().await;
        }
    }

    /// Takes an event of the request. Nothing changes if the request has ended.
    pub(super) fn event(&self, event: EventBody) {
        self.state.send_if_modified(|state| {
            let goes_on = state.end.is_none();
            if goes_on {
                state.event(event);
            }
            goes_on
        });
    }

    /// Ends the request, unless it has ended.
    pub(super) fn end(&self, end: Result<RequestDone, Error>) {
        self.change(|state| state.end.get_or_insert(end).is_ok());
    }

    /// Has the request sent again now.
    pub(super) fn ask_again(&self) {
        self.change(|state| state.ask = true);
    }

    /// The request was sent.
    pub(super) fn asked(&self) {
        self.change(|state| state.heard = Instant::now());
    }

    /// Waits until the request must be sent again: it was silent for `first` without any answer, or for
    /// [`Options::silence`] after one, or events may be lost.
    pub(super) async fn silent(&self, first: Duration, options: &Options) {
        let asked = self.when(|state| std::mem::take(&mut state.ask).then_some(()));
        tokio::pin!(asked);
        loop {
            let until = {
                let state = self.state.borrow();
                state.heard + if state.answered { options.silence } else { first }
            };
            if until <= Instant::now() {
                return;
            }
            tokio::select! {
                () = &mut asked => return,
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }
}
