//! The hostile tenant: uses every means at once, each in a task of its own, until its time is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use super::amqp::{Enemy, Tally};
use super::{means, tools};

/// Pause before a means that failed is used again. RabbitMQ closes channels and connections that go too far.
const AGAIN: Duration = Duration::from_millis(100);

/// How long the tenant looks for a worker to send garbage to, before it uses other means.
const FIRST_CALL: Duration = Duration::from_secs(3);

/// Spawns the tasks of one group of means.
type Start = fn(&mut JoinSet<()>, Arc<Enemy>);

/// Uses all means at once for `time`, except the groups in `without`. Gives how often each was used.
pub(super) async fn run(url: &str, time: Duration, without: &[String]) -> Result<BTreeMap<&'static str, u64>> {
    let tenant = url.split("://").nth(1).and_then(|rest| rest.split([':', '@']).next()).context("a URL with a user")?;
    let mut enemy = Enemy {
        url: url.to_owned(),
        tenant: tenant.to_owned(),
        tally: Tally::default(),
        without: without.to_vec(),
        first_call: None,
    };
    // The queues that the jobs' events go to must exist before the first job.
    means::unread_queues(&enemy).await?;
    if !enemy.lacks("garbage") {
        let first_call = tokio::time::timeout(FIRST_CALL, tools::first_call(&enemy)).await;
        enemy.first_call = first_call.ok().and_then(Result::ok);
    }
    let enemy = Arc::new(enemy);
    let mut tasks = JoinSet::new();
    let all: [(&str, Start); 7] = [
        ("flood", |tasks, enemy| {
            for class in ["high", "normal", "low"] {
                tasks.spawn(again(enemy.clone(), move |enemy| async move { means::flood(&enemy, class).await }));
            }
        }),
        ("unrouted", |tasks, enemy| {
            tasks.spawn(again(enemy, |enemy| async move { means::unrouted(&enemy).await }));
        }),
        ("too-large", |tasks, enemy| {
            tasks.spawn(again(enemy, |enemy| async move { means::too_large(&enemy).await }));
        }),
        ("cancels", |tasks, enemy| {
            tasks.spawn(again(enemy, |enemy| async move { means::cancels(&enemy).await }));
        }),
        ("questions", |tasks, enemy| {
            tasks.spawn(again(enemy, |enemy| async move { means::questions(&enemy).await }));
        }),
        ("connections", |tasks, enemy| {
            tasks.spawn(again(enemy, |enemy| async move { means::connections(&enemy).await }));
        }),
        ("garbage", |tasks, enemy| {
            tasks.spawn(again(enemy, |enemy| async move { tools::garbage(&enemy).await }));
        }),
    ];
    for (name, start) in all {
        if !enemy.lacks(name) {
            start(&mut tasks, enemy.clone());
        }
    }
    tokio::time::sleep(time).await;
    tasks.shutdown().await;
    Ok(enemy.tally.all())
}

/// Uses a means again and again, whether or not it fails.
async fn again<F: Future<Output = Result<()>>>(enemy: Arc<Enemy>, means: impl Fn(Arc<Enemy>) -> F) {
    loop {
        let _ = means(enemy.clone()).await;
        tokio::time::sleep(AGAIN).await;
    }
}
