//! Runs that another client takes over, and questions about runs, as a scheduler passes them on.

use serde_json::json;
use thermae_backplane::bus::{Consumer, Headers, Message, QueueSpec};
use thermae_backplane::record::{Address, Millis, Record, TakeOver};
use thermae_backplane::registry::Registry;
use thermae_schemas::{
    Body, ClientId, Event, EventBody, IfClientGone, Job, JobId, Query, RunInfo, RunQuery, RunState, Stream, ToolCall,
    ToolReply, ToolSpec, WorkerId, names,
};

use crate::harness::{Fleet, options, python, within};

/// Another client of the tenant.
struct Other {
    replies: Box<dyn Consumer>,
    address: Address,
}

impl Other {
    async fn new(fleet: &Fleet) -> Self {
        let me = ClientId::random();
        fleet.bus.declare_queue(&QueueSpec::replies(&fleet.tenant, &me)).await.unwrap();
        let replies = fleet.bus.consume(&names::reply_queue(&fleet.tenant, &me), 100).await.unwrap();
        let reply_key = names::reply_key(&fleet.tenant, &me);
        Self { replies, address: Address { reply_key, correlation_id: Some("other".into()) } }
    }

    /// Takes the run over in the registry, as the scheduler does first. Returns when that was.
    async fn take(&self, fleet: &Fleet, job: &Job) -> Millis {
        match fleet.registry.take_over(&fleet.key(job), &self.address).await.unwrap() {
            TakeOver::Started { at: Some(at), .. } => at,
            other => panic!("{other:?}"),
        }
    }

    /// Asks a worker about a run, as the scheduler passes it on.
    async fn ask(&self, fleet: &Fleet, worker: &WorkerId, job: &Job, taken: Option<Millis>) {
        let mut headers = Headers::default();
        headers.set_text(names::H_TENANT, fleet.tenant.as_str());
        headers.set_text(names::H_QUERY, names::QUERY_RUN);
        if let Some(at) = taken {
            headers.set_int(names::H_TAKEN, i64::try_from(at).unwrap());
        }
        let question = Query::run(JobId::new("q").unwrap(), RunQuery::new(job.id.clone()));
        let message = Message {
            exchange: names::WORK.into(),
            key: names::control_key(worker),
            body: question.to_json().unwrap().into(),
            reply_to: Some(self.address.reply_key.clone()),
            correlation_id: self.address.correlation_id.clone(),
            headers,
            mandatory: true,
            ..Message::default()
        };
        fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    }

    async fn event(&mut self) -> Event {
        let delivery = within("an event", self.replies.next()).await.unwrap();
        delivery.ack().await.unwrap();
        assert_eq!(delivery.message.correlation_id, self.address.correlation_id);
        Event::parse(&delivery.message.body).unwrap()
    }

    /// The answer to a question.
    async fn info(&mut self) -> (u32, RunInfo) {
        let Event { job, attempt, body: EventBody::Run(info), .. } = self.event().await else { panic!("no answer") };
        assert_eq!(job.as_str(), "q");
        (attempt, info)
    }

    async fn tool_call(&mut self) -> ToolCall {
        match self.event().await.body {
            EventBody::ToolCall(call) => call,
            other => panic!("{other:?}"),
        }
    }

    /// What the job printed, from its result.
    async fn printed(&mut self, job: &Job) -> String {
        let event = self.event().await;
        assert_eq!(event.job, job.id);
        let EventBody::Result(outcome) = event.body else { panic!("{event:?}") };
        outcome.stdout
    }
}

fn asks(code: &str) -> Job {
    Job { tools: vec![ToolSpec::new("look")], ..python(code) }
}

/// Checks the answer about a run that has printed `a` and waits for this call.
fn is_running(info: (u32, RunInfo), job: &Job, worker: &WorkerId, call: &ToolCall) {
    let (attempt, RunInfo { run, state, worker: by, mut calls, approvals, stdout, stderr }) = info;
    assert_eq!((attempt, &run, state, by.as_ref()), (1, &job.id, RunState::Running, Some(worker)));
    let (stdout, stderr) = (stdout.unwrap(), stderr.unwrap());
    assert_eq!((&**stdout.data, stdout.from, stdout.more, stderr.data.is_empty()), (&b"a\n"[..], 0, false, true));
    let waiting = calls.pop().unwrap();
    assert!(calls.is_empty() && approvals.is_empty() && waiting.left_ms <= call.within_ms);
    let again = ToolCall { within_ms: call.within_ms, ..waiting.into_call().unwrap() };
    assert_eq!(again, *call);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_sends_goes_to_whoever_took_it_over() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let (mut second, mut third) = (Other::new(&fleet).await, Other::new(&fleet).await);
    let code = "print('a', flush=True)\nprint(await look(), flush=True)\nprint(await look())";
    let job = Job { stream: vec![Stream::Output], ..asks(code) };
    fleet.submit(&job).await;
    assert!(matches!(fleet.event_of(&job).await, EventBody::Stdout { seq: 0, .. }));
    let first = fleet.tool_call(&job).await;
    // A question alone changes nothing.
    third.ask(&fleet, &worker.id, &job, None).await;
    is_running(third.info().await, &job, &worker.id, &first);
    let (early, late) = (third.take(&fleet, &job).await, second.take(&fleet, &job).await);
    second.ask(&fleet, &worker.id, &job, Some(late)).await;
    is_running(second.info().await, &job, &worker.id, &first);
    assert_eq!(fleet.event_of(&job).await, EventBody::Superseded {});
    // The earlier taker comes here after the later one.
    third.ask(&fleet, &worker.id, &job, Some(early)).await;
    is_running(third.info().await, &job, &worker.id, &first);
    let event = third.event().await;
    assert_eq!((&event.job, &event.body), (&job.id, &EventBody::Superseded {}));
    // An answer of the client before still counts.
    fleet.answer(&first, ToolReply::Ok(json!("b").into())).await;
    let event = second.event().await;
    assert!(matches!(&event.body, EventBody::Stdout { seq: 1, text } if text == "b\n"), "{event:?}");
    let call = second.tool_call().await;
    fleet.answer(&call, ToolReply::Ok(json!("c").into())).await;
    assert!(matches!(second.event().await.body, EventBody::Stdout { seq: 2, .. }));
    assert_eq!(second.printed(&job).await, "a\nb\nc\n");
    // It has ended. Whoever asks this worker for it gets its outcome.
    second.ask(&fleet, &worker.id, &job, None).await;
    assert_eq!(second.info().await, (0, RunInfo::new(job.id.clone(), RunState::Ended)));
    assert_eq!(second.printed(&job).await, "a\nb\nc\n");
    // Nothing more came to the others.
    for reply_key in [names::reply_key(&fleet.tenant, &fleet.client), third.address.reply_key] {
        assert_eq!(fleet.depth(&format!("replies.{reply_key}")).await, 0);
    }
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_goes_to_whoever_took_the_run_over_though_the_worker_was_not_told() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut second = Other::new(&fleet).await;
    let job = asks("print(await look())");
    fleet.submit(&job).await;
    let call = fleet.tool_call(&job).await;
    second.take(&fleet, &job).await;
    fleet.answer(&call, ToolReply::Ok(json!("b").into())).await;
    assert_eq!(second.printed(&job).await, "b\n");
    assert_eq!(fleet.event_of(&job).await, EventBody::Superseded {});
    // A copy of the job's message finds the outcome, and answers as the record says.
    let copy = fleet.assign_again(&job).await;
    fleet.bus.publish(copy).await.unwrap().wait().await.unwrap();
    assert_eq!(second.printed(&job).await, "b\n");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_taken_over_before_it_started_is_its_takers() {
    let fleet = Fleet::new().await;
    let mut second = Other::new(&fleet).await;
    let job = Job { stream: vec![Stream::Output], ..asks("print(await look())") };
    let message = fleet.assign(&fleet.tenant.clone(), &job, None).await;
    let worker = fleet.worker(options()).await;
    let taken = fleet.registry.take_over(&fleet.key(&job), &second.address).await.unwrap();
    assert!(matches!(taken, TakeOver::Assigned { attempt: 1, previous: Some(_) }), "{taken:?}");
    fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    let call = second.tool_call().await;
    fleet.answer(&call, ToolReply::Ok(json!("b").into())).await;
    assert!(matches!(second.event().await.body, EventBody::Stdout { .. }));
    assert_eq!(second.printed(&job).await, "b\n");
    assert_eq!(fleet.depth(&names::reply_queue(&fleet.tenant, &fleet.client)).await, 0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_reaches_nobody_waits_for_whoever_takes_the_run_over() {
    let fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut second = Other::new(&fleet).await;
    let job = Job { if_client_gone: IfClientGone::Wait, ..asks("print(await look(n=1))\nprint(await look())") };
    let mut message = fleet.assign(&fleet.tenant.clone(), &job, None).await;
    (message.key, message.reply_to) = (names::pool_key(&job.pool, job.protocol), Some("acme.gone".into()));
    fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    let mut calls = Vec::new();
    let asked = async {
        while calls.is_empty() {
            second.ask(&fleet, &worker.id, &job, None).await;
            calls = second.info().await.1.calls;
        }
    };
    let started = async {
        let has_started = |record: Option<Record>| record.is_some_and(|record| record.owner().is_some());
        while !has_started(fleet.registry.lookup(&fleet.key(&job)).await.unwrap()) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    within("the start", started).await;
    within("the call", asked).await;
    let taken = second.take(&fleet, &job).await;
    second.ask(&fleet, &worker.id, &job, Some(taken)).await;
    let call = second.info().await.1.calls.remove(0).into_call().unwrap();
    assert_eq!((json!(call.arguments), &call.call), (json!({"n": 1}), &calls[0].call));
    fleet.answer(&call, ToolReply::Ok(json!("b").into())).await;
    let call = second.tool_call().await;
    fleet.answer(&call, ToolReply::Ok(json!("c").into())).await;
    assert_eq!(second.printed(&job).await, "b\nc\n");
    worker.end().await;
}
