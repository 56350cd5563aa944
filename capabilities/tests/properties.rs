//! What must hold for any sets and any calls.

mod random;

use std::collections::HashSet;
use std::sync::Barrier;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use random::{Asked, approved, asked, set, tightened, unvalued};
use serde_json::{Value, json};
use thermae_capabilities::{Approval, Arguments, Call, Grant, InMemory, Number, Rules, Set, Unchecked, covers, decide};
use thermae_testkit::hostile;

fn read(set: &Value) -> Rules {
    Rules::new(Set::from_json(&set.to_string()).unwrap_or_else(|error| panic!("{set}: {error}")))
}

fn ask(rules: &Rules, counts: &InMemory, asked: &Asked) -> Option<Grant> {
    let arguments = Arguments::read(&asked.arguments.to_string()).unwrap();
    decide(rules, Call { tool: &asked.tool, arguments: &arguments }, &Unchecked, counts).ok()
}

/// Those of these calls that are allowed, one after the other.
fn through(rules: &Rules, calls: &[Asked]) -> Vec<Asked> {
    calls.iter().zip(allowed(rules, calls)).filter(|(_, ok)| *ok).map(|(call, _)| call.clone()).collect()
}

/// Which of these calls, one after the other, are allowed.
fn allowed(rules: &Rules, calls: &[Asked]) -> Vec<bool> {
    let counts = InMemory::default();
    calls.iter().map(|call| ask(rules, &counts, call).is_some()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_narrowed_set_never_allows_what_its_parent_refuses(
        parent in set(4), child in set(4), grandchild in set(3), calls in prop::collection::vec(asked(), 1..30),
    ) {
        let rules = read(&parent).narrow(read(&child)).unwrap();
        let both = rules.clone().narrow(read(&grandchild)).unwrap();
        // The parent sees only what its child lets through, so each call that the child allows must be one that the
        // parent, with the same calls before, allows too.
        for (narrow, wide) in [(&rules, read(&parent)), (&rules, read(&child)), (&both, rules.clone())] {
            prop_assert!(allowed(&wide, &through(narrow, &calls)).iter().all(|ok| *ok));
        }
    }

    #[test]
    fn a_narrowed_set_needs_every_approval_that_its_parent_needs(
        parent in approved(), child in approved(), calls in prop::collection::vec(asked(), 1..30),
    ) {
        let (parent, child) = (read(&parent), read(&child));
        let narrowed = parent.clone().narrow(child.clone()).unwrap();
        let [of_narrowed, of_parent, of_child] = [(); 3].map(|()| InMemory::default());
        for call in &calls {
            let Some(grant) = ask(&narrowed, &of_narrowed, call) else { continue };
            for (wide, counts) in [(&parent, &of_parent), (&child, &of_child)] {
                let wide = wide.approval(&ask(wide, counts, call).unwrap());
                prop_assert!(wide.is_none_or(|wide| narrowed.approval(&grant).is_some_and(|narrow| {
                    let timeout = |approval: &Approval| approval.timeout().unwrap_or(Duration::MAX);
                    narrow.next <= wide.next && timeout(&narrow) <= timeout(&wide)
                })), "{:?}", call);
            }
        }
    }

    #[test]
    fn what_is_covered_is_never_refused(
        a in set(3), b in set(3), calls in prop::collection::vec(asked(), 1..30),
    ) {
        let (a, b) = (read(&a), read(&b));
        if covers(&a, &b) {
            let through = through(&b, &calls);
            prop_assert!(allowed(&a, &through).iter().all(|ok| *ok), "{:?}", through);
        }
    }

    /// The same for a second set that is made from the first one, so that it is often covered.
    #[test]
    fn what_is_made_tighter_is_never_refused(
        (a, b) in tightened(), calls in prop::collection::vec(asked(), 1..30),
    ) {
        let (a, b) = (read(&a), read(&b));
        if covers(&a, &b) {
            let through = through(&b, &calls);
            prop_assert!(allowed(&a, &through).iter().all(|ok| *ok), "{:?}", through);
        }
    }

    /// Constraints on one path follow from each other more often than others, and its values are few.
    #[test]
    fn a_constraint_that_follows_from_others_holds_where_they_hold(
        given in prop::collection::vec(random::constraint_on(&["n"]), 1..3), wanted in random::constraint_on(&["n"]),
    ) {
        let [a, b] = [vec![wanted], given].map(|list| read(&json!([{"pattern": "t", "constraints": list}])));
        if covers(&a, &b) {
            for arguments in random::every_n() {
                let call = Asked { tool: "t".into(), arguments };
                let allows = |rules| ask(rules, &InMemory::default(), &call).is_some();
                prop_assert!(allows(&a) || !allows(&b), "{:?}", call);
            }
        }
    }

    #[test]
    fn every_set_covers_itself_and_each_narrowing(a in set(3), b in set(3)) {
        // Only a capability that an earlier one may exhaust keeps a set from being proven to cover itself.
        let (a, b) = (read(&unvalued(&a, "max_calls")), read(&b));
        prop_assert!(covers(&a, &a));
        prop_assert!(covers(&a, &a.clone().narrow(b).unwrap()));
    }

    #[test]
    fn a_set_is_written_as_it_was_read(set in set(5)) {
        let first = Set::from_json(&set.to_string()).unwrap();
        prop_assert_eq!(serde_json::to_value(&first).unwrap(), set);
        prop_assert_eq!(Set::from_json(&serde_json::to_string(&first).unwrap()).unwrap(), first.clone());
        prop_assert_eq!(serde_json::from_str::<Set>(&first.to_string()).unwrap(), first);
    }

    #[test]
    fn an_order_of_calls_is_counted_exactly(
        set in set(3), calls in prop::collection::vec(asked(), 1..40),
    ) {
        let rules = read(&set);
        let counts = InMemory::default();
        for call in &calls {
            if let Some(grant) = ask(&rules, &counts, call) {
                prop_assert_eq!(grant.by.len(), 1);
            }
            for (at, capability) in rules.capabilities() {
                let max = capability.max_calls().map_or(0, std::num::NonZeroU32::get);
                prop_assert!(counts.taken(at) <= max);
            }
        }
    }
}

#[test]
fn the_sets_of_these_tests_are_often_covered_and_often_not() {
    let mut runner = TestRunner::deterministic();
    let mut covered = || {
        let (a, b) = tightened().new_tree(&mut runner).unwrap().current();
        covers(&read(&a), &read(&b))
    };
    let yes = (0..400).filter(|_| covered()).count();
    assert!((60..340).contains(&yes), "{yes} of 400");
}

/// Whether the JSON Schema of sets allows a text. It was written apart from the reader.
fn in_schema(text: &str) -> bool {
    thread_local! {
        static SCHEMA: jsonschema::Validator =
            jsonschema::validator_for(schemars::schema_for!(Set).as_value()).unwrap();
    }
    serde_json::from_str(text).is_ok_and(|value| SCHEMA.with(|schema| schema.is_valid(&value)))
}

#[test]
fn the_schema_tells_paths_and_patterns_as_the_reader_does() {
    let deep = |segments| vec!["a"; segments].join("/");
    let (fits, wide) = (deep(32), deep(33));
    let good = ["0", "a/10/b", "18446744073709551615", "-", "a/01x", "~00", &fits];
    let bad = ["00", "a/01/b", "a/-1", "+-1", "100000000000000000000", &wide];
    for (path, want) in good.map(|path| (path, true)).into_iter().chain(bad.map(|path| (path, false))) {
        let set = json!([{"pattern": "t", "constraints": [{"path": path, "op": "exists"}]}]).to_string();
        assert_eq!((in_schema(&set), Set::from_json(&set).is_ok()), (want, want), "{set}");
    }
    for (pattern, want) in [(&fits, true), (&wide, false)] {
        let set = json!([{"pattern": pattern}]).to_string();
        assert_eq!((in_schema(&set), Set::from_json(&set).is_ok()), (want, want), "{set}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whatever_is_accepted_is_in_the_schema_and_means_what_it_says(
        text in hostile::damaged(set(3).prop_map(|set| set.to_string().into_bytes())),
    ) {
        let Ok(text) = String::from_utf8(text) else { return Ok(()) };
        if let Ok(set) = Set::from_json(&text) {
            prop_assert!(in_schema(&text), "{text}");
            // Nothing of the text was left out: as a value it is what the set writes.
            let value: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(serde_json::to_value(&set).unwrap(), value);
        }
    }

    #[test]
    fn a_set_with_one_wrong_part_is_refused(
        set in set(3), place in any::<prop::sample::Index>(), part in random::wrong_part(),
    ) {
        let damaged = random::replace(&set, place, &part);
        if let Some(damaged) = damaged && !in_schema(&damaged) {
            prop_assert!(Set::from_json(&damaged).is_err(), "{damaged}");
        }
    }

    #[test]
    fn any_text_is_answered(text in hostile::json(&["pattern", "constraints", "path", "op", "value", "and", "or"])) {
        if Set::from_json(&text).is_ok() {
            prop_assert!(in_schema(&text), "{text}");
        }
        let _ = Arguments::read(&text);
    }
}

/// Numbers, and ten times what a program makes of each whose numbers are integers of 64 bits and floats.
const CLOSE: [(&str, i128); 14] = [
    ("0", 0),
    ("1e-400", 0),
    ("0.1", 1),
    ("0.10000000000000000001", 1),
    ("999.99999999999999999", 10_000),
    ("1000.0", 10_000),
    ("9007199254740992", 90_071_992_547_409_920),
    ("9007199254740993", 90_071_992_547_409_930),
    ("9007199254740993.0", 90_071_992_547_409_920),
    ("18446744073709551615", 184_467_440_737_095_516_150),
    ("18446744073709551616", 184_467_440_737_095_516_160),
    ("18446744073709551617", 184_467_440_737_095_516_160),
    ("18446744073709551617.0", 184_467_440_737_095_516_160),
    ("-18446744073709551617", -184_467_440_737_095_516_160),
];

/// Each operator about numbers with each bound: the rules, and which of the numbers they let through.
fn about_numbers() -> Vec<(&'static str, &'static str, Rules, Vec<bool>)> {
    let ops = ["<", "<=", ">", ">=", "==", "!=", "in", "not in"].into_iter();
    let tests = ops.flat_map(|op| CLOSE.into_iter().map(move |(bound, _)| (op, bound)));
    let judged = tests.map(|(op, bound)| {
        let value = if op.ends_with("in") { format!("[{bound}]") } else { bound.to_owned() };
        let constraint = format!(r#"{{"path": "n", "op": "{op}", "value": {value}}}"#);
        let set = Set::from_json(&format!(r#"[{{"pattern": "t", "constraints": [{constraint}]}}]"#)).unwrap();
        let rules = Rules::new(set);
        let allows = |(n, _): &(&str, i128)| {
            let arguments = Arguments::read(&format!(r#"{{"n": {n}}}"#)).unwrap();
            let call = Call { tool: "t", arguments: &arguments };
            decide(&rules, call, &Unchecked, &InMemory::default()).is_ok()
        };
        let allowed = CLOSE.iter().map(allows).collect();
        (op, bound, rules, allowed)
    });
    judged.collect()
}

#[test]
fn a_constraint_holds_for_numbers_as_written_and_for_their_nearest_floats() {
    fn holds<T: PartialOrd>(n: &T, op: &str, bound: &T) -> bool {
        match op {
            "<" => n < bound,
            "<=" => n <= bound,
            ">" => n > bound,
            ">=" => n >= bound,
            "==" | "in" => n == bound,
            _ => n != bound,
        }
    }
    for (op, bound, _, allowed) in about_numbers() {
        let (_, near_bound) = CLOSE.iter().find(|(text, _)| *text == bound).unwrap();
        for ((n, near), allowed) in CLOSE.iter().zip(allowed) {
            let both = holds(&Number::read(n), op, &Number::read(bound)) && holds(near, op, near_bound);
            assert_eq!(allowed, both, "{n} {op} {bound}");
        }
    }
}

#[test]
fn a_constraint_on_close_numbers_covers_only_what_follows_from_it() {
    let all = about_numbers();
    for (op, bound, a, allowed) in &all {
        for (op_of_b, bound_of_b, b, of_b) in &all {
            let follows = of_b.iter().zip(allowed).all(|(of_b, of_a)| *of_a || !of_b);
            assert!(follows || !covers(a, b), "{op} {bound} does not cover {op_of_b} {bound_of_b}");
        }
    }
}

#[test]
fn counts_never_exceed_with_many_threads() {
    let parent = r#"[{"pattern": "t", "max_calls": 40}, {"pattern": "*", "max_calls": 25}]"#;
    let child = r#"[{"pattern": "t", "max_calls": 30}, {"pattern": "t", "max_calls": 50}]"#;
    let [parent, child] = [parent, child].map(|set| Set::from_json(set).unwrap());
    let rules = Rules::new(parent).narrow(child).unwrap();
    for _ in 0..50 {
        let (counts, start) = (InMemory::default(), Barrier::new(8));
        let call = Asked { tool: "t".into(), arguments: json!({}) };
        let granted = std::thread::scope(|threads| {
            let one = || {
                start.wait();
                (0..20).filter(|_| ask(&rules, &counts, &call).is_some()).count()
            };
            let running: Vec<_> = (0..8).map(|_| threads.spawn(one)).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        // 160 calls came; the parent has 65.
        assert_eq!(granted, 65);
        let taken: Vec<_> = rules.capabilities().map(|(at, _)| counts.taken(at)).collect();
        assert_eq!(taken, [40, 25, 30, 35]);
        assert_eq!(taken.iter().collect::<HashSet<_>>().len(), 4);
    }
}

#[test]
fn the_bounds_are_as_stated() {
    use thermae_capabilities as bound;
    let long = |length: usize, text: &str| vec![text; length].join(",");
    let set = |capability: &str| format!("[{{\"pattern\": \"t\"{capability}}}]");
    let leaf = r#"{"path": "a", "op": "exists"}"#;
    let nested = |depth: usize| format!("{}{leaf}{}", r#"{"or":["#.repeat(depth), "]}".repeat(depth));
    let constraints = |list: &str| set(&format!(", \"constraints\": [{list}]"));
    let value = |value: &str| constraints(&format!(r#"{{"path": "a", "op": "in", "value": [{value}]}}"#));
    let schema = |bytes: usize| set(&format!(r#", "arguments": {{"title": "{}"}}"#, "x".repeat(bytes - 12)));
    let pattern = |length: usize| format!(r#"[{{"pattern": "{}"}}]"#, "ä".repeat(length));
    let segments = |count: usize| format!(r#"[{{"pattern": "{}"}}]"#, vec!["a"; count].join("/"));
    let path = |path: String| constraints(&format!(r#"{{"path": "{path}", "op": "exists"}}"#));
    let list = |length: usize| format!("[{}]", long(length, r#"{"pattern": "t"}"#));
    let padded = |bytes: usize| format!("[{}]", " ".repeat(bytes - 2));
    for (fits, over, why) in [
        (list(bound::MOST_CAPABILITIES), list(bound::MOST_CAPABILITIES + 1), "more than 100 capabilities"),
        (padded(bound::LARGEST_SET), padded(bound::LARGEST_SET + 1), "more than 262144 bytes"),
        (pattern(bound::LONGEST_PATTERN), pattern(bound::LONGEST_PATTERN + 1), "more than 256 characters"),
        (segments(bound::MOST_SEGMENTS), segments(bound::MOST_SEGMENTS + 1), "more than 32 segments"),
        (path("ä".repeat(bound::LONGEST_PATH)), path("ä".repeat(bound::LONGEST_PATH + 1)), "more than 256 characters"),
        (path(vec!["a"; bound::MOST_STEPS].join("/")), path(vec!["a"; bound::MOST_STEPS + 1].join("/")), "32 segments"),
        (
            constraints(&long(bound::MOST_CONSTRAINTS, leaf)),
            constraints(&long(bound::MOST_CONSTRAINTS + 1, leaf)),
            "more than 64 constraints",
        ),
        (
            constraints(&nested(bound::DEEPEST_CONSTRAINT)),
            constraints(&nested(bound::DEEPEST_CONSTRAINT + 1)),
            "deeper than 8 levels",
        ),
        (value(&long(bound::MOST_LISTED, "1")), value(&long(bound::MOST_LISTED + 1, "1")), "more than 1000 values"),
        (
            value(&format!("\"{}\"", "x".repeat(bound::LARGEST_VALUE - 4))),
            value(&format!("\"{}\"", "x".repeat(bound::LARGEST_VALUE - 3))),
            "more than 32768 bytes",
        ),
        (schema(bound::LARGEST_SCHEMA), schema(bound::LARGEST_SCHEMA + 1), "more than 65536 bytes"),
    ] {
        assert!(Set::from_json(&fits).is_ok(), "{why}");
        let error = Set::from_json(&over).unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
    let one = || Rules::new(Set::default());
    let most = (1..bound::MOST_SETS).fold(one(), |rules, _| rules.narrow(one()).unwrap());
    assert!(most.narrow(one()).is_err());
}
