//! One WebSocket of an SDK: its messages are frames, it is kept alive, and it ends in order.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use futures::{FutureExt, Sink, SinkExt, Stream, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use thermae_bridge::frames::{self, Frame, LARGEST_MESSAGE};
use thermae_bridge::{Approves, Holds, Terms};
use thermae_schemas::Scope;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_util::sync::{CancellationToken, PollSendError, PollSender};

use super::arriving::{Arriving, NoRoom};
use super::open::OwnFleet;
use super::pieces::{PIECE, Pieces, pieces};
use super::share::Share;
use crate::check::Check;
use crate::identity::Caller;
use crate::server::{Leave, Shared};
use crate::tenants::Lease;

/// Heartbeats without a sign of life, after which nobody is there any more.
const MISSED: u32 = 3;

/// How long the last messages may take, and the client's own end after them.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Serves an SDK until its connection ends. When the gateway stops, or the caller may not go on, it ends at once.
pub(super) async fn serve(shared: Arc<Shared>, caller: Caller, service: Arc<Lease>, stream: TokioIo<Upgraded>) {
    shared.metrics.sdks.inc();
    let _count = Leave(&shared.metrics.sdks);
    let (heartbeat, most_pings) = (shared.options.heartbeat, shared.options.pings);
    let most = shared.options.share(shared.options.held_bytes);
    let share = || Share::new(service.hold(), most, shared.metrics.clone());
    let (holds, arriving): (Arc<dyn Holds>, _) = (Arc::new(share()), Arriving::new(share()));
    let meter = service.meter.clone();
    let terms = Terms {
        requests: shared.options.sdk_requests,
        holds,
        approves: Approves { may: caller.scopes.has(Scope::Approve), by: caller.named() },
        drain: shared.draining.clone(),
        told: Arc::new(move |result| meter.count(result)),
        ..Terms::default()
    };
    let stop = terms.stop.clone();
    let config = WebSocketConfig::default().read_buffer_size(PIECE).write_buffer_size(PIECE);
    let config = config.max_message_size(Some(LARGEST_MESSAGE)).max_frame_size(Some(LARGEST_MESSAGE));
    let (reading, writing) = tokio::io::split(stream);
    let stream = tokio::io::join(arriving.of(Pieces::of(reading)), writing);
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (out, incoming) = socket.split();
    let mut heard = Box::pin(heard(incoming, arriving, heartbeat, most_pings));
    let (sink, frames) = Outgoing::new();
    let served = CancellationToken::new();
    let serving = async {
        let opener = Arc::new(OwnFleet(service));
        let serving = thermae_bridge::serve(&mut heard, sink, opener, terms);
        tokio::pin!(serving);
        tokio::select! {
            () = &mut serving => {}
            denied = Check::of(&shared, &caller).denied() => {
                tracing::info!(code = denied.code(), "an SDK may not go on");
                stop.cancel();
                serving.await;
            }
        }
        served.cancel();
    };
    let writing = async {
        let written = write(out, frames, heartbeat);
        let late = async {
            served.cancelled().await;
            tokio::time::sleep(END_WITHIN).await;
        };
        tokio::select! {
            written = written => if let Err(error) = written {
                tracing::debug!(%error, "an SDK's frame can't be written");
            },
            () = late => tracing::debug!("an SDK does not take its last frames"),
        }
    };
    tokio::join!(Box::pin(serving), writing);
    // What was sent last is lost if the connection is cut off before the client has it.
    let _ = timeout(END_WITHIN, async { while let Some(Ok(_)) = heard.next().await {} }).await;
}

/// The frames that come. A client that sends nothing for some heartbeats, not even answers to pings, is gone.
fn heard(
    incoming: impl Stream<Item = Result<Message, tungstenite::Error>> + Unpin,
    arriving: Arc<Arriving>,
    heartbeat: Duration,
    most_pings: u32,
) -> impl Stream<Item = Result<Frame, frames::Error>> {
    let pings = (Instant::now(), 0);
    stream::unfold((incoming, arriving, pings), move |(mut incoming, arriving, mut pings)| async move {
        loop {
            let frame = match timeout(heartbeat * MISSED, incoming.next()).await {
                // Control frames can come within a message.
                Ok(Some(Ok(Message::Ping(_)))) => {
                    if pings.0.elapsed() >= heartbeat {
                        pings = (Instant::now(), 0);
                    }
                    pings.1 += 1;
                    if pings.1 <= most_pings {
                        continue;
                    }
                    Err(frames::Error::Message("there are too many pings".to_owned()))
                }
                Ok(Some(Ok(Message::Pong(_) | Message::Frame(_)))) => continue,
                Ok(Some(Ok(Message::Binary(message)))) => {
                    arriving.is_whole();
                    Frame::parse(message)
                }
                Ok(Some(Ok(Message::Text(_)))) => Err(frames::Error::Message("it is text, not bytes".to_owned())),
                Ok(Some(Ok(Message::Close(_))) | None) => return None,
                Ok(Some(Err(error))) => Err(unread(error)),
                Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
            };
            return Some((frame, (incoming, arriving, pings)));
        }
    })
}

/// Why no message can be read: because of what the client has sent, or because it is gone.
fn unread(error: tungstenite::Error) -> frames::Error {
    use tungstenite::Error as E;
    match error {
        E::Io(error) if error.get_ref().is_some_and(|cause| cause.is::<NoRoom>()) => frames::Error::NoRoom,
        E::Io(error) => error.into(),
        E::Protocol(ProtocolError::ResetWithoutClosingHandshake) => std::io::Error::other(error).into(),
        E::Capacity(_) | E::Protocol(_) | E::Utf8(_) => frames::Error::Message(error.to_string()),
        error => std::io::Error::other(error).into(),
    }
}

/// A frame on its way to the client. The other end of the channel is told when this is dropped.
type Leaving = (Frame, oneshot::Sender<Infallible>);

/// Frames on their way to the task that writes them. A flush ends when the client's socket has taken them all: until
/// then, the bridge counts them.
struct Outgoing {
    frames: PollSender<Leaving>,
    /// Is told when the last frame has left.
    last: Option<oneshot::Receiver<Infallible>>,
}

impl Outgoing {
    fn new() -> (Self, mpsc::Receiver<Leaving>) {
        let (frames, leaving) = mpsc::channel(1);
        (Self { frames: PollSender::new(frames), last: None }, leaving)
    }
}

impl Sink<Frame> for Outgoing {
    type Error = PollSendError<Leaving>;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.frames.poll_ready_unpin(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, frame: Frame) -> Result<(), Self::Error> {
        let (left, last) = oneshot::channel();
        self.last = Some(last);
        self.frames.start_send_unpin((frame, left))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        if let Some(last) = &mut self.last {
            // Nothing is sent there.
            let _ = ready!(last.poll_unpin(cx));
            self.last = None;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        ready!(self.as_mut().poll_flush(cx))?;
        self.frames.poll_close_unpin(cx)
    }
}

/// Sends frames, and a ping with each heartbeat. After the last frame, closes the connection.
async fn write(
    mut out: impl Sink<Message, Error = tungstenite::Error> + Unpin,
    mut frames: mpsc::Receiver<Leaving>,
    heartbeat: Duration,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut beats = interval_at(Instant::now() + heartbeat, heartbeat);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            leaving = frames.recv() => {
                // `_left` is dropped at the end. The last frame of the bridge's flush has none behind it: it is flushed here.
                let Some((frame, _left)) = leaving else { break };
                for piece in pieces(frame.into_message()?) {
                    out.feed(Message::Frame(piece)).await?;
                }
                if frames.is_empty() {
                    out.flush().await?;
                }
            }
            _ = beats.tick() => out.send(Message::Ping(Bytes::new())).await?,
        }
    }
    // The last frame has said why, if there was a reason.
    out.send(Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }))).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_flush_ends_when_the_socket_has_taken_all() {
        let (mut sink, frames) = Outgoing::new();
        let (ours, mut client) = duplex(1024);
        let out = WebSocketStream::from_raw_socket(ours, Role::Server, None).await;
        let hour = Duration::from_secs(3600);
        let writing = tokio::spawn(async move { write(out, frames, hour).await.map_err(|error| error.to_string()) });
        let frame = |size| Frame { header: "{}".into(), payload: vec![0; size].into() };
        sink.feed(frame(100)).await.unwrap();
        sink.feed(frame(1 << 20)).await.unwrap();
        let mut bytes = vec![0; 1 << 19];
        tokio::select! {
            biased;
            flushed = sink.flush() => panic!("{flushed:?}: the client has no room for it"),
            read = client.read_exact(&mut bytes) => read.unwrap(),
        };
        let rest = async {
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).await.unwrap();
            rest.len()
        };
        let (closed, rest) = tokio::join!(sink.close(), rest);
        closed.unwrap();
        assert!(writing.await.unwrap().is_ok() && rest > 100);
    }
}
