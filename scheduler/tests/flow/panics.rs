//! Parts of a scheduler that fail: the scheduler reports that, gives up its lead and starts over. It never goes on
//! without one of its parts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thermae_backplane::bus::SharedBus;
use thermae_backplane::registry::Error;
use thermae_scheduler::Service;
use thermae_service::http::Health;
use tokio_util::sync::CancellationToken;

use crate::faulty::Faulty;
use crate::fleet::{Servers, job, options, soon};

#[tokio::test]
async fn a_dispatcher_that_panics_gives_up_the_lead_and_no_job_waits_for_ever() {
    let registry = Arc::new(Faulty::default());
    let servers = Servers::on(registry.clone());
    let scheduler = servers.scheduler(options()).await;
    let _order = servers.worker("w1", 1).await.work("ran\n").await;
    let client = servers.client("acme").await;
    registry.admissions.store(1, Ordering::SeqCst);
    let handle = client.submit(job("j"), None).await.unwrap();
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "ran\n");
    assert_eq!(scheduler.metric("thermae_scheduler_panics_total", ""), 1.0);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_part_that_panics_at_once_leaves_the_lead_to_others() {
    let registry = Arc::new(Faulty::default());
    registry.looks.store(3, Ordering::SeqCst);
    let servers = Servers::on(registry.clone());
    let (a, b) = (servers.scheduler(options()).await, servers.scheduler(options()).await);
    let _order = servers.worker("w1", 1).await.work("ran\n").await;
    let client = servers.client("acme").await;
    let handle = client.submit(job("j"), None).await.unwrap();
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "ran\n");
    soon(async {
        while registry.looks.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let (in_a, in_b) = (a.metric("thermae_scheduler_panics_total", ""), b.metric("thermae_scheduler_panics_total", ""));
    assert_eq!(in_a + in_b, 3.0);
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn a_scheduler_that_cannot_read_the_registry_ends_with_an_error() {
    let registry = Arc::new(Faulty::default());
    registry.corrupt.store(true, Ordering::SeqCst);
    let bus: SharedBus = Arc::new(thermae_backplane::bus::Local::new());
    let metrics = prometheus::Registry::new();
    let service = Service::new(options(), bus, registry, &metrics, Health::new()).unwrap();
    let ended = soon(service.run(CancellationToken::new())).await;
    assert!(matches!(ended, Err(thermae_scheduler::Error::Registry(Error::Corrupt(_)))), "{ended:?}");
}
