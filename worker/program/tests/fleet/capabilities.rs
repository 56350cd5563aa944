//! Jobs with capabilities, with the real runner.

use serde_json::json;
use thermae_schemas::{Capabilities, ErrorCode, Job, Status, ToolReply, ToolSpec};

use crate::harness::{Fleet, options, python, session_job};

/// The job with these tools, under this set.
fn limited(job: Job, tools: &[&str], set: &str) -> Job {
    let tools = tools.iter().copied().map(ToolSpec::new).collect();
    Job { tools, capabilities: Some(Capabilities::from_json(set).unwrap()), ..job }
}

const SMALL: &str = r#"[{"pattern": "transfer", "constraints": [{"path": "amount", "op": "<", "value": 1000}],
                         "max_calls": 2}]"#;

#[tokio::test(flavor = "multi_thread")]
async fn only_allowed_calls_reach_the_client_and_the_code_hears_why_others_do_not() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let code = "
for amount in [5000, '5', 5, 6, 7]:
    try:
        print(await transfer(amount=amount))
    except ToolError as error:
        print(error)
try:
    await other()
except ToolError as error:
    print(error)
";
    let job = limited(python(code), &["transfer", "other"], SMALL);
    fleet.submit(&job).await;
    for amount in [5, 6] {
        let call = fleet.tool_call(&job).await;
        assert_eq!(json!(call.arguments), json!({ "amount": amount }));
        fleet.answer(&call, ToolReply::Ok(json!(format!("sent {amount}")).into())).await;
    }
    let outcome = fleet.outcome(&job).await;
    let no = "capability_refused: \"transfer\" is not allowed: capabilities[0] (transfer): ";
    let expected = [
        format!("{no}amount < 1000 does not hold, because amount is 5000"),
        format!("{no}amount < 1000 does not hold, because amount is \"5\""),
        "sent 5".to_owned(),
        "sent 6".to_owned(),
        format!("{no}all its calls are used: 2"),
        "capability_refused: \"other\" is not allowed: no capability has a pattern that matches it; the patterns are \
         transfer"
            .to_owned(),
    ];
    assert_eq!(outcome.stdout.lines().collect::<Vec<_>>(), expected, "{outcome:?}");
    assert_eq!(worker.count("thermae_worker_tool_calls_total", "capability_refused"), 4.0);
    assert_eq!(worker.count("thermae_worker_tool_calls_total", "ok"), 2.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_run_of_a_session_has_its_own_capabilities() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let code = "
try:
    print(await transfer(amount=1))
except ToolError as error:
    print(str(error)[:18])
";
    for (set, refused) in [("[]", true), (r#"[{"pattern": "*", "max_calls": 1}]"#, false), ("[]", true)] {
        let job = limited(session_job("s", code), &["transfer"], set);
        fleet.submit_to(&worker.id, &job).await;
        if !refused {
            let call = fleet.tool_call(&job).await;
            fleet.answer(&call, ToolReply::Ok(json!("sent").into())).await;
        }
        let said = if refused { "capability_refused\n" } else { "sent\n" };
        assert_eq!(fleet.outcome(&job).await.stdout, said, "{set}");
    }
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_and_time_outs_are_the_capabilitys_too() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let code = "
try:
    await look()
except ToolError as error:
    print(error)
try:
    await slow()
except TimeoutError as error:
    print(error)
";
    let set = r#"[{"pattern": "look", "result": {"type": "object"}}, {"pattern": "slow", "timeout_ms": 50}]"#;
    let job = limited(python(code), &["look", "slow"], set);
    fleet.submit(&job).await;
    let call = fleet.tool_call(&job).await;
    fleet.answer(&call, ToolReply::Ok(json!([1]).into())).await;
    let outcome = fleet.outcome(&job).await;
    let lines: Vec<_> = outcome.stdout.lines().collect();
    let wrong = "tool_answer: the result does not match the schema of capabilities[0]: ";
    assert!(lines.len() == 2 && lines[0].starts_with(wrong), "{outcome:?}");
    assert_eq!(lines[1], "tool_timeout: \"slow\" was not answered within 0.05 s, the time-out of its capability");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_none_is_refused_and_nothing_runs() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let set = r#"[{"pattern": "t"}, {"pattern": "t", "arguments": {"type": "objekt"}}]"#;
    let outcome = fleet.run(&limited(python("print(1)"), &["t"], set)).await;
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code), (Status::Rejected, ErrorCode::BadCapability), "{error:?}");
    assert!(error.message.starts_with("capabilities[1].arguments: "), "{error:?}");
    worker.end().await;
}
