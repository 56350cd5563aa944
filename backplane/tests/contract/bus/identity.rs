//! Every known way for one tenant to make RabbitMQ put a message under another tenant's key, each really tried.
//! [`Identity`] must refuse everything that gets through. Then an honest message comes, which it must accept.

use std::collections::BTreeMap;

use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeBindOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use thermae_backplane::bus::{Bus, Forged, Identity, QueueKind, QueueSpec};
use thermae_backplane::declare_fleet;
use thermae_schemas::{TenantName, WorkerId, names};

use super::{Broker, message, publish, rabbit};
use crate::support::{server, soon, unique};

/// The attacker's plain connection, as a user of the tenant `acme`.
struct Attacker {
    user: &'static str,
    connection: Connection,
    channel: Channel,
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.as_bytes().into())
}

/// What the attacker's message claims: nothing, the truth, that the fleet sent it, or that it never died.
fn properties(user: &str, claim: &str) -> BasicProperties {
    let mut headers = FieldTable::default();
    let properties = BasicProperties::default().with_delivery_mode(2);
    match claim {
        "unsigned" => return properties,
        "signed" => return properties.with_user_id(user.into()),
        "vouched" => headers.insert(names::H_TENANT.into(), text("globex")),
        "undead" => headers.insert("x-death".into(), AMQPValue::FieldArray(Vec::new().into())),
        other => panic!("{other}"),
    };
    properties.with_user_id(user.into()).with_headers(headers)
}

const CLAIMS: [&str; 4] = ["unsigned", "signed", "vouched", "undead"];

impl Attacker {
    async fn new(user: &'static str) -> Self {
        let url = tenant_url(user);
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Self { user, connection, channel }
    }

    async fn exchange(&self, kind: ExchangeKind, alternate: Option<&str>) -> String {
        let (name, mut arguments) = (format!("replies.acme.{}", unique("x")), FieldTable::default());
        if let Some(alternate) = alternate {
            arguments.insert("alternate-exchange".into(), text(alternate));
        }
        let options = ExchangeDeclareOptions { auto_delete: true, ..ExchangeDeclareOptions::default() };
        self.channel.exchange_declare(name.as_str().into(), kind, options, arguments).await.unwrap();
        name
    }

    async fn publish(&self, exchange: &str, key: &str, body: &str, properties: BasicProperties) {
        let (exchange, key): (ShortString, ShortString) = (exchange.into(), key.into());
        let options = BasicPublishOptions::default();
        let sent = self.channel.basic_publish(exchange, key, options, body.as_bytes(), properties).await.unwrap();
        assert!(sent.await.unwrap().is_ack());
    }

    /// Through an exchange of its own, whose alternate exchange is the fleet's.
    async fn alternate(&self, to: &str, key: &str) {
        let exchange = self.exchange(ExchangeKind::Topic, Some(to)).await;
        for claim in CLAIMS {
            self.publish(&exchange, key, &format!("alternate/{claim}"), properties(self.user, claim)).await;
        }
    }

    /// Through an exchange of its own, to which the fleet's is bound.
    async fn bound(&self, to: &str, key: &str) {
        let exchange = self.exchange(ExchangeKind::Fanout, None).await;
        let (destination, source) = (to.into(), exchange.as_str().into());
        let options = ExchangeBindOptions::default();
        self.channel.exchange_bind(destination, source, "".into(), options, FieldTable::default()).await.unwrap();
        for claim in CLAIMS {
            self.publish(&exchange, key, &format!("bound/{claim}"), properties(self.user, claim)).await;
        }
    }

    /// Through a queue of its own, in which the message dies.
    async fn dead(&self, to: &str, key: &str) {
        let exchange = self.exchange(ExchangeKind::Fanout, None).await;
        let queue = format!("replies.acme.{}", unique("q"));
        let mut arguments = FieldTable::default();
        arguments.insert("x-dead-letter-exchange".into(), text(to));
        arguments.insert("x-dead-letter-routing-key".into(), text(key));
        arguments.insert("x-message-ttl".into(), AMQPValue::LongInt(0));
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(queue.as_str().into(), options, arguments).await.unwrap();
        let (queue, source) = (queue.as_str().into(), exchange.as_str().into());
        let options = QueueBindOptions::default();
        self.channel.queue_bind(queue, source, "".into(), options, FieldTable::default()).await.unwrap();
        for claim in CLAIMS {
            self.publish(&exchange, "any", &format!("dead/{claim}"), properties(self.user, claim)).await;
        }
    }

    /// Through a second key in a header. RabbitMQ checks such keys from 4.0 on, and then refuses all of these messages.
    /// Returns how many it accepted.
    async fn copied(&self, to: &str, key: &str, header: &str) -> usize {
        let own = key.replacen("globex", "acme", 1);
        let mut taken = 0;
        for claim in CLAIMS {
            let channel = self.connection.create_channel().await.unwrap();
            channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
            let said = properties(self.user, claim);
            let mut headers = said.headers().clone().unwrap_or_default();
            headers.insert(header.into(), AMQPValue::FieldArray(vec![text(key)].into()));
            let (body, options) = (format!("{header}/{claim}"), BasicPublishOptions::default());
            let (to, own) = (to.into(), own.as_str().into());
            let sent = channel.basic_publish(to, own, options, body.as_bytes(), said.with_headers(headers)).await;
            taken += usize::from(sent.unwrap().await.is_ok());
        }
        taken
    }
}

/// URL of a user of the tenant `acme`, whose password is its name.
fn tenant_url(user: &str) -> String {
    server("THERMAE_TEST_AMQP_TENANT").replacen("acme:acme@", &format!("{user}:{user}@"), 1)
}

/// Sends messages in all these ways, as this user, to the queue that `key` leads to, then an honest one of `globex`,
/// and judges what arrives.
async fn all_ways(user: &'static str, exchange: &str, key: &str, queue: &QueueSpec) {
    let fleet = rabbit(&server("THERMAE_TEST_AMQP")).await.unwrap();
    declare_fleet(&fleet).await.unwrap();
    fleet.declare_queue(queue).await.unwrap();
    let identity = Identity::new(&fleet, &[]);
    let mut arrived = fleet.consume(&queue.name, 100).await.unwrap();

    let acme = Attacker::new(user).await;
    acme.alternate(exchange, key).await;
    acme.bound(exchange, key).await;
    let copies = acme.copied(exchange, key, "CC").await + acme.copied(exchange, key, "BCC").await;
    acme.dead(exchange, key).await;

    let mut judged: BTreeMap<String, Result<String, Forged>> = BTreeMap::new();
    let globex = TenantName::new("globex").unwrap();
    let forged = 3 * CLAIMS.len() + copies;
    while judged.len() <= forged {
        let delivery = soon("a delivery", arrived.next()).await.unwrap();
        let said = String::from_utf8(delivery.message.body.to_vec()).unwrap();
        let sender = identity.sender(&delivery.message, exchange, |_| key.to_owned());
        judged.insert(said, sender.map(|tenant| tenant.to_string()));
        delivery.ack().await.unwrap();
        if judged.len() == forged {
            // The fleet may speak for every tenant.
            let mut honest = message(exchange, key, "honest");
            honest.sign(&fleet, &globex);
            publish(&fleet, honest).await.unwrap();
        }
    }
    assert_eq!(judged.remove("honest"), Some(Ok("globex".to_owned())));
    for (way, verdict) in judged {
        let why = verdict.expect_err(&way);
        assert!(!matches!(why, Forged::Unsigned(_)), "{way} could be taken for a mistake: {why:?}");
    }
    fleet.delete_queue(&queue.name).await.unwrap();
}

fn bound_to(exchange: &str, key: &str) -> QueueSpec {
    QueueSpec {
        name: unique("test"),
        kind: QueueKind::Quorum,
        bindings: vec![(exchange.to_owned(), key.to_owned())],
        delivery_limit: None,
        dead_letter: None,
        expires: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_submits_as_another_tenant() {
    let key = format!("globex.normal.{}", unique("pool"));
    all_ways("acme", names::SUBMIT, &key, &bound_to(names::SUBMIT, &key)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_answers_a_tool_call_as_another_tenant() {
    let key = format!("globex.{}", unique("worker"));
    all_ways("acme", names::CALLS, &key, &bound_to(names::CALLS, &key)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_approves_as_another_tenant() {
    let key = format!("globex.{}", unique("worker"));
    all_ways("acme.approver", names::APPROVALS, &key, &bound_to(names::CALLS_TENANTS, &key)).await;
}

/// Whoever submits may not approve, and the other way round. A decision comes with the name of its exchange.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_user_of_a_tenant_submits_and_another_one_approves() {
    let fleet = Broker::rabbit().connect().await;
    declare_fleet(&*fleet).await.unwrap();
    let worker = WorkerId::boot("w");
    let (queue, tenant) = (QueueSpec::calls(&worker), TenantName::new("acme").unwrap());
    fleet.declare_queue(&queue).await.unwrap();
    let mut arrived = fleet.consume(&queue.name, 10).await.unwrap();
    let (submits, approves) =
        (rabbit(&tenant_url("acme")).await.unwrap(), rabbit(&tenant_url("acme.approver")).await.unwrap());
    let key = names::calls_key(&tenant, &worker);
    for (bus, exchange, key) in [
        (&submits, names::APPROVALS, key.as_str()),
        (&approves, names::CALLS, &key),
        (&approves, names::SUBMIT, "acme.normal.default"),
        (&approves, names::SUBMIT, "acme.cancel"),
        (&approves, names::APPROVALS, "globex.w"),
    ] {
        let refused = publish(bus, message(exchange, key, "{}")).await;
        assert!(matches!(refused, Err(thermae_backplane::bus::Error::Denied(_))), "{exchange} {key}: {refused:?}");
    }
    let acme = Attacker::new("acme").await;
    let own = acme.exchange(ExchangeKind::Fanout, None).await;
    let (to, from, options) = (names::APPROVALS.into(), own.as_str().into(), ExchangeBindOptions::default());
    assert!(acme.channel.exchange_bind(to, from, "".into(), options, FieldTable::default()).await.is_err());
    let mut decision = message(names::APPROVALS, &key, "decision");
    decision.sign(&approves, &tenant);
    publish(&approves, decision).await.unwrap();
    let delivery = soon("the decision", arrived.next()).await.unwrap();
    assert_eq!((delivery.message.exchange.as_str(), delivery.message.key.as_str()), (names::APPROVALS, key.as_str()));
    let sender = Identity::new(&*fleet, &[]).sender(&delivery.message, names::APPROVALS, |_| key.clone());
    assert_eq!(sender, Ok(tenant));
    fleet.delete_queue(&queue.name).await.unwrap();
}

/// The queue behind the alternate exchange: an honest message still names the exchange that it was published to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_routed_still_names_its_exchange() {
    let key = format!("globex.normal.{}", unique("pool"));
    let fleet = Broker::rabbit().connect().await;
    declare_fleet(&*fleet).await.unwrap();
    let queue = bound_to(names::UNROUTED, "");
    fleet.declare_queue(&queue).await.unwrap();
    let mut arrived = fleet.consume(&queue.name, 100).await.unwrap();
    let acme = Attacker::new("acme").await;
    acme.alternate(names::SUBMIT, &key).await;
    acme.bound(names::SUBMIT, &key).await;
    acme.dead(names::SUBMIT, &key).await;
    let globex = rabbit(&server("THERMAE_TEST_AMQP_OTHER")).await.unwrap();
    let mut honest = message(names::SUBMIT, &key, "honest");
    honest.user_id = Some("globex".to_owned());
    publish(&globex, honest).await.unwrap();
    let identity = Identity::new(&*fleet, &[]);
    let mut verdicts = BTreeMap::new();
    while verdicts.len() < 3 * CLAIMS.len() + 1 {
        let delivery = soon("a delivery", arrived.next()).await.unwrap();
        delivery.ack().await.unwrap();
        // Messages of other tests arrive here, too.
        if delivery.message.key == key {
            let said = String::from_utf8(delivery.message.body.to_vec()).unwrap();
            let sender = identity.sender(&delivery.message, names::SUBMIT, |_| key.clone());
            verdicts.insert(said, sender.is_ok());
        }
    }
    let believed: Vec<&String> = verdicts.iter().filter(|(_, ok)| **ok).map(|(said, _)| said).collect();
    assert_eq!(believed, ["honest"]);
    fleet.delete_queue(&queue.name).await.unwrap();
}

/// What the broker itself refuses: other tenants' keys, the fleet's exchanges and queues, and names with too many
/// words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenants_permissions_are_what_a_client_needs() {
    let fleet = Broker::rabbit().connect().await;
    declare_fleet(&*fleet).await.unwrap();
    let url = server("THERMAE_TEST_AMQP_TENANT");
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
    for exchange in ["submit.x", "replies", "replies.globex.x", "replies.acme.x.y", "replies.acme.", "x"] {
        let channel = connection.create_channel().await.unwrap();
        let options = ExchangeDeclareOptions::default();
        let made = channel.exchange_declare(exchange.into(), ExchangeKind::Topic, options, FieldTable::default()).await;
        assert!(made.is_err(), "{exchange}");
    }
    for queue in ["submit.acme.normal.default", "replies.globex.x", "replies.acme.x.y", "work.pool.default", ""] {
        let channel = connection.create_channel().await.unwrap();
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        assert!(channel.queue_declare(queue.into(), options, FieldTable::default()).await.is_err(), "{queue}");
    }
    let acme = Broker::rabbit().tenant().await;
    for (exchange, key) in [("submit", "globex.normal.default"), ("calls", "globex.w"), ("work", "pool.default")] {
        let refused = publish(&*acme, message(exchange, key, "{}")).await;
        assert!(matches!(refused, Err(thermae_backplane::bus::Error::Denied(_))), "{exchange} {key}: {refused:?}");
    }
}
