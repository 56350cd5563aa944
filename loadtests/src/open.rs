//! The open-loop generator: sends jobs when they are due, whether or not earlier ones were answered, and times them
//! from the moment when they were due. So a slow fleet has long times, and doesn't make the generator send less.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use thermae_client::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::cases::{Adder, Case};
use crate::report::LoadReport;
use crate::scenario::Scenario;

/// Number of wrong answers that a report quotes.
const QUOTED: usize = 5;

struct Answer {
    status: &'static str,
    wrong: Option<String>,
    took: Duration,
}

/// Runs a scenario, and waits for all answers.
pub async fn run(client: &Client, name: &str, scenario: &Scenario) -> Result<LoadReport> {
    let mut dice = Dice(scenario.seed ^ 0x9e37_79b9_7f4a_7c15);
    let (begun, end) = (Instant::now(), Duration::from_secs_f64(scenario.seconds));
    let (mut due, mut plan) = (Duration::ZERO, Vec::new());
    loop {
        due += Duration::from_secs_f64(-(1.0 - dice.unit()).ln() / scenario.rate);
        if due >= end {
            break;
        }
        plan.push((begun + due, draw(scenario, &mut dice)));
    }
    let (sent, run_id, mut answers) = (plan.len() as u64, uuid::Uuid::new_v4().simple(), JoinSet::new());
    let (mut times, mut late) = (Histogram::<u64>::new(3)?, Histogram::<u64>::new(3)?);
    let mut dues = on_time(plan);
    while let Some((at, (case, session))) = dues.recv().await {
        late.record(at.elapsed().as_nanos() as u64)?;
        let (client, patience) = (client.clone(), Duration::from_secs_f64(scenario.patience));
        let session = format!("load-{run_id}-{session}");
        answers.spawn(async move { ask(&client, case, &session, at, patience).await });
    }
    let (mut by_status, mut wrong, mut answered) = (BTreeMap::new(), Vec::new(), 0_u64);
    while let Some(answer) = answers.join_next().await {
        let answer = answer.context("a load task panicked")?;
        *by_status.entry(answer.status.to_owned()).or_insert(0) += 1;
        if answer.status != "none" {
            times.record(answer.took.as_nanos() as u64)?;
            answered += 1;
        }
        wrong.extend(answer.wrong.filter(|_| wrong.len() < QUOTED));
    }
    let took = begun.elapsed();
    let ms = |ns: u64| ns as f64 / 1e6;
    Ok(LoadReport {
        scenario: name.into(),
        target_per_s: scenario.rate,
        answered_per_s: answered as f64 / took.as_secs_f64(),
        sent,
        by_status,
        wrong,
        p50_ms: ms(times.value_at_quantile(0.5)),
        p95_ms: ms(times.value_at_quantile(0.95)),
        p99_ms: ms(times.value_at_quantile(0.99)),
        max_ms: ms(times.max()),
        late_p50_ms: ms(late.value_at_quantile(0.5)),
        late_p99_ms: ms(late.value_at_quantile(0.99)),
        phases: Vec::new(),
    })
}

/// Sends each entry when it is due. This takes a thread of its own: the runtime's clock has steps of a millisecond,
/// which is as long as a job.
fn on_time<T: Send + 'static>(plan: Vec<(Instant, T)>) -> mpsc::UnboundedReceiver<(Instant, T)> {
    let (due, dues) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for (at, what) in plan {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if due.send((at, what)).is_err() {
                return;
            }
        }
    });
    dues
}

async fn ask(client: &Client, case: Case, session: &str, due: Instant, patience: Duration) -> Answer {
    let answer = tokio::time::timeout(patience, async {
        client.submit(case.job(session), Some(Adder::shared())).await?.result().await
    })
    .await;
    let took = due.elapsed();
    match answer {
        Ok(Ok(outcome)) => Answer { status: outcome.status.as_str(), wrong: case.check(&outcome).err(), took },
        Ok(Err(error)) => Answer { status: "none", wrong: Some(error.to_string()), took },
        Err(_) => Answer { status: "none", wrong: Some(format!("no answer within {patience:?}")), took },
    }
}

fn draw(scenario: &Scenario, dice: &mut Dice) -> (Case, u32) {
    let total: f64 = scenario.jobs.iter().map(|share| share.weight).sum();
    let mut at = dice.unit() * total;
    let last = &scenario.jobs[scenario.jobs.len() - 1];
    let share = scenario
        .jobs
        .iter()
        .find(|share| {
            at -= share.weight;
            at < 0.0
        })
        .unwrap_or(last);
    (share.case, (dice.unit() * f64::from(share.sessions)) as u32)
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, seeded, good enough for arrivals.
struct Dice(u64);

impl Dice {
    /// Uniform in `[0, 1)`.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
