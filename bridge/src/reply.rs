//! The frames that the bridge sends.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use thermae_schemas::{OLDEST, OutputStream, PROTOCOL};

use crate::frames::Frame;
use crate::{Refusal, VERSION};

pub(crate) fn hello() -> Frame {
    let server = concat!("thermae/", env!("CARGO_PKG_VERSION"));
    let protocols: Vec<u32> = (OLDEST..=PROTOCOL).collect();
    bare(&json!({ "type": "hello", "version": VERSION, "server": server, "protocols": protocols }))
}

pub(crate) fn opened(id: u64, facts: Map<String, Value>) -> Frame {
    let mut header = Map::from_iter([("type".to_owned(), json!("opened")), ("id".to_owned(), json!(id))]);
    header.extend(facts);
    bare(&Value::Object(header))
}

pub(crate) fn event(id: u64, text: Bytes) -> Frame {
    Frame { header: format!(r#"{{"type":"event","id":{id}}}"#).into(), payload: text }
}

pub(crate) fn data(id: u64, bytes: Bytes) -> Frame {
    Frame { header: format!(r#"{{"type":"data","id":{id}}}"#).into(), payload: bytes }
}

pub(crate) fn output(id: u64, stream: OutputStream, bytes: Bytes) -> Frame {
    let stream = match stream {
        OutputStream::Stdout => "stdout",
        OutputStream::Stderr => "stderr",
    };
    Frame { header: format!(r#"{{"type":"output","id":{id},"stream":"{stream}"}}"#).into(), payload: bytes }
}

/// Lets the SDK send this many more bytes of input.
pub(crate) fn credit(id: u64, bytes: u64) -> Frame {
    Frame::bare(format!(r#"{{"type":"credit","id":{id},"bytes":{bytes}}}"#))
}

/// The fleet has the job of a run that is detached.
pub(crate) fn submitted(id: u64) -> Frame {
    Frame::bare(format!(r#"{{"type":"submitted","id":{id}}}"#))
}

pub(crate) fn done(id: u64) -> Frame {
    Frame::bare(format!(r#"{{"type":"done","id":{id}}}"#))
}

pub(crate) fn done_size(id: u64, size: u64) -> Frame {
    Frame::bare(format!(r#"{{"type":"done","id":{id},"size":{size}}}"#))
}

pub(crate) fn done_with(id: u64, payload: impl Into<Bytes>) -> Frame {
    Frame { payload: payload.into(), ..done(id) }
}

/// Ends a request or, without an id, the connection.
pub(crate) fn error(id: Option<u64>, refusal: &Refusal) -> Frame {
    let mut header = json!({ "type": "error", "code": refusal.code, "message": refusal.message });
    if let Some(id) = id {
        header["id"] = json!(id);
    }
    if let Some(advice) = refusal.advice {
        header["advice"] = json!(advice);
    }
    bare(&header)
}

fn bare(header: &Value) -> Frame {
    Frame::bare(header.to_string())
}
