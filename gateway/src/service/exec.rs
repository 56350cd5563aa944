//! Requests to live sessions: sends them, with their input, and takes their output.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use thermae_bridge::read::{bounded, fields};
use thermae_client::RequestHandle;
use thermae_schemas::optional::{nullable, or_default, some_integer};
use thermae_schemas::{
    Content, ErrorCode, Exec, JobId, OutputStream, PathText, Request, RequestDone, RequestEnd, RequestWork, SessionName,
};

use super::sessions::Sessions;
use crate::budget::Held;
use crate::problem::Problem;

/// Most bytes of output in one answer, if the request says nothing.
const OUTPUT: usize = 1 << 20;
/// Most bytes of output in one answer that a request can ask for.
const MOST_OUTPUT: usize = 8 << 20;

/// Bytes of output, and of input, that wait for each other's end at most. Each request to a session is counted with
/// more.
const WINDOW: u32 = Request::CHUNK as u32;

/// A command for a session. Exactly one of `argv` and `shell`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["argv"], "properties": { "argv": { "type": "array", "minItems": 1 } } },
    { "required": ["shell"], "properties": { "shell": { "type": "string" } } },
], "not" = {
    "required": ["stdin", "stdin_base64"],
    "properties": { "stdin": { "type": "string", "minLength": 1 }, "stdin_base64": { "type": "string", "minLength": 1 } },
}), transform = nullable)]
pub(crate) struct ExecRequest {
    /// A program and its arguments. A program without a slash is looked up in `PATH`.
    #[serde(default, deserialize_with = "or_default")]
    argv: Vec<String>,
    /// A command line for `bash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shell: Option<String>,
    /// Working directory: absolute, or relative to `/workspace`, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd: Option<PathText>,
    /// Environment variables added to the sandbox's own.
    #[serde(default, deserialize_with = "or_default")]
    env: BTreeMap<String, String>,
    /// Standard input, as text. Without it, standard input is empty.
    #[serde(default, deserialize_with = "or_default")]
    stdin: String,
    /// Standard input in base64, in place of `stdin`.
    #[serde(default, deserialize_with = "or_default")]
    stdin_base64: Content,
    /// How long the command may take, in milliseconds.
    #[serde(default, deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    /// Most bytes of output in the answer; 1 MiB by default. More is left out, and `truncated` is set. A stream of
    /// events has all output.
    #[serde(default = "output", deserialize_with = "most_output")]
    #[schemars(range(max = 8_388_608))]
    max_output_bytes: usize,
}

fn output() -> usize {
    OUTPUT
}

fn most_output<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    Ok(some_integer(from)?.unwrap_or(OUTPUT))
}

/// What came of a command.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExecView {
    /// How it ended.
    #[serde(flatten)]
    pub(crate) done: RequestDone,
    /// Standard output as text. Bytes that are not UTF-8 are replaced here; `stdout_base64` has the exact bytes.
    pub(crate) stdout: String,
    /// Standard error as text. Bytes that are not UTF-8 are replaced here; `stderr_base64` has the exact bytes.
    pub(crate) stderr: String,
    /// The exact bytes of standard output in base64, only if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) stdout_base64: Option<String>,
    /// The exact bytes of standard error in base64, only if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) stderr_base64: Option<String>,
    /// Whether output was left out.
    pub(crate) truncated: bool,
}

/// A request that is under way. If it is dropped, the request is cancelled.
pub(crate) struct Running {
    handle: Arc<RequestHandle>,
    /// What of the input was not sent with the request.
    input: Bytes,
    most: usize,
    /// The bytes of the command and of its input, and then of its output, too.
    held: Held,
}

impl Sessions {
    /// Runs the command in `text`, whose bytes are held.
    pub(crate) fn exec(&self, session: SessionName, text: &[u8], held: Held) -> Result<Running, Problem> {
        let asked = read(text)?;
        let input = match (asked.stdin.is_empty(), asked.stdin_base64.is_empty()) {
            (false, false) => return Err((ErrorCode::SchemaViolation, "stdin and stdin_base64".to_owned()).into()),
            (false, true) => Bytes::from(asked.stdin),
            (true, _) => asked.stdin_base64.into(),
        };
        let work = RequestWork::Exec(Exec { argv: asked.argv, shell: asked.shell, cwd: asked.cwd, env: asked.env });
        let request = Request { timeout_ms: asked.timeout_ms, ..Request::new(JobId::random(), session, work) };
        let (handle, input) = self.start(request, input)?;
        Ok(Running { handle: Arc::new(handle), input, most: asked.max_output_bytes, held })
    }

    /// Starts a request with this input. Returns what of the input must still be given.
    pub(super) fn start(&self, mut request: Request, mut input: Bytes) -> Result<(RequestHandle, Bytes), Problem> {
        request.window = WINDOW;
        let first = input.split_to(input.len().min(Request::CHUNK));
        request.input = first.into();
        request.more_input |= !input.is_empty();
        if let Some(trouble) = request.trouble() {
            return Err((ErrorCode::SchemaViolation, trouble).into());
        }
        Ok((self.client.request(request), input))
    }
}

/// Reads a command.
pub(super) fn read(text: &[u8]) -> Result<ExecRequest, Problem> {
    bounded(text, "command")?;
    let asked: ExecRequest = fields(&mut serde_json::Deserializer::from_slice(text))?;
    if asked.max_output_bytes > MOST_OUTPUT {
        let why = format!("/max_output_bytes: at most {MOST_OUTPUT}");
        return Err((ErrorCode::SchemaViolation, why).into());
    }
    Ok(asked)
}

impl Running {
    /// Gives what of the input is left. Ends with the request at the latest.
    pub(crate) fn give(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let (handle, input) = (self.handle.clone(), std::mem::take(&mut self.input));
        async move {
            if !input.is_empty() && handle.input(input).await {
                handle.end_input();
            }
        }
    }

    /// The next piece of output; `None` after the last one.
    pub(crate) async fn output(&self) -> Option<(OutputStream, Bytes)> {
        self.handle.output().await
    }

    /// How it ended. Errors of the fleet are problems; a command that fails is none.
    pub(crate) async fn done(&self) -> Result<RequestDone, Problem> {
        ended(self.handle.done().await?)
    }

    /// Takes all output, and the end. What does not fit into the gateway is left out.
    pub(crate) async fn whole(mut self) -> Result<(ExecView, Held), Problem> {
        let give = self.give();
        let Self { handle, most, mut held, .. } = self;
        let done = handle.clone();
        let take = async move {
            let (mut stdout, mut stderr, mut truncated) = (Vec::new(), Vec::new(), false);
            while let Some((stream, piece)) = handle.output().await {
                let room = most - (stdout.len() + stderr.len());
                let taken = piece.len().min(room);
                truncated |= taken < piece.len();
                let to = match stream {
                    OutputStream::Stdout => &mut stdout,
                    OutputStream::Stderr => &mut stderr,
                };
                truncated |= taken > 0 && held.add(to, &piece[..taken], most, Held::take).is_err();
            }
            (stdout, stderr, truncated, held)
        };
        tokio::pin!(give);
        tokio::pin!(take);
        let (stdout, stderr, truncated, mut held) = tokio::select! {
            taken = &mut take => taken,
            () = &mut give => take.await,
        };
        let done = ended(done.done().await?)?;
        let ((stdout, stdout_base64), (stderr, stderr_base64)) = (text(stdout, &mut held)?, text(stderr, &mut held)?);
        Ok((ExecView { done, stdout, stderr, stdout_base64, stderr_base64, truncated }, held))
    }
}

/// Output as text, and the exact bytes if they are no text.
fn text(bytes: Vec<u8>, held: &mut Held) -> Result<(String, Option<String>), Problem> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok((text, None)),
        Err(error) => {
            let bytes = error.into_bytes();
            // A byte that is replaced becomes three.
            held.take(3 * bytes.len() + bytes.len().div_ceil(3) * 4)?;
            Ok((String::from_utf8_lossy(&bytes).into_owned(), Some(STANDARD.encode(&bytes))))
        }
    }
}

/// The end of a request, or the problem that the fleet had with it.
pub(super) fn ended(done: RequestDone) -> Result<RequestDone, Problem> {
    match done.end {
        RequestEnd::Error { error } => Err(error.into()),
        RequestEnd::Unknown => {
            Err(Problem::new("fleet_failed", "the request ended in a way that this release does not know"))
        }
        _ => Ok(done),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_text_or_also_its_bytes() {
        let metrics = crate::Metrics::new(&prometheus::Registry::new()).unwrap();
        let mut held = crate::budget::Budget::new(10, &metrics).hold();
        assert_eq!(text(b"a\n".to_vec(), &mut held), Ok(("a\n".to_owned(), None)));
        assert_eq!(text(b"\xff".to_vec(), &mut held), Ok(("\u{fffd}".to_owned(), Some("/w==".to_owned()))));
        assert_eq!(text(b"\xff".to_vec(), &mut held).unwrap_err().code, "gateway_full");
    }
}
