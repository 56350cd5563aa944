//! Messages that are not jobs: who pays for them, and who waits for them.

use thermae_scheduler::Options;
use thermae_schemas::{Cancel, JobId, Status, names};
use thermae_service::units::{ByteSize, Millis};

use crate::fleet::{Servers, depth, job, options, soon};
use crate::raw::submit_raw;

const REST: &str = "submit.acme.rest";

/// With this option, it takes more than an hour to pay for a message. 16 seconds' worth are free.
fn dear() -> Options {
    Options { refused_bytes: ByteSize::bytes(1), ..options() }
}

fn cancel_of(id: &str) -> Vec<u8> {
    serde_json::to_vec(&Cancel::new(JobId::new(id).unwrap())).unwrap()
}

#[tokio::test]
async fn a_tenant_that_sends_too_much_beside_jobs_waits_alone() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(dear()).await;
    let _order = servers.worker("w1", 4).await.work("ran\n").await;
    let (acme, globex) = (servers.client("acme").await, servers.client("globex").await);
    soon(acme.submit(job("first"), None).await.unwrap().result()).await.unwrap();
    submit_raw(&servers, "acme.cancel", &cancel_of("nobody"), "acme.c", None).await;
    depth(&servers, REST, |d| d == Some(0)).await;
    // One message is taken, and the others wait until it is paid for.
    for n in 0..4 {
        submit_raw(&servers, "acme.cancel", &cancel_of(&format!("nobody{n}")), "acme.c", None).await;
    }
    depth(&servers, REST, |d| d == Some(2)).await;
    assert_eq!(servers.bus.queue_depth(names::UNROUTED_QUEUE).await.unwrap(), Some(0));
    // The tenant's jobs don't wait, and another tenant is served at once.
    let next = acme.submit(job("next"), None).await.unwrap();
    assert_eq!(soon(next.result()).await.unwrap().stdout, "ran\n");
    let mut nowhere = job("nowhere");
    nowhere.pool = thermae_schemas::PoolName::new("nowhere").unwrap();
    let refused = globex.submit(nowhere, None).await.unwrap();
    assert_eq!(soon(refused.result()).await.unwrap().status, Status::Rejected);
    // The next scheduler, whose allowances are new, finds the queue.
    scheduler.stop().await;
    let scheduler = servers.scheduler(options()).await;
    depth(&servers, REST, |d| d == Some(0)).await;
    scheduler.stop().await;
}

#[tokio::test]
async fn a_queue_for_all_but_jobs_goes_when_it_is_idle() {
    let servers = Servers::new();
    let options = Options { lane_idle: Millis::from_secs(1), refused_bytes: ByteSize::bytes(250), ..options() };
    let scheduler = servers.scheduler(options).await;
    soon(scheduler.health.wait_ready()).await;
    for round in 0..3 {
        // With this option, the 4 KiB of a message cost 16.4 s, and 16 s are free.
        submit_raw(&servers, "acme.cancel", &cancel_of(&format!("nobody{round}")), "acme.c", None).await;
        depth(&servers, REST, |d| d.is_some()).await;
        depth(&servers, REST, |d| d.is_none()).await;
    }
    scheduler.stop().await;
}
