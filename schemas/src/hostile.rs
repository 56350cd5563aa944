//! Property tests of the reader: arbitrary bytes for every message, and arbitrary words for names.

use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use thermae_testkit::hostile;

use crate::*;

/// Reads a message. If that succeeds, writing it and reading it again must give the same message.
fn read<T: DeserializeOwned + Serialize>(bytes: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<T>(bytes) {
        let text = serde_json::to_vec(&value).unwrap();
        let again = serde_json::from_slice::<T>(&text).unwrap();
        assert_eq!(serde_json::to_vec(&again).unwrap(), text, "{}", String::from_utf8_lossy(bytes));
    }
}

fn read_all(bytes: &[u8]) {
    read::<Job>(bytes);
    read::<Event>(bytes);
    read::<Outcome>(bytes);
    read::<ToolCall>(bytes);
    read::<ToolResult>(bytes);
    read::<Cancel>(bytes);
    read::<Decision>(bytes);
    read::<Query>(bytes);
    read::<Heartbeat>(bytes);
    read::<Batch>(bytes);
}

const JOB: &[(&str, &str)] = &[
    ("protocol", "1"),
    ("id", "\"a\""),
    ("code", "\"\""),
    ("language", "\"python\""),
    ("pool", "\"default\""),
    ("class", "\"high\""),
    ("session", "{\"id\":\"s\"}"),
    ("limits", "{\"wall_ms\":1}"),
    ("tools", r#"[{"name":"t","input_schema":{"type":"object"}}]"#),
    ("stream", "[\"output\"]"),
    ("max_attempts", "2"),
    ("env", "{\"A\":\"b\"}"),
    ("labels", "{\"A\":\"b\"}"),
];

const EVENT: &[(&str, &str)] = &[
    ("protocol", "1"),
    ("job", "\"a\""),
    ("attempt", "1"),
    ("event", "\"result\""),
    ("status", "\"failed\""),
    ("stdout", "\"x\""),
    ("value", "{\"text/plain\":\"1\"}"),
    ("displays", "[{\"text/plain\":\"1\"}]"),
    ("error", r#"{"code":"code_raised","message":"m","safe_to_retry":false}"#),
    ("usage", "{\"wall_ms\":1.5,\"cpu_ms\":0,\"memory_bytes\":1,\"output_bytes\":1,\"tool_calls\":0}"),
    ("seq", "1"),
    ("text", "\"t\""),
];

const ANSWER: &[(&str, &str)] =
    &[("protocol", "1"), ("call", "\"c\""), ("ok", "{}"), ("job", "\"a\""), ("tool", "\"t\""), ("arguments", "{}")];

#[test]
fn kept_inputs_are_read_or_refused() {
    hostile::corpus().iter().for_each(|input| read_all(input));
}

/// Whether a topic exchange takes this for exactly one word, and not for a pattern.
fn is_plain(word: &str) -> bool {
    !word.is_empty() && !word.contains(['.', '*', '#'])
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in hostile::bytes()) {
        read_all(&bytes);
    }

    #[test]
    fn near_jobs_are_read_or_refused(text in hostile::message(JOB)) {
        read_all(text.as_bytes());
    }

    #[test]
    fn near_events_are_read_or_refused(text in hostile::message(EVENT)) {
        read_all(text.as_bytes());
    }

    #[test]
    fn near_answers_are_read_or_refused(text in hostile::message(ANSWER)) {
        read_all(text.as_bytes());
    }

    #[test]
    fn damaged_jobs_are_read_or_refused(bytes in hostile::damaged(hostile::message(JOB).prop_map(String::into_bytes))) {
        read_all(&bytes);
    }

    #[test]
    fn a_name_never_becomes_more_than_one_word_of_a_key(
        tenant in hostile::word(), pool in hostile::word(), client in hostile::word(), worker in hostile::word(),
    ) {
        if let (Ok(tenant), Ok(pool)) = (TenantName::new(&*tenant), PoolName::new(&*pool)) {
            prop_assert!(is_plain(tenant.as_str()) && is_plain(pool.as_str()));
            for class in Class::ALL {
                let key = names::submit_key(&tenant, class, &pool);
                prop_assert_eq!(key.split('.').collect::<Vec<_>>(), [tenant.as_str(), class.as_str(), pool.as_str()]);
                prop_assert_eq!(names::tenant_of(&key), Some(tenant.clone()));
            }
            prop_assert_eq!(names::tenant_of(&names::cancel_key(&tenant)), Some(tenant.clone()));
        }
        if let (Ok(tenant), Ok(client)) = (TenantName::new(&*tenant), ClientId::new(&*client)) {
            let key = names::reply_key(&tenant, &client);
            prop_assert!(names::owns_reply_key(&tenant, &key));
            prop_assert!(is_plain(client.as_str()));
        }
        if let (Ok(tenant), Ok(worker)) = (TenantName::new(&*tenant), WorkerId::new(&*worker)) {
            prop_assert!(is_plain(worker.as_str()));
            prop_assert_eq!(names::calls_binding(&worker), format!("*.{worker}"));
            prop_assert_eq!(names::tenant_of(&names::calls_key(&tenant, &worker)), Some(tenant));
        }
    }

    #[test]
    fn a_reply_key_is_of_one_tenant_and_no_pattern(tenant in "[a-z]{1,3}", key in prop_oneof![hostile::word(), "[a-z]{1,3}[.*#]{1,2}[a-z*#.]{0,3}"]) {
        let tenant = TenantName::new(tenant).unwrap();
        if names::owns_reply_key(&tenant, &key) {
            let words: Vec<_> = key.split('.').collect();
            prop_assert!(words.len() == 2 && words[0] == tenant.as_str() && words.iter().all(|word| is_plain(word)), "{}", key);
        }
    }

    #[test]
    fn a_worker_of_any_host_name_has_a_valid_id(host in hostile::word()) {
        let id = WorkerId::boot(&host);
        prop_assert!(WorkerId::new(id.as_str()).is_ok(), "{}", id);
    }

    #[test]
    fn a_name_is_the_same_on_the_wire(word in hostile::word()) {
        if let Ok(id) = JobId::new(&*word) {
            let text = serde_json::to_string(&id).unwrap();
            prop_assert_eq!(serde_json::from_str::<JobId>(&text).unwrap(), id);
        }
        let quoted = serde_json::to_string(&word).unwrap();
        prop_assert_eq!(serde_json::from_str::<JobId>(&quoted).is_ok(), JobId::new(word).is_ok());
    }
}
