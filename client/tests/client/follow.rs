//! Following a job by its events as the fleet sent them.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::value::RawValue;
use thermae_backplane::bus::{Bus, Consumer, QueueSpec};
use thermae_client::{Error, Follower};
use thermae_schemas::{Event, ToolCall, ToolFailure, WorkerId, names};
use tokio::sync::Notify;

use super::{Fleet, job, soon, tenant};

#[derive(Default)]
struct Kept {
    texts: Mutex<Vec<Bytes>>,
    ended: Notify,
}

impl Kept {
    fn keep(&self, text: &Bytes) {
        self.texts.lock().unwrap().push(text.clone());
    }
}

#[async_trait]
impl Follower for Kept {
    fn event(&self, _: Event, text: &Bytes) {
        self.keep(text);
    }

    async fn tool_call(&self, call: ToolCall, text: Bytes) -> Result<Box<RawValue>, ToolFailure> {
        self.keep(&text);
        match call.tool.as_str() {
            "exact" => Ok(RawValue::from_string("[1180591620717411303424,  0.10]".to_owned()).unwrap()),
            _ => Err("no \"such\" tool".into()),
        }
    }

    fn end(&self, end: Result<(Event, Bytes), Error>) {
        self.keep(&end.unwrap().1);
        self.ended.notify_one();
    }
}

#[tokio::test]
async fn a_follower_gets_each_event_byte_for_byte_and_answers_in_json_text() {
    let mut fleet = Fleet::new().await;
    let client = fleet.client().await;
    let follower = Arc::new(Kept::default());
    client.follow(job("j"), follower.clone()).await.unwrap();
    let message = fleet.take().await;
    let worker = WorkerId::new("w-1").unwrap();
    let spec = QueueSpec::calls(&worker);
    fleet.bus.declare_queue(&spec).await.unwrap();
    let mut answers: Box<dyn Consumer> = fleet.bus.consume(&spec.name, 0).await.unwrap();

    let started = r#"{ "job":"j", "event":"started", "worker":"w-1", "new":[1.0, 2e1] }"#;
    let unknown = r#"{"job":"j","event":"hibernated","protocol":1}"#;
    fleet.tell_text(&message, started).await;
    fleet.tell_text(&message, unknown).await;
    let call = |id: &str, tool: &str| {
        let reply_to = names::calls_key(&tenant(), &worker);
        format!(
            r#"{{"job":"j","event":"tool_call","call":"{id}","tool":"{tool}","arguments":{{"n":1180591620717411303424}},"reply_to":"{reply_to}","within_ms":9000}}"#
        )
    };
    let (exact, missing) = (call("1", "exact"), call("2", "missing"));
    for (text, answer) in [
        (&exact, r#"{"protocol":1,"call":"1","ok":[1180591620717411303424,  0.10]}"#),
        (&missing, r#"{"protocol":1,"call":"2","error":"no \"such\" tool"}"#),
    ] {
        fleet.tell_text(&message, text.as_str()).await;
        assert_eq!(soon(answers.next()).await.unwrap().message.body, answer);
    }
    let result = r#"{"job":"j","event":"result","status":"succeeded","stdout":"\u0041"}"#;
    fleet.tell_text(&message, result).await;
    soon(follower.ended.notified()).await;
    assert_eq!(*follower.texts.lock().unwrap(), [started, unknown, &exact, &missing, result]);
}

#[tokio::test]
async fn a_follower_learns_that_no_result_will_come() {
    #[derive(Default)]
    struct Failed(Mutex<Vec<Error>>, Notify);

    #[async_trait]
    impl Follower for Failed {
        fn event(&self, _: Event, _: &Bytes) {}

        async fn tool_call(&self, _: ToolCall, _: Bytes) -> Result<Box<RawValue>, ToolFailure> {
            Err(String::new().into())
        }

        fn end(&self, end: Result<(Event, Bytes), Error>) {
            self.0.lock().unwrap().push(end.unwrap_err());
            self.1.notify_one();
        }
    }

    let fleet = Fleet::new().await;
    let client = fleet.client().await;
    let follower = Arc::new(Failed::default());
    client.follow(job("j"), follower.clone()).await.unwrap();
    client.close().await;
    soon(follower.1.notified()).await;
    assert!(matches!(follower.0.lock().unwrap().as_slice(), [Error::Closed]));
}
