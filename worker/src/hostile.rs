//! Property tests of everything that a worker reads: the frames of a runner whose container was taken over, messages
//! from a queue, and what a job sends through its runner.

use std::borrow::Cow;
use std::io::Write;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use thermae_backplane::bus::{Delivery, HeaderValue, Headers, Message};
use thermae_runner::frames::{Exit, Frame, HEADER, Kind, Limits, MAX_FRAME, Setup, WIRE};
use thermae_schemas::{Event, EventBody, LimitRequest, WorkerId, names};
use thermae_testkit::hostile;
use tokio_util::task::TaskTracker;

use crate::conn::{Conn, Pings, exit_of};
use crate::options::{Bounds, LimitOptions};
use crate::outcome::{self, About, Collected};
use crate::wire;
use crate::work::{self, Work};

fn setup() -> Setup {
    let ceiling = Limits {
        wall_ms: 1,
        pause_ms: 1,
        pause_after_ms: 1,
        grace_ms: 1,
        cpu_ms: 1,
        memory_bytes: 1,
        pids: 1,
        output_bytes: 1,
    };
    Setup {
        wire: WIRE,
        languages: Vec::new(),
        spares: 1,
        disk_bytes: 1,
        ceiling,
        artifacts: thermae_runner::frames::ArtifactLimits::default(),
        nested: true,
    }
}

/// Plays a runner that says this and then only listens. The worker must close the connection and end its tasks. Returns
/// why it closed the connection.
fn hear(said: &[u8]) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let tasks = TaskTracker::new();
        let pings = Pings { every: Duration::from_secs(60), within: Duration::from_secs(60) };
        let conn = Conn::start(tokio::net::UnixStream::from_std(ours).unwrap(), &setup(), pings, &tasks);
        let said = said.to_vec();
        // The runner says no more but goes on to listen, so that a failed write can't be what ends the connection.
        let talker = std::thread::spawn(move || {
            let _ = theirs.write_all(&said);
            let _ = theirs.shutdown(std::net::Shutdown::Write);
            theirs
        });
        let closed = tokio::time::timeout(Duration::from_secs(60), conn.closed().cancelled()).await;
        assert!(closed.is_ok(), "it is still open");
        drop(talker.join().unwrap());
        tasks.close();
        assert!(tokio::time::timeout(Duration::from_secs(60), tasks.wait()).await.is_ok(), "a task goes on");
        conn.why()
    })
}

fn frame(kind: Kind, run: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Frame::raw(kind, run, body).encode(&mut bytes);
    bytes
}

const KINDS: [Kind; 10] = [
    Kind::Ready,
    Kind::Started,
    Kind::Stdout,
    Kind::ToolCall,
    Kind::Display,
    Kind::Exit,
    Kind::SessionClosed,
    Kind::Pong,
    Kind::Fatal,
    Kind::Run,
];

const EXIT: &[(&str, &str)] = &[
    ("end", "{\"how\":\"exited\",\"code\":0}"),
    ("error", r#"{"type":"E","message":"m","traceback":"t"}"#),
    ("value", "{\"text/plain\":\"x\"}"),
    ("usage", r#"{"wall_us":1,"cpu_us":1,"memory_bytes":1,"output_bytes":1}"#),
    ("phases", "{\"run\":1}"),
    ("warm", "true"),
];

/// Makes an outcome from an exit and output, and reads it as a client does.
fn conclude(exit: Exit, stdout: Vec<u8>) {
    let limits = LimitOptions::default().grant(&LimitRequest::default()).unwrap();
    let worker = WorkerId::new("w").unwrap();
    let bounds = Bounds::default();
    let about = About {
        limits: &limits,
        worker: &worker,
        bounds: &bounds,
        tool_calls: 0,
        tool_wait: Duration::ZERO,
        session: None,
        notes: &[],
    };
    let made = outcome::of_exit(exit, Collected { stdout, ..Collected::default() }, about);
    let text = wire::result(&work::tests::work(), 1, &made).unwrap();
    let EventBody::Result(read) = serde_json::from_slice::<Event>(&text).unwrap().body else { panic!("no result") };
    assert_eq!(read.status, made.outcome.status);
}

#[test]
fn kept_inputs_end_the_connection_or_are_passed_over() {
    for input in hostile::corpus() {
        hear(&input);
        for kind in [Kind::Ready, Kind::Exit, Kind::Fatal] {
            hear(&frame(kind, 1, &input));
        }
        if let Ok(exit) = exit_of(&Frame::raw(Kind::Exit, 1, input.clone())) {
            conclude(exit, input);
        }
    }
}

#[test]
fn a_length_above_the_bound_ends_the_connection_at_once() {
    let head = [&(MAX_FRAME as u32 + 1).to_le_bytes()[..], &[Kind::Stdout as u8], &[0; HEADER - 5]].concat();
    assert!(hear(&head).contains("frame of"));
}

fn headers() -> impl Strategy<Value = Headers> {
    let name = prop_oneof![
        8 => prop::sample::select(vec![
            names::H_TENANT, names::H_ATTEMPT, names::H_MAX_ATTEMPTS, names::H_EPOCH, names::H_DEADLINE,
            names::H_MAYBE_DUPLICATE, names::H_SESSION_CREATE, names::H_TRACEPARENT, names::H_TRACESTATE,
        ])
        .prop_map(Cow::Borrowed),
        1 => hostile::word().prop_map(Cow::Owned),
    ];
    let value = prop_oneof![
        prop_oneof![any::<i64>(), 0i64..4, Just(i64::MAX), Just(i64::MIN)].prop_map(HeaderValue::Int),
        prop_oneof![hostile::word(), "[a-z]{1,4}"].prop_map(HeaderValue::Text),
        any::<bool>().prop_map(HeaderValue::Bool),
    ];
    prop::collection::btree_map(name, value, 0..9).prop_map(Headers)
}

proptest! {
    #[test]
    fn any_bytes_of_a_runner_end_the_connection_or_are_passed_over(said in hostile::bytes()) {
        hear(&said);
    }

    #[test]
    fn any_frames_of_a_runner_are_taken_or_passed_over(
        frames in vec((prop::sample::select(KINDS.to_vec()), 0u32..3, hostile::message(EXIT)), 0..6),
    ) {
        let said: Vec<u8> = frames.iter().flat_map(|(kind, run, body)| frame(*kind, *run, body.as_bytes())).collect();
        hear(&said);
    }

    #[test]
    fn any_exit_becomes_an_outcome(text in hostile::message(EXIT), stdout in hostile::bytes()) {
        if let Ok(exit) = exit_of(&Frame::raw(Kind::Exit, 1, text)) {
            conclude(exit, stdout);
        }
    }

    #[test]
    fn any_work_message_is_read_or_refused(
        headers in headers(),
        body in hostile::message(&[("id", "\"a\""), ("code", "\"\""), ("tools", "[{\"name\":\"t\"}]"), ("max_attempts", "1")]),
        redelivered in any::<bool>(),
    ) {
        let message = Message { headers, body: body.into_bytes().into(), ..Message::default() };
        let mut delivery = Delivery::detached(message);
        delivery.redelivered = redelivered;
        if let Ok(work) = Work::read(&delivery) {
            prop_assert!(work.attempt > 0 && work.max_attempts > 0);
            prop_assert!(!(redelivered && work.only_copy));
            let _ = (work.is_late(), work.time_left());
        }
    }
}
