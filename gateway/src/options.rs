//! The options of a gateway.

use std::net::SocketAddr;
use std::time::Duration;

use crate::service::Tokens;

/// Options of a gateway: where it listens, and what bounds it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Connections at once. A further one takes the place of the one that has been without a request for the longest.
    /// If all have one, only health is told to it (`too_many_connections`). It is lowered to what the process's limit
    /// of open files allows.
    pub connections: usize,
    /// Largest part of [`Options::connections`] that one peer may have, in percent. A peer is an address, or a network
    /// of IPv6 (/64). A proxy is one peer.
    pub peer_share: u8,
    /// Requests at once, those that wait or follow events included. Further ones are refused (`too_many_requests`).
    pub requests: usize,
    /// Connections of SDKs at once. Further ones are refused (`too_many_connections`).
    pub sdks: usize,
    /// Requests of one SDK at once. Further ones are refused (`too_many_requests`).
    pub sdk_requests: usize,
    /// Runs under way at once, other than those of SDKs. Further ones are refused (`too_many_runs`).
    pub runs: usize,
    /// Bytes that are held for all callers together, from the first byte of a request to the last one of its answer.
    /// One SDK's connection may hold a quarter of them, and as much of a message that is not whole; connections without
    /// a request may hold a quarter of them together.
    pub held_bytes: usize,
    /// Tenants whose fleet is connected at once. If there are more, one that has no request and no run is closed, or
    /// the request is refused (`too_many_tenants`).
    pub tenants: usize,
    /// How long a tenant's fleet stays connected without a request or a run.
    pub tenant_idle: Duration,
    /// Largest part of [`Options::requests`], [`Options::sdks`], [`Options::runs`] and [`Options::held_bytes`] that one
    /// tenant may take, in percent.
    pub tenant_share: u8,
    /// How often it is checked, during a long answer, that the API key may still be used.
    pub recheck: Duration,
    /// Bytes of the events that are kept of one run. The oldest are dropped first.
    pub event_bytes: usize,
    /// Number of the events that are kept of one run.
    pub events: usize,
    /// How long a run is kept after its end.
    pub keep: Duration,
    /// Most bytes of a request's body, except for the content of files.
    pub body_bytes: usize,
    /// How long a client may take to send the headers of a request. A connection without requests is closed after it.
    pub header_timeout: Duration,
    /// How long a body may make the gateway wait, in addition to the time that it takes at [`Options::body_rate`].
    pub body_grace: Duration,
    /// Bytes of a body that a client must send in a second on average.
    pub body_rate: usize,
    /// The longest `wait` of a request.
    pub longest_wait: Duration,
    /// How long requests under way may take when the gateway stops.
    pub drain: Duration,
    /// How often a stream of events without events gets a comment, and an SDK's connection a ping, so that both sides
    /// notice a dead connection.
    pub heartbeat: Duration,
    /// Most pings of an SDK's connection between two heartbeats. Beyond that, the connection ends.
    pub pings: u32,
    /// What the gateway can do with capability tokens.
    pub tokens: Tokens,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8420)),
            connections: 8192,
            peer_share: 50,
            requests: 4096,
            sdks: 256,
            sdk_requests: 4096,
            runs: 10_000,
            held_bytes: 512 << 20,
            tenants: 256,
            tenant_idle: Duration::from_secs(600),
            tenant_share: 100,
            recheck: Duration::from_secs(5),
            event_bytes: 1 << 20,
            events: 1024,
            keep: Duration::from_secs(600),
            body_bytes: 16 << 20,
            header_timeout: Duration::from_secs(20),
            body_grace: Duration::from_secs(10),
            body_rate: 16 << 10,
            longest_wait: Duration::from_secs(300),
            drain: Duration::from_secs(20),
            heartbeat: Duration::from_secs(15),
            pings: 100,
            tokens: Tokens::default(),
        }
    }
}

impl Options {
    /// The part of this many that one tenant may take: at least one.
    pub(crate) fn share(&self, of: usize) -> usize {
        part(of, self.tenant_share)
    }
}

/// So many percent of this many: at least one.
pub(crate) fn part(of: usize, percent: u8) -> usize {
    let part = of as u128 * u128::from(percent) / 100;
    usize::try_from(part).unwrap_or(usize::MAX).clamp(1, of.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_at_least_one_and_at_most_all() {
        let share = |percent, of| Options { tenant_share: percent, ..Options::default() }.share(of);
        assert_eq!([share(100, 7), share(50, 7), share(50, 1), share(0, 9), share(200, 9)], [7, 3, 1, 1, 9]);
        assert_eq!(share(100, usize::MAX), usize::MAX);
    }
}
