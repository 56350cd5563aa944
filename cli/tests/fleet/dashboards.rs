//! Every query of the dashboard returns data from a real Prometheus, while the fleet runs a bit of everything.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use thermae_client::JobHandle;
use thermae_schemas::{EventBody, Job, Status, Stream};

use crate::Test;
use crate::fleet::Fleet;
use crate::load::{Load, limited};
use crate::prometheus::Prometheus;

pub(crate) const TESTS: &[(&str, Test)] = &[("dashboards::every_query_returns_data_under_load", every_query)];

/// How long a query may take until it has data. Rates need two scrapes, and some of the load comes only every few
/// seconds.
const DATA_TIMEOUT: Duration = Duration::from_secs(60);

/// Metrics that exist but may stay 0: failures that don't happen here, and states that last only a moment.
const QUIET: &[&str] = &[
    "thermae_scheduler_forged_total",
    "thermae_scheduler_drained_total",
    "thermae_scheduler_panics_total",
    "thermae_scheduler_in_flight",
    "thermae_worker_container_creation_failures_total",
    "thermae_worker_containers_quarantined_total",
    "thermae_worker_containers_unwalled",
    "thermae_worker_leases_lost_total",
    "thermae_worker_deliveries_returned_total",
    "thermae_worker_heartbeat_failures_total",
    "thermae_worker_forged_total",
    "thermae_worker_containers_bound",
    "thermae_worker_containers_evicted_total",
    "thermae_worker_pauses_refused_total",
    "thermae_worker_tool_answer_bytes",
    "thermae_worker_tool_answers_written_total",
    "thermae_worker_large_outcomes_total",
    "thermae_worker_store_swept_total",
    "thermae_scheduler_redis_memory_max_bytes",
];

fn dashboards() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards")
}

/// One query of the dashboard, as Grafana sends it.
#[derive(Debug, Clone)]
struct Query {
    panel: String,
    expr: String,
}

/// The dashboard's queries, with values for its variables as Grafana inserts them.
fn queries(dashboard: &Value) -> Result<Vec<Query>> {
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().context("no panels")? {
        let title = panel["title"].as_str().context("a panel without a title")?;
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expr = target["expr"].as_str().with_context(|| format!("{title} has a target without a query"))?;
            // Grafana's interval spans four scrapes, so that a missed one leaves no hole.
            let expr = expr.replace("$__rate_interval", "4s").replace("$pool", ".*").replace("$__range", "30m");
            ensure!(!expr.contains('$'), "{title} has a variable that this test does not know: {expr}");
            // This fleet has no gateway. `gateway/tests` shows that its metrics have values.
            if !expr.contains("thermae_gateway_") {
                queries.push(Query { panel: title.to_owned(), expr });
            }
        }
    }
    Ok(queries)
}

fn every_query(fleet: &Fleet) -> Result<()> {
    let dashboard: Value = serde_json::from_slice(&std::fs::read(dashboards().join("fleet.json"))?)?;
    let queries = queries(&dashboard)?;
    ensure!(queries.len() > 40, "only {} queries were found", queries.len());
    // This worker replaces the one that will be killed.
    fleet.add_worker()?;
    let prometheus = Prometheus::start(&dashboards().join("rules.yaml"), &fleet.addresses())?;
    let load = Load::start(fleet)?;
    lose_a_job(fleet)?;
    let bounded = Bounded::start(fleet)?;
    // A metric that doesn't exist gives nothing, so an answer means something.
    ensure!(prometheus.query("thermae_no_such_metric")?.is_empty(), "a metric that is not there has values");
    let moved = |expr: &str, values: &[f64]| {
        !values.is_empty() && (QUIET.iter().any(|metric| expr.contains(metric)) || values.iter().any(|v| *v != 0.0))
    };
    await_all(queries, |query| Ok(moved(&query.expr, &prometheus.query(&query.expr)?)))?;
    let pools = prometheus.label_values("thermae_scheduler_credit", "pool")?;
    ensure!(pools.contains(&"default".to_owned()), "the variable $pool has the values {pools:?}");
    rules(&prometheus)?;
    bounded.end(fleet)?;
    load.end(fleet)
}

/// Repeats each query until it has data.
fn await_all(mut missing: Vec<Query>, has_data: impl Fn(&Query) -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    loop {
        let mut still = Vec::new();
        for query in missing {
            if !has_data(&query)? {
                still.push(query);
            }
        }
        if still.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > DATA_TIMEOUT {
            let list: String = still.iter().map(|query| format!("  {}: {}\n", query.panel, query.expr)).collect();
            bail!("{} queries returned nothing (or only 0) within {DATA_TIMEOUT:?}:\n{list}", still.len());
        }
        missing = still;
        // Wait for the next scrape.
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// The rules are loaded and evaluate, and the series that they record have data.
fn rules(prometheus: &Prometheus) -> Result<()> {
    let rules = prometheus.rules()?;
    ensure!(rules.len() >= 20, "{rules:?}");
    let sick: Vec<_> = rules.iter().filter(|(_, health, _)| health != "ok").collect();
    ensure!(sick.is_empty(), "rules that don't evaluate: {sick:?}");
    let recorded = rules.iter().filter(|(name, _, _)| name.contains(':'));
    let recorded: Vec<Query> =
        recorded.map(|(name, _, _)| Query { panel: "recorded".to_owned(), expr: name.clone() }).collect();
    ensure!(!recorded.is_empty(), "nothing is recorded: {rules:?}");
    await_all(recorded, |query| Ok(!prometheus.query(&query.expr)?.is_empty()))?;
    let firing = prometheus.query("ALERTS{alertname=\"ThermaeNoLeader\", alertstate=\"firing\"}")?;
    ensure!(firing.is_empty(), "an alert fires that has no reason to");
    Ok(())
}

/// Kills the worker that runs a job. The job is lost, and the scheduler has something to resolve.
fn lose_a_job(fleet: &Fleet) -> Result<()> {
    let client = fleet.acme.client();
    let job = Job { stream: vec![Stream::Lifecycle], ..Job::python("import time\ntime.sleep(600)") };
    let job = limited(job, 300_000);
    let (handle, worker) = fleet.runtime.block_on(async {
        let mut handle = client.submit(job, None).await?;
        let mut events = handle.events();
        loop {
            match tokio::time::timeout(Duration::from_secs(60), events.next()).await?.map(|event| event.body) {
                Some(EventBody::Started { worker }) => return anyhow::Ok((handle, worker)),
                Some(EventBody::Result(outcome)) => bail!("it should run on: {outcome:?}"),
                Some(_) => {}
                None => bail!("the events ended"),
            }
        }
    })?;
    fleet.kill_worker(&worker)?;
    let outcome = fleet
        .runtime
        .block_on(async { anyhow::Ok(tokio::time::timeout(Duration::from_secs(60), handle.result()).await??) })?;
    ensure!(outcome.status == Status::Lost, "{outcome:?}");
    Ok(())
}

/// A tenant that may have one job handed out, and has submitted two. One runs. The other is sent back whenever it is
/// tried, which happens each time that any job ends. (A pool without credit at the moment when the scheduler asks is a
/// race that no load can force.)
struct Bounded {
    jobs: Vec<JobHandle>,
    /// The handles need this connection.
    _globex: thermae_fleet::Fleet,
}

impl Bounded {
    fn start(fleet: &Fleet) -> Result<Self> {
        fleet.runtime.block_on(async {
            let globex = thermae_fleet::Fleet::connect(fleet.servers.globex.as_str()).await?;
            let mut jobs = Vec::new();
            for _ in 0..2 {
                let job = limited(Job::python("import time\ntime.sleep(600)"), 300_000);
                jobs.push(globex.client().submit(job, None).await?);
            }
            Ok(Self { jobs, _globex: globex })
        })
    }

    fn end(self, fleet: &Fleet) -> Result<()> {
        fleet.runtime.block_on(async {
            for handle in &self.jobs {
                handle.cancel().await?;
                let outcome = tokio::time::timeout(Duration::from_secs(60), handle.result()).await??;
                ensure!(outcome.status == Status::Cancelled, "{outcome:?}");
            }
            Ok(())
        })
    }
}
