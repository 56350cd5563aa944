//! Commands in live sessions: the whole output in one answer, or a stream of events.

use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::stream;
use serde_json::json;
use thermae_schemas::OutputStream;

use super::events::streamed;
use crate::call::Call;
use crate::problem::Problem;
use crate::service::Running;
use crate::sse;

pub(super) async fn exec(mut call: Call) -> Result<Response, Problem> {
    let session = call.name("name")?;
    let (text, held) = call.value().await?;
    let running = call.service.sessions.exec(session, &text, held)?;
    drop(text);
    if call.wants_events() {
        return Ok(streamed(events(running)));
    }
    let (view, _held) = running.whole().await?;
    call.holder.json(StatusCode::OK, &view)
}

/// The output as it comes, and then the end.
fn events(mut running: Running) -> impl stream::Stream<Item = Result<Bytes, std::io::Error>> + Send {
    // Polled with the output, so that it ends with the stream.
    let give = Box::pin(running.give());
    stream::unfold(Some((running, Some(give))), |state| async move {
        let (running, mut give) = state?;
        let piece = loop {
            match &mut give {
                Some(giving) => tokio::select! {
                    piece = running.output() => break piece,
                    () = giving => give = None,
                },
                None => break running.output().await,
            }
        };
        if let Some((stream, bytes)) = piece {
            return Some((Ok(output(stream, &bytes)), Some((running, give))));
        }
        let (kind, end) = match running.done().await {
            Ok(done) => ("done", json!(done)),
            Err(problem) => ("error", json!({ "code": problem.code, "message": problem.detail })),
        };
        Some((Ok(sse::event(None, kind, end.to_string().as_bytes()).into()), None))
    })
}

fn output(stream: OutputStream, bytes: &[u8]) -> Bytes {
    let data = match str::from_utf8(bytes) {
        Ok(text) => json!({ "text": text }),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    };
    let kind = match stream {
        OutputStream::Stdout => "stdout",
        OutputStream::Stderr => "stderr",
    };
    sse::event(None, kind, data.to_string().as_bytes()).into()
}
