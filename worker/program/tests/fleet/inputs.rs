//! Inputs, errors of tools with a type, and tools with a time-out.

use serde_json::json;
use thermae_schemas::{
    ArtifactId, ArtifactRequest, ErrorCode, InputValue, Job, JsonText, Status, ToolFailure, ToolReply, ToolSpec,
};

use crate::harness::{Fleet, options, python, session_job};

fn value(text: &str) -> InputValue {
    InputValue::Value(JsonText::new(text.to_owned()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_finds_its_inputs_as_they_were_written() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut job = python("print(list(rows), rows['b'], nothing, 'ä' in text)");
    job.inputs.insert("rows".into(), value(r#"{"b": 123456789012345678901234567890, "a": [1.10]}"#));
    job.inputs.insert("nothing".into(), value("null"));
    job.inputs.insert("text".into(), value(r#""\u00e4\u0000""#));
    let outcome = fleet.run(&job).await;
    assert_eq!(outcome.stdout, "['b', 'a'] 123456789012345678901234567890 None True\n", "{outcome:?}");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_may_be_what_an_earlier_job_has_left() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let code = "open('artifacts/good.json', 'w').write('[1, {\"b\": 2, \"a\": 3}]')\nopen('artifacts/bad.json', 'w').write('[NaN]')";
    let left = fleet.run(&Job { artifacts: ArtifactRequest::default(), ..python(code) }).await.artifact_map;
    let reads = |file: &str| {
        let mut job = python("print(x)");
        let id = ArtifactId::new(left[&format!("/workspace/artifacts/{file}")].as_str()).unwrap();
        job.inputs.insert("x".into(), InputValue::Ref(id));
        job
    };
    assert_eq!(fleet.run(&reads("good.json")).await.stdout, "[1, {'b': 2, 'a': 3}]\n");
    let outcome = fleet.run(&reads("bad.json")).await;
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code), (Status::Rejected, ErrorCode::SchemaViolation), "{error:?}");
    assert!(error.message.starts_with("/inputs/x/ref"), "{error:?}");
    let mut missing = python("print(x)");
    missing.inputs.insert("x".into(), InputValue::Ref(ArtifactId::of([0; 32])));
    assert_eq!(fleet.run(&missing).await.error.unwrap().code, ErrorCode::UnknownRef);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_have_a_bound_together_and_stay_in_a_session() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut large = python("print(len(a))");
    large.inputs.insert("a".into(), value(&format!("\"{}\"", "x".repeat(15 << 20))));
    assert_eq!(fleet.run(&large).await.stdout, format!("{}\n", 15 << 20));
    let mut larger = Job { id: thermae_schemas::JobId::random(), ..large };
    larger.inputs.insert("b".into(), value(&format!("\"{}\"", "x".repeat(1 << 20))));
    let outcome = fleet.run(&larger).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Rejected, ErrorCode::FilesTooLarge));

    let mut first = session_job("s", "n += 1\nprint(n)");
    first.inputs.insert("n".into(), value("1"));
    fleet.submit_to(&worker.id, &first).await;
    assert_eq!(fleet.outcome(&first).await.stdout, "2\n");
    let second = session_job("s", "print(n)");
    fleet.submit_to(&worker.id, &second).await;
    assert_eq!(fleet.outcome(&second).await.stdout, "2\n");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_a_tool_is_raised_by_its_type() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let code = "
try:
    await look()
except KeyError as error:
    print(isinstance(error, ToolError), error, error.type, error.data)
try:
    await look()
except ToolError as error:
    print(type(error).__name__, error, error.type, error.data)
";
    let mut job = python(code);
    job.tools = vec![ToolSpec::new("look")];
    fleet.submit(&job).await;
    let failure = |kind: &str| ToolFailure {
        kind: Some(kind.to_owned()),
        message: "no such city".into(),
        data: Some(json!({ "city": "Atlantis" }).into()),
    };
    for kind in ["KeyError", "CityError"] {
        let call = fleet.tool_call(&job).await;
        fleet.answer(&call, ToolReply::Error(failure(kind))).await;
    }
    let outcome = fleet.outcome(&job).await;
    let expected = "True no such city KeyError {'city': 'Atlantis'}\n\
                    ToolError no such city CityError {'city': 'Atlantis'}\n";
    assert_eq!(outcome.stdout, expected, "{outcome:?}");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_may_have_a_shorter_time_out_than_the_job() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let code = "
try:
    await look()
except TimeoutError as error:
    print(isinstance(error, ToolError), error)
";
    let mut job = python(code);
    job.tools = vec![ToolSpec { timeout_ms: Some(100), ..ToolSpec::new("look") }];
    let outcome = fleet.run(&job).await;
    assert_eq!(outcome.stdout, "True tool_timeout: \"look\" was not answered within 0.1 s\n", "{outcome:?}");
    worker.end().await;
}
