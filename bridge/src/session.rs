//! One request to a live session: sends it, passes its input and signals on, and sends its output as the SDK gives
//! credit.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use thermae_client::RequestHandle;
use thermae_schemas::{ErrorCode, ErrorInfo, JobId, OutputStream, Request, RequestDone, RequestEnd, reads};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::connection::Shared;
use crate::outbox::Outbox;
use crate::{Refusal, job, reply};

/// What an SDK says about a request that is under way.
pub(crate) enum Say {
    /// More input, and whether this is its end.
    Input(Bytes, bool),
    /// A signal for the command.
    Signal(i32),
}

/// Refuses a window that no request can have.
pub(crate) fn check(window: u32) -> Result<(), Refusal> {
    if (1..=Request::MAX_WINDOW).contains(&window) {
        return Ok(());
    }
    Err(Refusal::new("bad_request", format!("request: window must be 1 to {}", Request::MAX_WINDOW)))
}

/// Sends the request in `text`, and drives it to its end. `window` counts in both directions.
pub(crate) async fn drive(
    shared: Arc<Shared>,
    id: u64,
    window: u32,
    text: Bytes,
    mut says: mpsc::UnboundedReceiver<Say>,
    cancel: CancellationToken,
) -> Result<(), Refusal> {
    let outbox = &shared.outbox;
    let request = match read(&text, window) {
        Ok(request) => request,
        Err((code, message)) => {
            let error = ErrorInfo::new(code, message);
            return finish(outbox, id, &RequestDone::bare(RequestEnd::Error { error }));
        }
    };
    drop(text);
    let opened = tokio::select! {
        biased;
        () = cancel.cancelled() => return finish(outbox, id, &RequestDone::bare(RequestEnd::Cancelled {})),
        opened = shared.opened() => opened?,
    };
    let handle = opened.client.request(request);
    let (mut allowed, mut cancelled) = (u64::from(window), false);
    loop {
        tokio::select! {
            piece = next(outbox, id, &handle) => match piece {
                Some((stream, data)) => if !outbox.offer(id, reply::output(id, stream, data)) {
                    return Err(Refusal::closed());
                },
                None => break,
            },
            total = handle.input_allowed(allowed) => {
                outbox.offer(id, reply::credit(id, total - allowed));
                allowed = total;
            }
            Some(say) = says.recv() => match say {
                Say::Signal(signal) => handle.signal(signal),
                Say::Input(data, end) => if !handle.try_input(data, end) {
                    let message = format!("more input than the {allowed} bytes that were allowed, or after its end");
                    return Err(Refusal::new("bad_request", message));
                },
            },
            () = cancel.cancelled(), if !cancelled => {
                cancelled = true;
                handle.cancel();
            }
            unfit = shared.unfit() => return Err(unfit),
            () = shared.gone.cancelled() => return Err(Refusal::closed()),
        }
    }
    finish(outbox, id, &handle.done().await?)
}

/// The next piece of output, once the SDK takes it. `None` after the last one.
async fn next(outbox: &Outbox, id: u64, handle: &RequestHandle) -> Option<(OutputStream, Bytes)> {
    outbox.writable(id).await;
    handle.output().await
}

fn finish(outbox: &Outbox, id: u64, done: &RequestDone) -> Result<(), Refusal> {
    let done = serde_json::to_vec(done).map_err(|error| Refusal::new("internal", error.to_string()))?;
    outbox.finish(id, [reply::done_with(id, done)]);
    Ok(())
}

/// Reads a request. It may lack an id, and `window` replaces its own.
pub(crate) fn read(text: &[u8], window: u32) -> Result<Request, (ErrorCode, String)> {
    job::bounded(text, "request")?;
    let mut fields: Map<String, Value> = job::fields(&mut serde_json::Deserializer::from_slice(text))?;
    if fields.get("id").is_none_or(Value::is_null) {
        fields.insert("id".to_owned(), json!(JobId::random()));
    }
    fields.insert("window".to_owned(), json!(window));
    let request: Request = job::fields(Value::Object(fields))?;
    if !reads(request.protocol) {
        return Err(job::unsupported(request.protocol));
    }
    match request.trouble() {
        Some(trouble) => Err((ErrorCode::SchemaViolation, trouble)),
        None => Ok(request),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_needs_no_id_and_takes_the_window_of_its_frame() {
        let read = |text: &str| read(text.as_bytes(), 7).unwrap();
        let request = read(r#"{"session": "s", "exec": {"argv": ["ls"]}, "window": -1, "input": "aGk="}"#);
        assert_eq!((request.window, &request.input[..]), (7, &b"hi"[..]));
        assert_ne!(request.id, read(r#"{"session": "s", "keepalive": {}, "id": null}"#).id);
        assert_eq!(read(r#"{"id": "mine", "session": "s", "keepalive": {}}"#).id.as_str(), "mine");
    }

    #[test]
    fn what_can_not_be_carried_out_has_the_fleets_own_codes() {
        for (text, code, says) in [
            ("{", ErrorCode::MalformedJson, "EOF"),
            ("[]", ErrorCode::SchemaViolation, "map"),
            (r#"{"session": "s"}"#, ErrorCode::SchemaViolation, "variant"),
            (r#"{"keepalive": {}}"#, ErrorCode::SchemaViolation, "session"),
            (r#"{"session": "s", "keepalive": {}, "colour": 1}"#, ErrorCode::UnknownField, "colour"),
            (r#"{"session": "s", "keepalive": {}, "id": 1}"#, ErrorCode::SchemaViolation, "id"),
            (r#"{"session": "s", "exec": {}}"#, ErrorCode::SchemaViolation, "exactly one"),
            (r#"{"session": "s", "keepalive": {}, "protocol": 9}"#, ErrorCode::UnsupportedProtocol, "9"),
            (r#"{"session": "s", "keepalive": {}, "input": "aGVsbG8gdGhlcmU="}"#, ErrorCode::SchemaViolation, "window"),
        ] {
            let (found, message) = read(text.as_bytes(), 7).unwrap_err();
            assert!(found == code && message.contains(says), "{text}: {found:?} {message}");
        }
        let nested = "[".repeat(200_000);
        assert_eq!(read(nested.as_bytes(), 7).unwrap_err().0, ErrorCode::SchemaViolation);
    }
}
