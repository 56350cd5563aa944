//! How much of the worker's memory the JSON of a job takes. The test is alone in its process, because it measures the
//! process's peak.

#![allow(dead_code, unreachable_pub, reason = "a fleet's harness, of which this needs little")]

#[path = "fleet/fake.rs"]
mod fake;
#[path = "fleet/harness.rs"]
mod harness;

use std::sync::Arc;

use fake::{Fake, Script};
use harness::{Fleet, options, pool_name, python};
use thermae_schemas::{Job, Stream, ToolSpec};
use thermae_service::units::ByteSize;

/// Two million times `{"":0},`: 14 MB of JSON, and well above a gigabyte as a tree.
const MANY: usize = 2_000_000;

/// The worker, the scripted runner and the client are one process here. Each has at most a few copies of the message.
const AT_MOST: usize = 12 * 7 * MANY;

fn field(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// How much the process grows at its peak while this runs, in bytes.
async fn growth(what: impl Future<Output = ()>) -> usize {
    // Resets the peak.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = field("VmRSS");
    what.await;
    field("VmHWM").saturating_sub(before)
}

fn job(code: &str, n: usize) -> Job {
    let mut job = python(&format!("{code} {n}"));
    job.stream = vec![Stream::Display];
    job.tools = vec![ToolSpec::new("look")];
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn json_of_a_job_is_never_a_tree() {
    let mut fleet = Fleet::new().await;
    let mut options = options();
    options.pools.get_mut(&pool_name()).unwrap().bounds.display_bytes = ByteSize::mib(64);
    let worker = fleet.start(options, fleet.registry.clone(), Some(Arc::new(Fake(Script::new())))).await;
    // More values than a bundle may have, and then fewer: `MANY / 5` pass.
    for (code, n) in [("value", MANY), ("show", MANY), ("call", MANY), ("value", MANY / 5), ("show", MANY / 5)] {
        let job = job(code, n);
        let grown = growth(async {
            fleet.submit(&job).await;
            while !fleet.raw().await.windows(16).any(|w| w == br#""event":"result""#) {}
        })
        .await;
        println!("{code} {n}: {} MiB", grown >> 20);
        assert!(grown < AT_MOST, "{code} {n}: the process grew by {} MiB", grown >> 20);
    }
    worker.end().await;
}
