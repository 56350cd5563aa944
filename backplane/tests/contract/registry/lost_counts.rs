//! Counts whose registry was emptied, restarted or is away.

use std::time::{Duration, SystemTime};

use thermae_backplane::registry::{Count, CountRequest, Counted, Error, Local, Registry, moment};

use super::faults::{KEEPS, Server};
use super::{redis, tenant};
use crate::support::until;

/// Longer than any test takes.
const SKEW: Duration = Duration::from_secs(3600);

/// A request for a count that can be taken once, made at this moment. All clocks are the same.
fn once(made: SystemTime) -> CountRequest {
    let (made, until) = (moment(made), moment(made + Duration::from_secs(600)));
    let counts = vec![Count { name: "a".to_owned(), made, until, most: 1 }];
    CountRequest { tenant: tenant("acme"), counts, skew: Duration::ZERO }
}

/// The same if clocks may differ.
fn apart(made: SystemTime) -> CountRequest {
    CountRequest { skew: SKEW, ..once(made) }
}

/// Now, but not in the millisecond in which a registry began that is there by now.
async fn later() -> SystemTime {
    let began = SystemTime::now();
    until("a millisecond", || async { moment(SystemTime::now()) > moment(began) }).await;
    SystemTime::now()
}

#[tokio::test]
async fn an_emptied_or_restarted_redis_counts_nothing_that_was_made_before() {
    let mut server = Server::run(&KEEPS).await;
    let registry = redis(&server.url()).await;
    registry.epoch().await.unwrap();
    let request = once(later().await);
    assert_eq!(registry.count(&request).await.unwrap(), Counted::All);
    assert_eq!(registry.count(&request).await.unwrap(), Counted::Exhausted(0));
    server.tell(&["FLUSHALL"]).await;
    assert_eq!(registry.count(&request).await.unwrap(), Counted::Lost(0));
    let newer = once(later().await);
    assert_eq!(registry.count(&newer).await.unwrap(), Counted::All);
    server.kill();
    until("the registry to notice", || async { matches!(registry.count(&newer).await, Err(Error::Disconnected(_))) })
        .await;
    server.start().await;
    until("the registry to be back", || async { registry.check().await.is_ok() }).await;
    assert_eq!(registry.count(&newer).await.unwrap(), Counted::Lost(0));
}

#[tokio::test]
async fn a_redis_counts_what_was_made_later_than_clocks_can_differ() {
    let server = Server::run(&KEEPS).await;
    let registry = redis(&server.url()).await;
    registry.epoch().await.unwrap();
    let now = later().await;
    assert_eq!(registry.count(&apart(now)).await.unwrap(), Counted::Lost(0));
    assert_eq!(registry.count(&apart(now + SKEW)).await.unwrap(), Counted::All);
    assert_eq!(registry.count(&apart(SystemTime::UNIX_EPOCH)).await.unwrap(), Counted::Lost(0));
}

#[tokio::test]
async fn the_registry_in_one_process_forgets_no_count_silently_either() {
    // However far clocks may differ: whoever makes counts for it has its clock.
    for request in [once, apart] {
        // Another process may have had a count that is older.
        let older = request(SystemTime::now());
        let registry = Local::new();
        assert_eq!(registry.count(&older).await.unwrap(), Counted::Lost(0));
        let newer = request(later().await);
        assert_eq!(registry.count(&newer).await.unwrap(), Counted::All);
        assert_eq!(registry.count(&newer).await.unwrap(), Counted::Exhausted(0));
        registry.empty();
        assert_eq!(registry.count(&newer).await.unwrap(), Counted::Lost(0));
    }
}
