//! What the hostile tenant does over AMQP, apart from its jobs.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Result;
use lapin::{Confirmation, PublisherConfirm};
use thermae_schemas::names;

use super::amqp::Enemy;
use super::jobs;

/// Names of the means that [`super::jobs`] doesn't name.
pub(super) const NAMES: [&str; 10] = [
    "submit refused",
    "unrouted",
    "too large",
    "cancel",
    "question",
    "connection",
    "channel",
    "queue",
    "garbage answer",
    "unread reply queue",
];

/// Number of unconfirmed messages per means.
const AT_ONCE: usize = 32;
/// Pause after RabbitMQ has refused a message because the queue is full.
const FULL: Duration = Duration::from_millis(5);
/// Pause between two messages of the means that aim at queues shared by all tenants.
const PACE: Duration = Duration::from_millis(1);

/// Waits until at most `most` messages are unconfirmed, and counts those that were refused.
async fn await_confirms(enemy: &Enemy, sent: &mut VecDeque<PublisherConfirm>, most: usize) -> Result<()> {
    while sent.len() > most {
        let Some(confirm) = sent.pop_front() else { break };
        if let Confirmation::Nack(_) = confirm.await? {
            enemy.tally.count("submit refused");
            tokio::time::sleep(FULL).await;
        }
    }
    Ok(())
}

/// Declares queues that nobody reads. Messages stay in them up to their limit.
pub(super) async fn unread_queues(enemy: &Enemy) -> Result<()> {
    let (connection, channel) = enemy.channel().await?;
    for name in ["unread", "garbage"] {
        enemy.queue(&channel, name).await?;
    }
    enemy.tally.count("unread reply queue");
    connection.close(200, "done".into()).await?;
    Ok(())
}

/// Jobs of one class without end, as fast as RabbitMQ takes them, even when their lane is full.
pub(super) async fn flood(enemy: &Enemy, class: &str) -> Result<()> {
    let (_connection, channel) = enemy.channel().await?;
    let (key, mut sent) = (format!("{}.{class}.default", enemy.tenant), VecDeque::new());
    for number in 0.. {
        let (name, reply_to, body) = jobs::body(number, class);
        if enemy.lacks(name) {
            continue;
        }
        sent.push_back(enemy.publish(&channel, names::SUBMIT, &key, &body, reply_to).await?);
        enemy.tally.count(name);
        await_confirms(enemy, &mut sent, AT_ONCE).await?;
    }
    Ok(())
}

/// Jobs with routing keys of pools that don't exist, or that have a wrong form. Most are small, a few are large.
pub(super) async fn unrouted(enemy: &Enemy) -> Result<()> {
    let (_connection, channel) = enemy.channel().await?;
    let mut sent = VecDeque::new();
    for n in 0_u64.. {
        let key = match n % 4 {
            0 => format!("{}.normal.nowhere{}", enemy.tenant, n % 1000),
            1 => format!("{}.high.p{n}", enemy.tenant),
            2 => format!("{}.{n}", enemy.tenant),
            _ => format!("{}.low.x.y.z", enemy.tenant),
        };
        let body = if n % 256 == 0 { jobs::many_values(90_000) } else { jobs::plain(n) };
        sent.push_back(enemy.publish(&channel, names::SUBMIT, &key, &body, "unread").await?);
        enemy.tally.count("unrouted");
        await_confirms(enemy, &mut sent, AT_ONCE).await?;
        tokio::time::sleep(PACE).await;
    }
    Ok(())
}

/// Messages as large as RabbitMQ takes them. No job may be that large, but the fleet reads a message to find that out.
pub(super) async fn too_large(enemy: &Enemy) -> Result<()> {
    const MOST: usize = (16 << 20) - (64 << 10);
    let (_connection, channel) = enemy.channel().await?;
    let key = format!("{}.normal.default", enemy.tenant);
    let bodies = [jobs::padded(MOST), jobs::many_values(MOST / 8), vec![b'['; MOST]];
    let mut sent = VecDeque::new();
    for body in bodies.iter().cycle() {
        sent.push_back(enemy.publish(&channel, names::SUBMIT, &key, body, "unread").await?);
        enemy.tally.count("too large");
        await_confirms(enemy, &mut sent, 1).await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// Cancels of jobs that don't exist, and large ones that are no JSON.
pub(super) async fn cancels(enemy: &Enemy) -> Result<()> {
    let key = format!("{}.cancel", enemy.tenant);
    small(enemy, "cancel", &key, |n| {
        if n % 64 == 0 { vec![b'{'; 1 << 20] } else { format!(r#"{{"job": "nobody-{n}"}}"#).into_bytes() }
    })
    .await
}

/// Questions about the tenant's sessions.
pub(super) async fn questions(enemy: &Enemy) -> Result<()> {
    let key = format!("{}.query", enemy.tenant);
    small(enemy, "question", &key, |n| format!(r#"{{"id": "q{n}", "what": "sessions"}}"#).into_bytes()).await
}

async fn small(enemy: &Enemy, means: &'static str, key: &str, body: impl Fn(u64) -> Vec<u8>) -> Result<()> {
    let (_connection, channel) = enemy.channel().await?;
    let mut sent = VecDeque::new();
    for n in 0.. {
        sent.push_back(enemy.publish(&channel, names::SUBMIT, key, &body(n), "unread").await?);
        enemy.tally.count(means);
        await_confirms(enemy, &mut sent, AT_ONCE).await?;
        tokio::time::sleep(PACE).await;
    }
    Ok(())
}

/// As many connections, channels and queues as RabbitMQ allows. All are kept.
pub(super) async fn connections(enemy: &Enemy) -> Result<()> {
    let (first, declaring) = enemy.channel().await?;
    let (mut connections, mut channels, mut queues) = (vec![first], Vec::new(), 0);
    loop {
        // Try again even at the limit.
        if let Ok(connection) = enemy.connect().await {
            enemy.tally.count("connection");
            connections.push(connection);
        }
        if let Some(connection) = connections.last() {
            for _ in 0..64 {
                if let Ok(channel) = connection.create_channel().await {
                    enemy.tally.count("channel");
                    channels.push(channel);
                }
            }
        }
        if queues < 500 {
            for _ in 0..10 {
                enemy.queue(&declaring, &format!("idle{queues}")).await?;
                enemy.tally.count("queue");
                queues += 1;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
