//! One WebSocket of an SDK: its messages are frames, it is kept alive, and it ends in order.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use bytes::Bytes;
use futures::stream::{self, SplitSink, SplitStream};
use futures::{SinkExt, Stream, StreamExt};
use thermae_bridge::frames::{self, Frame};
use thermae_bridge::{Approves, Holds, Terms};
use thermae_schemas::Scope;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::{CancellationToken, PollSender};
use tungstenite::error::ProtocolError;

use super::open::OwnFleet;
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
pub(super) async fn serve(shared: Arc<Shared>, caller: Caller, service: Arc<Lease>, socket: WebSocket) {
    shared.metrics.sdks.inc();
    let _count = Leave(&shared.metrics.sdks);
    let heartbeat = shared.options.heartbeat;
    let most = shared.options.share(shared.options.held_bytes);
    let holds: Arc<dyn Holds> = Arc::new(Share::new(service.hold(), most, shared.metrics.clone()));
    let approves = Approves { may: caller.scopes.has(Scope::Approve), by: caller.named() };
    let (requests, drain) = (shared.options.sdk_requests, shared.draining.clone());
    let terms = Terms { requests, holds, approves, drain, ..Terms::default() };
    let stop = terms.stop.clone();
    let (out, incoming) = socket.split();
    let mut heard = Box::pin(heard(incoming, heartbeat * MISSED));
    let (sink, frames) = mpsc::channel(1);
    let served = CancellationToken::new();
    let serving = async {
        let opener = Arc::new(OwnFleet(service));
        let serving = thermae_bridge::serve(&mut heard, PollSender::new(sink), opener, terms);
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

/// The frames that come. A client that sends nothing for so long, not even answers to pings, is gone.
fn heard(incoming: SplitStream<WebSocket>, silence: Duration) -> impl Stream<Item = Result<Frame, frames::Error>> {
    stream::unfold(incoming, move |mut incoming| async move {
        loop {
            let frame = match timeout(silence, incoming.next()).await {
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => continue,
                Ok(Some(Ok(Message::Binary(message)))) => Frame::parse(message),
                Ok(Some(Ok(Message::Text(_)))) => Err(frames::Error::Message("it is text, not bytes".to_owned())),
                Ok(Some(Ok(Message::Close(_))) | None) => return None,
                Ok(Some(Err(error))) => Err(unread(error)),
                Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
            };
            return Some((frame, incoming));
        }
    })
}

/// Why no message can be read: because of what the client has sent, or because it is gone.
fn unread(error: axum::Error) -> frames::Error {
    use tungstenite::Error as E;
    let error = error.into_inner();
    match error.downcast_ref::<E>() {
        Some(E::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => std::io::Error::other(error).into(),
        Some(E::Capacity(_) | E::Protocol(_) | E::Utf8(_)) => frames::Error::Message(error.to_string()),
        _ => std::io::Error::other(error).into(),
    }
}

/// Sends frames, and a ping with each heartbeat. After the last frame, closes the connection.
async fn write(
    mut out: SplitSink<WebSocket, Message>,
    mut frames: mpsc::Receiver<Frame>,
    heartbeat: Duration,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut beats = interval_at(Instant::now() + heartbeat, heartbeat);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            frame = frames.recv() => {
                let Some(frame) = frame else { break };
                out.feed(Message::Binary(frame.into_message()?)).await?;
                if frames.is_empty() {
                    out.flush().await?;
                }
            }
            _ = beats.tick() => out.send(Message::Ping(Bytes::new())).await?,
        }
    }
    // The last frame has said why, if there was a reason.
    out.send(Message::Close(Some(CloseFrame { code: close_code::NORMAL, reason: "".into() }))).await?;
    Ok(())
}
