//! One SDK's connection, and its end. [`Reader`] reads what the SDK sends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Sink, SinkExt, Stream};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::frames::{self, Frame};
use crate::open::{Opened, Opener};
use crate::outbox::Outbox;
use crate::reader::Reader;
use crate::run::Run;
use crate::session::Say;
use crate::terms::{Approves, Terms, Told};
use crate::{Refusal, reply};

/// How long requests may take to end when the connection ends.
const END_WITHIN: Duration = Duration::from_secs(2);
/// How long the last frames may take to leave.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);
/// How long a scheduler may take to answer a question.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What a connection and its requests share.
pub(crate) struct Shared {
    pub(crate) outbox: Arc<Outbox>,
    /// Is told the results of runs.
    pub(crate) told: Told,
    /// Whether the SDK may decide about calls that wait for approval.
    pub(crate) approves: Approves,
    /// Whether the connection ends.
    pub(crate) ending: CancellationToken,
    /// Whether its runs go on when it ends, although they are not detached.
    pub(crate) leaving: CancellationToken,
    /// Whether nobody waits for requests any more.
    pub(crate) gone: CancellationToken,
    requests: Mutex<HashMap<u64, Underway>>,
    pub(crate) opened: watch::Sender<Option<Result<Arc<Opened>, Refusal>>>,
    pub(crate) unfit: watch::Sender<Option<Refusal>>,
}

/// A request under way.
pub(crate) struct Underway {
    pub(crate) cancel: CancellationToken,
    /// Bytes of its payload.
    pub(crate) held: usize,
    /// Whether its frames leave in a lane of the outbox.
    pub(crate) in_lane: bool,
    pub(crate) hears: Hears,
}

/// Who hears what the SDK says about a request.
pub(crate) enum Hears {
    Nobody,
    Run(Arc<Run>),
    Session(mpsc::UnboundedSender<Say>),
}

impl Shared {
    pub(crate) fn requests(&self) -> MutexGuard<'_, HashMap<u64, Underway>> {
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
pub(crate) enum End {
    /// The SDK asked for it, and waits for its requests to end.
    Closed,
    /// The SDK sent something that can't be read.
    Bad(Refusal),
    /// The place where the bridge runs ends. Another one can follow the runs.
    Drained,
    /// Nobody is there any more, or the bridge has to end.
    Gone,
}

/// Serves one SDK until it closes the connection or is gone, or the `terms` end it. Then cancels its jobs, unless
/// [`Terms::drain`] says otherwise, and closes its fleet.
///
/// Frames come from any transport; see [`crate::serve_stream`] for streams of bytes.
pub async fn serve<R, W>(mut frames: R, sink: W, opener: Arc<dyn Opener>, terms: Terms)
where
    R: Stream<Item = Result<Frame, frames::Error>> + Unpin,
    W: Sink<Frame> + Unpin + Send + 'static,
    W::Error: std::fmt::Display + Send,
{
    let all = CancellationToken::new();
    let shared = Arc::new(Shared {
        outbox: Arc::new(Outbox::new(terms.holds)),
        told: terms.told,
        approves: terms.approves,
        ending: all.clone(),
        leaving: CancellationToken::new(),
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
    let mut reader = Reader::new(shared.clone(), opener, terms.requests);
    let end = tokio::select! {
        end = reader.read(&mut frames) => end,
        () = deaf.cancelled() => End::Gone,
        () = terms.stop.cancelled() => End::Gone,
        () = terms.drain.cancelled() => End::Drained,
        () = shared.outbox.overfull() => End::Bad(Refusal::too_slow()),
    };
    match &end {
        End::Closed => shared.outbox.unlimit(),
        End::Bad(refusal) => {
            tracing::warn!(code = refusal.code, "the connection can't go on");
            shared.outbox.send(reply::error(None, refusal));
            shared.outbox.close();
        }
        End::Drained => {
            shared.leaving.cancel();
            shared.outbox.send(reply::error(None, &Refusal::draining()));
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
    let mut tasks = reader.into_tasks();
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
    pub(crate) fn refuse(&self, id: u64, in_lane: bool, refusal: &Refusal) {
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
