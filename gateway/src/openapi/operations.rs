//! The operations of the document.

use serde_json::{Map, Value, json};
use thermae_schemas::{Decided, FileStat, Listing, RunInfo, SessionState, Transferred, Verdict};

use super::schemas::Schemas;
use super::{links, parameters};
use crate::op::{Access, Op, SDK};
use crate::routes::batches::LINES;
use crate::routes::uploads::PART;
use crate::service::{
    AnswerRequest, BatchRequest, BatchView, ExecRequest, ExecView, MintRequest, NarrowRequest, RunView, RunsView,
    SessionsView, ShowRequest, ShownView, TokenView, UploadView,
};
use crate::usage::UsageView;

/// One operation.
pub(super) fn operation(op: Op, schemas: &mut Schemas) -> Value {
    let facts = op.facts();
    let mut responses = Map::new();
    for (status, what, content) in answers(op, schemas) {
        let mut response = json!({ "description": what });
        if let Some((kind, schema)) = content {
            response["content"] = json!({ kind: { "schema": schema } });
            if let Some(other) = other_form(op, status) {
                response["content"][other] = json!({ "schema": {} });
            }
        }
        if status.starts_with('2')
            && let Some(links) = links::of(op)
        {
            response["links"] = links;
        }
        responses.insert(status.to_owned(), response);
    }
    let guarded = facts.access != Access::Everybody;
    if guarded {
        for status in ["401", "403", "429", "503"] {
            responses.insert(status.to_owned(), json!({ "$ref": "#/components/responses/Problem" }));
        }
    }
    if facts.path.starts_with("/v1") || guarded {
        responses.insert("default".to_owned(), json!({ "$ref": "#/components/responses/Problem" }));
    }
    if matches!(op, Op::Submit | Op::SubmitBatch)
        && let Some(accepted) = responses.get_mut("202")
    {
        accepted["headers"] = json!({ "Location": {
            "description": "Path of the run or the batch.",
            "schema": { "type": "string" },
        } });
    }
    let mut operation = json!({
        "operationId": facts.name,
        "summary": facts.summary,
        "parameters": parameters::of(op, schemas),
        "responses": responses,
    });
    if let Some((kind, schema)) = body(op, schemas) {
        operation["requestBody"] = json!({ "required": true, "content": { kind: { "schema": schema } } });
    }
    match facts.access {
        Access::Everybody => operation["security"] = json!([]),
        Access::Scope(scope) => operation["security"] = json!([{ "token": [scope.as_str()] }]),
        Access::Sdk => {
            let scopes: Vec<_> = SDK.iter().map(|scope| scope.as_str()).collect();
            operation["security"] = json!([{ "token": scopes }]);
        }
        Access::Operator => {}
    }
    operation
}

const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

fn body(op: Op, schemas: &mut Schemas) -> Option<(&'static str, Value)> {
    match op {
        Op::Submit => Some((JSON, schemas.run_request())),
        Op::Answer => Some((JSON, schemas.of::<AnswerRequest>())),
        Op::Decide => Some((JSON, schemas.of::<Verdict>())),
        Op::SubmitBatch => Some((JSON, schemas.of::<BatchRequest<'_>>())),
        Op::Exec => Some((JSON, schemas.of::<ExecRequest>())),
        Op::WriteFile => Some((BYTES, json!({}))),
        Op::SendUpload => Some((PART, json!({}))),
        Op::MintToken => Some((JSON, schemas.of::<MintRequest>())),
        Op::NarrowToken => Some((JSON, schemas.of::<NarrowRequest>())),
        Op::ShowToken => Some((JSON, schemas.of::<ShowRequest>())),
        _ => None,
    }
}

/// The media type of an answer's other form.
fn other_form(op: Op, status: &str) -> Option<&'static str> {
    match op {
        Op::Exec => Some(crate::sse::MEDIA_TYPE),
        Op::ReadFile if status == "200" => Some(BYTES),
        _ => None,
    }
}

type Answer = (&'static str, &'static str, Option<(&'static str, Value)>);

fn answers(op: Op, schemas: &mut Schemas) -> Vec<Answer> {
    let stream = Some((crate::sse::MEDIA_TYPE, json!({})));
    let bytes = || Some((BYTES, json!({})));
    match op {
        Op::Submit => vec![
            ("200", "The run has ended.", Some((JSON, schemas.of::<RunView>()))),
            ("202", "The run is under way.", Some((JSON, schemas.of::<RunView>()))),
        ],
        Op::Cancel => vec![
            ("200", "The run has ended.", Some((JSON, schemas.of::<RunView>()))),
            ("202", "The fleet was asked to cancel the run.", Some((JSON, schemas.of::<RunView>()))),
        ],
        Op::Runs => vec![("200", "A page of runs.", Some((JSON, schemas.of::<RunsView>())))],
        Op::RunInfo => {
            let attempt = json!({
                "type": "integer",
                "minimum": 0,
                "maximum": u32::MAX,
                "description": "Number of the attempt; 0 if there is none.",
            });
            let whole = json!({ "allOf": [schemas.of::<RunInfo>(), { "properties": { "attempt": attempt } }] });
            vec![("200", "The run, as the fleet's event `run` tells it.", Some((JSON, whole)))]
        }
        Op::TakeOver => vec![
            ("200", "The run has ended.", Some((JSON, schemas.of::<RunView>()))),
            ("202", "The gateway follows the run.", Some((JSON, schemas.of::<RunView>()))),
        ],
        Op::Run => vec![("200", "The run as it is.", Some((JSON, schemas.of::<RunView>())))],
        Op::Events => vec![
            (
                "200",
                "The events. The data of each is the event as the fleet sends it (schemas/json/event.json). `gap` says \
                 which events are not kept any more, and `closing` that the gateway stops.",
                stream,
            ),
            ("204", "The run has ended, and the client has its last event.", None),
        ],
        Op::Answer => vec![("204", "The code gets the answer.", None)],
        Op::Decide => vec![("200", "The verdict that counts.", Some((JSON, schemas.of::<Decided>())))],
        Op::Artifact => vec![
            ("200", "The content.", bytes()),
            ("206", "The bytes of the range.", bytes()),
            ("307", "The content is at the URL in the header `Location`.", None),
        ],
        Op::SubmitBatch => vec![
            ("200", "No run of the batch is under way any more.", Some((JSON, schemas.of::<BatchView>()))),
            ("202", "Runs of the batch are under way.", Some((JSON, schemas.of::<BatchView>()))),
        ],
        Op::Batch => vec![("200", "The batch as it is.", Some((JSON, schemas.of::<BatchView>())))],
        Op::BatchResults => vec![(
            "200",
            "One line of JSON for each run, in the order in which the runs end: the outcome (schemas/json/outcome.json) \
             with the `id` of the job, or the `id` and an `error`.",
            Some((LINES, json!({ "type": "string" }))),
        )],
        Op::CancelBatch => vec![
            ("200", "No run of the batch is under way any more.", Some((JSON, schemas.of::<BatchView>()))),
            ("202", "The fleet was asked to cancel the runs.", Some((JSON, schemas.of::<BatchView>()))),
        ],
        Op::Sessions => vec![("200", "The sessions.", Some((JSON, schemas.of::<SessionsView>())))],
        Op::CloseSession => vec![("204", "The session is closed.", None)],
        Op::Checkpoint => vec![("200", "The files are stored.", Some((JSON, schemas.of::<SessionState>())))],
        Op::Restore => vec![("201", "The session has begun.", Some((JSON, schemas.of::<SessionState>())))],
        Op::Exec => {
            let whole = schemas.of::<ExecView>();
            vec![(
                "200",
                "What came of the command; with `Accept: text/event-stream`, a stream of it.",
                Some((JSON, whole)),
            )]
        }
        Op::ListFiles => vec![("200", "The entries.", Some((JSON, schemas.of::<Listing>())))],
        Op::ReadFile => {
            let (stat, list) = (schemas.of::<FileStat>(), schemas.of::<Listing>());
            let described = Some((JSON, json!({ "anyOf": [stat, list] })));
            vec![
                ("200", "The content; with `op`, what it says.", described),
                ("206", "The bytes of the range.", bytes()),
            ]
        }
        Op::WriteFile => vec![
            ("200", "The file is written.", Some((JSON, schemas.of::<Transferred>()))),
            ("204", "The directory is made.", None),
        ],
        Op::RemoveFile => vec![("204", "It is removed.", None)],
        Op::CreateUpload => vec![("201", "The upload has begun.", Some((JSON, schemas.of::<UploadView>())))],
        Op::Upload => vec![(
            "200",
            "The upload as it is. The headers `Upload-Offset` and `Upload-Length` say it for clients of tus, which ask \
             with HEAD.",
            Some((JSON, schemas.of::<UploadView>())),
        )],
        Op::SendUpload => vec![("204", "The part is written. `Upload-Offset` says how much there is.", None)],
        Op::GiveUpUpload => vec![("204", "The upload is given up. A file that is complete stays.", None)],
        Op::Usage => vec![("200", "What was used.", Some((JSON, schemas.of::<UsageView>())))],
        Op::MintToken | Op::NarrowToken => {
            vec![("201", "The new token.", Some((JSON, schemas.of::<TokenView>())))]
        }
        Op::ShowToken => vec![("200", "What the token says.", Some((JSON, schemas.of::<ShownView>())))],
        Op::Connect => {
            let what = "The connection is a WebSocket from now on. Each of its messages is a frame of the SDK's \
                        protocol (docs/sdk-protocol.md).";
            vec![("101", what, None)]
        }
        Op::Document => vec![("200", "The document.", Some((JSON, json!({ "type": "object" }))))],
        Op::Alive => vec![("200", "The process runs.", Some(("text/plain", json!({ "type": "string" }))))],
        Op::Ready => vec![
            ("200", "The gateway takes jobs.", Some((JSON, json!({ "type": "object" })))),
            ("503", "It does not. The answer says why.", Some((JSON, json!({ "type": "object" })))),
        ],
        Op::Metrics => vec![("200", "The metrics.", Some(("text/plain", json!({ "type": "string" }))))],
    }
}
