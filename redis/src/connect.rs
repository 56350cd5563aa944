//! Connects a program to RabbitMQ and Redis, as its configuration says.

use std::sync::Arc;

use thermae_backplane::bus::{self, Bus as _, Rabbit, RabbitOptions};
use thermae_backplane::registry;
use thermae_service::health::Health;
use thermae_service::program::Common;

use crate::{Redis, RedisOptions};

/// The connections of a program.
pub struct Connected {
    /// RabbitMQ.
    pub bus: Arc<Rabbit>,
    /// Redis.
    pub registry: Arc<Redis>,
}

/// Which of the two servers refuses.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// RabbitMQ.
    #[error("RabbitMQ")]
    Bus(#[source] bus::Error),
    /// Redis.
    #[error("Redis")]
    Registry(#[source] registry::Error),
}

impl Connected {
    /// Connects to both servers. While one of them is away, this waits, and the conditions `bus` and `registry` say so.
    /// `name` is the connection's name in RabbitMQ's own lists. See [`RedisOptions::notices`].
    ///
    /// # Errors
    /// A server refuses for good.
    pub async fn to<const PORT: u16>(
        config: &Common<PORT>,
        name: &str,
        notices: bool,
        health: &Health,
    ) -> Result<Self, Error> {
        let (on_bus, on_registry) = (health.condition("bus"), health.condition("registry"));
        on_bus.not_ready("waiting for RabbitMQ");
        on_registry.not_ready("waiting for Redis");
        let rabbit = RabbitOptions {
            password: config.amqp_password.clone(),
            tls: config.tls(),
            ..RabbitOptions::new(config.amqp.expose(), name)
        };
        let redis = RedisOptions {
            prefix: config.redis_prefix.clone(),
            password: config.redis_password.clone(),
            sentinel_password: config.redis_sentinel_password.clone(),
            tls: config.tls(),
            notices,
            ..RedisOptions::new(config.redis.expose())
        };
        let bus = async {
            let bus = Rabbit::connect(rabbit).await.map_err(Error::Bus)?;
            on_bus.ready();
            Ok(Arc::new(bus))
        };
        let registry = async {
            let registry = Redis::connect(redis).await.map_err(Error::Registry)?;
            on_registry.ready();
            Ok(Arc::new(registry))
        };
        let (bus, registry) = tokio::try_join!(bus, registry)?;
        Ok(Self { bus, registry })
    }

    /// Closes both connections.
    pub async fn close(&self) {
        self.bus.close().await;
        self.registry.close().await;
    }
}
