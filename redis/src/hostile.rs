//! Answers that no script gives. Another program may write to Redis, and that must not crash a scheduler or a worker.

use proptest::collection::vec;
use proptest::prelude::*;
use redis::Value;
use thermae_testkit::hostile;

use super::reply;

fn answer() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        prop::sample::select(vec![
            "assigned",
            "terminal",
            "under_way",
            "no_credit",
            "tenant_busy",
            "duplicate",
            "conflict",
            "session_gone",
            "go",
            "stale",
            "resolve",
            "won",
            "superseded",
            "hold",
            "reassign",
            "lost",
            "started",
            "absent",
            "ended",
            "worker",
            "gone",
            "A",
            "S",
            "T",
            "expired",
            "evicted",
            "=x",
            "",
        ])
        .prop_map(|word| word.as_bytes().to_vec()),
        hostile::bytes(),
    ];
    let leaf = prop_oneof![
        4 => word.prop_map(Value::BulkString),
        2 => prop_oneof![any::<i64>(), 0i64..4, Just(i64::MAX), Just(-1)].prop_map(Value::Int),
        1 => Just(Value::Nil),
        1 => hostile::word().prop_map(Value::SimpleString),
        1 => any::<f64>().prop_map(Value::Double),
    ];
    prop_oneof![
        8 => vec(leaf.clone(), 0..12).prop_map(Value::Array),
        1 => leaf.clone(),
        1 => vec(vec(leaf, 0..3).prop_map(Value::Array), 0..3).prop_map(Value::Array),
    ]
}

proptest! {
    #[test]
    fn any_answer_is_read_or_refused(value in answer()) {
        let _ = reply::admitted(value.clone());
        let _ = reply::start(value.clone());
        let _ = reply::finish(value.clone());
        let _ = reply::resolve(value.clone());
        let _ = reply::end_unstarted(value.clone());
        let _ = reply::take_over(value.clone());
        let _ = reply::record(value.clone());
        let _ = reply::holder(value.clone());
        let _ = super::Seen::default().take(("", 0), value.clone());
        let _ = reply::Reply::new(value).and_then(reply::Reply::rest);
    }
}
