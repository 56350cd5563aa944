//! Tool calls, with the real runner.

use serde_json::json;
use thermae_backplane::bus::{Bus, ExchangeKind, ExchangeSpec, Headers, Message, QueueSpec};
use thermae_schemas::{
    ErrorCode, Job, JobId, JsonText, ParameterKind, Status, TenantName, ToolParameter, ToolReply, ToolResult, ToolSpec,
    names,
};

use crate::harness::{Fleet, options, python};

fn tool(name: &str) -> ToolSpec {
    ToolSpec::new(name)
}

fn with_tools(code: &str, tools: Vec<ToolSpec>) -> Job {
    let mut job = python(code);
    job.tools = tools;
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn several_calls_are_in_flight_at_once_and_answered_in_any_order() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let code = "import asyncio\nprint(await asyncio.gather(*(look(n=i) for i in range(5))))";
    let job = with_tools(code, vec![tool("look")]);
    fleet.submit(&job).await;
    let mut calls = Vec::new();
    for _ in 0..5 {
        calls.push(fleet.tool_call(&job).await);
    }
    for call in calls.iter().rev() {
        let n = json!(call.arguments)["n"].as_u64().unwrap();
        fleet.answer(call, ToolReply::Ok(json!(n * 10).into())).await;
    }
    let outcome = fleet.outcome(&job).await;
    assert_eq!((outcome.stdout.as_str(), outcome.usage.tool_calls), ("[0, 10, 20, 30, 40]\n", 5), "{outcome:?}");
    assert_eq!(worker.count("thermae_worker_tool_calls_total", "ok"), 5.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_checked_before_it_leaves_and_its_error_is_the_codes() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut strict = tool("strict");
    strict.max_calls = Some(1);
    let schema = r#"{
        "type": "object",
        "properties": {"zeta": {"type": "integer"}, "alpha": {"type": "boolean"}},
        "required": ["zeta"],
        "additionalProperties": false
    }"#;
    strict.input_schema = Some(JsonText::new(schema.into()).unwrap());
    let code = "
for arguments in [{'zeta': 'x'}, {'alpha': True}, {'zeta': 1, 'other': 2}, {}]:
    try:
        await strict(**arguments)
    except (ToolError, TypeError) as e:
        print(type(e).__name__, e)
print(await strict(1, True))
try:
    await strict(zeta=2)
except ToolError as e:
    print(e)
";
    let job = with_tools(code, vec![strict]);
    let message = fleet.assign(&fleet.tenant.clone(), &job, None).await;
    fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    let call = fleet.tool_call(&job).await;
    assert_eq!(call.call.len(), 32, "128 bits");
    fleet.answer(&call, ToolReply::Ok(json!(call.arguments).into())).await;
    let outcome = fleet.outcome(&job).await;
    let lines: Vec<_> = outcome.stdout.lines().collect();
    assert_eq!(lines.len(), 6, "{outcome:?}");
    assert!(lines[0].starts_with("ToolError tool_arguments"), "{lines:?}");
    // What Python refuses for any function never comes to the worker.
    assert_eq!(lines[1], "TypeError strict() is missing required argument 'zeta'");
    assert_eq!(lines[2], "TypeError strict() got unexpected argument 'other'; it takes arguments 'zeta' and 'alpha'");
    assert_eq!(lines[3], lines[1]);
    assert!(lines[5].contains("tool_call_limit"), "{lines:?}");
    assert_eq!(outcome.usage.tool_calls, 1);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_bind_to_the_parameters_that_a_job_declares() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut pay = tool("pay");
    let schema =
        r#"{"properties": {"note": {"type": "string"}, "to": {}, "amount": {}}, "required": ["to", "amount"]}"#;
    pay.input_schema = Some(JsonText::new(schema.into()).unwrap());
    let parameter = |name: &str, kind, required| ToolParameter { name: name.into(), kind, required };
    pay.parameters = Some(vec![
        parameter("to", ParameterKind::PositionalOnly, true),
        parameter("amount", ParameterKind::PositionalOrKeyword, true),
        parameter("note", ParameterKind::KeywordOnly, false),
    ]);
    let code = "
print(tools)
for args, kwargs in [(['eve', 5, 'x'], {}), ([5], {'to': 'eve'}), (['eve'], {'note': 'x'}), (['eve', 5], {'note': 'x'})]:
    try:
        print(await pay(*args, **kwargs))
    except TypeError as e:
        print(e)
";
    let mut job = with_tools(code, vec![pay]);
    fleet.submit(&job).await;
    let call = fleet.tool_call(&job).await;
    fleet.answer(&call, ToolReply::Ok(json!(call.arguments).into())).await;
    assert_eq!(
        fleet.outcome(&job).await.stdout,
        "pay(to, /, amount, *, note: str = ...)\n\
         pay() takes 2 positional arguments but 3 were given (or one dict)\n\
         pay() got multiple values for argument 'to'\n\
         pay() is missing required argument 'amount'\n\
         {'amount': 5, 'note': 'x', 'to': 'eve'}\n"
    );
    // No function has such parameters.
    job.tools[0].parameters.as_mut().unwrap().reverse();
    let outcome = fleet.run(&Job { id: JobId::random(), ..job }).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Rejected, ErrorCode::SchemaViolation));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_its_own_tenant_answers() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let job = with_tools("print(await look())", vec![tool("look")]);
    fleet.submit(&job).await;
    let call = fleet.tool_call(&job).await;
    fleet.answer_as(&TenantName::new("globex").unwrap(), &call, ToolReply::Ok(json!("forged").into())).await;
    fleet.answer(&call, ToolReply::Ok(json!("true").into())).await;
    fleet.answer(&call, ToolReply::Ok(json!("late").into())).await;
    assert_eq!(fleet.outcome(&job).await.stdout, "true\n");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_their_tenant_did_not_send_are_dropped() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let job = with_tools("print(await look())", vec![tool("look")]);
    fleet.submit(&job).await;
    let call = fleet.tool_call(&job).await;
    let forged = ToolResult::new(call.call.clone(), ToolReply::Ok(json!("forged").into()));
    // RabbitMQ delivers this if another tenant's queue dead-letters a message under this tenant's key.
    let mut dead = Message {
        exchange: names::CALLS.into(),
        key: call.reply_to.clone(),
        body: serde_json::to_vec(&forged).unwrap().into(),
        ..Message::default()
    };
    dead.sign(&*fleet.bus, &fleet.tenant);
    let honest = dead.clone();
    dead.headers.set_text(names::H_DEAD_QUEUE, "replies.globex.trap");
    fleet.bus.publish(dead.clone()).await.unwrap().wait().await.unwrap();
    // RabbitMQ delivers this for a CC header: the message has the key that was checked, which is not one of this queue.
    let away =
        QueueSpec { bindings: vec![(names::CALLS.into(), "*.elsewhere".into())], ..QueueSpec::calls(&worker.id) };
    fleet.bus.declare_queue(&away).await.unwrap();
    let copied = Message { key: "acme.elsewhere".into(), headers: Headers::default(), ..dead };
    fleet.bus.publish(copied).await.unwrap().wait().await.unwrap();
    // Messages through another tenant's own exchange, whose alternate exchange is the one for answers, and messages
    // that this tenant sends directly: each with its own name as the sender, and without a sender.
    let own = ExchangeSpec {
        name: "replies.globex.x".into(),
        kind: ExchangeKind::Topic,
        alternate: Some(names::CALLS.into()),
        bindings: Vec::new(),
    };
    fleet.bus.declare_exchange(&own).await.unwrap();
    let globex = fleet.broker.as_user("globex");
    let theirs = Some("globex".to_owned());
    for forged in [
        Message { exchange: own.name.clone(), user_id: theirs.clone(), ..honest.clone() },
        Message { exchange: own.name.clone(), user_id: None, ..honest.clone() },
        Message { user_id: theirs, ..honest.clone() },
        Message { user_id: None, ..honest },
    ] {
        globex.publish(forged).await.unwrap().wait().await.unwrap();
    }
    // They were read first, because all answers share one queue.
    fleet.answer(&call, ToolReply::Ok(json!("true").into())).await;
    assert_eq!(fleet.outcome(&job).await.stdout, "true\n");
    assert_eq!(worker.count("thermae_worker_forged_total", ""), 6.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tools_error_and_silence_are_raised_in_the_code() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let code = "
for _ in range(2):
    try:
        await look()
    except ToolError as e:
        print(type(e).__name__, e)
";
    let mut job = with_tools(code, vec![tool("look")]);
    job.limits.tool_ms = Some(300);
    fleet.submit(&job).await;
    let call = fleet.tool_call(&job).await;
    fleet.answer(&call, ToolReply::Error("no such city".into())).await;
    let outcome = fleet.outcome(&job).await;
    let expected = "ToolError no such city\nTimeoutError tool_timeout: \"look\" was not answered within 0.3 s\n";
    assert_eq!(outcome.stdout, expected, "{outcome:?}");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_gone_fails_the_call_at_once() {
    let fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let code = "
try:
    await look()
except ToolError as e:
    print(e)
";
    let job = with_tools(code, vec![tool("look")]);
    let mut message = fleet.assign(&fleet.tenant.clone(), &job, None).await;
    message.reply_to = Some("acme.gone".into());
    fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    let recorded = fleet.until_recorded(&job).await;
    assert!(recorded.contains("client_gone"), "{recorded}");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tools_of_one_name_in_the_code_are_refused() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let outcome = fleet.run(&with_tools("1", vec![tool("a.b"), tool("a-b")])).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Rejected, ErrorCode::SchemaViolation));
    worker.end().await;
}
