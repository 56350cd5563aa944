//! Guesses at keys, as many as go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::keyed::{ALL, id_of};

pub(super) const SHEET: &str = r#"
tries = "guesses keys on fifty connections at once, each with an id that doesn't exist, for longer than the gateway believes its store's last answer"
wins = "the store's time, so that the gateway can't look up other callers' keys and refuses them"
guard = "an answer of the store counts for five seconds, a look into it is short, and those who wait for one wait in a queue"
uncontrolled = "guesses have no bound of their own"
slow = true
held = { admitted = 0, guesses = { min = 500 }, slowest = { max = 5 } }
"#;

const CONNECTIONS: usize = 50;

/// Longer than an answer of the store counts.
const TIME: Duration = Duration::from_secs(8);

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let holder = gateway.holder("globex", ALL)?;
    let (guesses, begun) = (AtomicUsize::new(0), Instant::now());
    let guessing = try_join_all((0..CONNECTIONS).map(async |_| {
        let mut admitted = 0;
        while begun.elapsed() < TIME {
            let number = guesses.fetch_add(1, Ordering::Relaxed);
            let guess = holder.secret().replace(id_of(holder.secret())?, &format!("{number:016x}"));
            let told = holder.with("GET", "/v1/runs", &format!("Authorization: Bearer {guess}\r\n"), "").await?;
            admitted += usize::from(told.status != 401);
        }
        anyhow::Ok(admitted)
    }));
    let served = async {
        let mut slowest = 0.0f64;
        while begun.elapsed() < TIME {
            slowest = slowest.max(holder.honest().await?);
        }
        anyhow::Ok(slowest)
    };
    let (admitted, slowest) = futures::future::try_join(guessing, served).await?;
    let mut evidence = Evidence::default();
    evidence.note("admitted", admitted.into_iter().sum::<usize>());
    evidence.note("guesses", guesses.into_inner());
    evidence.note("slowest", slowest);
    Ok(evidence)
}
