//! The HTTP server of every process: `/healthz` (the process runs), `/readyz` (all conditions are met) and `/metrics`
//! (in Prometheus's text format).

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus::{Encoder, TextEncoder};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use axum::Router;

pub use crate::health::{Condition, Health};

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is in use, or doesn't belong to this machine.
    #[error("can't listen on {addr} for health and metrics")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// A running server. Dropping it stops it at once.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    task: AbortOnDropHandle<()>,
}

impl Server {
    /// The address of the server, with the real port if port 0 was asked for.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Waits until the server has ended. Its token must be cancelled first.
    pub async fn stopped(self) {
        let _ = self.task.await;
    }
}

struct Shared {
    health: Health,
    metrics: prometheus::Registry,
}

/// A port that is bound and not served yet.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    addr: SocketAddr,
}

/// Binds a port.
///
/// # Errors
/// [`Error::Bind`].
pub async fn listen(addr: SocketAddr) -> Result<Listening, Error> {
    let listener = TcpListener::bind(addr).await.map_err(|source| Error::Bind { addr, source })?;
    let addr = listener.local_addr().map_err(|source| Error::Bind { addr, source })?;
    Ok(Listening { listener, addr })
}

impl Listening {
    /// The bound address, with the real port if port 0 was asked for.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves health and metrics, and the process's own `routes`, until the token is cancelled.
    pub fn serve(
        self,
        health: Health,
        metrics: prometheus::Registry,
        routes: Router,
        shutdown: CancellationToken,
    ) -> Server {
        let Self { listener, addr } = self;
        let app = Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .route("/metrics", get(render))
            .with_state(Arc::new(Shared { health, metrics }))
            .merge(routes);
        let task = tokio::spawn(async move {
            let served = axum::serve(listener, app).with_graceful_shutdown(shutdown.cancelled_owned()).await;
            if let Err(error) = served {
                tracing::error!(%error, "the health and metrics server ended");
            }
        });
        tracing::info!(%addr, "serving health and metrics");
        Server { addr, task: AbortOnDropHandle::new(task) }
    }

    /// Like [`Listening::serve`], until `work` has ended.
    pub async fn serve_while<T>(
        self,
        health: Health,
        metrics: prometheus::Registry,
        routes: Router,
        work: impl Future<Output = T>,
    ) -> T {
        let end = CancellationToken::new();
        let server = self.serve(health, metrics, routes, end.clone());
        let outcome = work.await;
        end.cancel();
        server.stopped().await;
        outcome
    }
}

async fn readyz(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let ready = shared.health.is_ready();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = serde_json::json!({ "ready": ready, "conditions": shared.health.states() });
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n"))
}

async fn render(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let encoder = TextEncoder::new();
    let mut text = Vec::new();
    match encoder.encode(&shared.metrics.gather(), &mut text) {
        Ok(()) => (StatusCode::OK, [(header::CONTENT_TYPE, encoder.format_type().to_owned())], text),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            [(header::CONTENT_TYPE, "text/plain".to_owned())],
            error.to_string().into_bytes(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn get(addr: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn health_readiness_and_metrics_are_served() {
        let health = Health::new();
        let condition = health.condition("redis");
        let metrics = prometheus::Registry::new();
        let counter = prometheus::IntCounter::new("thermae_test_total", "A test.").unwrap();
        metrics.register(Box::new(counter.clone())).unwrap();
        counter.inc();
        let shutdown = CancellationToken::new();
        let listening = listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let server = listening.serve(health, metrics, Router::new(), shutdown.clone());
        let addr = server.addr();

        assert!(get(addr, "/healthz").await.starts_with("HTTP/1.1 200"));
        condition.not_ready("connection refused");
        let down = get(addr, "/readyz").await;
        assert!(down.starts_with("HTTP/1.1 503"), "{down}");
        assert!(
            down.contains(r#"{"conditions":{"redis":{"detail":"connection refused","ready":false}},"ready":false}"#),
            "{down}"
        );
        condition.ready();
        assert!(get(addr, "/readyz").await.starts_with("HTTP/1.1 200"));
        let metrics = get(addr, "/metrics").await;
        assert!(metrics.contains("text/plain; version=0.0.4") && metrics.contains("thermae_test_total 1"), "{metrics}");

        shutdown.cancel();
        server.stopped().await;
        assert!(TcpStream::connect(addr).await.is_err());
    }

    #[tokio::test]
    async fn a_taken_port_is_an_error_that_names_it() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = taken.local_addr().unwrap();
        let error = listen(addr).await.unwrap_err();
        assert!(error.to_string().contains(&addr.to_string()));
    }
}
