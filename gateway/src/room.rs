//! Room for connections, in all and for each peer.
//!
//! A connection without a request under way gives way to a new one: the one that has had none for the longest, of the
//! same peer if it is the peer that has too many. So nobody keeps others out with connections alone. If even that makes
//! no room, the new one gets a place in a small room of its own, where only health is told.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use prometheus::IntGauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::budget::Held;
use crate::server::{HEADER_BYTES, Shared};

/// Most connections that are told health, and nothing else.
const FOR_HEALTH: usize = 64;

/// What a connection takes besides the bytes that it has sent.
const CONNECTION: usize = 16 << 10;

/// Room for connections. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Room(Arc<Inner>);

struct Inner {
    most: usize,
    most_of_peer: usize,
    /// Most bytes that connections without a request may hold.
    most_idle: usize,
    table: Mutex<Table>,
    shown: IntGauge,
}

/// All places that are taken, by their numbers.
#[derive(Default)]
struct Table {
    places: HashMap<u64, Place>,
    peers: HashMap<IpAddr, Idle>,
    all: Idle,
    for_health: Idle,
    /// The last number, of a place or of a moment.
    last: u64,
}

/// Places, and those of them that are without a request: since which moment, and what they hold.
#[derive(Default)]
struct Idle {
    taken: usize,
    since: BTreeSet<(u64, u64)>,
    bytes: usize,
}

struct Place {
    peer: IpAddr,
    for_health: bool,
    gives_way: CancellationToken,
    /// The connection, if it is open, and its requests.
    holders: usize,
    requests: usize,
    /// Since when it has no request.
    since: u64,
    /// What it holds.
    bytes: usize,
}

/// The place of a connection. It is free again once this and its requests are dropped, or once it gives way.
pub(crate) struct Seat {
    room: Room,
    number: u64,
    gives_way: CancellationToken,
    for_health: bool,
}

/// A request of a connection, until its answer is sent.
pub(crate) struct UnderWay {
    room: Room,
    number: u64,
    /// Whether the connection may only be told health.
    pub(crate) for_health: bool,
}

/// A connection whose bytes count. HTTP keeps at most [`HEADER_BYTES`] of them at once, and often keeps the memory after
/// that, so they count until the end of the connection.
pub(crate) struct Counted {
    stream: TcpStream,
    room: Room,
    number: u64,
    shared: Arc<Shared>,
    held: Held,
}

/// Who a peer is: its address, or the network that one customer of a provider gets.
fn one(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

impl Room {
    pub(crate) fn new(most: usize, most_of_peer: usize, most_idle: usize, shown: IntGauge) -> Self {
        Self(Arc::new(Inner { most, most_of_peer, most_idle, table: Mutex::default(), shown }))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection of this peer. `None`: there is none, not even to be told health.
    pub(crate) fn enter(&self, peer: IpAddr) -> Option<Seat> {
        let (peer, mut table) = (one(peer), self.lock());
        let Inner { most, most_of_peer, .. } = *self.0;
        if table.of_peer(peer) >= most_of_peer {
            let first = table.peers.get(&peer).and_then(Idle::first);
            table.give_way(first);
        } else if table.all.taken >= most {
            let first = table.all.first();
            table.give_way(first);
        }
        let for_health = table.all.taken >= most || table.of_peer(peer) >= most_of_peer;
        if for_health && table.for_health.taken >= FOR_HEALTH {
            let first = table.for_health.first();
            table.give_way(first);
            if table.for_health.taken >= FOR_HEALTH {
                return None;
            }
        }
        let (number, gives_way) = (table.next(), CancellationToken::new());
        let (holders, requests, since, bytes) = (1, 0, 0, 0);
        let place = Place { peer, for_health, gives_way: gives_way.clone(), holders, requests, since, bytes };
        table.each_of(peer, for_health, |idle| idle.taken += 1);
        table.places.insert(number, place);
        table.sit(number);
        self.show(&table);
        Some(Seat { room: self.clone(), number, gives_way, for_health })
    }

    /// Notes what a connection holds. If those without a request hold too much, the ones that have had none for the
    /// longest give way.
    fn count(&self, number: u64, bytes: usize) {
        let mut table = self.lock();
        let Some(place) = table.places.get_mut(&number) else { return };
        let (peer, for_health, more) = (place.peer, place.for_health, bytes - place.bytes);
        place.bytes = bytes;
        if place.requests > 0 {
            return;
        }
        table.each_of(peer, for_health, |idle| idle.bytes += more);
        while table.all.bytes > self.0.most_idle
            && let Some(first) = table.all.first().filter(|first| *first != number)
        {
            table.give_way(Some(first));
        }
        self.show(&table);
    }

    fn show(&self, table: &Table) {
        self.0.shown.set(i64::try_from(table.places.len()).unwrap_or(i64::MAX));
    }

    /// One holder of a place less.
    fn leave(&self, number: u64) {
        let mut table = self.lock();
        let Some(place) = table.places.get_mut(&number) else { return };
        place.holders -= 1;
        if place.holders == 0 {
            table.free(number);
            self.show(&table);
        }
    }
}

impl Table {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn of_peer(&self, peer: IpAddr) -> usize {
        self.peers.get(&peer).map_or(0, |idle| idle.taken)
    }

    /// Changes what counts a place.
    fn each_of(&mut self, peer: IpAddr, for_health: bool, change: impl Fn(&mut Idle)) {
        if for_health {
            return change(&mut self.for_health);
        }
        change(&mut self.all);
        let of_peer = self.peers.entry(peer).or_default();
        change(of_peer);
        if of_peer.taken == 0 {
            self.peers.remove(&peer);
        }
    }

    /// The connection has no request from now on.
    fn sit(&mut self, number: u64) {
        let since = self.next();
        let Some(place) = self.places.get_mut(&number) else { return };
        place.since = since;
        let (peer, for_health, bytes) = (place.peer, place.for_health, place.bytes);
        self.each_of(peer, for_health, |idle| {
            idle.since.insert((since, number));
            idle.bytes += bytes;
        });
    }

    /// The connection has a request from now on.
    fn rise(&mut self, number: u64) {
        let Some(&Place { peer, for_health, since, bytes, .. }) = self.places.get(&number) else { return };
        self.each_of(peer, for_health, |idle| {
            if idle.since.remove(&(since, number)) {
                idle.bytes -= bytes;
            }
        });
    }

    fn free(&mut self, number: u64) -> Option<Place> {
        self.rise(number);
        let place = self.places.remove(&number)?;
        self.each_of(place.peer, place.for_health, |idle| idle.taken -= 1);
        Some(place)
    }

    fn give_way(&mut self, first: Option<u64>) {
        if let Some(place) = first.and_then(|number| self.free(number)) {
            place.gives_way.cancel();
        }
    }
}

impl Idle {
    fn first(&self) -> Option<u64> {
        self.since.first().map(|(_, number)| *number)
    }
}

impl Counted {
    pub(crate) fn new(stream: TcpStream, seat: &Seat, shared: Arc<Shared>) -> Self {
        let held = shared.budget.hold();
        let mut this = Self { stream, room: seat.room.clone(), number: seat.number, shared, held };
        this.count(CONNECTION);
        this
    }

    /// Counts so many bytes more, for which runs that have ended are forgotten. Whoever then has a request is told if
    /// there is no room.
    fn count(&mut self, more: usize) {
        let before = self.held.bytes();
        let bytes = (before + more).min(CONNECTION + HEADER_BYTES);
        if bytes == before {
            return;
        }
        self.shared.tenants.make_room(None, bytes - before);
        self.held.set(bytes);
        self.room.count(self.number, bytes);
    }
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.count(buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Seat {
    /// Notes that a request begins.
    pub(crate) fn request(&self) -> UnderWay {
        let mut table = self.room.lock();
        table.rise(self.number);
        if let Some(place) = table.places.get_mut(&self.number) {
            place.holders += 1;
            place.requests += 1;
        }
        UnderWay { room: self.room.clone(), number: self.number, for_health: self.for_health }
    }

    /// Waits until the connection must give way.
    pub(crate) async fn gives_way(&self) {
        self.gives_way.cancelled().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.leave(self.number);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut table = self.room.lock();
        if let Some(place) = table.places.get_mut(&self.number) {
            place.requests -= 1;
            if place.requests == 0 {
                table.sit(self.number);
            }
        }
        drop(table);
        self.room.leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(most: usize, most_of_peer: usize) -> Room {
        Room::new(most, most_of_peer, 100, IntGauge::new("connections", "connections").unwrap())
    }

    fn peer(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    fn gave_way(seats: &[Seat]) -> Vec<usize> {
        (0..seats.len()).filter(|at| seats[*at].gives_way.is_cancelled()).collect()
    }

    #[test]
    fn whoever_has_been_idle_the_longest_gives_way() {
        let room = room(3, 3);
        let mut seats: Vec<_> = (0..3).map(|number| room.enter(peer(number)).unwrap()).collect();
        let under_way = seats[0].request();
        seats.push(room.enter(peer(4)).unwrap());
        assert_eq!(gave_way(&seats), [1], "the first has a request");
        drop(under_way);
        seats.push(room.enter(peer(5)).unwrap());
        assert_eq!(gave_way(&seats), [1, 2], "the first has been idle for the shortest time");
        assert_eq!(room.0.shown.get(), 3);
        drop(seats);
        let table = room.lock();
        assert_eq!((room.0.shown.get(), table.peers.len(), table.all.since.len(), table.all.taken), (0, 0, 0, 0));
    }

    #[test]
    fn a_peer_with_too_many_takes_from_nobody_else() {
        let room = room(100, 2);
        let other = room.enter(peer(1)).unwrap();
        let seats: Vec<_> = (0..50).map(|_| room.enter(peer(2)).unwrap()).collect();
        assert_eq!(gave_way(&seats), (0..48).collect::<Vec<_>>());
        assert!(!other.gives_way.is_cancelled());
        let network = |text: &str| one(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:2"), "one customer has many addresses");
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), peer(1));
    }

    #[test]
    fn what_connections_hold_without_a_request_has_a_bound() {
        let room = room(100, 100);
        let seats: Vec<_> = (0..4).map(|_| room.enter(peer(1)).unwrap()).collect();
        let under_way = seats[0].request();
        seats.iter().for_each(|seat| room.count(seat.number, 40));
        assert_eq!(gave_way(&seats), [1], "what has a request does not count");
        room.count(seats[3].number, 90);
        assert_eq!(gave_way(&seats), [1, 2]);
        drop(under_way);
        let last = room.enter(peer(1)).unwrap();
        room.count(last.number, 200);
        assert_eq!(gave_way(&seats), [0, 1, 2, 3]);
        assert!(!last.gives_way.is_cancelled(), "nobody gives way to oneself");
        drop((seats, last));
        assert_eq!(room.lock().all.bytes, 0);
    }

    #[test]
    fn health_has_room_of_its_own() {
        let room = room(2, 2);
        let full: Vec<_> = (0..2).map(|number| room.enter(peer(number)).unwrap()).collect();
        let _under_way: Vec<_> = full.iter().map(Seat::request).collect();
        let seats: Vec<_> = (0..200).map(|_| room.enter(peer(7)).unwrap()).collect();
        assert!(seats.iter().all(|seat| seat.for_health && seat.request().for_health));
        assert_eq!(gave_way(&seats).len(), 200 - FOR_HEALTH);
        assert!(gave_way(&full).is_empty());
    }

    #[test]
    fn a_request_outlives_its_connection() {
        let room = room(1, 1);
        let seat = room.enter(peer(1)).unwrap();
        let under_way = seat.request();
        drop(seat);
        assert!(room.enter(peer(2)).unwrap().for_health);
        drop(under_way);
        assert!(!room.enter(peer(2)).unwrap().for_health);
    }
}
