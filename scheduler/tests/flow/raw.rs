//! Messages that no client of this project would send, and a client that speaks AMQP itself.

use thermae_backplane::bus::{Consumer, Message, QueueSpec};
use thermae_schemas::{Body, ClientId, Event, names};

use crate::fleet::{Servers, soon, tenant};

/// Publishes a message that this project's client would never send.
pub(crate) async fn submit_raw(servers: &Servers, key: &str, body: &[u8], reply_to: &str, id: Option<&str>) {
    let mut message = Message {
        exchange: names::SUBMIT.to_owned(),
        key: key.to_owned(),
        body: body.to_vec().into(),
        message_id: id.map(str::to_owned),
        correlation_id: Some("mark".to_owned()),
        reply_to: Some(reply_to.to_owned()),
        mandatory: true,
        persistent: true,
        ..Message::default()
    };
    if let Some(tenant) = names::tenant_of(key) {
        message.sign(servers.bus.as_ref(), &tenant);
    }
    servers.bus.publish(message).await.unwrap().wait().await.unwrap();
}

/// A client of one tenant that speaks AMQP itself.
pub(crate) struct RawClient {
    pub(crate) servers: Servers,
    pub(crate) tenant: &'static str,
    pub(crate) reply_to: String,
    pub(crate) answers: Box<dyn Consumer>,
}

impl RawClient {
    pub(crate) async fn new(servers: &Servers, of: &'static str) -> Self {
        thermae_backplane::declare_fleet(&*servers.bus).await.unwrap();
        let (tenant, me) = (tenant(of), ClientId::random());
        let replies = QueueSpec::replies(&tenant, &me);
        servers.bus.declare_queue(&replies).await.unwrap();
        let answers = servers.bus.consume(&replies.name, 1).await.unwrap();
        Self { servers: servers.clone(), tenant: of, reply_to: names::reply_key(&tenant, &me), answers }
    }

    /// A signed message under this routing key. `mark` is its correlation id.
    pub(crate) fn message(&self, key: String, body: impl Into<Vec<u8>>, mark: &str) -> Message {
        let mut message = Message {
            exchange: names::SUBMIT.to_owned(),
            key,
            body: body.into().into(),
            correlation_id: Some(mark.to_owned()),
            reply_to: Some(self.reply_to.clone()),
            mandatory: true,
            ..Message::default()
        };
        message.sign(self.servers.bus.as_ref(), &tenant(self.tenant));
        message
    }

    pub(crate) async fn send(&self, message: Message) {
        self.servers.bus.publish(message).await.unwrap().wait().await.unwrap();
    }

    /// The next event, and the message that brings it.
    pub(crate) async fn next(&mut self) -> (Event, Message) {
        let delivery = soon(self.answers.next()).await.unwrap();
        delivery.ack().await.unwrap();
        let event = Event::parse(&delivery.message.body).unwrap();
        assert_eq!(delivery.message.message_id.as_deref(), Some(event.job.as_str()));
        (event, delivery.message.as_ref().clone())
    }
}
