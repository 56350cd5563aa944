//! The contract suite of the bus: what every implementation does.

mod publishing;
mod queues;
mod settling;

use std::sync::Arc;

use thermae_backplane::bus::{Bus, Delivery, ExchangeKind, ExchangeSpec};
use thermae_backplane::declare_fleet;

use super::Broker;
use crate::support::unique;

pub use publishing::*;
pub use queues::*;
pub use settling::*;

async fn ready(broker: &Broker) -> Arc<dyn Bus> {
    let bus = broker.connect().await;
    declare_fleet(&*bus).await.unwrap();
    bus
}

fn body(delivery: &Delivery) -> &str {
    std::str::from_utf8(&delivery.message.body).unwrap()
}

async fn exchange(bus: &dyn Bus, kind: ExchangeKind, alternate: Option<String>) -> String {
    let spec = ExchangeSpec { name: unique("test"), kind, alternate, bindings: Vec::new() };
    bus.declare_exchange(&spec).await.unwrap();
    spec.name
}
