//! The hostile tenant: every means, each in a task of its own, until its time is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use super::amqp::{Enemy, Tally};
use super::{means, tools};

/// Before a means that broke is tried again: RabbitMQ ends channels and connections that go too far.
const AGAIN: Duration = Duration::from_millis(100);

/// How long it looks for a worker to send garbage to.
const FIRST_CALL: Duration = Duration::from_secs(3);

/// Begins to use means.
type Start = Box<dyn Fn(&mut JoinSet<()>, Arc<Enemy>)>;

/// Uses all means at once, but those of these groups.
pub(super) async fn run(url: &str, time: Duration, without: &[String]) -> Result<BTreeMap<&'static str, u64>> {
    let tenant = url.split("://").nth(1).and_then(|rest| rest.split([':', '@']).next()).context("a URL with a user")?;
    let enemy = Arc::new(Enemy {
        url: url.to_owned(),
        tenant: tenant.to_owned(),
        tally: Tally::default(),
        without: without.to_vec(),
    });
    // Where its jobs' events go, so that the first of them find it.
    means::unread_queues(&enemy).await?;
    let first = tokio::time::timeout(FIRST_CALL, tools::first_call(&enemy)).await.ok().and_then(Result::ok);
    let mut tasks = JoinSet::new();
    let all: [(&str, Start); 7] = [
        (
            "flood",
            Box::new(|tasks, enemy| {
                for class in ["high", "normal", "low"] {
                    tasks.spawn(again(enemy.clone(), move |enemy| async move { means::flood(&enemy, class).await }));
                }
            }),
        ),
        (
            "unrouted",
            Box::new(|tasks, enemy| {
                tasks.spawn(again(enemy, |enemy| async move { means::unrouted(&enemy).await }));
            }),
        ),
        (
            "too-large",
            Box::new(|tasks, enemy| {
                tasks.spawn(again(enemy, |enemy| async move { means::too_large(&enemy).await }));
            }),
        ),
        (
            "cancels",
            Box::new(|tasks, enemy| {
                tasks.spawn(again(enemy, |enemy| async move { means::cancels(&enemy).await }));
            }),
        ),
        (
            "questions",
            Box::new(|tasks, enemy| {
                tasks.spawn(again(enemy, |enemy| async move { means::questions(&enemy).await }));
            }),
        ),
        (
            "connections",
            Box::new(|tasks, enemy| {
                tasks.spawn(again(enemy, |enemy| async move { means::connections(&enemy).await }));
            }),
        ),
        (
            "garbage",
            Box::new(move |tasks, enemy| {
                let first = first.clone();
                tasks.spawn(again(enemy, move |enemy| {
                    let first = first.clone();
                    async move { tools::garbage(&enemy, first).await }
                }));
            }),
        ),
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

/// Uses a means again and again, whatever comes of it.
async fn again<F: Future<Output = Result<()>>>(enemy: Arc<Enemy>, means: impl Fn(Arc<Enemy>) -> F) {
    loop {
        let _ = means(enemy.clone()).await;
        tokio::time::sleep(AGAIN).await;
    }
}
