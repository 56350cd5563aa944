//! What clients hear of the audit log, with the real runner.

use serde_json::json;
use thermae_schemas::{AuditLine, AuditWhat, Capabilities, EventBody, Job, Stream, ToolReply, ToolSpec};

use crate::harness::{Fleet, options, python};

const CODE: &str = "
await transfer(amount=5, pin=4711)
for bad in [5000, 'many']:
    try:
        await transfer(amount=bad)
    except ToolError:
        pass
";

/// A job that makes one call, one that its capabilities refuse, and one with bad arguments.
fn job() -> Job {
    let set = r#"[{"pattern": "transfer", "constraints": [{"path": "amount", "op": "<", "value": 1000}]}]"#;
    let schema = json!({ "properties": { "amount": { "type": "integer" }, "pin": {} } });
    let tool = ToolSpec { input_schema: Some((&schema).into()), ..ToolSpec::new("transfer") };
    Job { tools: vec![tool], capabilities: Some(Capabilities::from_json(set).unwrap()), ..python(CODE) }
}

/// All events of the job in their order, in short; and what the audit log told. The first call is answered.
async fn events(fleet: &mut Fleet, job: &Job) -> (Vec<String>, Vec<AuditLine>) {
    let (mut all, mut told) = (Vec::new(), Vec::new());
    fleet.submit(job).await;
    loop {
        match fleet.event_of(job).await {
            EventBody::ToolCall(call) => {
                all.push("asked".to_owned());
                fleet.answer(&call, ToolReply::Ok(json!(1).into())).await;
            }
            EventBody::Audit(line) => {
                all.push(line.result.clone().unwrap_or_else(|| "call".to_owned()));
                told.push(line);
            }
            EventBody::Result(outcome) => {
                assert!(outcome.error.is_none(), "{outcome:?}");
                return (all, told);
            }
            other => panic!("{other:?}"),
        }
    }
}

const ALL: [&str; 6] = ["call", "asked", "ok", "call", "capability_refused", "tool_arguments"];

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_for_it_hears_of_each_call_and_refusal() {
    let mut fleet = Fleet::new().await;
    let mut redacting = options();
    redacting.audit.redact = vec!["**/pin".to_owned()];
    let worker = fleet.worker(redacting).await;
    let asking = Job { stream: vec![Stream::Audit], ..job() };
    let (all, told) = events(&mut fleet, &asking).await;
    assert_eq!(all, ALL);
    let whats: Vec<_> = told.iter().map(|line| line.what).collect();
    assert_eq!(whats, [AuditWhat::Call, AuditWhat::End, AuditWhat::Call, AuditWhat::End, AuditWhat::End]);
    assert!(told.iter().all(|line| line.worker == worker.id && line.tool.as_deref() == Some("transfer")), "{told:?}");
    assert_eq!(json!(told[0].arguments), json!({ "amount": 5, "pin": "[redacted]" }));
    assert!(told[0].call == told[1].call && told[1].ms.is_some() && told[1].arguments.is_none(), "{told:?}");
    assert!(told.iter().all(|line| line.why.is_none()), "a text may quote a value: {told:?}");

    let (all, told) = events(&mut fleet, &job()).await;
    assert!(all == ["asked"] && told.is_empty(), "who does not ask hears nothing: {all:?}");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_option_tells_the_clients_of_all_jobs() {
    let mut fleet = Fleet::new().await;
    let mut telling = options();
    telling.audit.events = true;
    let worker = fleet.worker(telling).await;
    let (all, told) = events(&mut fleet, &job()).await;
    assert_eq!(all, ALL);
    assert!(told[3].why.as_deref().is_some_and(|why| why.contains("amount")), "{told:?}");
    worker.end().await;
}
