//! A bridge at the other end of a pipe in memory.

use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use futures::{FutureExt, SinkExt, StreamExt};
use serde_json::{Value, json};
use thermae_bridge::frames::Codec;
use thermae_bridge::{Direct, Opener, Terms};
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};
use tokio_util::sync::CancellationToken;

use crate::contract::face::{Face, Opens};
use crate::contract::frames::Frames;
use crate::contract::sdk::Sdk;

/// Bytes that the pipe holds.
const PIPE: usize = 64 << 10;

/// The faces of a fleet here.
pub(crate) const FACES: &[(&str, Opens)] = &[("pipe", |slots| pipe(slots).boxed())];

async fn pipe(slots: u32) -> Result<Box<dyn Face>> {
    let sdk = Sdk::embedded(json!({ "slots": slots, "warm": 1 })).await?;
    Ok(Box::new(Frames::new(sdk, None)))
}

/// An SDK that opens fleets as its own user.
pub(crate) async fn silent(embedded: Value) -> Result<(Sdk, Value)> {
    Ok((Sdk::silent(Arc::new(Direct::default())), json!({ "embedded": embedded })))
}

impl Sdk {
    /// An SDK and its bridge. Nothing was said yet.
    pub(crate) fn silent(opener: Arc<dyn Opener>) -> Self {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let (read, write) = tokio::io::split(theirs);
        let stop = CancellationToken::new();
        let serving = tokio::spawn(thermae_bridge::serve_stream(read, write, opener, stop.clone()));
        Self::at(ours, serving, stop)
    }

    /// The same, on these terms.
    pub(crate) fn on(terms: Terms, opener: Arc<dyn Opener>) -> Self {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let (read, write) = tokio::io::split(theirs);
        let (read, write) = (FramedRead::new(read, Codec), FramedWrite::new(write, Codec));
        let stop = terms.stop.clone();
        Self::at(ours, tokio::spawn(thermae_bridge::serve(read, write, opener, terms)), stop)
    }

    fn at(pipe: DuplexStream, serving: JoinHandle<()>, stop: CancellationToken) -> Self {
        let (read, write) = tokio::io::split(pipe);
        // The first length of a frame is that of a message.
        let lengths = || LengthDelimitedCodec::builder().little_endian().max_frame_length(64 << 20).new_codec();
        let read = FramedRead::new(read, lengths()).map(|read| Ok(read?.freeze())).boxed();
        let write = SinkExt::<Bytes>::sink_map_err(FramedWrite::new(write, lengths()), anyhow::Error::from);
        Self { read, write: Box::pin(write), serving, stop }
    }
}
