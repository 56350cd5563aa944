//! The contract for those who don't read Rust: JSON Schema files and an AsyncAPI document, made from the types.

use schemars::{Schema, schema_for};
use serde_json::{Value, json};

use crate::{Batch, BatchLine, Cancel, Event, Heartbeat, Job, PROTOCOL, Query, ToolResult, names};

/// Every message, as its file's name and its JSON Schema.
pub fn schemas() -> Vec<(&'static str, Schema)> {
    vec![
        ("job", schema_for!(Job)),
        ("batch", schema_for!(Batch)),
        ("batch_line", schema_for!(BatchLine)),
        ("event", schema_for!(Event)),
        ("tool_result", schema_for!(ToolResult)),
        ("cancel", schema_for!(Cancel)),
        ("query", schema_for!(Query)),
        ("heartbeat", schema_for!(Heartbeat)),
    ]
}

/// The AsyncAPI 3.0 document of a client's view: what it sends, what it hears, and on which exchanges.
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
            "description": "A job-queue worker fleet that runs the code AI agents write. docs/protocol.md says how the messages play together.",
        },
        "defaultContentType": "application/json",
        "channels": {
            "submit": channel(names::SUBMIT, "{tenant}.{class}.{pool}", "Jobs. user_id is the sender's RabbitMQ user, message_id the job's id, reply_to the reply key; mandatory and persistent.", "job"),
            "cancel": channel(names::SUBMIT, "{tenant}.cancel", "Cancels of jobs.", "cancel"),
            "query": channel(names::SUBMIT, "{tenant}.query", "Questions about what is the tenant's own; user_id is the sender's RabbitMQ user, reply_to the reply key.", "query"),
            "replies": channel(names::REPLIES, "{tenant}.{client}", "Everything the fleet says about a client's jobs.", "event"),
            "calls": channel(names::CALLS, "{tenant}.{worker}", "Answers to tool calls, to the call's reply_to; user_id is the sender's RabbitMQ user.", "tool_result"),
        },
        "operations": {
            "submitJob": operation("send", "submit", "Submit a job."),
            "cancelJob": operation("send", "cancel", "Cancel a job."),
            "ask": operation("send", "query", "Ask for the tenant's sessions."),
            "hearEvents": operation("receive", "replies", "Hear a job's events."),
            "answerToolCall": operation("send", "calls", "Answer a tool call."),
        },
        "components": { "messages": {
            "job": message("job", "One request to run one program."),
            "cancel": message("cancel", "Stop a job."),
            "query": message("query", "A question about what is the tenant's own."),
            "event": message("event", "What happened to a job."),
            "tool_result": message("tool_result", "The answer to a tool call."),
        } },
    })
}
