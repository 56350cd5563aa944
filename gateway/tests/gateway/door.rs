//! SDKs that reach a gateway by a WebSocket.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use futures::{FutureExt, SinkExt, StreamExt, future};
use serde_json::{Value, json};
use thermae_fleet::EmbeddedOptions;
use thermae_gateway::Options;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::header;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use tokio_util::sync::CancellationToken;

use crate::contract::face::{Face, Opens};
use crate::contract::frames::{Again, Frames};
use crate::contract::sdk::Sdk;
use crate::rest::Rest;
use crate::serving::{Serving, TOKEN};

/// The faces of a fleet here.
pub(crate) const FACES: &[(&str, Opens)] =
    &[("websocket", |slots| websocket(slots).boxed()), ("rest", |slots| Rest::open(slots).boxed())];

async fn websocket(slots: u32) -> Result<Box<dyn Face>> {
    let serving = Serving::slots(slots).await?;
    let addr = serving.addr;
    let sdk = Sdk::with(serving).await?.open().await?;
    let again: Again = Arc::new(move || async move { Sdk::opened(connect(addr).await?).await }.boxed());
    Ok(Box::new(Frames::new(sdk, Some(again))))
}

/// An SDK with a gateway of its own. Both end together.
pub(crate) async fn silent(embedded: Value) -> Result<(Sdk, Value)> {
    let number = |name: &str| embedded[name].as_u64().and_then(|number| u32::try_from(number).ok());
    let embedded = EmbeddedOptions { slots: number("slots"), warm: number("warm"), ..EmbeddedOptions::default() };
    Ok((Sdk::with(Serving::in_front_of(embedded, Options::default()).await?).await?, json!({})))
}

/// A WebSocket to a gateway.
pub(crate) async fn connect(addr: SocketAddr) -> Result<WebSocketStream<TcpStream>, tungstenite::Error> {
    connect_as(addr, TOKEN).await
}

/// A WebSocket to a gateway, for which this secret is shown.
pub(crate) async fn connect_as(
    addr: SocketAddr,
    secret: &str,
) -> Result<WebSocketStream<TcpStream>, tungstenite::Error> {
    let mut request = format!("ws://{addr}/v1/connect").into_client_request()?;
    let bearer = format!("Bearer {secret}").parse().map_err(tungstenite::http::Error::from)?;
    request.headers_mut().insert(header::AUTHORIZATION, bearer);
    client_async(request, TcpStream::connect(addr).await?).await.map(|(socket, _)| socket)
}

impl Sdk {
    /// An SDK over this WebSocket. When its connection is dropped, `stop` is cancelled.
    pub(crate) fn over(socket: WebSocketStream<TcpStream>, stop: CancellationToken) -> Self {
        let (write, read) = socket.split();
        let guard = stop.clone().drop_guard();
        let read = read.filter_map(move |message| {
            let _ = &guard;
            future::ready(match message {
                Ok(Message::Binary(bytes)) => Some(Ok(bytes)),
                Ok(_) => None,
                Err(error) => Some(Err(error.into())),
            })
        });
        let write = write.with(|bytes: Bytes| future::ready(Ok::<_, anyhow::Error>(Message::Binary(bytes))));
        Self { read: read.boxed(), write: Box::pin(write), serving: tokio::spawn(async {}), stop }
    }

    /// An SDK of this gateway, which ends with it.
    async fn with(serving: Serving) -> Result<Self> {
        let (socket, stop) = (connect(serving.addr).await?, serving.stop.clone());
        let mut sdk = Self::over(socket, stop.clone());
        sdk.serving = tokio::spawn(async move {
            stop.cancelled().await;
            serving.end().await.unwrap();
        });
        Ok(sdk)
    }

    /// An SDK that is connected to this gateway, and has opened its fleet.
    pub(crate) async fn of(serving: &Serving) -> Result<Self> {
        Self::opened(connect(serving.addr).await?).await
    }

    /// An SDK over this WebSocket that has opened the gateway's fleet.
    pub(crate) async fn opened(socket: WebSocketStream<TcpStream>) -> Result<Self> {
        Self::over(socket, CancellationToken::new()).open().await
    }

    /// The same SDK, once it has opened the gateway's fleet.
    async fn open(mut self) -> Result<Self> {
        self.hello().await?;
        self.send(json!({ "type": "open", "id": 0 }), "").await?;
        anyhow::ensure!(self.next().await?.is("hello") && self.next().await?.is("opened"));
        Ok(self)
    }
}
