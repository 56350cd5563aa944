//! Outages of the broker, on a bus that fails when the test says so.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use thermae_backplane::bus::{self, Bus, Confirm, Consumer, Error, ExchangeSpec, Message, QueueSpec};
use thermae_client::{Client, Options};
use thermae_schemas::names;

use super::{Fleet, job, quick, soon, tenant};

/// How the next publish fails.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// Before it was sent.
    Unsent,
    /// The message arrived, but the confirm was lost.
    ConfirmLost,
    /// The queue was full.
    Refused,
}

struct Faulty {
    inner: bus::Local,
    faults: Mutex<Vec<Fault>>,
    consumed: AtomicU32,
}

#[async_trait]
impl Bus for Faulty {
    async fn unbind_queue(&self, spec: &QueueSpec) -> Result<(), Error> {
        self.inner.unbind_queue(spec).await
    }
    async fn queue_consumers(&self, queue: &str) -> Result<Option<u64>, Error> {
        self.inner.queue_consumers(queue).await
    }
    async fn declare_exchange(&self, spec: &ExchangeSpec) -> Result<(), Error> {
        self.inner.declare_exchange(spec).await
    }
    async fn declare_queue(&self, spec: &QueueSpec) -> Result<(), Error> {
        self.inner.declare_queue(spec).await
    }
    async fn delete_queue(&self, queue: &str) -> Result<(), Error> {
        self.inner.delete_queue(queue).await
    }
    async fn queue_depth(&self, queue: &str) -> Result<Option<u64>, Error> {
        self.inner.queue_depth(queue).await
    }
    async fn publish(&self, message: Message) -> Result<Confirm, Error> {
        let fault = self.faults.lock().unwrap().pop();
        let (exchange, key) = (message.exchange.clone(), message.key.clone());
        match fault {
            None => self.inner.publish(message).await,
            Some(Fault::Unsent) => Err(Error::Disconnected("unsent".to_owned())),
            Some(Fault::Refused) => Ok(Confirm::new(async { Err(Error::Refused { exchange, key }) })),
            Some(Fault::ConfirmLost) => {
                self.inner.publish(message).await?.wait().await?;
                Ok(Confirm::new(async { Err(Error::Disconnected("confirm lost".to_owned())) }))
            }
        }
    }
    async fn flush(&self) -> Result<(), Error> {
        self.inner.flush().await
    }
    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, Error> {
        self.consumed.fetch_add(1, Ordering::Relaxed);
        self.inner.consume(queue, prefetch).await
    }
    fn user(&self) -> &str {
        self.inner.user()
    }
    fn is_connected(&self) -> bool {
        self.inner.is_connected()
    }
    async fn close(&self) {
        self.inner.close().await;
    }
}

async fn client(fleet: &Fleet, faults: Vec<Fault>) -> (Client, Arc<Faulty>) {
    client_with(fleet, faults, quick()).await
}

async fn client_with(fleet: &Fleet, mut faults: Vec<Fault>, options: Options) -> (Client, Arc<Faulty>) {
    faults.reverse();
    let bus =
        Arc::new(Faulty { inner: fleet.bus.as_user("acme"), faults: Mutex::new(faults), consumed: AtomicU32::new(0) });
    (Client::connect(bus.clone(), tenant(), options).await.unwrap(), bus)
}

#[tokio::test]
async fn what_was_never_sent_is_repeated_unmarked() {
    let mut fleet = Fleet::new().await;
    let (client, _) = client(&fleet, vec![Fault::Unsent, Fault::Unsent]).await;
    client.submit(job("j"), None).await.unwrap();
    assert!(!fleet.take().await.headers.flag(names::H_RESEND));
}

#[tokio::test]
async fn what_may_have_arrived_is_repeated_with_a_mark() {
    let mut fleet = Fleet::new().await;
    let (client, _) = client(&fleet, vec![Fault::ConfirmLost, Fault::Unsent]).await;
    let handle = client.submit(job("j"), None).await.unwrap();
    let (first, second) = (fleet.take().await, fleet.take().await);
    assert!(!first.headers.flag(names::H_RESEND) && second.headers.flag(names::H_RESEND));
    // The fleet answers both copies; the client reports one result.
    fleet.end(&first, "once").await;
    fleet.end(&second, "once").await;
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "once");
}

#[tokio::test]
async fn a_queue_that_stays_full_is_an_error() {
    let mut fleet = Fleet::new().await;
    let options = Options { full_after: Duration::from_millis(20), ..quick() };
    let (client, bus) = client_with(&fleet, vec![Fault::Refused; 1000], options).await;
    let error = soon(client.submit(job("j"), None)).await.unwrap_err();
    assert_eq!(error.to_string(), "the queue of your tenant is full; try later");
    bus.faults.lock().unwrap().clear();
    // The same job can be submitted again.
    client.submit(job("j"), None).await.unwrap();
    assert!(!fleet.take().await.headers.flag(names::H_RESEND));
}

#[tokio::test]
async fn what_is_refused_for_a_moment_is_repeated_with_a_mark() {
    let mut fleet = Fleet::new().await;
    let (client, _) = client(&fleet, vec![Fault::Refused, Fault::Refused]).await;
    client.submit(job("j"), None).await.unwrap();
    assert!(fleet.take().await.headers.flag(names::H_RESEND));
}

#[tokio::test]
async fn a_full_queue_is_no_error_for_what_may_have_arrived() {
    let mut fleet = Fleet::new().await;
    let (client, _) = client(&fleet, vec![Fault::ConfirmLost, Fault::Refused]).await;
    client.submit(job("j"), None).await.unwrap();
    let (first, second) = (fleet.take().await, fleet.take().await);
    assert!(!first.headers.flag(names::H_RESEND) && second.headers.flag(names::H_RESEND));
}

#[tokio::test]
async fn a_reply_queue_that_is_gone_is_declared_anew() {
    let mut fleet = Fleet::new().await;
    let (client, bus) = client(&fleet, Vec::new()).await;
    let handle = client.submit(job("j"), None).await.unwrap();
    let message = fleet.take().await;
    fleet.bus.delete_queue(&names::reply_queue(&tenant(), client.id())).await.unwrap();
    soon(async {
        while bus.consumed.load(Ordering::Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    fleet.end(&message, "after all").await;
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "after all");
}

#[tokio::test]
async fn a_result_that_was_lost_with_its_queue_is_asked_for_again() {
    let mut fleet = Fleet::new().await;
    let (client, _) = client(&fleet, Vec::new()).await;
    let handle = client.submit(job("j"), None).await.unwrap();
    let first = fleet.take().await;
    // Every event in the queue is lost with it.
    fleet.bus.delete_queue(&names::reply_queue(&tenant(), client.id())).await.unwrap();
    let again = soon(fleet.take()).await;
    assert!(again.headers.flag(names::H_RESEND) && again.body == first.body);
    assert_eq!(again.headers.int(names::H_SUBMITTED), first.headers.int(names::H_SUBMITTED));
    fleet.end(&again, "as before").await;
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "as before");
}
