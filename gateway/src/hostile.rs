//! Tests with hostile jobs, answers, commands, ranges and events.

use proptest::prelude::*;
use thermae_testkit::hostile;

use crate::range::{Part, part};
use crate::service::{path, read_command, read_job};
use crate::sse;

fn read_all(bytes: &[u8]) {
    if let Ok(job) = read_job(bytes, None) {
        assert!(!job.id.as_str().is_empty());
    }
    let _ = read_command(bytes);
    let _ = thermae_bridge::read::read_answer(bytes);
}

const JOB: &[(&str, &str)] = &[
    ("id", "\"a\""),
    ("code", "\"1\""),
    ("protocol", "1"),
    ("inputs", "{\"n\":{\"value\":1}}"),
    ("limits", "{\"wall_ms\":1}"),
    ("tools", "[{\"name\":\"t\"}]"),
    ("session", "{\"id\":\"s\"}"),
    ("capabilities", "[]"),
    ("token", "\"t\""),
];

const COMMAND: &[(&str, &str)] = &[
    ("argv", "[\"a\"]"),
    ("shell", "\"a\""),
    ("cwd", "\"/\""),
    ("stdin", "\"x\""),
    ("stdin_base64", "\"eA==\""),
    ("max_output_bytes", "1"),
    ("timeout_ms", "1"),
];

#[test]
fn kept_inputs_are_read_or_refused() {
    hostile::corpus().iter().for_each(|input| read_all(input));
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
    fn near_commands_are_read_or_refused(text in hostile::message(COMMAND)) {
        read_all(text.as_bytes());
    }

    #[test]
    fn a_range_is_within_the_file(header in "(bytes=)?[0-9 ,-]{0,30}", size in any::<u64>()) {
        if let Part::Of(range) = part(Some(&header), size) {
            prop_assert!(range.start < range.end && range.end <= size);
        }
    }

    #[test]
    fn a_path_has_plain_components(text in "[a-z./\\x00]{0,12}", root in any::<bool>()) {
        if let Ok(path) = path(&text, root) {
            let path = String::from_utf8(path.0).unwrap();
            prop_assert!(path.starts_with('/') == root && path.split('/').all(|part| part != ".." && part != "."));
        }
    }

    #[test]
    fn an_event_is_one_block(kind in "\\PC{0,10}", data in hostile::bytes()) {
        let text = sse::event(Some(1), &kind, &data);
        prop_assert!(text.ends_with(b"\n\n"));
        let body = &text[..text.len() - 1];
        prop_assert!(!body.windows(2).any(|pair| pair == b"\n\n") && !text.contains(&b'\r'));
    }
}
