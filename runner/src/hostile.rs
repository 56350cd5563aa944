//! Hostile bytes for everything that reads a worker's frames, a job's channel or a program's imports.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use thermae_testkit::hostile;

use crate::channel::{Channel, Got};
use crate::frames::{Beside, Frame, Kind, Run, Setup, ToolResult};
use crate::inner::NurseryAnswer;
use crate::languages::{python::scan, zygote};
use crate::seqpacket::{Packets, send_with_fds};

/// A channel, and the job's end of it.
fn channel() -> (Channel, UnixStream) {
    let (channel, theirs) = Channel::pair().unwrap();
    let theirs = UnixStream::from(theirs);
    theirs.set_nonblocking(true).unwrap();
    (channel, theirs)
}

/// Takes every whole message. Returns how many, and whether one was refused.
fn take_all(channel: &mut Channel) -> (usize, bool) {
    let mut taken = 0;
    loop {
        match channel.next() {
            Ok(Some(_)) => taken += 1,
            Ok(None) => return (taken, false),
            Err(_) => return (taken, true),
        }
    }
}

/// Sends what a job says in pieces, and reads it as the runner does. Returns what [`take_all`] returns, over all of it.
fn hear(said: &[u8], pieces: &[usize]) -> (usize, bool) {
    let (mut channel, mut job) = channel();
    let (mut taken, mut at) = (0, 0);
    for piece in pieces.iter().copied().chain([said.len()]) {
        let end = (at + piece).min(said.len());
        // A socket holds only some 200 KiB that are not read.
        for part in said[at..end].chunks(64 << 10) {
            job.write_all(part).unwrap();
            assert_eq!(channel.fill(&mut [0; 4096]).unwrap(), Got::Empty);
            let (more, refused) = take_all(&mut channel);
            taken += more;
            if refused {
                return (taken, true);
            }
        }
        at = end;
    }
    (taken, false)
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes(), body].concat()
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

const FIELDS: &[(&str, &str)] = &[
    ("op", "\"call\""),
    ("call", "1"),
    ("name", "\"t\""),
    ("arguments", "{}"),
    ("data", "{\"text/plain\":\"x\"}"),
    ("how", "\"ok\""),
    ("code", "0"),
    ("error", r#"{"type":"E","message":"m","traceback":"t"}"#),
    ("value", "{}"),
    ("reason", "\"r\""),
];

#[test]
fn kept_inputs_are_a_message_or_a_complaint() {
    for input in hostile::corpus() {
        hear(&input, &[3]);
        hear(&framed(&input), &[1, 4]);
        let whole: Vec<u8> = [framed(b"{\"op\":\"started\"}"), framed(&input)].concat();
        assert!(hear(&whole, &[]).0 >= 1);
        scan::imports_any(&String::from_utf8_lossy(&input), &["numpy"]);
    }
}

#[test]
fn a_length_above_the_bound_is_refused_before_its_bytes_come() {
    for length in [(16u32 << 20) + 1, u32::MAX, 1 << 31] {
        assert_eq!(hear(&length.to_le_bytes(), &[]), (0, true), "{length}");
    }
    assert_eq!(hear(&(16u32 << 20).to_le_bytes(), &[]), (0, false));
}

#[test]
fn every_message_of_a_flood_of_small_ones_is_taken() {
    let one = framed(b"{\"op\":\"display\"}");
    let (mut channel, mut job) = channel();
    let flood = one.repeat(10_000);
    let (mut sent, mut taken) = (0, 0);
    // All of it lies in the inbox before the first is taken.
    while sent < flood.len() {
        sent += job.write(&flood[sent..]).unwrap_or(0);
        channel.fill(&mut [0; 64 << 10]).unwrap();
    }
    while let Ok(Some(_)) = channel.next() {
        taken += 1;
    }
    assert_eq!(taken, 10_000);
}

#[test]
fn descriptors_that_a_job_sends_along_are_not_kept() {
    let (mut channel, job) = channel();
    let null = std::fs::File::open("/dev/null").unwrap();
    let before = open_files();
    for _ in 0..100 {
        let rights = [null.as_fd(); 8];
        send_with_fds(job.as_fd(), &framed(b"{\"op\":\"x\"}"), &rights).unwrap();
        channel.fill(&mut [0; 4096]).unwrap();
        assert_eq!(take_all(&mut channel), (1, false));
    }
    // Other tests of this process open files meanwhile, but not hundreds.
    assert!(open_files() < before + 200, "{} after {before}", open_files());
}

#[test]
fn a_job_that_does_not_read_neither_blocks_nor_fills_the_memory() {
    let (mut channel, _job) = channel();
    let result = vec![b' '; 1 << 20];
    let sent = (0..200).take_while(|_| channel.send(&result, Vec::new()).is_ok()).count();
    assert!((10..100).contains(&sent), "{sent} MiB wait");
}

#[test]
fn the_look_at_imports_is_linear() {
    let modules = ["numpy".to_owned(), "pandas".to_owned()];
    for piece in ["import ", "import a,", "from ", ";", ":", "\n", "import\u{2003}x\n", "\r", "a.b.c,"] {
        let begun = Instant::now();
        scan::imports_any(&piece.repeat((1 << 20) / piece.len()), &modules);
        assert!(begun.elapsed() < Duration::from_secs(60), "{piece:?} took {:?}", begun.elapsed());
    }
}

proptest! {
    #[test]
    fn any_bytes_of_a_worker_are_frames_or_refused(bytes in hostile::bytes(), length in 0u32..64, kind in any::<u8>()) {
        let mut at = 0;
        while let Ok(Some((frame, used))) = Frame::decode(&bytes[at..]) {
            prop_assert!(used > 0 && used <= bytes.len() - at);
            let _ = (frame.parse::<Setup>(), frame.parse::<Run>(), frame.parse::<Beside>(), frame.parse::<ToolResult>());
            at += used;
        }
        let head = [&length.to_le_bytes()[..], &[kind], &bytes].concat();
        if let Ok(Some((frame, used))) = Frame::decode(&head) {
            prop_assert_eq!((frame.body.len(), frame.kind as u8), (used - 9, kind));
        }
    }

    #[test]
    fn a_frame_survives_any_damage_or_is_refused(
        bytes in hostile::damaged(hostile::bytes().prop_map(|body| {
            let mut bytes = Vec::new();
            Frame::raw(Kind::Run, 7, body).encode(&mut bytes);
            Frame::raw(Kind::Ping, 0, Vec::new()).encode(&mut bytes);
            bytes
        })),
    ) {
        let (mut at, mut found) = (0, 0);
        while let Ok(Some((_, used))) = Frame::decode(&bytes[at..]) {
            at += used;
            found += 1;
        }
        prop_assert!(found <= bytes.len() / 9 + 1);
    }

    #[test]
    fn any_bytes_of_a_job_are_messages_or_refused(said in hostile::bytes(), pieces in vec(0usize..64, 0..8)) {
        hear(&said, &pieces);
        hear(&framed(&said), &pieces);
    }

    #[test]
    fn a_message_is_the_same_however_it_is_split(
        messages in vec(hostile::message(FIELDS), 1..5), pieces in vec(0usize..200, 0..8),
    ) {
        let said: Vec<u8> = messages.iter().flat_map(|m| framed(m.as_bytes())).collect();
        prop_assert_eq!(hear(&said, &pieces), hear(&said, &[]));
    }

    #[test]
    fn any_answer_of_the_nursery_or_a_zygote_is_read(
        mut bytes in vec(any::<u8>(), 1..64), without_error in any::<bool>(), fds in 0usize..9,
    ) {
        if without_error && let Some(errno) = bytes.get_mut(4..8) {
            errno.fill(0);
        }
        let (ours, theirs) = Packets::pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        for _ in 0..2 {
            send_with_fds(theirs.as_fd(), &bytes, &vec![null.as_fd(); fds]).unwrap();
        }
        let made = NurseryAnswer::receive(&ours).is_ok_and(|answer| answer.result.is_ok());
        prop_assert_eq!(made, fds == 8 && bytes.len() >= 4);
        let child = zygote::receive_child(&ours).unwrap();
        prop_assert_eq!(child.is_some(), bytes.len() >= 12);
        let well = bytes.len() >= 12 && bytes[4..8] == [0; 4];
        let made = child.and_then(|(_, made)| made.ok());
        prop_assert_eq!(made.is_some(), well);
        prop_assert_eq!(made.is_some_and(|child| child.pidfd.is_some()), well && fds > 0);
    }

    #[test]
    fn any_program_can_be_looked_at(code in prop_oneof![any::<String>(), "((import|from|,|;|:|\\.| |\n|numpy|as){1}){0,30}"]) {
        let found = scan::imports_any(&code, &["numpy"]);
        prop_assert!(!found || code.contains("numpy"));
    }
}
