//! One SDK's connection: reads its requests, starts them, and ends them with it.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{FutureExt, Sink, SinkExt, Stream, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::frames::{self, Frame};
use crate::open::{Opened, Opener};
use crate::outbox::Outbox;
use crate::request::{self, Request, Unread};
use crate::run::Run;
use crate::session::Say;
use crate::{Refusal, VERSION, artifact, asking, reply, session};

/// How long requests may take to end when the connection ends.
const END_WITHIN: Duration = Duration::from_secs(2);
/// How long the last frames may take to leave.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);
/// How long a scheduler may take to answer a question.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Most requests at once.
const MOST_REQUESTS: usize = 16 << 10;

/// What a connection and its requests share.
pub(crate) struct Shared {
    pub(crate) outbox: Arc<Outbox>,
    /// Whether the connection ends.
    pub(crate) ending: CancellationToken,
    /// Whether nobody waits for requests any more.
    pub(crate) gone: CancellationToken,
    requests: Mutex<HashMap<u64, Underway>>,
    pub(crate) opened: watch::Sender<Option<Result<Arc<Opened>, Refusal>>>,
    pub(crate) unfit: watch::Sender<Option<Refusal>>,
}

/// A request under way.
struct Underway {
    cancel: CancellationToken,
    /// Whether its frames leave in a lane of the outbox.
    in_lane: bool,
    hears: Hears,
}

/// Who hears what the SDK says about a request.
enum Hears {
    Nobody,
    Run(Arc<Run>),
    Session(mpsc::UnboundedSender<Say>),
}

impl Shared {
    fn requests(&self) -> MutexGuard<'_, HashMap<u64, Underway>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fleet, as soon as it is open.
    pub(crate) async fn opened(&self) -> Result<Arc<Opened>, Refusal> {
        let mut opened = self.opened.subscribe();
        let opened = opened.wait_for(Option::is_some).await;
        opened.ok().and_then(|opened| opened.clone()).unwrap_or_else(|| Err(Refusal::closed()))
    }

    /// Waits until the embedded fleet turns out to be unable to run anything.
    pub(crate) async fn unfit(&self) -> Refusal {
        let mut unfit = self.unfit.subscribe();
        match unfit.wait_for(Option::is_some).await.ok().and_then(|unfit| unfit.clone()) {
            Some(refusal) => refusal,
            None => std::future::pending().await,
        }
    }
}

/// Why a connection ends.
enum End {
    /// The SDK asked for it, and waits for its requests to end.
    Closed,
    /// The SDK sent something that can't be read.
    Bad(Refusal),
    /// Nobody is there any more, or the bridge has to end.
    Gone,
}

/// Serves one SDK until it closes the connection or is gone, or `stop` is cancelled. Then cancels its jobs and closes
/// its fleet.
///
/// Frames come from any transport; see [`crate::serve_stream`] for streams of bytes.
pub async fn serve<R, W>(mut frames: R, sink: W, opener: Arc<dyn Opener>, stop: CancellationToken)
where
    R: Stream<Item = Result<Frame, frames::Error>> + Unpin,
    W: Sink<Frame> + Unpin + Send + 'static,
    W::Error: std::fmt::Display + Send,
{
    let all = CancellationToken::new();
    let shared = Arc::new(Shared {
        outbox: Arc::default(),
        ending: all.clone(),
        gone: CancellationToken::new(),
        requests: Mutex::default(),
        opened: watch::Sender::new(None),
        unfit: watch::Sender::new(None),
    });
    let deaf = CancellationToken::new();
    let mut writer = tokio::spawn({
        let (outbox, deaf) = (shared.outbox.clone(), deaf.clone().drop_guard());
        async move {
            let _deaf = deaf;
            write(&outbox, sink).await;
        }
    });
    let (greeted, opening) = (false, false);
    let mut reader = Reader { shared: shared.clone(), opener, tasks: JoinSet::new(), greeted, opening };
    let end = tokio::select! {
        end = reader.read(&mut frames) => end,
        () = deaf.cancelled() => End::Gone,
        () = stop.cancelled() => End::Gone,
    };
    match &end {
        End::Closed => shared.outbox.unlimit(),
        End::Bad(refusal) => {
            tracing::warn!(code = refusal.code, "the connection can't go on");
            shared.outbox.send(reply::error(None, refusal));
            shared.outbox.close();
        }
        End::Gone => {
            tracing::debug!("the client is gone");
            shared.outbox.close();
        }
    }
    if !matches!(end, End::Closed) {
        shared.gone.cancel();
    }
    all.cancel();
    let mut tasks = reader.tasks;
    let _ = tokio::time::timeout(END_WITHIN, async { while tasks.join_next().await.is_some() {} }).await;
    tasks.shutdown().await;
    for (id, underway) in shared.requests().drain() {
        shared.refuse(id, underway.in_lane, &Refusal::closed());
    }
    shared.outbox.close();
    // Nobody reads what is left if the client is gone.
    let flush = if matches!(end, End::Gone) { Duration::ZERO } else { FLUSH_WITHIN };
    if tokio::time::timeout(flush, &mut writer).await.is_err() {
        writer.abort();
    }
    let opened = shared.opened.send_replace(None);
    if let Some(Ok(opened)) = opened
        && let Some(opened) = Arc::into_inner(opened)
    {
        opened.close().await;
    }
}

impl Shared {
    /// Ends a request with an error. Nothing happens if its lane has ended.
    fn refuse(&self, id: u64, in_lane: bool, refusal: &Refusal) {
        let error = reply::error(Some(id), refusal);
        if in_lane {
            self.outbox.finish(id, [error]);
        } else {
            self.outbox.send(error);
        }
    }
}

/// Writes frames until there are no more, or the transport fails.
async fn write<W: Sink<Frame> + Unpin>(outbox: &Outbox, mut sink: W)
where
    W::Error: std::fmt::Display,
{
    let written = async {
        while let Some(frames) = outbox.take().await {
            for frame in frames {
                sink.feed(frame).await?;
            }
            sink.flush().await?;
        }
        sink.close().await
    };
    if let Err(error) = written.await {
        tracing::debug!(%error, "a frame can't be written");
    }
}

struct Reader {
    shared: Arc<Shared>,
    opener: Arc<dyn Opener>,
    /// The requests under way.
    tasks: JoinSet<()>,
    /// Whether the SDK has said `hello`.
    greeted: bool,
    /// Whether the SDK has asked to open a fleet.
    opening: bool,
}

impl Reader {
    async fn read(&mut self, frames: &mut (impl Stream<Item = Result<Frame, frames::Error>> + Unpin)) -> End {
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
                Some(Err(error)) => return End::Bad(Refusal::new("bad_frame", error.to_string())),
                Some(Ok(frame)) => self.take(frame),
            };
            if let ControlFlow::Break(end) = taken {
                return end;
            }
        }
    }

    fn take(&mut self, frame: Frame) -> ControlFlow<End> {
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
                run.answered(&call, &frame.payload);
            }
            Request::Detach { id } => {
                if let Some(Underway { hears: Hears::Run(run), .. }) = self.shared.requests().get(&id) {
                    run.leave();
                }
            }
            Request::Input { id, end } => self.say(id, Say::Input(frame.payload, end)),
            Request::Signal { id, signal } => self.say(id, Say::Signal(signal)),
            Request::Open { id, .. }
            | Request::Run { id, .. }
            | Request::Attach { id, .. }
            | Request::RunInfo { id, .. }
            | Request::CancelRun { id, .. }
            | Request::Answer { id, .. }
            | Request::InSession { id, .. }
            | Request::Artifact { id, .. }
            | Request::Sessions { id } => {
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

    fn is_underway(&self, id: u64) -> bool {
        self.shared.requests().contains_key(&id) || self.shared.outbox.has(id)
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
        if self.shared.requests().len() >= MOST_REQUESTS {
            let message = format!("{MOST_REQUESTS} requests are under way already");
            return Err(Refusal::new("too_many_requests", message).advice("wait until some of them have ended"));
        }
        let (shared, cancel) = (self.shared.clone(), self.shared.ending.child_token());
        match request {
            Request::Open { id, ask } => {
                self.opening = true;
                let opener = self.opener.clone();
                self.spawn(id, cancel, false, Hears::Nobody, asking::open(shared, opener, id, ask));
            }
            Request::Run { id, window, detached } => {
                shared.outbox.begin(id, window);
                let run = Arc::new(Run::new(id, shared.outbox.clone(), detached));
                // The end of the connection is no reason to cancel it then.
                let cancel = if detached { CancellationToken::new() } else { cancel };
                let driven = run.clone().drive(shared, frame.payload, cancel.clone());
                self.spawn(id, cancel, true, Hears::Run(run), driven);
            }
            Request::Attach { id, window, run: named } => {
                shared.outbox.begin(id, window);
                let run = Arc::new(Run::new(id, shared.outbox.clone(), true));
                let cancel = CancellationToken::new();
                let driven = run.clone().attach(shared, named.into(), cancel.clone());
                self.spawn(id, cancel, true, Hears::Run(run), driven);
            }
            Request::RunInfo { id, run } => self.ask(id, cancel, asking::run_info(shared, id, run.into())),
            Request::CancelRun { id, job } => self.ask(id, cancel, asking::cancel_run(shared, id, job)),
            Request::Answer { id, call, reply_to } => {
                self.ask(id, cancel, asking::answer(shared, id, call, reply_to, frame.payload));
            }
            Request::InSession { id, window } => {
                session::check(window)?;
                shared.outbox.begin(id, window.into());
                let (says, heard) = mpsc::unbounded_channel();
                let driven = session::drive(shared, id, window, frame.payload, heard, cancel.clone());
                self.spawn(id, cancel, true, Hears::Session(says), driven);
            }
            Request::Artifact { id, reference, window } => {
                shared.outbox.begin(id, window);
                let sent = artifact::send(shared, id, reference, cancel.clone());
                self.spawn(id, cancel, true, Hears::Nobody, sent);
            }
            Request::Sessions { id } => self.ask(id, cancel, asking::sessions(shared, id)),
            _ => {}
        }
        Ok(())
    }

    /// Drives a request that has one short answer.
    fn ask(
        &mut self,
        id: u64,
        cancel: CancellationToken,
        answered: impl Future<Output = Result<(), Refusal>> + Send + 'static,
    ) {
        self.spawn(id, cancel.clone(), false, Hears::Nobody, async move {
            tokio::select! {
                answered = answered => answered,
                () = cancel.cancelled() => Err(Refusal::cancelled()),
            }
        });
    }

    /// Drives a request in a task. If it fails, the SDK is told.
    fn spawn(
        &mut self,
        id: u64,
        cancel: CancellationToken,
        in_lane: bool,
        hears: Hears,
        work: impl Future<Output = Result<(), Refusal>> + Send + 'static,
    ) {
        let shared = self.shared.clone();
        shared.requests().insert(id, Underway { cancel, in_lane, hears });
        self.tasks.spawn(async move {
            let ended = AssertUnwindSafe(work).catch_unwind().await;
            let ended = ended.unwrap_or_else(|_| Err(Refusal::new("internal", "the bridge itself failed")));
            if let Err(refusal) = ended {
                shared.refuse(id, in_lane, &refusal);
            }
            shared.requests().remove(&id);
        });
    }
}
