//! JSON Schema files and an AsyncAPI document, generated from the types, for authors of clients who do not read Rust.
//! The test `tests/generated.rs` writes and checks the files.

use schemars::{Schema, schema_for};
use serde_json::{Value, json};

use crate::{
    Batch, BatchLine, Cancel, Decision, Event, Heartbeat, Job, PROTOCOL, Query, Request, RequestInput, ToolResult,
    names,
};

/// The JSON Schema of every message, with the name of its file (without `.json`).
pub fn schemas() -> Vec<(&'static str, Schema)> {
    vec![
        ("job", schema_for!(Job)),
        ("batch", schema_for!(Batch)),
        ("batch_line", schema_for!(BatchLine)),
        ("event", schema_for!(Event)),
        ("tool_result", schema_for!(ToolResult)),
        ("cancel", schema_for!(Cancel)),
        ("decision", schema_for!(Decision)),
        ("query", schema_for!(Query)),
        ("request", schema_for!(Request)),
        ("request_input", schema_for!(RequestInput)),
        ("heartbeat", schema_for!(Heartbeat)),
    ]
}

/// The AsyncAPI 3.0 document of the protocol as a client sees it: what it sends and receives, and on which exchanges.
pub fn asyncapi() -> Value {
    let channel = |exchange: &str, key: &str, what: &str, message: &str| {
        json!({
            "address": key,
            "description": what,
            "messages": { message: { "$ref": format!("#/components/messages/{message}") } },
            "bindings": { "amqp": { "is": "routingKey", "exchange": { "name": exchange, "type": "topic", "durable": true } } },
        })
    };
    let message = |file: &str, what: &str| json!({ "contentType": "application/json", "summary": what, "payload": { "$ref": format!("./json/{file}.json") } });
    let operation = |action: &str, channel: &str, what: &str| json!({ "action": action, "summary": what, "channel": { "$ref": format!("#/channels/{channel}") } });
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Thermae",
            "version": PROTOCOL.to_string(),
            "description": "A job-queue worker fleet that runs the code AI agents write. docs/protocol.md explains how the messages belong together.",
        },
        "defaultContentType": "application/json",
        "channels": {
            "submit": channel(names::SUBMIT, "{tenant}.{class}.{pool}", "Jobs. Set user_id to the sender's RabbitMQ user, message_id to the job's id, and reply_to to the reply key. Publish as mandatory and persistent.", "job"),
            "cancel": channel(names::SUBMIT, "{tenant}.cancel", "Requests to cancel a job.", "cancel"),
            "query": channel(names::SUBMIT, "{tenant}.query", "Questions about the tenant's own sessions and runs. Set user_id to the sender's RabbitMQ user, and reply_to to the reply key.", "query"),
            "request": channel(names::SUBMIT, "{tenant}.request", "Requests to the tenant's live sessions. Set user_id to the sender's RabbitMQ user, message_id to the request's id, and reply_to to the reply key.", "request"),
            "replies": channel(names::REPLIES, "{tenant}.{client}", "Events of a client's jobs and requests, and answers to its questions.", "event"),
            "calls": channel(names::CALLS, "{tenant}.{worker}", "Answers to tool calls. The routing key is the call's reply_to. Set user_id to the sender's RabbitMQ user.", "tool_result"),
            "approvals": channel(names::APPROVALS, "{tenant}.{worker}", "Decisions about calls that wait for approval. The routing key is the reply_to of the event approval. Set user_id to the sender's RabbitMQ user, message_id to the decision's id, and reply_to to the reply key. Publish as mandatory.", "decision"),
            "requestInput": channel(names::CALLS, "{tenant}.{worker}", "Input of requests, and what else a client says about them. The routing key is the reply_to of the event opened. Set user_id to the sender's RabbitMQ user, and the header x-request to the request's id.", "request_input"),
        },
        "operations": {
            "submitJob": operation("send", "submit", "Submit a job."),
            "cancelJob": operation("send", "cancel", "Cancel a job."),
            "ask": operation("send", "query", "Ask for the tenant's sessions, or for a run."),
            "request": operation("send", "request", "Run a command, or work on files, in a live session."),
            "continueRequest": operation("send", "requestInput", "Send input, allow output, send a signal, or cancel a request."),
            "hearEvents": operation("receive", "replies", "Receive the events of jobs."),
            "answerToolCall": operation("send", "calls", "Answer a tool call."),
            "decide": operation("send", "approvals", "Approve or deny a call that waits for approval."),
        },
        "components": { "messages": {
            "job": message("job", "A request to run one program."),
            "cancel": message("cancel", "Cancel a job."),
            "query": message("query", "A question about the tenant's own sessions, or about one of its runs."),
            "request": message("request", "A request to a live session."),
            "request_input": message("request_input", "What a client says about a request that it has sent."),
            "event": message("event", "What happened to a job or request."),
            "decision": message("decision", "A decision about a call that waits for approval."),
            "tool_result": message("tool_result", "The answer to a tool call."),
        } },
    })
}
