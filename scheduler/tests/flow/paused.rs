//! A scheduler that pauses while it hands a job out, for so long that another one has the job by then.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use thermae_backplane::bus::{Bus, Confirm, Consumer, Error, ExchangeSpec, Message, QueueSpec, SharedBus};
use thermae_backplane::registry::Local;

use crate::faulty::Faulty;
use crate::fleet::{Servers, job, options, soon};

/// As a process has it: what it consumes comes on one connection, all else goes over another.
struct Two {
    consuming: SharedBus,
    rest: SharedBus,
}

#[async_trait]
impl Bus for Two {
    async fn unbind_queue(&self, spec: &QueueSpec) -> Result<(), Error> {
        self.rest.unbind_queue(spec).await
    }
    async fn queue_consumers(&self, queue: &str) -> Result<Option<u64>, Error> {
        self.rest.queue_consumers(queue).await
    }
    async fn declare_exchange(&self, spec: &ExchangeSpec) -> Result<(), Error> {
        self.rest.declare_exchange(spec).await
    }
    async fn declare_queue(&self, spec: &QueueSpec) -> Result<(), Error> {
        self.rest.declare_queue(spec).await
    }
    async fn delete_queue(&self, queue: &str) -> Result<(), Error> {
        self.rest.delete_queue(queue).await
    }
    async fn queue_depth(&self, queue: &str) -> Result<Option<u64>, Error> {
        self.rest.queue_depth(queue).await
    }
    async fn publish(&self, message: Message) -> Result<Confirm, Error> {
        self.rest.publish(message).await
    }
    async fn flush(&self) -> Result<(), Error> {
        self.rest.flush().await
    }
    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, Error> {
        self.consuming.consume(queue, prefetch).await
    }
    fn user(&self) -> &str {
        self.rest.user()
    }
    fn is_connected(&self) -> bool {
        self.rest.is_connected()
    }
    async fn close(&self) {
        self.consuming.close().await;
        self.rest.close().await;
    }
}

#[tokio::test]
async fn a_scheduler_hands_out_nothing_that_the_broker_took_back_meanwhile() {
    let registry = Arc::new(Local::new());
    let servers = Servers::on(registry.clone());
    let faulty = Arc::new(Faulty { inner: registry.clone(), ..Faulty::default() });
    let consuming = (servers.connect)().await;
    let two: SharedBus = Arc::new(Two { consuming: consuming.clone(), rest: (servers.connect)().await });
    let pausing = Servers {
        registry: faulty.clone(),
        connect: Arc::new(move || {
            let two = two.clone();
            Box::pin(async move { two })
        }),
        ..servers.clone()
    };
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
    // Broker and registry hear nothing of it any more: another one leads.
    consuming.close().await;
    let other = servers.scheduler(options()).await;
    let mut order = worker.work("once\n").await;
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "once\n");
    assert!(order.try_recv().is_ok());
    registry.empty();
    // It goes on as if nothing were: the registry knows of nothing.
    drop(gate);
    paused.stop().await;
    let _beats = servers.worker("w1", 1).await;
    let handle = client.submit(job("after"), None).await.unwrap();
    soon(handle.result()).await.unwrap();
    let ran: Vec<String> = std::iter::from_fn(|| order.try_recv().ok()).map(|(_, id)| id.to_string()).collect();
    assert_eq!(ran, ["after"], "it ran twice");
    other.stop().await;
}
