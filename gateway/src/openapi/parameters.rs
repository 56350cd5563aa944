//! The parameters of operations.

use serde_json::{Value, json};
use thermae_schemas::{JobId, Language, PoolName, SessionName};

use super::schemas::Schemas;
use crate::op::Op;
use crate::routes::parameters;
use crate::routes::uploads::VERSION;
use crate::usage::MOST_HOURS;

/// All parameters of an operation.
pub(super) fn of(op: Op, schemas: &mut Schemas) -> Vec<Value> {
    let facts = op.facts();
    let in_path = facts.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut all: Vec<Value> = in_path.map(|name| in_path_of(op, name.trim_start_matches('*'), schemas)).collect();
    all.extend(parameters(op).iter().map(|name| in_query(name, op, schemas)));
    all.extend(headers(op));
    all
}

fn parameter(place: &str, name: &str, required: bool, schema: &Value, what: &str) -> Value {
    json!({ "in": place, "name": name, "required": required, "schema": schema, "description": what })
}

fn in_path_of(op: Op, name: &str, schemas: &mut Schemas) -> Value {
    let text = json!({ "type": "string", "minLength": 1 });
    let (schema, what) = match (op, name) {
        (Op::Artifact, "name") => {
            (text, "Path of the artifact below /workspace/artifacts: a/b.csv for /workspace/artifacts/a/b.csv.")
        }
        (Op::Batch | Op::BatchResults | Op::CancelBatch, "id") => {
            (schemas.of::<JobId>(), "Id of the batch, percent-encoded.")
        }
        (Op::Upload | Op::SendUpload | Op::GiveUpUpload, "id") => (text, "Id of the upload."),
        (_, "id") => (schemas.of::<JobId>(), "Id of the run, percent-encoded."),
        (_, "name") => (schemas.of::<SessionName>(), "Name of the session, percent-encoded."),
        (_, "call") => (text, "Id of the call."),
        _ => (text, "Path of the file, relative to /workspace, with plain components only."),
    };
    parameter("path", name, true, &schema, what)
}

fn in_query(name: &str, op: Op, schemas: &mut Schemas) -> Value {
    let (schema, what) = match name {
        "wait" => (
            json!({ "type": "string", "pattern": "^(([0-9]{1,5}|[12][0-9]{5}|300000)ms|[0-2]?[0-9]?[0-9]s|300s|[0-5]m(in)?)$", "examples": ["30s"] }),
            "How long to wait, at most five minutes: for the end of the run, or for what `until` says.",
        ),
        "until" => (
            json!({ "type": "string", "enum": ["end", "call"], "default": "end" }),
            "`call`: a wait also ends when a tool call waits for an answer or for approval.",
        ),
        "state" => {
            (json!({ "type": "string", "enum": ["underway", "ended", "unknown"] }), "Only the runs in this state.")
        }
        "limit" => {
            (json!({ "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 }), "Most runs on the page.")
        }
        "cursor" => (
            json!({ "type": "string", "pattern": "^[0-9]{1,19}$" }),
            "`next` of the page before. A page has no runs that came after the first page was asked for.",
        ),
        "stdout_from" | "stderr_from" => (
            json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX, "default": 0 }),
            "How many bytes of this output the caller has. The answer has what comes after them, at most 1 MiB.",
        ),
        "sha256" => (
            json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" }),
            "SHA-256 of the whole content. If the content has another one, no file is made.",
        ),
        "hours" => (
            json!({ "type": "integer", "minimum": 1, "maximum": MOST_HOURS, "default": 24 }),
            "How many hours count, the one under way included.",
        ),
        "pool" if op == Op::Restore => (schemas.of::<PoolName>(), "Pool of the session; by default, `default`."),
        "pool" => (schemas.of::<PoolName>(), "Pool of the session; by default, where the session is."),
        "ttl_ms" => (
            json!({ "type": "integer", "minimum": 1, "maximum": i64::MAX }),
            "How long the checkpoint is kept, in milliseconds; by default and at most, as the fleet says.",
        ),
        "from" => (
            schemas.of::<SessionName>(),
            "Name of the session whose checkpoint it is; by default, the session itself. Without `reset`, a session that \
             has a checkpoint of its own begins with that.",
        ),
        "language" => (schemas.of::<Language>(), "Language of the session's programs; by default, `python`."),
        "reset" => (
            json!({ "type": "boolean", "default": false }),
            "Give up a session that lives under the name, and begin it anew.",
        ),
        "op" if op == Op::WriteFile => {
            (json!({ "type": "string", "enum": ["make_dir"] }), "`make_dir`: makes a directory, and those above it.")
        }
        "op" => (
            json!({ "type": "string", "enum": ["stat", "list"] }),
            "`stat`: describes the file. `list`: lists the directory.",
        ),
        "root" => (json!({ "type": "boolean", "default": false }), "The path is relative to / instead."),
        "link" => (json!({ "type": "boolean", "default": false }), "Describe the link itself, if there is one."),
        "depth" => (
            json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX, "default": 1 }),
            "1 for the directory itself, 2 also for the directories in it, and so on.",
        ),
        "most" => (
            json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX, "default": 10_000 }),
            "Most entries in the answer.",
        ),
        "mode" => (
            json!({ "type": "string", "enum": ["truncate", "append", "create_new"], "default": "truncate" }),
            "What happens to a file that is there.",
        ),
        "offset" => (
            json!({ "type": "integer", "minimum": 0, "maximum": i64::MAX }),
            "Write over the file from this offset on, in bytes. It goes with no mode.",
        ),
        "permissions" => (
            json!({ "type": "string", "pattern": "^[0-7]{1,4}$" }),
            "Permission bits of the file, in octal digits. By default, those of the file that is there, or 644.",
        ),
        "parents" => (json!({ "type": "boolean", "default": false }), "Make the directories above the file, too."),
        _ => (json!({ "type": "boolean", "default": false }), "Remove directories with everything in them."),
    };
    parameter("query", name, false, &schema, what)
}

fn headers(op: Op) -> Vec<Value> {
    let tus = || {
        let schema = json!({ "type": "string", "enum": [VERSION] });
        parameter("header", "Tus-Resumable", true, &schema, "Version of tus that the client speaks.")
    };
    let number = |name: &str, what: &str| {
        let schema = json!({ "type": "integer", "minimum": 0, "maximum": i64::MAX });
        parameter("header", name, true, &schema, what)
    };
    let header = |name: &str, what: &str| parameter("header", name, false, &json!({ "type": "string" }), what);
    match op {
        Op::Submit => vec![parameter(
            "header",
            "Idempotency-Key",
            false,
            &json!({ "type": "string", "minLength": 1, "maxLength": 128 }),
            "The job's `idempotency_key`: a submit that is repeated with it gets the run of the first.",
        )],
        Op::Events => vec![parameter(
            "header",
            "Last-Event-ID",
            false,
            &json!({ "type": "string", "pattern": "^[0-9]{0,18}$" }),
            "Number of the last event that the client has.",
        )],
        Op::ReadFile | Op::Artifact => vec![
            header("Range", "One range of bytes."),
            header("If-Range", "Send the range only if the file still has this ETag; otherwise all of it."),
        ],
        Op::CreateUpload => vec![tus(), number("Upload-Length", "Bytes of the whole content.")],
        Op::SendUpload => vec![tus(), number("Upload-Offset", "Where the part begins: how much there is already.")],
        Op::GiveUpUpload => vec![tus()],
        Op::WriteFile => vec![parameter(
            "header",
            "If-None-Match",
            false,
            &json!({ "type": "string", "enum": ["*"] }),
            "`*`: only if there is no file.",
        )],
        _ => Vec::new(),
    }
}
