//! Hostile messages of clients: each must become a job, a request to a session, or a refusal with a
//! stable code.

use std::borrow::Cow;

use proptest::prelude::*;
use thermae_backplane::bus::{Delivery, HeaderValue, Headers, Message};
use thermae_schemas::{ErrorCode, Job, names};
use thermae_testkit::hostile;

use crate::fleet::FleetView;
use crate::head::Head;
use crate::lane::Lane;
use crate::options::Options;
use crate::validate;

fn lane() -> Lane {
    Lane::parse("acme.normal.default").unwrap()
}

/// Checks a message as its lane does, and makes the head of its queue from the job.
fn check(message: Message) -> Option<Job> {
    let lane = lane();
    match validate::check(&Options::default(), &FleetView::default(), &lane, &message) {
        Ok(job) => {
            assert_eq!(job.pool, lane.pool);
            let head = Head::new(lane, job.clone(), Delivery::detached(message));
            assert!(head.deadline.is_some() == job.start_within_ms.is_some());
            head.is_late();
            Some(job)
        }
        Err(refusal) => {
            assert_ne!(refusal.error.code, ErrorCode::Unknown);
            assert!(ErrorCode::ALL.iter().any(|known| known.0 == refusal.error.code));
            assert!(refusal.error.message.len() < 2000, "{} bytes", refusal.error.message.len());
            None
        }
    }
}

fn body(bytes: impl Into<Vec<u8>>) -> Message {
    Message { key: lane().to_string(), body: bytes.into().into(), ..Message::default() }
}

/// Checks a message as a request to a session.
fn check_request(message: &Message) {
    match crate::request::check(&Options::default(), &FleetView::default(), message) {
        Ok(request) => assert_eq!((request.protocol, request.trouble()), (1, None)),
        Err(refusal) => {
            let known = [ErrorCode::SchemaViolation, ErrorCode::UnsupportedProtocol];
            assert!(known.contains(&refusal.error.code), "{refusal:?}");
            assert!(refusal.error.message.len() < 2000, "{} bytes", refusal.error.message.len());
        }
    }
}

const REQUEST: &[(&str, &str)] = &[
    ("protocol", "1"),
    ("id", "\"a\""),
    ("session", "\"s\""),
    ("exec", r#"{"argv":["cat"],"cwd":"/","env":{"A":"b"}}"#),
    ("timeout_ms", "1000"),
    ("window", "1024"),
    ("input", "\"aGk=\""),
    ("more_input", "true"),
];

const JOB: &[(&str, &str)] = &[
    ("id", "\"a\""),
    ("code", "\"\""),
    ("protocol", "1"),
    ("pool", "\"default\""),
    ("session", "{\"id\":\"s\",\"if_gone\":\"new\"}"),
    ("limits", "{\"wall_ms\":1}"),
    ("tools", "[{\"name\":\"t\"}]"),
    ("max_attempts", "2"),
    ("start_within_ms", "1000"),
    ("idempotency_key", "\"k\""),
];

fn headers() -> impl Strategy<Value = Headers> {
    let name = prop_oneof![
        prop::sample::select(vec![
            names::H_SUBMITTED,
            names::H_RESEND,
            names::H_TENANT,
            names::H_ATTEMPT,
            names::H_DEATHS,
            names::H_FOLLOWS,
            names::H_DEADLINE,
            names::H_TRACEPARENT,
            names::H_TRACESTATE,
            names::H_EPOCH,
            names::H_DEAD_REASON,
            names::H_DEAD_QUEUE,
        ])
        .prop_map(Cow::Borrowed),
        hostile::word().prop_map(Cow::Owned),
    ];
    let value = prop_oneof![
        prop_oneof![any::<i64>(), Just(i64::MAX), Just(i64::MIN), Just(-1)].prop_map(HeaderValue::Int),
        hostile::word().prop_map(HeaderValue::Text),
        any::<bool>().prop_map(HeaderValue::Bool),
    ];
    prop::collection::btree_map(name, value, 0..6).prop_map(Headers)
}

#[test]
fn kept_inputs_are_jobs_or_refused() {
    for input in hostile::corpus() {
        check_request(&body(input.clone()));
        check(body(input));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_job_or_refused(bytes in hostile::bytes()) {
        check_request(&body(bytes.clone()));
        check(body(bytes));
    }

    #[test]
    fn near_requests_are_requests_or_refused(text in hostile::message(REQUEST)) {
        check_request(&body(text));
    }

    #[test]
    fn damaged_requests_are_requests_or_refused(
        bytes in hostile::damaged(hostile::message(REQUEST).prop_map(String::into_bytes)),
    ) {
        check_request(&body(bytes));
    }

    #[test]
    fn near_jobs_are_jobs_or_refused(text in hostile::message(JOB)) {
        check(body(text));
    }

    #[test]
    fn damaged_jobs_are_jobs_or_refused(bytes in hostile::damaged(hostile::message(JOB).prop_map(String::into_bytes))) {
        check(body(bytes));
    }

    #[test]
    fn what_else_a_message_says_changes_nothing(
        headers in headers(), reply_to in prop::option::of(hostile::word()), id in prop::option::of(hostile::word()),
    ) {
        let text = r#"{"id": "a", "code": "", "start_within_ms": 1000, "idempotency_key": "k"}"#;
        let message = Message { headers, message_id: id, reply_to: reply_to.clone(), ..body(text) };
        let owned = reply_to.is_none_or(|key| names::owns_reply_key(&lane().tenant, &key));
        prop_assert_eq!(check(message).is_some(), owned);
    }

    #[test]
    fn a_lane_is_its_key_whatever_the_key_is(key in prop_oneof![hostile::word(), "[a-z*#]{1,4}\\.(high|normal|low|x)\\.[a-z*#.]{1,4}"]) {
        if let Some(lane) = Lane::parse(&key) {
            prop_assert_eq!(lane.to_string(), key.clone());
            prop_assert!(!key.contains(['*', '#']) && key.matches('.').count() == 2);
        }
    }

    #[test]
    fn copies_of_unknown_fate_are_told_apart(headers in headers(), key in hostile::word(), text in hostile::message(JOB)) {
        crate::resolve::look(&Message { key, headers, message_id: Some("a".into()), ..body(text) });
    }
}
