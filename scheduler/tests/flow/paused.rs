//! A scheduler that pauses in the middle of a step, for so long that another one leads afterwards.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use thermae_backplane::bus::QueueSpec;
use thermae_backplane::registry::{Local, Registry};
use thermae_scheduler::Options;
use thermae_schemas::Class;
use thermae_service::units::Millis;

use crate::faulty::Faulty;
use crate::faulty_bus::FaultyBus;
use crate::fleet::{Servers, job, options, soon};

#[tokio::test]
async fn a_scheduler_hands_out_nothing_that_the_broker_took_back_meanwhile() {
    let registry = Arc::new(Local::new());
    let servers = Servers::on(registry.clone());
    let faulty = Arc::new(Faulty { inner: registry.clone(), ..Faulty::default() });
    let two = Arc::new(FaultyBus::new(&servers).await);
    let consuming = two.consuming.clone();
    let pausing = Servers { registry: faulty.clone(), ..two.in_place_of(&servers) };
    let worker = servers.worker("w1", 1).await;
    let client = servers.client("acme").await;
    let paused = pausing.scheduler(options()).await;
    soon(paused.health.wait_ready()).await;
    let gate = faulty.gate.lock().await;
    let handle = client.submit(job("j"), None).await.unwrap();
    soon(async {
        while faulty.asked.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    // Neither broker nor registry hears from the paused scheduler any more, and another one leads.
    consuming.close().await;
    let other = servers.scheduler(options()).await;
    let mut order = worker.work("once\n").await;
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "once\n");
    assert!(order.try_recv().is_ok());
    registry.empty();
    // The paused scheduler goes on. The registry knows nothing of the job.
    drop(gate);
    paused.stop().await;
    let _beats = servers.worker("w1", 1).await;
    let handle = client.submit(job("after"), None).await.unwrap();
    soon(handle.result()).await.unwrap();
    let ran: Vec<String> = std::iter::from_fn(|| order.try_recv().ok()).map(|(_, id)| id.to_string()).collect();
    assert_eq!(ran, ["after"], "it ran twice");
    other.stop().await;
}

#[tokio::test]
async fn a_scheduler_that_leads_no_more_deletes_no_lane() {
    let registry = Arc::new(Local::new());
    let servers = Servers::on(registry.clone());
    let _order = servers.worker("w1", 1).await.work("ran\n").await;
    let client = Arc::new(servers.client("acme").await);
    let (sent, mut handle) = tokio::sync::mpsc::channel(1);
    let lane = QueueSpec::submit(client.tenant(), Class::Normal, &crate::fleet::pool());
    let (bus, other) = ((servers.connect)().await, client.clone());
    let (name, options) = (lane.name.clone(), Options { lane_idle: Millis::from_millis(100), ..options() });
    let lead_ttl = options.lead_ttl.duration();
    let meanwhile = async move {
        // The whole process pauses.
        std::thread::sleep(lead_ttl);
        // Another scheduler leads and serves the lane, and a job comes.
        assert!(registry.lead("main", "another", lead_ttl).await.unwrap());
        bus.declare_queue(&lane).await.unwrap();
        sent.send(other.submit(job("meanwhile"), None).await.unwrap()).await.unwrap();
    };
    let two = Arc::new(FaultyBus {
        meanwhile: Mutex::new(Some((name, meanwhile.boxed()))),
        ..FaultyBus::new(&servers).await
    });
    let scheduler = two.in_place_of(&servers).scheduler(options).await;
    let first = client.submit(job("first"), None).await.unwrap();
    soon(first.result()).await.unwrap();
    let handle = soon(handle.recv()).await.unwrap();
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "ran\n", "it was deleted with its queue");
    scheduler.stop().await;
}
