//! Questions about runs, and runs that another client takes over.

use thermae_backplane::bus::{Consumer, Message};
use thermae_backplane::record::{Address, Start};
use thermae_schemas::{
    Body, Class, ErrorCode, Event, EventBody, JobId, Outcome, Query, RunInfo, RunQuery, RunState, Status, names,
};

use crate::fleet::{Assigned, Servers, Worker, depth, job, options, pool, soon, tenant};
use crate::raw::{RawClient, submit_raw};

/// A client that asks about runs.
struct Asker(RawClient);

impl Asker {
    async fn new(servers: &Servers, of: &'static str) -> Self {
        Self(RawClient::new(servers, of).await)
    }

    async fn submit(&self, id: &str, max_attempts: u32) {
        let job = thermae_schemas::Job { max_attempts, ..job(id) };
        let key = names::submit_key(&tenant(self.0.tenant), Class::Normal, &pool());
        submit_raw(&self.0.servers, &key, &job.to_json().unwrap(), &self.0.reply_to, Some(id)).await;
    }

    /// A question about the run of this job. Its correlation id is the question's own id.
    fn message(&self, id: &str, of: &str, take_over: bool) -> Message {
        let run = RunQuery { take_over, stdout_from: 3, ..RunQuery::new(JobId::new(of).unwrap()) };
        let question = Query::run(JobId::new(id).unwrap(), run).to_json().unwrap();
        self.0.message(names::query_key(&tenant(self.0.tenant)), question, id)
    }

    async fn send(&self, message: Message) {
        self.0.send(message).await;
    }

    async fn ask(&self, id: &str, of: &str) {
        self.send(self.message(id, of, false)).await;
    }

    async fn take(&self, id: &str, of: &str) {
        self.send(self.message(id, of, true)).await;
    }

    /// The next message: its event and its correlation id.
    async fn next(&mut self) -> (Event, Option<String>) {
        let (event, message) = self.0.next().await;
        (event, message.correlation_id)
    }

    /// The answer to this question: the number of the attempt, and what the fleet knows of the run.
    async fn info(&mut self, question: &str) -> (u32, RunInfo) {
        let (event, mark) = self.next().await;
        assert_eq!((event.job.as_str(), mark.as_deref(), event.protocol), (question, Some(question), 1));
        let EventBody::Run(info) = event.body else { panic!("{event:?}") };
        (event.attempt, info)
    }

    async fn state(&mut self, question: &str) -> RunState {
        self.info(question).await.1.state
    }

    /// The job's outcome, and the correlation id with which it comes.
    async fn result(&mut self, of: &str) -> (Outcome, Option<String>) {
        let (event, mark) = self.next().await;
        assert_eq!(event.job.as_str(), of);
        let EventBody::Result(outcome) = event.body else { panic!("{event:?}") };
        (outcome, mark)
    }

    /// Another client has taken the run over.
    async fn superseded(&mut self, of: &str) {
        let (event, mark) = self.next().await;
        assert_eq!((event.job.as_str(), &event.body, event.protocol), (of, &EventBody::Superseded {}, 1));
        assert_eq!(mark.as_deref(), Some("mark"), "as the job was submitted");
    }

    /// Nothing more comes. Another question is answered first if something does.
    async fn is_left_alone(&mut self) {
        self.ask("last", "no-such-job").await;
        assert_eq!(self.state("last").await, RunState::Unknown);
    }

    fn address(&self, mark: &str) -> Address {
        Address { reply_key: self.0.reply_to.clone(), correlation_id: Some(mark.to_owned()) }
    }
}

/// A job of this client that the worker has taken.
async fn taken(asker: &Asker, id: &str, worker: &Worker) -> Assigned {
    let mut jobs = worker.take().await;
    asker.submit(id, 1).await;
    soon(jobs.recv()).await.unwrap()
}

async fn control(worker: &Worker) -> Box<dyn Consumer> {
    worker.bus.consume(&names::control_queue(&worker.id), 10).await.unwrap()
}

/// What the worker is told next.
async fn told(control: &mut Box<dyn Consumer>) -> Message {
    let delivery = soon(control.next()).await.unwrap();
    delivery.ack().await.unwrap();
    delivery.message.as_ref().clone()
}

#[tokio::test]
async fn a_client_learns_the_state_of_its_tenants_runs() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w", 1).await;
    let (mut acme, mut globex) = (Asker::new(&servers, "acme").await, Asker::new(&servers, "globex").await);
    acme.ask("q", "j").await;
    assert_eq!(acme.info("q").await, (0, RunInfo::new(JobId::new("j").unwrap(), RunState::Unknown)));
    let running = taken(&acme, "j", &worker).await;
    acme.ask("q", "j").await;
    assert_eq!(acme.info("q").await, (1, RunInfo::new(JobId::new("j").unwrap(), RunState::Queued)));
    assert_eq!(worker.start(&running).await, Start::Go);
    let mut to_worker = control(&worker).await;
    let mut question = acme.message("r", "j", false);
    // What the client says in headers is not passed on.
    question.headers.set_int(names::H_TAKEN, 7);
    acme.send(question.clone()).await;
    let message = told(&mut to_worker).await;
    assert_eq!(message.body, question.body);
    assert_eq!(message.headers.0.len(), 2, "{:?}", message.headers);
    assert_eq!(message.headers.text(names::H_TENANT), Some("acme"));
    assert_eq!(message.headers.text(names::H_QUERY), Some(names::QUERY_RUN));
    assert_eq!((message.message_id.as_deref(), message.correlation_id.as_deref()), (Some("r"), Some("r")));
    assert_eq!(message.reply_to.as_ref(), Some(&acme.0.reply_to));
    // Another tenant's run is no run, and can't be taken over.
    globex.take("q", "j").await;
    assert_eq!(globex.state("q").await, RunState::Unknown);
    worker.finish(&running, "ran\n").await;
    let (outcome, mark) = acme.result("j").await;
    assert_eq!((outcome.stdout.as_str(), mark.as_deref()), ("ran\n", Some("mark")));
    for take_over in [false, true] {
        acme.send(acme.message("e", "j", take_over)).await;
        assert_eq!(acme.info("e").await, (0, RunInfo::new(JobId::new("j").unwrap(), RunState::Ended)));
        assert_eq!(acme.result("j").await, (outcome.clone(), Some("e".to_owned())));
    }
    globex.ask("q", "j").await;
    assert_eq!(globex.state("q").await, RunState::Unknown);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_run_that_has_not_started_is_taken_over() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w", 1).await;
    let (mut first, mut second) = (Asker::new(&servers, "acme").await, Asker::new(&servers, "acme").await);
    let waits = taken(&first, "j", &worker).await;
    // A client that has the run already takes nothing from anybody.
    first.take("own", "j").await;
    assert_eq!(first.state("own").await, RunState::Queued);
    let record = servers.registry.lookup(&waits.key).await.unwrap().unwrap();
    assert_eq!(record.address(), Some(first.address("own")));
    for _ in 0..2 {
        second.take("q", "j").await;
        assert_eq!(second.state("q").await, RunState::Queued);
    }
    let (event, mark) = first.next().await;
    assert_eq!((event.job.as_str(), event.body, mark.as_deref()), ("j", EventBody::Superseded {}, Some("own")));
    let begun = worker.begin(&waits).await;
    assert_eq!((begun.what, begun.taker.map(|taker| taker.address)), (Start::Go, Some(second.address("q"))));
    worker.finish(&waits, "ran\n").await;
    let (outcome, mark) = second.result("j").await;
    assert_eq!((outcome.stdout.as_str(), mark.as_deref()), ("ran\n", Some("q")));
    first.is_left_alone().await;
    // The outcome is recorded, and whoever asks for it gets it.
    first.submit("j", 1).await;
    assert_eq!(first.result("j").await.0, outcome);
    scheduler.stop().await;
}

#[tokio::test]
async fn the_worker_learns_who_has_taken_a_run_over_and_in_which_order() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w", 1).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(Asker::new(&servers, "acme").await);
    }
    let running = taken(&clients[0], "j", &worker).await;
    assert_eq!(worker.start(&running).await, Start::Go);
    let mut to_worker = control(&worker).await;
    let mut last = 0;
    for (who, repeats) in [(0, true), (1, false), (1, true), (2, false), (0, false)] {
        clients[who].take("mark", "j").await;
        let message = told(&mut to_worker).await;
        assert_eq!(message.reply_to.as_ref(), Some(&clients[who].0.reply_to));
        let at = message.headers.int(names::H_TAKEN).unwrap_or(0);
        assert!(if repeats { at == last } else { at > last }, "{at} after {last}");
        last = at;
    }
    // It is the worker that tells the others.
    worker.finish(&running, "ran\n").await;
    assert_eq!(clients[0].result("j").await.0.stdout, "ran\n");
    for other in &mut clients[1..] {
        other.is_left_alone().await;
    }
    scheduler.stop().await;
}

#[tokio::test]
async fn of_clients_that_take_a_run_over_at_once_one_has_it() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w", 1).await;
    let mut first = Asker::new(&servers, "acme").await;
    let waits = taken(&first, "j", &worker).await;
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(Asker::new(&servers, "acme").await);
    }
    futures::future::join_all(others.iter().map(|other| other.take("mark", "j"))).await;
    let mut early = Vec::new();
    for other in &mut others {
        let mut superseded = false;
        loop {
            match other.next().await.0.body {
                EventBody::Superseded {} => superseded = true,
                EventBody::Run(info) => {
                    assert_eq!(info.state, RunState::Queued);
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        early.push(superseded);
    }
    first.superseded("j").await;
    let record = servers.registry.lookup(&waits.key).await.unwrap().unwrap();
    let holder = record.taker().unwrap().address.reply_key;
    worker.start(&waits).await;
    worker.finish(&waits, "ran\n").await;
    for (other, superseded) in others.iter_mut().zip(early) {
        if other.0.reply_to == holder {
            assert!(!superseded);
            assert_eq!(other.result("j").await.0.stdout, "ran\n");
        } else if !superseded {
            other.superseded("j").await;
        }
        other.is_left_alone().await;
    }
    scheduler.stop().await;
}

#[tokio::test]
async fn whoever_ends_a_run_that_was_taken_over_tells_the_client_that_has_it() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w", 1).await;
    let (mut first, mut second) = (Asker::new(&servers, "acme").await, Asker::new(&servers, "acme").await);
    // A third client cancels it before it starts.
    let waits = taken(&first, "cancelled", &worker).await;
    second.take("q", "cancelled").await;
    assert_eq!(second.state("q").await, RunState::Queued);
    first.superseded("cancelled").await;
    servers.client("acme").await.cancel(&waits.key.job).await.unwrap();
    let (outcome, mark) = second.result("cancelled").await;
    assert_eq!((outcome.status, mark.as_deref()), (Status::Cancelled, Some("q")));
    let begun = worker.begin(&waits).await;
    assert!(matches!(begun.what, Start::Terminal(_)) && begun.taker.unwrap().address == second.address("q"));
    first.is_left_alone().await;
    waits.delivery.ack().await.unwrap();
    // Its worker dies, before it could tell anybody anything.
    let running = taken(&first, "lost", &worker).await;
    assert_eq!(worker.start(&running).await, Start::Go);
    second.take("q", "lost").await;
    told(&mut control(&worker).await).await;
    worker.hand_over(running).await;
    let (outcome, mark) = second.result("lost").await;
    assert_eq!((outcome.error.unwrap().code, mark.as_deref()), (ErrorCode::WorkerLost, Some("q")));
    first.superseded("lost").await;
    first.is_left_alone().await;
    scheduler.stop().await;
}

#[tokio::test]
async fn a_worker_that_can_t_answer_is_named() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let gone = servers.worker("gone", 1).await;
    let (mut first, mut second) = (Asker::new(&servers, "acme").await, Asker::new(&servers, "acme").await);
    let running = taken(&first, "j", &gone).await;
    assert_eq!(gone.start(&running).await, Start::Go);
    servers.bus.delete_queue(&names::control_queue(&gone.id)).await.unwrap();
    second.take("q", "j").await;
    let info = RunInfo { worker: Some(gone.id.clone()), ..RunInfo::new(JobId::new("j").unwrap(), RunState::Running) };
    assert_eq!(second.info("q").await, (1, info));
    first.superseded("j").await;
    gone.finish(&running, "ran\n").await;
    assert_eq!(second.result("j").await.0.stdout, "ran\n");
    scheduler.stop().await;
}

#[tokio::test]
async fn a_question_that_nobody_may_ask_is_not_answered() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w", 1).await;
    let (mut acme, mut globex) = (Asker::new(&servers, "acme").await, Asker::new(&servers, "globex").await);
    let waits = taken(&acme, "j", &worker).await;
    // Without a `user_id`, for another tenant's answers, and in a protocol that nobody speaks.
    let unsigned = Message { user_id: None, ..globex.message("q", "j", true) };
    let mut foreign = Message { reply_to: Some(acme.0.reply_to.clone()), ..globex.message("q", "j", true) };
    foreign.sign(servers.bus.as_ref(), &tenant("globex"));
    let forged = Message { key: names::query_key(&tenant("acme")), ..unsigned.clone() };
    let newer = globex.message("q", "j", true);
    let newer = Message { body: String::from_utf8_lossy(&newer.body).replace(":1,", ":9,").into(), ..newer };
    for message in [unsigned, foreign, forged, newer] {
        globex.send(message).await;
    }
    depth(&servers, names::UNROUTED_QUEUE, |depth| depth == Some(0)).await;
    globex.is_left_alone().await;
    acme.is_left_alone().await;
    assert_eq!(servers.registry.lookup(&waits.key).await.unwrap().unwrap().taken, None);
    scheduler.stop().await;
}
