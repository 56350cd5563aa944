//! Tests with hostile frames, headers, jobs and answers.

use bytes::{BufMut, BytesMut};
use proptest::prelude::*;
use thermae_testkit::hostile;
use tokio_util::codec::{Decoder, Encoder};

use crate::frames::{Codec, Error};
use crate::request::{self, Request};
use crate::{job, run, session};

/// Reads a stream of frames up to the first error. Every frame that is read must be written as it came.
fn stream(bytes: &[u8]) {
    let (mut rest, mut again) = (BytesMut::from(bytes), BytesMut::new());
    while let Ok(Some(frame)) = Codec.decode(&mut rest) {
        let _ = request::read(&frame.header);
        Codec.encode(frame, &mut again).unwrap();
    }
    assert!(bytes.starts_with(&again));
}

fn read_all(bytes: &[u8]) {
    stream(bytes);
    let _ = request::read(bytes);
    let _ = job::read(bytes);
    let _ = session::read(bytes, 1);
    if let Ok(value) = run::answer(bytes) {
        serde_json::from_str::<serde::de::IgnoredAny>(value.get()).unwrap();
    }
}

const REQUEST: &[(&str, &str)] = &[
    ("type", "\"run\""),
    ("id", "1"),
    ("window", "1"),
    ("versions", "[1]"),
    ("end", "true"),
    ("signal", "2"),
    ("call", "\"c\""),
    ("bytes", "1"),
    ("ref", "\"r\""),
    ("detached", "true"),
    ("job", "\"j\""),
    ("stdout_from", "1"),
    ("reply_to", "\"acme.w\""),
    ("embedded", "{}"),
];

const SESSION: &[(&str, &str)] = &[
    ("protocol", "1"),
    ("id", "\"r\""),
    ("session", "\"s\""),
    ("exec", "{\"argv\":[\"a\"]}"),
    ("file", "{\"op\":\"stat\",\"path\":[255]}"),
    ("keepalive", "{}"),
    ("window", "1"),
    ("input", "\"aGk=\""),
    ("more_input", "true"),
];

const ANSWER: &[(&str, &str)] = &[("ok", "1")];

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
    fn any_lengths_are_read_or_refused(message in any::<u32>(), header in any::<u32>(), rest in hostile::bytes()) {
        for (message, header) in [(message, header), (rest.len() as u32 + 4, header % 4096), (message % 4096, header % 64)] {
            let mut bytes = BytesMut::new();
            bytes.put_u32_le(message);
            bytes.put_u32_le(header);
            bytes.extend_from_slice(&rest);
            stream(&bytes);
            if (message as usize) < 4 {
                let refused = matches!(Codec.decode(&mut bytes), Err(Error::Lengths { .. }));
                prop_assert!(refused);
            }
        }
    }

    #[test]
    fn near_requests_are_read_or_refused(text in hostile::message(REQUEST)) {
        if let Ok(Request::Run { id, .. }) = request::read(text.as_bytes()) {
            prop_assert!(text.contains(&id.to_string()));
        }
    }

    #[test]
    fn near_requests_to_sessions_are_read_or_refused(text in hostile::message(SESSION)) {
        if let Ok(request) = session::read(text.as_bytes(), 9) {
            prop_assert_eq!(request.window, 9);
        }
    }

    #[test]
    fn near_answers_are_read_or_refused(text in hostile::message(ANSWER)) {
        read_all(text.as_bytes());
    }
}
