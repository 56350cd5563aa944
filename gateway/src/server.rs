//! The server: accepts connections, bounds them, and ends them in an orderly way.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thermae_fleet::Fleet;
use thermae_service::health::{Condition, Health};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::budget::Budget;
use crate::fleets::{Fleets, Only};
use crate::identity::Identity;
use crate::options::part;
use crate::room::{Counted, Room, Seat};
use crate::routes::keeping;
use crate::tenants::Tenants;
use crate::token::TokenOf;
use crate::{Metrics, Options, Token, app, memory};

/// How long a peer may leave what was sent to it unacknowledged, in milliseconds.
const DEAD_AFTER_MS: u32 = 60_000;
/// Files that the process needs besides connections.
const OTHER_FILES: u64 = 512;
/// Most open files that this process asks for.
const MOST_FILES: u64 = 65_536;
/// Most bytes of the target and the headers of a request.
pub(crate) const HEADER_BYTES: usize = 64 << 10;
/// Pause after the system could not give a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Why a gateway could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is in use, or doesn't belong to this machine.
    #[error("can't listen on {addr}")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The metrics can't be registered.
    #[error("the metrics can't be registered")]
    Metrics(#[from] prometheus::Error),
}

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) identity: Arc<dyn Identity>,
    pub(crate) tenants: Tenants,
    /// What all tenants together hold, and those who are of none.
    pub(crate) budget: Budget,
    pub(crate) options: Options,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    /// The gateway's own metrics, and those of the embedded fleet.
    pub(crate) registries: Vec<prometheus::Registry>,
    /// Whether the gateway is stopping.
    pub(crate) draining: CancellationToken,
    pub(crate) requests: Arc<Semaphore>,
    /// Room for connections of SDKs.
    pub(crate) sdks: Arc<Semaphore>,
    /// The connections of SDKs.
    pub(crate) serving: TaskTracker,
}

/// What a gateway is made of.
pub struct Parts {
    /// Who may use it.
    pub identity: Arc<dyn Identity>,
    /// Where the fleets of tenants come from.
    pub fleets: Arc<dyn Fleets>,
    /// The conditions under which it is ready. It adds one of its own.
    pub health: Health,
    /// Where its metrics are registered.
    pub registry: prometheus::Registry,
}

/// A gateway that listens, and is not served yet.
pub struct Gateway {
    listener: TcpListener,
    addr: SocketAddr,
    connections: usize,
    shared: Arc<Shared>,
    /// The fleet, if there is only one tenant.
    only: Option<Arc<Fleet>>,
    ready: Condition,
}

impl Gateway {
    /// Listens, for a fleet as whose tenant all callers act: those who show the token. Connections wait until
    /// [`Gateway::run`].
    ///
    /// # Errors
    /// The address can't be used.
    pub async fn bind(options: Options, token: Token, fleet: Arc<Fleet>) -> Result<Self, Error> {
        let identity = Arc::new(TokenOf { token, tenant: fleet.client().tenant().clone() });
        let (health, registry) = (Health::new(), prometheus::Registry::new());
        let parts = Parts { identity, fleets: Arc::new(Only(fleet.clone())), health, registry };
        Self::with(options, parts, Some(fleet)).await
    }

    /// Listens, for the callers and the fleets of these parts. Connections wait until [`Gateway::run`].
    ///
    /// # Errors
    /// The address can't be used.
    pub async fn of(options: Options, parts: Parts) -> Result<Self, Error> {
        Self::with(options, parts, None).await
    }

    async fn with(mut options: Options, parts: Parts, only: Option<Arc<Fleet>>) -> Result<Self, Error> {
        let Parts { identity, fleets, health, registry } = parts;
        memory::give_back();
        let addr = options.listen;
        let bind = |source| Error::Bind { addr, source };
        let listener = TcpListener::bind(addr).await.map_err(bind)?;
        let addr = listener.local_addr().map_err(bind)?;
        options.listen = addr;
        let metrics = Metrics::new(&registry)?;
        let budget = Budget::new(options.held_bytes, &metrics);
        let ready = health.condition(if only.is_some() { "fleet" } else { "gateway" });
        let draining = CancellationToken::new();
        let tenants = Tenants::new(fleets, &options, budget.clone(), metrics.clone(), draining.clone());
        let of_fleet = only.as_ref().and_then(|fleet| fleet.metrics().cloned());
        let registries = [registry].into_iter().chain(of_fleet).collect();
        let connections = options.connections.min(connections_allowed());
        let requests = Arc::new(Semaphore::new(options.requests));
        let sdks = Arc::new(Semaphore::new(options.sdks));
        let shared = Shared {
            identity,
            tenants,
            budget,
            options,
            metrics,
            health,
            registries,
            draining,
            requests,
            sdks,
            serving: TaskTracker::new(),
        };
        Ok(Self { listener, addr, connections, shared: Arc::new(shared), only, ready })
    }

    /// The address, with the real port if port 0 was asked for.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until the token is cancelled. Then accepts no more connections, ends the streams of events with a last
    /// event and the connections of SDKs with a last frame, and waits a while for requests under way. Runs that are
    /// under way are left to the fleet.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { listener, connections, shared, only, ready, .. } = self;
        let router = app::router(shared.clone());
        let of_peer = part(connections, shared.options.peer_share);
        let room = Room::new(connections, of_peer, shared.options.held_bytes / 4, shared.metrics.connections.clone());
        let mut open: JoinSet<()> = JoinSet::new();
        let ended = CancellationToken::new();
        let mut sweeping = JoinSet::new();
        sweeping.spawn(sweep(shared.clone(), ended.clone()));
        sweeping.spawn({
            let (ready, ended) = (ready.clone(), ended.clone());
            async move {
                let Some(fleet) = only else { return ready.ready() };
                tokio::select! {
                    () = fleet.ready() => ready.ready(),
                    why = fleet.unfit() => ready.not_ready(why.to_string()),
                    () = ended.cancelled() => {}
                }
            }
        });
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(_) = open.join_next(), if !open.is_empty() => {}
                (stream, peer) = accept(&listener) => if let Some(seat) = room.enter(peer) {
                    let stream = Counted::new(stream, &seat, shared.clone());
                    open.spawn(serve(stream, seat, router.clone(), shared.clone()));
                },
            }
        }
        ready.not_ready("draining");
        drop(listener);
        shared.draining.cancel();
        let all = async { while open.join_next().await.is_some() {} };
        if tokio::time::timeout(shared.options.drain, all).await.is_err() {
            tracing::warn!(requests.count = open.len(), "requests did not end in time and are cut off");
        }
        open.shutdown().await;
        // These end within seconds, whatever their clients do.
        shared.serving.close();
        shared.serving.wait().await;
        ended.cancel();
        while sweeping.join_next().await.is_some() {}
        shared.tenants.close().await;
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("addr", &self.addr).finish_non_exhaustive()
    }
}

/// Waits for a connection.
async fn accept(listener: &TcpListener) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                // A peer that takes nothing would hold its connection for ever.
                let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, DEAD_AFTER_MS);
                return (stream, peer.ip());
            }
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// Serves one connection to its end. When the gateway stops, the request under way is its last.
async fn serve(stream: Counted, seat: Seat, router: Router, shared: Arc<Shared>) {
    let answer = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        let mut request = request.map(Body::new);
        let under_way = Arc::new(seat.request());
        request.extensions_mut().insert(under_way.clone());
        let answered = router.clone().oneshot(request);
        async move { answered.await.map(|answer| answer.map(|body| keeping(body, under_way))) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(shared.options.header_timeout).max_buf_size(HEADER_BYTES);
    let connection = http.serve_connection(TokioIo::new(stream), answer).with_upgrades();
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = seat.gives_way() => Ok(()),
        () = shared.draining.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Counts one less when it is dropped.
pub(crate) struct Leave<'a>(pub(crate) &'a prometheus::IntGauge);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Forgets old runs, and closes what is idle.
async fn sweep(shared: Arc<Shared>, ended: CancellationToken) {
    let every = (shared.options.keep / 10).clamp(Duration::from_millis(50), Duration::from_secs(5));
    let mut ticks = tokio::time::interval(every);
    loop {
        tokio::select! {
            _ = ticks.tick() => shared.tenants.sweep(),
            () = ended.cancelled() => return,
        }
    }
}

/// Raises the limit of open files as far as the process may, and returns how many connections fit.
fn connections_allowed() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(MOST_FILES).min(MOST_FILES);
    let soft = limit.current.unwrap_or(u64::MAX);
    let raised =
        soft < wanted && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).is_ok();
    let files = if raised { wanted } else { soft };
    usize::try_from(files.saturating_sub(OTHER_FILES).max(files / 2)).unwrap_or(usize::MAX)
}
