//! A bus whose faults the test controls.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::future::BoxFuture;
use thermae_backplane::bus::{Bus, Confirm, Consumer, Error, ExchangeSpec, Message, QueueSpec, SharedBus};
use thermae_schemas::names;

use crate::faulty::count_down;
use crate::fleet::{Servers, pool};

/// A bus with two connections, like the real one: one consumes, and the other does everything else.
pub(crate) struct FaultyBus {
    pub(crate) consuming: SharedBus,
    pub(crate) rest: SharedBus,
    /// Runs once, between the question for the depth of this queue and the answer.
    pub(crate) meanwhile: Mutex<Option<(String, BoxFuture<'static, ()>)>>,
    /// How many of the next jobs for a pool are not sent, as if the connection had just been lost.
    pub(crate) unsent: AtomicU32,
}

impl FaultyBus {
    /// A bus without faults.
    pub(crate) async fn new(servers: &Servers) -> Self {
        Self {
            consuming: (servers.connect)().await,
            rest: (servers.connect)().await,
            meanwhile: Mutex::default(),
            unsent: AtomicU32::new(0),
        }
    }

    /// The same servers, but connections to the bus are this one.
    pub(crate) fn in_place_of(self: &Arc<Self>, servers: &Servers) -> Servers {
        let bus: SharedBus = self.clone();
        Servers {
            connect: Arc::new(move || {
                let bus = bus.clone();
                Box::pin(async move { bus })
            }),
            ..servers.clone()
        }
    }
}

#[async_trait]
impl Bus for FaultyBus {
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
        let to_pool = message.exchange == names::WORK && message.key == names::pool_key(&pool(), 1);
        if to_pool && count_down(&self.unsent) {
            return Err(Error::Disconnected("injected by the test".to_owned()));
        }
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
