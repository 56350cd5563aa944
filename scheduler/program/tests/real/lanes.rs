//! Many tenants on a real RabbitMQ: every lane is served, and the memory that they cost is printed. `cargo xtask lanes`
//! runs this with more tenants.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use thermae_backplane::bus::Message;
use thermae_schemas::{Class, ClientId, Job, TenantName, names};

use crate::fleet::{Servers, job, options, pool, soon, tenant};
use crate::{Set, servers};

/// Publishes that wait for a confirm at once.
const AT_ONCE: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lane_of_many_tenants_is_served() {
    let tenants: usize = std::env::var("THERMAE_LANES_TENANTS").map_or(100, |n| n.parse().unwrap());
    let (set, facts) = tokio::task::spawn_blocking(Set::up).await.unwrap();
    let (set, servers) = (Arc::new(set), servers(&facts).await);
    let scheduler = servers.scheduler(options()).await;
    soon(scheduler.health.wait_ready()).await;
    let mut order = servers.worker("w1", 64).await.work("").await;
    let before = (resident("self"), broker(&set.name));
    let began = Instant::now();
    let submits = (0..tenants).flat_map(|n| Class::ALL.map(|class| (tenant(&format!("t{n}")), class)));
    let sent = submits.map(|(tenant, class)| {
        let id = format!("{tenant}-{}", class.as_str());
        submit(&servers, tenant, class, id)
    });
    let lanes = tenants * Class::ALL.len();
    assert_eq!(futures::stream::iter(sent).buffer_unordered(AT_ONCE).count().await, lanes);
    let mut ran = std::collections::HashSet::new();
    while ran.len() < lanes {
        let next = tokio::time::timeout(Duration::from_secs(60), order.recv()).await;
        let (_, id) = next.unwrap_or_else(|_| panic!("{} of {lanes} lanes were served", ran.len())).unwrap();
        assert!(ran.insert(id.clone()), "{id} ran twice");
    }
    assert_eq!(scheduler.metric("thermae_scheduler_lanes", ""), lanes as f64);
    let after = (resident("self"), broker(&set.name));
    println!(
        "{lanes} lanes of {tenants} tenants served in {:.1} s; scheduler with its test {} MiB (before: {}), RabbitMQ {} MiB (before: {})",
        began.elapsed().as_secs_f64(),
        after.0,
        before.0,
        after.1,
        before.1,
    );
    scheduler.stop().await;
}

/// Publishes a job, and waits until the broker has confirmed it. Nobody gets its result.
pub(crate) fn submit(servers: &Servers, tenant: TenantName, class: Class, id: String) -> impl Future<Output = ()> {
    let job = Job { class, ..job(&id) };
    let mut message = Message {
        exchange: names::SUBMIT.to_owned(),
        key: names::submit_key(&tenant, class, &pool()),
        body: serde_json::to_vec(&job).unwrap().into(),
        message_id: Some(id),
        // Nothing is bound to this reply key.
        reply_to: Some(names::reply_key(&tenant, &ClientId::random())),
        mandatory: true,
        persistent: true,
        ..Message::default()
    };
    let bus = servers.bus.clone();
    message.sign(bus.as_ref(), &tenant);
    async move { bus.publish(message).await.unwrap().wait().await.unwrap() }
}

/// Resident memory of a process, in MiB.
fn resident(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 1024
}

/// Resident memory of the broker of this set, in MiB.
fn broker(set: &str) -> u64 {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    let pids = processes.filter_map(|name| name.into_string().ok()).filter(|name| name.parse::<u32>().is_ok());
    let of_set = pids.filter(|pid| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        command.contains("beam") && command.contains(set)
    });
    of_set.map(|pid| resident(&pid)).max().unwrap_or(0)
}
