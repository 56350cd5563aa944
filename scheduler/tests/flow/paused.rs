//! A scheduler that pauses in the middle of a step, for so long that another one leads afterwards.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use thermae_backplane::bus::{Bus, Confirm, Consumer, Error, ExchangeSpec, Message, QueueSpec, SharedBus};
use thermae_backplane::registry::{Local, Registry};
use thermae_scheduler::Options;
use thermae_schemas::Class;
use thermae_service::units::Millis;

use crate::faulty::Faulty;
use crate::fleet::{Servers, job, options, soon};

/// A bus with two connections, like the real one: one consumes, and the other does everything else.
struct Two {
    consuming: SharedBus,
    rest: SharedBus,
    /// Runs once, between the question for the depth of this queue and the answer.
    meanwhile: Mutex<Option<(String, BoxFuture<'static, ()>)>>,
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
        let depth = self.rest.queue_depth(queue).await;
        let meanwhile = self.meanwhile.lock().unwrap().take_if(|(name, _)| name == queue);
        if let Some((_, meanwhile)) = meanwhile {
            meanwhile.await;
        }
        depth
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
    let two: SharedBus =
        Arc::new(Two { consuming: consuming.clone(), rest: (servers.connect)().await, meanwhile: Mutex::default() });
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
    let two = Arc::new(Two {
        consuming: (servers.connect)().await,
        rest: (servers.connect)().await,
        meanwhile: Mutex::new(Some((name, meanwhile.boxed()))),
    });
    let pausing = Servers {
        connect: Arc::new(move || {
            let two: SharedBus = two.clone();
            Box::pin(async move { two })
        }),
        ..servers.clone()
    };
    let scheduler = pausing.scheduler(options).await;
    let first = client.submit(job("first"), None).await.unwrap();
    soon(first.result()).await.unwrap();
    let handle = soon(handle.recv()).await.unwrap();
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "ran\n", "it was deleted with its queue");
    scheduler.stop().await;
}
