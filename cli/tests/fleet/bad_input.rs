//! Bad input on the wire: each message must get an error with a stable code, and the fleet must keep working.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use lapin::options::{QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use thermae_backplane::bus::{self, Bus, Message, QueueSpec, Rabbit, RabbitOptions};
use thermae_schemas::{
    Class, ClientId, ErrorCode, Event, EventBody, Job, JobId, Outcome, PoolName, Status, Stream, TenantName, names,
};

use crate::Test;
use crate::fleet::Fleet;
use crate::jobs::run;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("bad_input::each_malformed_job_gets_its_code", malformed),
    ("bad_input::unknown_pools_and_languages_are_refused", unknown),
    ("bad_input::a_reply_key_that_nobody_binds_loses_nothing", unbound),
    ("bad_input::another_tenants_keys_are_denied", other_tenant),
    ("bad_input::what_a_tenants_own_queue_dead_letters_is_dropped", dead_letters),
    ("bad_input::wrong_credentials_are_an_error_at_once", credentials),
];

/// A tenant's plain AMQP connection, as used by a client without a library.
struct Raw {
    bus: Rabbit,
    tenant: TenantName,
    client: ClientId,
    replies: Box<dyn bus::Consumer>,
}

impl Raw {
    async fn connect(url: &str, tenant: &str) -> Result<Self> {
        let bus = Rabbit::connect(RabbitOptions::new(url, "test")).await?;
        let (tenant, client) = (TenantName::new(tenant)?, ClientId::random());
        bus.declare_queue(&QueueSpec::replies(&tenant, &client)).await?;
        let replies = bus.consume(&names::reply_queue(&tenant, &client), 10).await?;
        Ok(Self { bus, tenant, client, replies })
    }

    /// Publishes a body to `submit` under this routing key.
    async fn submit(&self, key: &str, id: &str, body: &[u8], reply_to: &str) -> Result<(), bus::Error> {
        let message = Message {
            exchange: names::SUBMIT.into(),
            key: key.into(),
            body: body.to_vec().into(),
            message_id: Some(id.into()),
            reply_to: Some(reply_to.into()),
            user_id: Some(self.bus.user().into()),
            mandatory: true,
            persistent: true,
            ..Message::default()
        };
        self.bus.publish(message).await?.wait().await
    }

    /// Submits this body, and waits for the job's outcome. Fails if a reply for another job comes.
    async fn ask(&mut self, pool: &str, id: &str, body: &[u8]) -> Result<Outcome> {
        let key = format!("{}.normal.{pool}", self.tenant);
        self.submit(&key, id, body, &names::reply_key(&self.tenant, &self.client)).await?;
        loop {
            let delivery =
                tokio::time::timeout(Duration::from_secs(60), self.replies.next()).await?.context("no reply")?;
            delivery.ack().await?;
            let event: Event = serde_json::from_slice(&delivery.message.body)?;
            ensure!(event.job.as_str() == id, "a reply for {}", event.job);
            if let EventBody::Result(outcome) = event.body {
                return Ok(outcome);
            }
        }
    }
}

fn refused(outcome: &Outcome, code: ErrorCode, words: &str) -> Result<()> {
    let error = outcome.error.as_ref().with_context(|| format!("no error: {outcome:?}"))?;
    ensure!(outcome.status == Status::Rejected && error.code == code, "wanted {code:?}: {outcome:?}");
    ensure!(error.message.contains(words), "{:?} does not say {words:?}", error.message);
    Ok(())
}

fn malformed(fleet: &Fleet) -> Result<()> {
    fleet.runtime.block_on(async {
        let mut raw = Raw::connect(&fleet.servers.acme, "acme").await?;
        let huge = serde_json::json!({ "id": "huge", "code": "x".repeat(2 << 20) }).to_string();
        let cases: &[(&str, &str, ErrorCode, &str)] = &[
            ("b1", r#"{"id": "b1", "code": "#, ErrorCode::MalformedJson, ""),
            ("b2", "\u{0}\u{1}", ErrorCode::MalformedJson, ""),
            ("b3", r#"{"id": "b3", "code": "", "codee": 1}"#, ErrorCode::UnknownField, "codee"),
            ("b4", r#"{"id": "b4", "code": "", "limits": {"wall": 1}}"#, ErrorCode::UnknownField, "wall"),
            ("b5", r#"{"id": "b5", "code": 7}"#, ErrorCode::SchemaViolation, "code"),
            ("b6", r#"{"id": "b6"}"#, ErrorCode::SchemaViolation, "code"),
            ("b7", r#"{"id": "b7", "code": "", "max_attempts": 0}"#, ErrorCode::SchemaViolation, "max_attempts"),
            ("b8", r#"{"id": "b8", "code": "", "protocol": 99}"#, ErrorCode::UnsupportedProtocol, "99"),
            ("huge", &huge, ErrorCode::JobTooLarge, ""),
        ];
        for (id, body, code, words) in cases {
            let outcome = raw.ask("default", id, body.as_bytes()).await.with_context(|| format!("case {id}"))?;
            refused(&outcome, *code, words)?;
        }
        anyhow::Ok(())
    })?;
    let outcome = run(fleet, Job::python("print('on')"))?;
    ensure!(outcome.stdout == "on\n", "{outcome:?}");
    Ok(())
}

fn unknown(fleet: &Fleet) -> Result<()> {
    let outcome = run(fleet, Job { pool: PoolName::new("no-such")?, ..Job::python("") })?;
    refused(&outcome, ErrorCode::UnknownPool, "no-such")?;
    let outcome = run(fleet, Job { language: "javascript".parse().unwrap(), ..Job::python("") })?;
    refused(&outcome, ErrorCode::UnsupportedLanguage, "javascript")
}

fn unbound(fleet: &Fleet) -> Result<()> {
    fleet.runtime.block_on(async {
        let raw = Raw::connect(&fleet.servers.acme, "acme").await?;
        let job = Job::python("print('kept')");
        let body = serde_json::to_vec(&job)?;
        raw.submit("acme.normal.default", job.id.as_str(), &body, "acme.nobody").await?;
        // The outcome is kept: a second submit with a reply key that is bound gets it.
        let mut asking = Raw::connect(&fleet.servers.acme, "acme").await?;
        let outcome = asking.ask("default", job.id.as_str(), &body).await?;
        ensure!(outcome.stdout == "kept\n", "{outcome:?}");
        Ok(())
    })
}

fn other_tenant(fleet: &Fleet) -> Result<()> {
    fleet.runtime.block_on(async {
        let globex = Raw::connect(&fleet.servers.globex, "globex").await?;
        let (job, own) = (Job::python(""), names::reply_key(&globex.tenant, &globex.client));
        let body = serde_json::to_vec(&job)?;
        match globex.submit("acme.normal.default", job.id.as_str(), &body, &own).await {
            Err(bus::Error::Denied(_)) => {}
            other => bail!("publishing to another tenant's key gave {other:?}"),
        }
        // Its own routing key, with another tenant's reply key: that tenant must get nothing.
        let globex = Raw::connect(&fleet.servers.globex, "globex").await?;
        let mut acme = Raw::connect(&fleet.servers.acme, "acme").await?;
        let theirs = names::reply_key(&acme.tenant, &acme.client);
        let job = Job::python("print('never')");
        globex.submit("globex.normal.default", job.id.as_str(), &serde_json::to_vec(&job)?, &theirs).await?;
        let mine = JobId::random();
        let code = format!("{{\"id\": \"{mine}\", \"code\": \"print('mine')\"}}");
        // `ask` fails on a reply for another job.
        let outcome = acme.ask("default", mine.as_str(), code.as_bytes()).await?;
        ensure!(outcome.stdout == "mine\n", "{outcome:?}");
        Ok(())
    })
}

/// Declares a queue whose messages die at once and go on under another tenant's routing key. RabbitMQ lets a tenant
/// choose this for its own queues.
async fn trap(channel: &lapin::Channel, replies: &str, to: &str, key: &str) -> Result<()> {
    let queue = format!("replies.globex.trap-{}", uuid::Uuid::new_v4());
    let mut arguments = FieldTable::default();
    for (name, value) in [("x-dead-letter-exchange", to), ("x-dead-letter-routing-key", key)] {
        arguments.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    arguments.insert("x-message-ttl".into(), AMQPValue::LongInt(0));
    let options = QueueDeclareOptions { durable: true, exclusive: true, ..Default::default() };
    channel.queue_declare(queue.as_str().into(), options, arguments).await?;
    let options = QueueBindOptions::default();
    channel
        .queue_bind(queue.as_str().into(), names::REPLIES.into(), replies.into(), options, Default::default())
        .await?;
    Ok(())
}

fn dead_letters(fleet: &Fleet) -> Result<()> {
    fleet.runtime.block_on(async {
        let worker = {
            let job = Job { stream: vec![Stream::Lifecycle], ..Job::python("") };
            let mut handle = fleet.acme.client().submit(job, None).await?;
            let mut events = handle.events();
            loop {
                match tokio::time::timeout(Duration::from_secs(60), events.next()).await?.map(|event| event.body) {
                    Some(EventBody::Started { worker }) => break worker,
                    Some(_) => {}
                    None => bail!("the events ended"),
                }
            }
        };
        let mut globex = Raw::connect(&fleet.servers.globex, "globex").await?;
        let bare = lapin::Connection::connect(&fleet.servers.globex, Default::default()).await?;
        let channel = bare.create_channel().await?;
        let (mine, acme) = (names::reply_key(&globex.tenant, &globex.client), TenantName::new("acme")?);
        trap(&channel, &mine, names::SUBMIT, &names::submit_key(&acme, Class::Normal, &PoolName::new("default")?))
            .await?;
        trap(&channel, &mine, names::CALLS, &names::calls_key(&acme, &worker)).await?;
        let forged = ["thermae_scheduler_forged_total", "thermae_worker_forged_total"];
        let before = forged.map(|metric| fleet.metric(metric));
        // The result goes to the client's own queue and to the traps.
        let outcome = globex.ask("default", "bait", br#"{"id": "bait", "code": ""}"#).await?;
        ensure!(outcome.status == Status::Succeeded, "{outcome:?}");
        for (metric, before) in forged.into_iter().zip(before) {
            let wanted = before? + 1.0;
            let begun = std::time::Instant::now();
            while fleet.metric(metric)? < wanted {
                ensure!(begun.elapsed() < Duration::from_secs(60), "{metric} is {}", fleet.metric(metric)?);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    })
}

fn credentials(fleet: &Fleet) -> Result<()> {
    let wrong = fleet.servers.acme.replace("acme:acme@", "acme:wrong@");
    let output = std::process::Command::new(crate::servers::binary("thermae")?)
        .args(["run", "-", "--amqp", &wrong])
        .stdin(std::process::Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(3), "{}: {said}", output.status);
    ensure!(said.contains("check the user and the password") && !said.contains("wrong@"), "{said}");
    Ok(())
}
