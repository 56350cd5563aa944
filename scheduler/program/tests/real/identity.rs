//! On a real RabbitMQ, with the permissions of clients: a tenant that tries to act as another, and one that refuses its
//! own answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeBindOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use thermae_backplane::bus::{Rabbit, RabbitOptions, SharedBus};
use thermae_backplane::registry::JobKey;
use thermae_client::Client;
use thermae_schemas::{Cancel, Job, JobId, PoolName, Query, names};

use super::fleet::{Servers, job, options, soon, tenant};
use super::{Set, servers};

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.as_bytes().into())
}

async fn up() -> (Arc<Set>, HashMap<String, String>, Servers) {
    let (set, facts) = tokio::task::spawn_blocking(|| Set::named("identity")).await.unwrap();
    let servers = servers(&facts).await;
    thermae_backplane::declare_fleet(servers.bus.as_ref()).await.unwrap();
    (Arc::new(set), facts, servers)
}

async fn client(facts: &HashMap<String, String>, variable: &str, name: &str) -> Client {
    let bus: SharedBus = Arc::new(Rabbit::connect(RabbitOptions::new(&facts[variable], "test")).await.unwrap());
    Client::connect(bus, tenant(name), thermae_client::Options::default()).await.unwrap()
}

/// Two exchanges of the attacker's own, which pass messages on to the exchange for jobs.
async fn detours(channel: &Channel) -> [String; 2] {
    let names = ["replies.acme.alternate", "replies.acme.bound"].map(str::to_owned);
    let mut arguments = FieldTable::default();
    arguments.insert("alternate-exchange".into(), text(names::SUBMIT));
    let options = ExchangeDeclareOptions::default();
    let (first, second) = (names[0].as_str().into(), names[1].as_str());
    channel.exchange_declare(first, ExchangeKind::Topic, options, arguments).await.unwrap();
    channel.exchange_declare(second.into(), ExchangeKind::Fanout, options, FieldTable::default()).await.unwrap();
    let (to, options) = (names::SUBMIT.into(), ExchangeBindOptions::default());
    channel.exchange_bind(to, second.into(), "".into(), options, FieldTable::default()).await.unwrap();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_acts_for_itself_alone_and_holds_up_nobody() {
    let (_set, facts, servers) = up().await;
    let scheduler = servers.scheduler(options()).await;
    soon(scheduler.health.wait_ready()).await;
    let globex = client(&facts, "THERMAE_TEST_AMQP_OTHER", "globex").await;
    let mut waits = job("waits");
    waits.pool = PoolName::new("default").unwrap();
    let handle = globex.submit(waits, None).await.unwrap();

    let url = &facts["THERMAE_TEST_AMQP_TENANT"];
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let forged = [
        ("globex.normal.default", br#"{"id": "forged", "code": ""}"#.to_vec()),
        ("globex.low.default", br#"{"id": "forged", "code": "", "class": "low"}"#.to_vec()),
        ("globex.cancel", serde_json::to_vec(&Cancel::new(handle.id().clone())).unwrap()),
        ("globex.query", serde_json::to_vec(&Query::sessions(JobId::random())).unwrap()),
    ];
    let mut sent = 0.0;
    for exchange in detours(&channel).await {
        for (key, body) in &forged {
            for signed in [true, false] {
                let victim = names::reply_key(&tenant("globex"), globex.id());
                let mut said = BasicProperties::default().with_delivery_mode(2).with_reply_to(victim.as_str().into());
                if signed {
                    let mut headers = FieldTable::default();
                    headers.insert(names::H_TENANT.into(), text("globex"));
                    said = said.with_user_id("acme".into()).with_headers(headers);
                }
                let (to, options) = (exchange.as_str().into(), BasicPublishOptions::default());
                let confirm = channel.basic_publish(to, (*key).into(), options, body, said).await.unwrap();
                assert!(confirm.await.unwrap().is_ack());
                sent += 1.0;
            }
        }
    }
    soon(async {
        while scheduler.metric("thermae_scheduler_forged_total", "") < sent {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let key = JobKey::new(tenant("globex"), JobId::new("forged").unwrap());
    assert_eq!(servers.registry.lookup(&key).await.unwrap(), None);

    // A queue of its own that accepts nothing, so that RabbitMQ refuses the answers to its bad jobs again and again.
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(0));
    arguments.insert("x-overflow".into(), text("reject-publish"));
    let narrow = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    channel.queue_declare("replies.acme.narrow".into(), narrow, arguments).await.unwrap();
    let (queue, from, key) = ("replies.acme.narrow".into(), names::REPLIES.into(), "acme.narrow".into());
    channel.queue_bind(queue, from, key, QueueBindOptions::default(), FieldTable::default()).await.unwrap();
    for body in ["{", r#"{"id": "n", "code": "", "pool": "nowhere"}"#] {
        for key in ["acme.normal.default", "acme.normal.nowhere", "acme.cancel", "acme.query", "acme.request"] {
            let said = BasicProperties::default().with_user_id("acme".into()).with_reply_to("acme.narrow".into());
            let (to, options) = (names::SUBMIT.into(), BasicPublishOptions::default());
            let confirm = channel.basic_publish(to, key.into(), options, body.as_bytes(), said).await.unwrap();
            assert!(confirm.await.unwrap().is_ack());
        }
    }

    // The victim's job runs, its list of sessions comes, and a new lane is served at once.
    let _order = servers.worker("w1", 2).await.work("mine\n").await;
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "mine\n");
    assert_eq!(globex.sessions(Duration::from_secs(60)).await.unwrap(), []);
    let high = Job { class: thermae_schemas::Class::High, ..job("high") };
    assert_eq!(soon(globex.submit(high, None).await.unwrap().result()).await.unwrap().stdout, "mine\n");
    let acme = client(&facts, "THERMAE_TEST_AMQP_TENANT", "acme").await;
    assert_eq!(soon(acme.submit(job("own"), None).await.unwrap().result()).await.unwrap().stdout, "mine\n");
    assert_eq!(scheduler.metric("thermae_scheduler_forged_total", ""), sent);
    scheduler.stop().await;
}
