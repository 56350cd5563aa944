//! The contract of the bus.

mod channels;
mod faults;
mod identity;
mod latency;
mod stamp;
mod suite;
mod tls;

use std::sync::Arc;

use thermae_backplane::bus::{self, Bus, Error, Message, QueueKind, QueueSpec, RabbitOptions, SharedBus};

use crate::support::{server, unique};

/// A broker for the tests: in this process, or RabbitMQ at this URL.
pub enum Broker {
    Local(bus::Local),
    Rabbit(String),
}

impl Broker {
    pub fn rabbit() -> Self {
        Self::Rabbit(server("THERMAE_TEST_AMQP"))
    }

    pub async fn connect(&self) -> SharedBus {
        match self {
            Self::Local(broker) => Arc::new(broker.connect()),
            Self::Rabbit(url) => Arc::new(rabbit(url).await.unwrap()),
        }
    }

    /// A connection as the tenant `acme`.
    pub async fn tenant(&self) -> SharedBus {
        match self {
            Self::Local(broker) => Arc::new(broker.as_user("acme")),
            Self::Rabbit(_) => Arc::new(rabbit(&server("THERMAE_TEST_AMQP_TENANT")).await.unwrap()),
        }
    }
}

pub async fn rabbit(url: &str) -> Result<bus::Rabbit, Error> {
    let deadline = Some(std::time::Duration::from_secs(60));
    bus::Rabbit::connect(RabbitOptions { deadline, ..RabbitOptions::new(url, "contract suite") }).await
}

/// Declares a queue with a unique name, bound to the exchange `work` under that name.
pub async fn queue(bus: &dyn Bus, kind: QueueKind) -> QueueSpec {
    let name = unique("test");
    let bindings = vec![("work".to_owned(), name.clone())];
    let spec = QueueSpec { name, kind, bindings, delivery_limit: None, dead_letter: None, expires: None };
    bus.declare_queue(&spec).await.unwrap();
    spec
}

pub fn message(exchange: &str, key: &str, body: &str) -> Message {
    Message {
        exchange: exchange.to_owned(),
        key: key.to_owned(),
        body: body.to_owned().into(),
        mandatory: true,
        persistent: true,
        ..Message::default()
    }
}

/// Publishes and waits for the confirm.
pub async fn publish(bus: &dyn Bus, message: Message) -> Result<(), Error> {
    bus.publish(message).await?.wait().await
}

macro_rules! suite {
    ($($test:ident,)+) => {
        mod local {
            $(#[tokio::test]
            async fn $test() {
                super::suite::$test(super::Broker::Local(thermae_backplane::bus::Local::new())).await;
            })+
        }
        mod rabbit {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::suite::$test(super::Broker::rabbit()).await;
            })+
        }
    };
}

suite! {
    a_message_arrives_as_it_was_sent,
    a_mandatory_message_to_nobody_is_unroutable,
    a_message_names_its_sender_or_nobody,
    an_alternate_exchange_takes_what_nobody_is_bound_for,
    an_exchange_behind_another_routes_what_that_one_passes_on,
    what_is_no_job_reaches_its_tenants_queue_though_somebody_listens,
    messages_keep_their_order,
    after_a_flush_a_message_comes_later,
    no_more_than_the_prefetch_is_out,
    what_a_dropped_consumer_held_comes_back_marked_and_in_order,
    a_consumer_that_nobody_waited_for_holds_nothing,
    what_a_lost_connection_held_comes_back_marked,
    a_message_that_comes_back_too_often_is_a_dead_letter,
    a_rejected_message_is_a_dead_letter,
    a_message_without_a_limit_comes_back_for_ever,
    a_stopped_consumer_keeps_what_it_holds_and_returns_the_rest,
    a_stale_acknowledgement_is_an_error,
    what_a_consumer_was_handed_before_can_be_acknowledged_with_it,
    a_batch_of_acknowledgements_is_sent_when_it_is_due,
    a_delivery_is_current_while_its_consumer_and_its_connection_stand,
    a_deleted_queue_ends_its_consumers,
    what_does_not_fit_is_a_topology_error,
    consumers_share_a_queue,
    a_fanout_reaches_every_queue,
    patterns_bind_by_words,
    a_classic_queue_without_a_consumer_expires,
    each_of_many_publishes_gets_its_own_answer,
    a_slow_consumer_holds_no_more_than_its_prefetch,
    a_closed_bus_says_so,
    an_unbound_queue_keeps_what_it_has_and_gets_no_more,
    a_consumer_survives_the_end_of_its_queue_if_there_is_a_new_one,
    a_worker_is_written_down_before_its_queues_are_made,
    the_fleet_can_be_declared_twice,
}
