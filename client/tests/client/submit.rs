//! Submitting, following and cancelling jobs.

use std::sync::Arc;

use thermae_backplane::bus::{self, Bus, SharedBus};
use thermae_client::{Client, Error};
use thermae_schemas::{Cancel, EventBody, Job, names};

use super::{Fleet, job, quick, soon, tenant};

#[tokio::test]
async fn a_job_leaves_as_the_contract_says() {
    let mut fleet = Fleet::new().await;
    let client = fleet.client().await;
    let handle = client.submit(job("j"), None).await.unwrap();
    let message = fleet.take().await;
    assert_eq!((message.exchange.as_str(), message.key.as_str()), ("submit", "acme.normal.default"));
    assert_eq!(message.message_id.as_deref(), Some("j"));
    assert_eq!(message.reply_to, Some(names::reply_key(&tenant(), client.id())));
    assert!(message.persistent && message.correlation_id.is_some());
    assert_eq!((message.user_id.as_deref(), message.headers.text(names::H_TENANT)), (Some("acme"), None));
    assert!(message.headers.int(names::H_SUBMITTED).is_some() && !message.headers.flag(names::H_RESEND));
    assert_eq!(serde_json::from_slice::<Job>(&message.body).unwrap(), job("j"));
    fleet.end(&message, "done\n").await;
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "done\n");
}

#[tokio::test]
async fn without_a_scheduler_there_is_an_error() {
    let empty: SharedBus = Arc::new(bus::Local::new());
    let error = Client::connect(empty, tenant(), quick()).await.unwrap_err();
    assert!(matches!(error, Error::NoScheduler), "{error:?}");

    // The exchanges are there, but the queue behind them is gone.
    let fleet = Fleet::new().await;
    let client = fleet.client().await;
    fleet.bus.delete_queue("submit.acme.normal.default").await.unwrap();
    fleet.bus.delete_queue(names::UNROUTED_QUEUE).await.unwrap();
    let error = client.submit(job("j"), None).await.unwrap_err();
    assert_eq!(error.to_string(), "no scheduler serves this fleet (the exchange `submit` leads to no queue)");
    // The failed submit is forgotten, so the same id can be tried again.
    assert!(matches!(client.submit(job("j"), None).await.unwrap_err(), Error::NoScheduler));
}

#[tokio::test]
async fn events_come_in_order_and_end_with_the_first_result() {
    let mut fleet = Fleet::new().await;
    let client = fleet.client().await;
    let mut handle = client.submit(job("j"), None).await.unwrap();
    let message = fleet.take().await;
    let out = |seq| EventBody::Stdout { seq, text: format!("line {seq}\n") };
    for seq in 0..3 {
        fleet.tell(&message, out(seq)).await;
    }
    fleet.end(&message, "first").await;
    fleet.end(&message, "second").await;
    let mut events = handle.events();
    for seq in 0..3 {
        assert_eq!(soon(events.next()).await.unwrap().body, out(seq));
    }
    let EventBody::Result(outcome) = soon(events.next()).await.unwrap().body else { panic!() };
    assert_eq!(outcome.stdout, "first");
    assert!(soon(events.next()).await.is_none());
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "first");
    // Events of jobs that nobody waits for do no harm.
    let next = client.submit(job("k"), None).await.unwrap();
    let message = fleet.take().await;
    fleet.end(&message, "k").await;
    assert_eq!(soon(next.result()).await.unwrap().stdout, "k");
}

#[tokio::test]
async fn a_reader_that_sleeps_bounds_the_memory_and_loses_no_result() {
    let mut fleet = Fleet::new().await;
    let client = fleet.client().await;
    let mut handle = client.submit(job("j"), None).await.unwrap();
    let message = fleet.take().await;
    for seq in 0..100 {
        fleet.tell(&message, EventBody::Stdout { seq, text: String::new() }).await;
    }
    fleet.end(&message, "all of it").await;
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "all of it");
    let mut events = handle.events();
    let mut seen = Vec::new();
    while let Some(event) = soon(events.next()).await {
        seen.push(event.body);
    }
    assert_eq!(seen.len(), 4 + 1, "the buffer's worth, and the result");
    assert!(matches!(seen.last(), Some(EventBody::Result(_))));
}

#[tokio::test]
async fn one_id_is_one_job() {
    let mut fleet = Fleet::new().await;
    let client = fleet.client().await;
    let first = client.submit(job("j"), None).await.unwrap();
    assert!(matches!(client.submit(job("j"), None).await.unwrap_err(), Error::AlreadySubmitted(_)));
    let message = fleet.take().await;
    fleet.end(&message, "1").await;
    soon(first.result()).await.unwrap();
    client.submit(job("j"), None).await.unwrap();
}

#[tokio::test]
async fn a_cancel_reaches_the_fleet() {
    let fleet = Fleet::new().await;
    let client = fleet.client().await;
    let handle = client.submit(job("j"), None).await.unwrap();
    handle.cancel().await.unwrap();
    let mut arrived = fleet.bus.consume(names::UNROUTED_QUEUE, 1).await.unwrap();
    let message = soon(arrived.next()).await.unwrap().message;
    assert_eq!(message.key, "acme.cancel");
    assert_eq!(serde_json::from_slice::<Cancel>(&message.body).unwrap().job, *handle.id());
    assert_eq!(message.reply_to, Some(names::reply_key(&tenant(), client.id())));
}

#[tokio::test]
async fn a_client_that_is_dropped_ends_its_handles_and_one_that_is_closed_its_queue() {
    let fleet = Fleet::new().await;
    let client = fleet.client().await;
    let handle = client.submit(job("j"), None).await.unwrap();
    drop(client);
    assert!(matches!(soon(handle.result()).await.unwrap_err(), Error::Closed));

    let client = fleet.client().await;
    let queue = names::reply_queue(&tenant(), client.id());
    assert!(fleet.bus.queue_depth(&queue).await.unwrap().is_some());
    soon(client.close()).await;
    assert_eq!(fleet.bus.queue_depth(&queue).await.unwrap(), None);
    assert!(matches!(client.submit(job("k"), None).await.unwrap_err(), Error::Closed));
}
