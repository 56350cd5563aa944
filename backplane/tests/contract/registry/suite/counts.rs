//! Counts that jobs share.

use std::time::{Duration, SystemTime};

use thermae_backplane::registry::{Count, CountRequest, Counted, MOST_COUNTS, SharedRegistry, moment};

use super::super::tenant;
use super::BRIEF;
use crate::support::until;

/// A moment so long from now.
fn after(time: Duration) -> u64 {
    moment(SystemTime::now() + time)
}

/// A count that was made after the registry began.
fn count(name: &str, most: u32) -> Count {
    let (made, until) = (after(Duration::from_secs(1)), after(Duration::from_secs(60)));
    Count { name: name.to_owned(), made, until, most }
}

fn request(of: &str, counts: Vec<Count>) -> CountRequest {
    CountRequest { tenant: tenant(of), counts, skew: Duration::ZERO }
}

async fn take(registry: &SharedRegistry, counts: Vec<Count>) -> Counted {
    registry.count(&request("acme", counts)).await.unwrap()
}

pub async fn all_counts_are_taken_or_none(registry: SharedRegistry) {
    let (a, b) = (count("a", 3), count("b", 2));
    assert_eq!(take(&registry, vec![]).await, Counted::All);
    for _ in 0..2 {
        assert_eq!(take(&registry, vec![a.clone(), b.clone()]).await, Counted::All);
    }
    for _ in 0..2 {
        assert_eq!(take(&registry, vec![a.clone(), b.clone()]).await, Counted::Exhausted(1));
    }
    assert_eq!(take(&registry, vec![a.clone()]).await, Counted::All, "the refused ones took none");
    assert_eq!(take(&registry, vec![b.clone(), a.clone()]).await, Counted::Exhausted(0));
    assert_eq!(take(&registry, vec![a.clone()]).await, Counted::Exhausted(0));
    assert_eq!(
        registry.count(&request("globex", vec![a])).await.unwrap(),
        Counted::All,
        "the name is the tenant's own"
    );
}

pub async fn counts_at_once_are_not_more_than_allowed(registry: SharedRegistry) {
    let mut takes = tokio::task::JoinSet::new();
    for n in 0..60 {
        let registry = registry.clone();
        // A parent's count, and that of one of three children.
        let counts = vec![count("parent", 20), count(&format!("child{}", n % 3), 10)];
        takes.spawn(async move { take(&registry, counts).await });
    }
    let taken = takes.join_all().await.into_iter().filter(|counted| *counted == Counted::All).count();
    assert_eq!(taken, 20);
}

pub async fn a_count_whose_time_is_over_is_lost_and_never_begins_anew(registry: SharedRegistry) {
    let brief = Count { until: after(BRIEF), ..count("a", 1) };
    assert_eq!(take(&registry, vec![brief.clone()]).await, Counted::All);
    until("the count's end", || async {
        let counted = take(&registry, vec![brief.clone()]).await;
        assert_ne!(counted, Counted::All, "it has no call left");
        counted == Counted::Lost(0)
    })
    .await;
    assert_eq!(take(&registry, vec![brief]).await, Counted::Lost(0));
}

pub async fn a_tenant_has_no_more_than_so_many_counts(registry: SharedRegistry) {
    for chunk in (0..MOST_COUNTS).collect::<Vec<_>>().chunks(1000) {
        let counts = chunk.iter().map(|n| count(&n.to_string(), 9)).collect();
        assert_eq!(take(&registry, counts).await, Counted::All);
    }
    assert_eq!(take(&registry, vec![count("1", 9), count("new", 9)]).await, Counted::Full);
    assert_eq!(take(&registry, vec![count("1", 9)]).await, Counted::All);
    let other = request("globex", vec![count("new", 9)]);
    assert_eq!(registry.count(&other).await.unwrap(), Counted::All, "other tenants notice nothing");
}
