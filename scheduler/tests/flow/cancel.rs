//! Cancels of jobs that wait, run or have ended.

use thermae_backplane::record::Start;
use thermae_schemas::{Cancel, Status, names};

use crate::fleet::{Servers, depth, job, options, soon};

#[tokio::test]
async fn a_job_that_waits_never_runs() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let client = servers.client("acme").await;
    let handle = client.submit(job("j"), None).await.unwrap();
    handle.cancel().await.unwrap();
    let outcome = soon(handle.result()).await.unwrap();
    assert_eq!(outcome.status, Status::Cancelled);
    // A worker comes, and doesn't get the cancelled job.
    let mut order = servers.worker("w1", 1).await.work("ran\n").await;
    let next = client.submit(job("next"), None).await.unwrap();
    assert_eq!(soon(next.result()).await.unwrap().stdout, "ran\n");
    assert_eq!(order.recv().await.unwrap().1, "next");
    assert!(order.try_recv().is_err());
    scheduler.stop().await;
}

#[tokio::test]
async fn a_job_that_was_handed_out_and_not_started_never_runs() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w1", 1).await;
    let client = servers.client("acme").await;
    let handle = client.submit(job("j"), None).await.unwrap();
    let mut jobs = worker.take().await;
    let assigned = soon(jobs.recv()).await.unwrap();
    handle.cancel().await.unwrap();
    assert_eq!(soon(handle.result()).await.unwrap().status, Status::Cancelled);
    assert!(matches!(worker.start(&assigned).await, Start::Terminal(_)));
    scheduler.stop().await;
}

#[tokio::test]
async fn a_job_that_runs_is_ended_by_its_worker() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w1", 1).await;
    let client = servers.client("acme").await;
    let handle = client.submit(job("j"), None).await.unwrap();
    let mut jobs = worker.take().await;
    let running = soon(jobs.recv()).await.unwrap();
    assert_eq!(worker.start(&running).await, Start::Go);
    let mut control = servers.bus.consume(&names::control_queue(&worker.id), 1).await.unwrap();
    handle.cancel().await.unwrap();
    let told = soon(control.next()).await.unwrap();
    assert_eq!(told.message.headers.text(names::H_TENANT), Some("acme"));
    let cancel: Cancel = serde_json::from_slice(&told.message.body).unwrap();
    assert_eq!(cancel.job.as_str(), "j");
    // This worker ignores the cancel and lets the job end.
    worker.finish(&running, "too late\n").await;
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "too late\n");
    // The cancel of a job that has ended changes nothing.
    handle.cancel().await.unwrap();
    depth(&servers, names::UNROUTED_QUEUE, |d| d == Some(0)).await;
    scheduler.stop().await;
}
