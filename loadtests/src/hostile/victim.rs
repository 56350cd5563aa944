//! The victim: submits prints at a steady rate, and now and then a job of a session or a job that calls a tool.
//!
//! It never waits for an answer before it submits the next job, and it times each job from the moment when it was due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use async_trait::async_trait;
use hdrhistogram::Histogram;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use thermae_client::{Client, ToolHandler};
use thermae_schemas::{
    EventBody, Job, JobId, Outcome, SessionName, SessionRequest, Status, Stream, ToolFailure, ToolSpec,
};
use tokio::task::JoinSet;

use super::Phase;
use crate::cases::describe;

/// How long an answer may take before its job counts as lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Of this many jobs, one is in a session, and one calls a tool.
const EVERY: u64 = 16;

/// Number of slowest jobs that the report describes.
const SLOWEST: usize = 10;

/// Number of lost jobs that the report quotes.
const QUOTED: usize = 10;

/// What a job printed, or what is wrong with it.
type Answer = Result<String, String>;

/// Names of a job's stages: the scheduler has handed it out, its code has started, its outcome has arrived.
const STAGES: [&str; 3] = ["accepted", "started", "answered"];

/// When a job reached `accepted` and `started`; `None` if the event never came.
type Stages = [Option<Instant>; 2];

/// The tenant that is measured, with what its jobs have answered so far.
pub(super) struct Victim {
    client: Client,
    rate: f64,
    session: SessionName,
    next: u64,
    /// The numbers that the session's jobs printed. Each must appear once.
    counted: BTreeSet<u64>,
    tool: Arc<Once>,
    lost: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Print,
    Session,
    Tool,
}

impl Kind {
    fn of(number: u64) -> Self {
        match number % EVERY {
            5 => Self::Session,
            13 => Self::Tool,
            _ => Self::Print,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Print => "print",
            Self::Session => "session",
            Self::Tool => "tool",
        }
    }
}

impl Victim {
    pub(super) fn new(client: Client, rate: f64) -> Self {
        let session = format!("victim-{}", uuid::Uuid::new_v4().simple());
        // Letters, digits and hyphens make a valid name.
        let session = SessionName::new(session).unwrap_or_else(|_| unreachable!("a session's name"));
        Self { client, rate, session, next: 0, counted: BTreeSet::new(), tool: Arc::default(), lost: Vec::new() }
    }

    /// Submits jobs for `time`, and waits for all answers.
    pub(super) async fn submit_for(&mut self, time: Duration) -> Result<Phase> {
        let (begun, mut answers) = (Instant::now(), JoinSet::new());
        let jobs = (time.as_secs_f64() * self.rate).max(1.0) as u64;
        for n in 0..jobs {
            let due = begun + Duration::from_secs_f64(n as f64 / self.rate);
            tokio::time::sleep_until(due.into()).await;
            let (number, kind) = (self.next, Kind::of(self.next));
            self.next += 1;
            let (client, tool, job) = (self.client.clone(), self.tool.clone(), self.job(kind, number));
            answers.spawn(async move {
                let (answer, stages) = ask(&client, job, tool).await;
                (number, kind, due, Instant::now(), stages, answer)
            });
        }
        let mut all = Histogram::<u64>::new(3)?;
        let mut stages = [Histogram::<u64>::new(3)?, Histogram::new(3)?, Histogram::new(3)?];
        let mut kinds: BTreeMap<Kind, Histogram<u64>> = BTreeMap::new();
        let mut slowest = Vec::new();
        while let Some(answer) = answers.join_next().await {
            let (number, kind, due, end, [accepted, started], answer) =
                answer.context("a task of the victim's panicked")?;
            let took = (end - due).as_nanos() as u64;
            all.record(took)?;
            let ways = [accepted, started, Some(end)].map(|at| at.unwrap_or(end).saturating_duration_since(due));
            for (stage, way) in stages.iter_mut().zip(ways) {
                stage.record(way.as_nanos() as u64)?;
            }
            let [accepted, started, answered] = ways.map(|way| way.as_millis());
            let way = format!(
                "{} at {:.2} s: accepted {accepted}, started {started}, answered {answered} ms",
                kind.name(),
                (due - begun).as_secs_f64()
            );
            slowest.push((took, way));
            kinds.entry(kind).or_insert(Histogram::new(3)?).record(took)?;
            self.check(number, kind, answer);
        }
        slowest.sort_unstable_by_key(|(took, _)| std::cmp::Reverse(*took));
        let ms = |ns: u64| (ns as f64 / 1e3).round() / 1e3;
        let p95 = |times: &Histogram<u64>| ms(times.value_at_quantile(0.95));
        Ok(Phase {
            jobs: all.len(),
            p50_ms: ms(all.value_at_quantile(0.5)),
            p95_ms: p95(&all),
            max_ms: ms(all.max()),
            stages: STAGES.iter().zip(&stages).map(|(stage, times)| ((*stage).to_owned(), p95(times))).collect(),
            kinds: kinds.iter().map(|(kind, times)| (kind.name().to_owned(), p95(times))).collect(),
            slowest: slowest.into_iter().take(SLOWEST).map(|(_, way)| way).collect(),
            neighbour: BTreeMap::new(),
        })
    }

    fn job(&self, kind: Kind, number: u64) -> Job {
        match kind {
            Kind::Print => Job::python(format!("print({number})")),
            Kind::Session => Job {
                session: Some(SessionRequest::new(self.session.clone())),
                ..Job::python("n = globals().get('n', 0) + 1\nprint(n)")
            },
            Kind::Tool => Job { tools: vec![Once::spec()], ..Job::python(format!("print(await once(n={number}))")) },
        }
    }

    fn check(&mut self, number: u64, kind: Kind, answer: Answer) {
        let wrong = match (answer, kind) {
            (Err(wrong), _) => Some(wrong),
            (Ok(printed), Kind::Session) => {
                let new = printed.trim().parse().is_ok_and(|n| self.counted.insert(n));
                (!new).then(|| format!("printed {printed:?}, as another job before"))
            }
            (Ok(printed), _) => (printed != format!("{number}\n")).then(|| format!("printed {printed:?}")),
        };
        if let Some(wrong) = wrong {
            self.lose(format!("{} {number}: {wrong}", kind.name()));
        }
    }

    fn lose(&mut self, what: String) {
        if self.lost.len() < QUOTED {
            self.lost.push(what);
        }
    }

    /// The number of all jobs, and the first few that did not succeed exactly once.
    pub(super) fn end(mut self) -> (u64, Vec<String>) {
        let of = |kind| (0..self.next).filter(move |n| Kind::of(*n) == kind).count() as u64;
        let (sessions, tools) = (of(Kind::Session), of(Kind::Tool));
        if !self.counted.iter().copied().eq(1..=sessions) {
            self.lose(format!("the session's {sessions} jobs did not count every number once: {:?}", self.counted));
        }
        let called = self.tool.calls();
        if called.len() as u64 != tools || called.values().any(|n| *n != 1) {
            self.lose(format!("the tools of {tools} jobs were called by {} of them: {called:?}", called.len()));
        }
        (self.next, self.lost)
    }
}

async fn ask(client: &Client, job: Job, tool: Arc<Once>) -> (Answer, Stages) {
    let mut stages = Stages::default();
    let asked = async {
        let mut handle = client.submit(Job { stream: vec![Stream::Lifecycle], ..job }, Some(tool)).await?;
        let mut events = handle.events();
        while let Some(event) = events.next().await {
            match event.body {
                EventBody::Accepted {} => stages[0] = Some(Instant::now()),
                EventBody::Started { .. } => stages[1] = Some(Instant::now()),
                _ => {}
            }
        }
        handle.result().await
    };
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, asked).await;
    (checked(answer), stages)
}

fn checked(answer: Result<Result<Outcome, thermae_client::Error>, tokio::time::error::Elapsed>) -> Answer {
    match answer {
        Ok(Ok(outcome)) if outcome.status == Status::Succeeded => Ok(outcome.stdout),
        Ok(Ok(outcome)) => Err(describe(&outcome)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {ANSWER_TIMEOUT:?}")),
    }
}

/// The victim's tool. It counts the calls of each job.
#[derive(Default)]
struct Once(Mutex<BTreeMap<String, u32>>);

impl Once {
    fn spec() -> ToolSpec {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        ToolSpec { input_schema: Some((&schema).into()), ..ToolSpec::new("once") }
    }

    fn calls(&self) -> BTreeMap<String, u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl ToolHandler for Once {
    async fn call(&self, job: &JobId, _tool: &str, arguments: Box<RawValue>) -> Result<Box<RawValue>, ToolFailure> {
        let arguments: Value = serde_json::from_str(arguments.get()).map_err(|error| error.to_string())?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(job.to_string()).or_default() += 1;
        to_raw_value(&arguments["n"]).map_err(|error| error.to_string().into())
    }
}
