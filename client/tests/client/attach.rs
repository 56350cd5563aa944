//! Runs that a client takes over.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use thermae_backplane::bus::{Bus, Consumer, Message, QueueSpec};
use thermae_client::{Client, Error, Follower, JobHandle, Options, ToolHandler};
use thermae_schemas::{
    Asked, Event, EventBody, JobId, Outcome, PendingCall, Query, RunInfo, RunQuery, RunState, Status, ToolCall,
    ToolFailure, ToolReply, ToolResult, WorkerId, names,
};
use tokio::sync::Notify;

use super::{Fleet, job, quick, soon, tenant};

pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) fn id(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

pub(super) fn worker() -> WorkerId {
    WorkerId::new("w-1").unwrap()
}

pub(super) fn pending(call: &str, tool: &str) -> PendingCall {
    PendingCall {
        call: call.to_owned(),
        tool: tool.to_owned(),
        arguments: Some(json!({ "call": call }).into()),
        omitted: false,
        reply_to: names::calls_key(&tenant(), &worker()),
        within_ms: 20_000,
        waited_ms: 5_000,
        left_ms: 15_000,
    }
}

pub(super) fn running(calls: Vec<PendingCall>) -> EventBody {
    EventBody::Run(RunInfo { worker: Some(worker()), calls, ..RunInfo::new(id("j"), RunState::Running) })
}

/// The fleet's side of questions, and the worker's of answers.
pub(super) struct Questions {
    pub(super) asked: Box<dyn Consumer>,
    pub(super) answers: Box<dyn Consumer>,
}

impl Questions {
    pub(super) async fn of(fleet: &Fleet) -> Self {
        let spec = QueueSpec::calls(&worker());
        fleet.bus.declare_queue(&spec).await.unwrap();
        let answers = fleet.bus.consume(&spec.name, 0).await.unwrap();
        Self { asked: fleet.bus.consume(names::UNROUTED_QUEUE, 0).await.unwrap(), answers }
    }

    pub(super) async fn next(&mut self) -> (Message, RunQuery) {
        let delivery = soon(self.asked.next()).await.unwrap();
        delivery.ack().await.unwrap();
        let query: Query = serde_json::from_slice(&delivery.message.body).unwrap();
        let Asked::Run(run) = query.what else { panic!("{query:?}") };
        assert_eq!((delivery.message.key.as_str(), query.protocol), ("acme.query", 1));
        (delivery.message.as_ref().clone(), run)
    }

    pub(super) async fn answer(&mut self) -> ToolResult {
        let delivery = soon(self.answers.next()).await.unwrap();
        delivery.ack().await.unwrap();
        serde_json::from_slice(&delivery.message.body).unwrap()
    }
}

/// The address of whoever asked this question, for events of the run.
pub(super) fn of_run(question: &Message) -> Message {
    Message { message_id: Some("j".to_owned()), ..question.clone() }
}

/// Answers at once, except for the tool `waits`.
#[derive(Default)]
pub(super) struct Tools {
    pub(super) called: Mutex<Vec<String>>,
    pub(super) begun: Notify,
    pub(super) given_up: Arc<AtomicUsize>,
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl ToolHandler for Tools {
    async fn call(&self, _: &JobId, tool: &str, arguments: Box<RawValue>) -> Result<Box<RawValue>, ToolFailure> {
        let arguments: Value = serde_json::from_str(arguments.get()).unwrap();
        self.called.lock().unwrap().push(arguments["call"].as_str().unwrap_or_default().to_owned());
        if tool == "waits" {
            let _counted = Counted(self.given_up.clone());
            self.begun.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(to_raw_value(&arguments["call"]).unwrap())
    }
}

/// Attaches to the run `j`, with this answer of the fleet's.
pub(super) async fn attached(
    fleet: &Fleet,
    questions: &mut Questions,
    client: &Client,
    tools: &Arc<Tools>,
    answer: EventBody,
) -> (Result<(RunInfo, JobHandle), Error>, Message) {
    let run = id("j");
    let attach = client.attach(&run, Some(tools.clone()), LONG);
    let answered = async {
        let (message, query) = questions.next().await;
        assert!(query.take_over && query.job == id("j"), "{query:?}");
        fleet.tell(&message, answer).await;
        message
    };
    tokio::join!(attach, answered)
}

#[tokio::test]
async fn a_run_that_is_taken_over_has_its_calls_answered_once_and_gives_its_result() {
    let fleet = Fleet::new().await;
    let mut questions = Questions::of(&fleet).await;
    let (client, tools) = (fleet.client().await, Arc::new(Tools::default()));
    let omitted = PendingCall { arguments: None, omitted: true, ..pending("large", "echo") };
    let calls = vec![pending("1", "echo"), omitted, pending("2", "echo")];
    let (taken, question) = attached(&fleet, &mut questions, &client, &tools, running(calls.clone())).await;
    let (info, mut handle) = taken.unwrap();
    assert_eq!((info.state, info.calls), (RunState::Running, calls));
    assert_eq!(question.correlation_id.as_deref(), Some("j"), "one holder has one address");
    let mut answered = vec![questions.answer().await, questions.answer().await];
    answered.sort_by(|a, b| a.call.cmp(&b.call));
    assert_eq!(answered, ["1", "2"].map(|call| ToolResult::new(call, ToolReply::Ok(json!(call).into()))));

    // The worker's own message about the first call was on its way already.
    let run = of_run(&question);
    let call = pending("1", "echo").into_call().unwrap();
    fleet.tell(&run, EventBody::ToolCall(call)).await;
    assert_eq!(questions.answer().await.call, "1", "the same answer again");
    fleet
        .tell(&run, EventBody::ToolCall(ToolCall { call: "3".into(), ..pending("3", "echo").into_call().unwrap() }))
        .await;
    assert_eq!(questions.answer().await.call, "3");
    assert_eq!(*tools.called.lock().unwrap(), ["1", "2", "3"]);
    fleet.tell(&run, EventBody::Stdout { seq: 7, text: "on".into() }).await;
    fleet.end(&run, "all").await;
    let mut events = handle.events();
    assert!(matches!(soon(events.next()).await.unwrap().body, EventBody::Stdout { seq: 7, .. }));
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "all");
}

#[tokio::test]
async fn a_run_that_the_fleet_does_not_know_is_an_error_and_one_that_ended_has_its_result() {
    let mut fleet = Fleet::new().await;
    let mut questions = Questions::of(&fleet).await;
    let (client, tools) = (fleet.client().await, Arc::new(Tools::default()));
    let unknown = EventBody::Run(RunInfo::new(id("j"), RunState::Unknown));
    let (taken, _) = attached(&fleet, &mut questions, &client, &tools, unknown).await;
    assert!(matches!(taken.unwrap_err(), Error::UnknownRun(run) if run == id("j")));
    // Nothing is left of it.
    let own = client.submit(job("j"), None).await.unwrap();
    let message = fleet.take().await;
    fleet.end(&message, "own").await;
    assert_eq!(soon(own.result()).await.unwrap().stdout, "own");

    let ended = EventBody::Run(RunInfo::new(id("j"), RunState::Ended));
    let (taken, question) = attached(&fleet, &mut questions, &client, &tools, ended).await;
    let (info, handle) = taken.unwrap();
    assert_eq!(info.state, RunState::Ended);
    fleet.end(&of_run(&question), "kept").await;
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "kept");
}

#[tokio::test]
async fn a_run_whose_job_is_still_on_its_way_is_asked_for_again() {
    let fleet = Fleet::new().await;
    let mut questions = Questions::of(&fleet).await;
    let client = fleet.client_with(Options { unknown_for: LONG, ..quick() }).await;
    let asked = async {
        let query = RunQuery::new(id("j"));
        let info = client.run_info(query.clone(), LONG).await.unwrap();
        assert_eq!(info.state, RunState::Queued);
        let (info, handle) = client.attach(&id("j"), None, LONG).await.unwrap();
        assert_eq!(info.state, RunState::Queued);
        handle
    };
    let answered = async {
        let mut last = None;
        for state in [RunState::Unknown, RunState::Unknown, RunState::Queued, RunState::Unknown, RunState::Queued] {
            let (message, _) = questions.next().await;
            fleet.tell(&message, EventBody::Run(RunInfo::new(id("j"), state))).await;
            last = Some(message);
        }
        fleet.end(&of_run(&last.unwrap()), "known").await;
    };
    let (handle, ()) = tokio::join!(asked, answered);
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "known");
}

/// Keeps everything.
#[derive(Default)]
struct Kept {
    texts: Mutex<Vec<String>>,
    end: Mutex<Option<Result<Event, Error>>>,
    ended: Notify,
}

impl Kept {
    fn keep(&self, text: &Bytes) {
        self.texts.lock().unwrap().push(String::from_utf8(text.to_vec()).unwrap());
    }

    async fn end(&self) -> Result<Event, Error> {
        soon(self.ended.notified()).await;
        self.end.lock().unwrap().take().unwrap()
    }
}

#[async_trait]
impl Follower for Kept {
    fn event(&self, _: Event, text: &Bytes) {
        self.keep(text);
    }

    async fn tool_call(&self, _: ToolCall, text: Bytes) -> Result<Box<RawValue>, ToolFailure> {
        self.keep(&text);
        Ok(RawValue::from_string("1".to_owned()).unwrap())
    }

    fn end(&self, end: Result<(Event, Bytes), Error>) {
        *self.end.lock().unwrap() = Some(end.map(|(event, text)| {
            self.keep(&text);
            event
        }));
        self.ended.notify_one();
    }
}

#[tokio::test]
async fn what_comes_before_the_answer_follows_it_and_digits_are_kept() {
    let fleet = Fleet::new().await;
    let mut questions = Questions::of(&fleet).await;
    let (client, kept) = (fleet.client().await, Arc::new(Kept::default()));
    let taken = client.take_over(RunQuery { stdout_from: 3, ..RunQuery::new(id("j")) }, kept.clone(), LONG);
    let told = async {
        let (question, query) = questions.next().await;
        assert_eq!((query.stdout_from, query.stderr_from), (3, 0));
        let early = r#"{"job":"j","event":"stdout","seq":1,"text":"early"}"#;
        fleet.tell_text(&of_run(&question), early).await;
        let asked = question.message_id.clone().unwrap();
        let reply_to = names::calls_key(&tenant(), &worker());
        let call = format!(
            r#""call":"c","tool":"t","arguments":{{"n":1180591620717411303424}},"reply_to":"{reply_to}","within_ms":9"#
        );
        let head = format!(r#""job":"{asked}","attempt":2,"event":"run","run":"j","state":"waiting""#);
        let answer = format!(r#"{{{head},"calls":[{{{call},"waited_ms":1,"left_ms":9000}}]}}"#);
        fleet.tell_text(&question, answer.as_str()).await;
        (question, early, answer)
    };
    let (taken, (question, early, answer)) = tokio::join!(taken, told);
    let (event, text) = taken.unwrap();
    assert_eq!((event.attempt, &text[..]), (2, answer.as_bytes()));
    assert_eq!(questions.answer().await.call, "c");
    let result = r#"{"job":"j","event":"result","status":"succeeded"}"#;
    fleet.tell_text(&of_run(&question), result).await;
    kept.end().await.unwrap();
    let texts = kept.texts.lock().unwrap().clone();
    let call = texts.iter().position(|text| text.contains("tool_call")).unwrap();
    assert!(texts[call].contains(r#""arguments":{"n":1180591620717411303424}"#), "{texts:?}");
    let others: Vec<_> = texts.iter().enumerate().filter(|(at, _)| *at != call).map(|(_, text)| text).collect();
    assert_eq!(others, [&answer, early, result]);
    assert!(call > 0, "the answer comes first");
}

#[tokio::test]
async fn a_result_that_is_faster_than_the_answer_is_an_answer() {
    let fleet = Fleet::new().await;
    let mut questions = Questions::of(&fleet).await;
    let (client, tools) = (fleet.client().await, Arc::new(Tools::default()));
    let run = id("j");
    let attach = client.attach(&run, Some(tools), LONG);
    let told = async {
        let (question, _) = questions.next().await;
        fleet.tell(&of_run(&question), EventBody::Result(Outcome::new(Status::Succeeded))).await;
        question
    };
    let (taken, question) = tokio::join!(attach, told);
    let (info, handle) = taken.unwrap();
    assert_eq!((info.state, handle.result().await.unwrap().status), (RunState::Ended, Status::Succeeded));
    // The answer comes late, and changes nothing.
    fleet.tell(&question, running(Vec::new())).await;
}

#[tokio::test]
async fn who_is_superseded_gives_its_calls_up_and_can_come_back() {
    let mut fleet = Fleet::new().await;
    let mut questions = Questions::of(&fleet).await;
    let (client, tools) = (fleet.client().await, Arc::new(Tools::default()));
    let handle = client.submit(job("j"), Some(tools.clone())).await.unwrap();
    let message = fleet.take().await;
    let call = || EventBody::ToolCall(pending("1", "waits").into_call().unwrap());
    fleet.tell(&message, call()).await;
    soon(tools.begun.notified()).await;
    fleet.tell(&message, EventBody::Superseded {}).await;
    assert!(matches!(soon(handle.result()).await.unwrap_err(), Error::Superseded(run) if run == id("j")));
    soon(async {
        while tools.given_up.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    fleet.tell(&message, call()).await;

    let (taken, _) = attached(&fleet, &mut questions, &client, &tools, running(vec![pending("1", "waits")])).await;
    soon(tools.begun.notified()).await;
    assert_eq!(*tools.called.lock().unwrap(), ["1", "1"], "the call waits for the one who holds the run");
    drop(taken);
}

#[tokio::test]
async fn a_second_follower_on_one_client_supersedes_the_first() {
    let mut fleet = Fleet::new().await;
    let mut questions = Questions::of(&fleet).await;
    let (client, first, second) = (fleet.client().await, Arc::new(Tools::default()), Arc::new(Tools::default()));
    let handle = client.submit(job("j"), Some(first.clone())).await.unwrap();
    let message = fleet.take().await;
    fleet.tell(&message, EventBody::ToolCall(pending("1", "waits").into_call().unwrap())).await;
    soon(first.begun.notified()).await;
    let calls = vec![pending("1", "waits"), pending("2", "echo")];
    let (taken, _) = attached(&fleet, &mut questions, &client, &second, running(calls)).await;
    assert!(matches!(soon(handle.result()).await.unwrap_err(), Error::Superseded(_)));
    soon(second.begun.notified()).await;
    assert_eq!(questions.answer().await.call, "2");
    fleet.end(&message, "once").await;
    assert_eq!(soon(taken.unwrap().1.result()).await.unwrap().stdout, "once");
    assert_eq!((first.called.lock().unwrap().len(), second.called.lock().unwrap().len()), (1, 2));
}

#[tokio::test]
async fn after_its_queue_was_lost_a_client_asks_for_the_run_again() {
    let fleet = Fleet::new().await;
    let mut questions = Questions::of(&fleet).await;
    let (client, tools) = (fleet.client().await, Arc::new(Tools::default()));
    let (taken, first) = attached(&fleet, &mut questions, &client, &tools, running(vec![pending("1", "echo")])).await;
    let (_, handle) = taken.unwrap();
    assert_eq!(questions.answer().await.call, "1");
    fleet.bus.delete_queue(&names::reply_queue(&tenant(), client.id())).await.unwrap();
    let (again, query) = questions.next().await;
    assert!(again.headers.flag(names::H_RESEND) && query.take_over);
    assert_eq!((&again.body, &again.message_id), (&first.body, &first.message_id));
    let calls = vec![pending("1", "echo"), pending("2", "echo")];
    fleet.tell(&again, running(calls)).await;
    let mut answered = vec![questions.answer().await.call, questions.answer().await.call];
    answered.sort();
    assert_eq!(answered, ["1", "2"]);
    assert_eq!(*tools.called.lock().unwrap(), ["1", "2"], "each once");
    fleet.tell(&again, EventBody::Run(RunInfo::new(id("j"), RunState::Unknown))).await;
    assert!(matches!(soon(handle.result()).await.unwrap_err(), Error::UnknownRun(_)));
}

#[tokio::test]
async fn a_fleet_that_does_not_answer_is_an_error_and_a_late_answer_changes_nothing() {
    let mut fleet = Fleet::new().await;
    let mut questions = Questions::of(&fleet).await;
    let client = fleet.client().await;
    let run = id("j");
    let soon_over = Duration::from_millis(20);
    let error = client.attach(&run, None, soon_over).await.unwrap_err();
    assert!(matches!(error, Error::NoAnswer(_)), "{error:?}");
    let error = client.run_info(RunQuery::new(run), soon_over).await.unwrap_err();
    assert!(matches!(error, Error::NoAnswer(_)), "{error:?}");
    let (question, _) = questions.next().await;
    fleet.tell(&question, running(Vec::new())).await;
    let handle = client.submit(job("j"), None).await.unwrap();
    let message = fleet.take().await;
    fleet.end(&message, "").await;
    soon(handle.result()).await.unwrap();
}
