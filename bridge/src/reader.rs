//! Reads what an SDK sends, and starts its requests.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::connection::{End, Hears, Shared, Underway};
use crate::frames::{self, Frame};
use crate::open::Opener;
use crate::request::{self, Request, Unread};
use crate::run::Run;
use crate::session::Say;
use crate::{Refusal, VERSION, artifact, asking, reply, session};

pub(crate) struct Reader {
    shared: Arc<Shared>,
    opener: Arc<dyn Opener>,
    /// Most requests at once.
    most: usize,
    /// The requests under way.
    tasks: JoinSet<()>,
    /// Jobs that have not come whole yet.
    parts: HashMap<u64, Part>,
    /// Whether the SDK has said `hello`.
    greeted: bool,
    /// Whether the SDK has asked to open a fleet.
    opening: bool,
}

/// A job of which more comes. Its bytes are held.
struct Part {
    run: Request,
    text: BytesMut,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, opener: Arc<dyn Opener>, most: usize) -> Self {
        Self { shared, opener, most, tasks: JoinSet::new(), parts: HashMap::new(), greeted: false, opening: false }
    }

    /// The requests that go on.
    pub(crate) fn into_tasks(self) -> JoinSet<()> {
        self.tasks
    }

    /// Reads frames until the connection has to end.
    pub(crate) async fn read(
        &mut self,
        frames: &mut (impl Stream<Item = Result<Frame, frames::Error>> + Unpin),
    ) -> End {
        loop {
            let frame = tokio::select! {
                frame = frames.next() => frame,
                Some(_) = self.tasks.join_next() => continue,
            };
            let taken = match frame {
                None => return End::Gone,
                Some(Err(frames::Error::Io(error))) => {
                    tracing::debug!(%error, "no frame can be read");
                    return End::Gone;
                }
                Some(Err(error @ frames::Error::NoRoom)) => {
                    let refusal = Refusal::new("gateway_full", error.to_string());
                    return End::Bad(refusal.advice("connect again later, or send smaller frames"));
                }
                Some(Err(error)) => return End::Bad(Refusal::new("bad_frame", error.to_string())),
                Some(Ok(frame)) => self.take(frame).await,
            };
            if let ControlFlow::Break(end) = taken {
                return end;
            }
        }
    }

    async fn take(&mut self, frame: Frame) -> ControlFlow<End> {
        let bad = |message: &str| ControlFlow::Break(End::Bad(Refusal::new("bad_frame", message)));
        let request = match request::read(&frame.header) {
            Ok(request) => request,
            Err(Unread::Bad(refusal)) => return ControlFlow::Break(End::Bad(refusal)),
            // There is no answer to a frame about a request: the only answer is the request's own.
            Err(Unread::Refused(id, refusal)) if self.is_underway(id) => return bad(&refusal.message),
            Err(Unread::Refused(id, refusal)) => {
                self.shared.refuse(id, false, &refusal);
                return ControlFlow::Continue(());
            }
            Err(Unread::Unknown) => return ControlFlow::Continue(()),
        };
        if !self.greeted {
            let Request::Hello { versions } = request else { return bad("the first frame is not hello") };
            return self.greet(&versions);
        }
        match request {
            Request::Hello { .. } => return bad("hello came twice"),
            Request::Close {} => return ControlFlow::Break(End::Closed),
            Request::Credit { id, bytes } => self.shared.outbox.credit(id, bytes),
            Request::Cancel { id } if self.drop_part(id) => self.shared.refuse(id, false, &Refusal::cancelled()),
            Request::Cancel { id } => {
                if let Some(underway) = self.shared.requests().get(&id) {
                    underway.cancel.cancel();
                }
            }
            Request::ToolResult { id, call } => {
                let run = match self.shared.requests().get(&id) {
                    Some(Underway { hears: Hears::Run(run), .. }) => run.clone(),
                    _ => return ControlFlow::Continue(()),
                };
                // The answer is held twice: as it came, and as it leaves.
                let held = self.shared.outbox.hold_answer(frame.payload.len() * 2).await;
                run.answered(&call, &frame.payload, held);
            }
            Request::Detach { id } => {
                if let Some(Underway { hears: Hears::Run(run), .. }) = self.shared.requests().get(&id) {
                    run.leave();
                }
            }
            Request::Input { id, end } if self.parts.contains_key(&id) => self.add_part(id, &frame.payload, end),
            Request::Input { id, end } => self.say(id, Say::Input(frame.payload, end)),
            Request::Signal { id, signal } => self.say(id, Say::Signal(signal)),
            Request::Open { id, .. }
            | Request::Run { id, .. }
            | Request::Attach { id, .. }
            | Request::RunInfo { id, .. }
            | Request::CancelRun { id, .. }
            | Request::Answer { id, .. }
            | Request::Decide { id, .. }
            | Request::InSession { id, .. }
            | Request::Artifact { id, .. }
            | Request::Sessions { id }
            | Request::CheckTools { id } => {
                if self.is_underway(id) {
                    return bad("an id is used twice");
                }
                if let Err(refusal) = self.start(request, frame) {
                    self.shared.refuse(id, false, &refusal);
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Tells a request to a session what the SDK says. Nothing happens if the request has ended.
    fn say(&self, id: u64, say: Say) {
        if let Some(Underway { hears: Hears::Session(says), .. }) = self.shared.requests().get(&id) {
            let _ = says.send(say);
        }
    }

    /// Adds to a job that has not come whole yet. After its end, it runs.
    fn add_part(&mut self, id: u64, more: &[u8], end: bool) {
        if !self.shared.outbox.hold(more.len()) {
            self.drop_part(id);
            return self.shared.refuse(id, false, &Self::no_room());
        }
        let Some(part) = self.parts.get_mut(&id) else { return };
        part.text.extend_from_slice(more);
        if !end {
            return;
        }
        let Some(Part { run, text }) = self.parts.remove(&id) else { return };
        // The request holds them from now on.
        self.shared.outbox.release(text.len());
        if let Err(refusal) = self.start(run, Frame { header: Bytes::new(), payload: text.freeze() }) {
            self.shared.refuse(id, false, &refusal);
        }
    }

    /// Forgets a job that has not come whole yet. Says whether there was one.
    fn drop_part(&mut self, id: u64) -> bool {
        let dropped = self.parts.remove(&id);
        self.shared.outbox.release(dropped.as_ref().map_or(0, |part| part.text.len()));
        dropped.is_some()
    }

    fn no_room() -> Refusal {
        let message = "the requests of this connection hold as many bytes as they may";
        Refusal::new("gateway_full", message).advice("try again later")
    }

    fn is_underway(&self, id: u64) -> bool {
        self.parts.contains_key(&id) || self.shared.requests().contains_key(&id) || self.shared.outbox.has(id)
    }

    fn greet(&mut self, versions: &[u32]) -> ControlFlow<End> {
        if !versions.contains(&VERSION) {
            let message = format!("this bridge speaks version {VERSION}, and the client {versions:?}");
            let refusal = Refusal::new("unsupported_version", message).advice("update thermae, or the package");
            return ControlFlow::Break(End::Bad(refusal));
        }
        self.greeted = true;
        self.shared.outbox.send(reply::hello());
        ControlFlow::Continue(())
    }

    fn start(&mut self, request: Request, frame: Frame) -> Result<(), Refusal> {
        match (&request, self.opening) {
            (Request::Open { .. }, true) => return Err(Refusal::new("already_open", "the fleet was opened before")),
            (Request::Open { .. }, false) | (_, true) => {}
            (_, false) => return Err(Refusal::new("not_open", "no fleet was opened").advice("send `open` first")),
        }
        if let Request::InSession { window, .. } = &request {
            session::check(*window)?;
        }
        if self.shared.requests().len() + self.parts.len() >= self.most {
            let message = format!("{} requests are under way already", self.most);
            return Err(Refusal::new("too_many_requests", message).advice("wait until some of them have ended"));
        }
        let held = frame.payload.len();
        if !self.shared.outbox.hold(held) {
            return Err(Self::no_room());
        }
        let (shared, cancel) = (self.shared.clone(), self.shared.ending.child_token());
        match request {
            Request::Open { id, ask } => {
                self.opening = true;
                let opener = self.opener.clone();
                let underway = Underway { cancel, held, in_lane: false, hears: Hears::Nobody };
                self.spawn(id, underway, asking::open(shared, opener, id, ask));
            }
            Request::Run { id, window, detached, more: true } => {
                let run = Request::Run { id, window, detached, more: false };
                self.parts.insert(id, Part { run, text: frame.payload.into() });
            }
            Request::Run { id, window, detached, more: false } => {
                shared.outbox.begin(id, window);
                let run = Arc::new(Run::new(id, &shared, detached));
                // The end of the connection is no reason to cancel it then.
                let cancel = if detached { CancellationToken::new() } else { cancel };
                let driven = run.clone().drive(shared, frame.payload, cancel.clone());
                self.spawn(id, Underway { cancel, held, in_lane: true, hears: Hears::Run(run) }, driven);
            }
            Request::Attach { id, window, run: named } => {
                shared.outbox.begin(id, window);
                let run = Arc::new(Run::new(id, &shared, true));
                let cancel = CancellationToken::new();
                let driven = run.clone().attach(shared, named.into(), cancel.clone());
                self.spawn(id, Underway { cancel, held, in_lane: true, hears: Hears::Run(run) }, driven);
            }
            Request::RunInfo { id, run } => self.ask(id, held, cancel, asking::run_info(shared, id, run.into())),
            Request::CancelRun { id, job } => self.ask(id, held, cancel, asking::cancel_run(shared, id, job)),
            Request::Answer { id, call, reply_to } => {
                self.ask(id, held, cancel, asking::answer(shared, id, call, reply_to, frame.payload));
            }
            Request::Decide { id, job, call, reply_to } => {
                let decided = asking::decide(shared, id, job, call, reply_to, frame.payload);
                self.ask(id, held, cancel, decided);
            }
            Request::InSession { id, window } => {
                shared.outbox.begin(id, window.into());
                let (says, heard) = mpsc::unbounded_channel();
                let driven = session::drive(shared, id, window, frame.payload, heard, cancel.clone());
                self.spawn(id, Underway { cancel, held, in_lane: true, hears: Hears::Session(says) }, driven);
            }
            Request::Artifact { id, reference, window } => {
                shared.outbox.begin(id, window);
                let sent = artifact::send(shared, id, reference, cancel.clone());
                self.spawn(id, Underway { cancel, held, in_lane: true, hears: Hears::Nobody }, sent);
            }
            Request::Sessions { id } => self.ask(id, held, cancel, asking::sessions(shared, id)),
            Request::CheckTools { id } => self.ask(id, held, cancel, asking::check_tools(shared, id, frame.payload)),
            _ => {}
        }
        Ok(())
    }

    /// Drives a request that has one short answer.
    fn ask(
        &mut self,
        id: u64,
        held: usize,
        cancel: CancellationToken,
        answered: impl Future<Output = Result<(), Refusal>> + Send + 'static,
    ) {
        let underway = Underway { cancel: cancel.clone(), held, in_lane: false, hears: Hears::Nobody };
        self.spawn(id, underway, async move {
            tokio::select! {
                answered = answered => answered,
                () = cancel.cancelled() => Err(Refusal::cancelled()),
            }
        });
    }

    /// Drives a request in a task. If it fails, the SDK is told.
    fn spawn(&mut self, id: u64, underway: Underway, work: impl Future<Output = Result<(), Refusal>> + Send + 'static) {
        let (shared, held, in_lane) = (self.shared.clone(), underway.held, underway.in_lane);
        shared.requests().insert(id, underway);
        self.tasks.spawn(async move {
            let ended = AssertUnwindSafe(work).catch_unwind().await;
            let ended = ended.unwrap_or_else(|_| Err(Refusal::new("internal", "the bridge itself failed")));
            if let Err(refusal) = ended {
                shared.refuse(id, in_lane, &refusal);
            }
            shared.requests().remove(&id);
            shared.outbox.release(held);
        });
    }
}
