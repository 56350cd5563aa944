//! The bridge between an SDK and a fleet. An SDK, such as the Python package, speaks frames over one stream of bytes;
//! the bridge turns them into jobs of a fleet, embedded or connected. `docs/sdk-protocol.md` is the protocol.
//!
//! ```text
//!  SDK ══ frames ══▶ connection ─┬─ open ─────▶ Opener ─▶ Fleet
//!   ▲                            ├─ run ──────▶ Client::follow ─▶ the fleet
//!   │                            ├─ attach ───▶ Client::take_over ─▶ the fleet
//!   │                            ├─ request ──▶ Client::request ─▶ a live session
//!   │                            └─ artifact ─▶ the fleet's store
//!   └══ frames ══ outbox (flow control of each request) ◀══ events, byte for byte
//! ```
//!
//! The bridge knows neither processes nor sockets: who uses it brings the stream, ends it, and decides with an
//! [`Opener`] which fleet an SDK gets and as which tenant.

#![forbid(unsafe_code)]

mod artifact;
mod asking;
mod connection;
mod embedded;
pub mod frames;
#[cfg(test)]
mod hostile;
mod job;
mod lane;
mod open;
mod outbox;
mod reader;
mod refusal;
mod reply;
mod request;
mod run;
mod session;
mod terms;

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::{FramedRead, FramedWrite};
use tokio_util::sync::CancellationToken;

/// How messages of clients are read. Other doors of the fleet read them by the same rules.
pub mod read {
    pub use crate::job::{bounded, bounded_job, fields, unsupported};
    pub use crate::run::{Answer, read_answer};
}

pub use connection::serve;
pub use open::{Direct, Opened, Opener};
pub use refusal::Refusal;
pub use terms::{Approves, Holds, Terms, Told};

/// Version of the frames.
pub const VERSION: u32 = 1;

/// As [`serve`], over a stream of bytes and without bounds on memory: the SDK's own process is served. `stop` is
/// [`Terms::stop`].
pub async fn serve_stream(
    read: impl AsyncRead + Unpin,
    write: impl AsyncWrite + Unpin + Send + 'static,
    opener: Arc<dyn Opener>,
    stop: CancellationToken,
) {
    let terms = Terms { stop, ..Terms::default() };
    serve(FramedRead::new(read, frames::Codec), FramedWrite::new(write, frames::Codec), opener, terms).await;
}
