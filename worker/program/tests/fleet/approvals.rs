//! Calls that need approval, with the real runner: who may decide, and what comes of it.

mod decider;

use std::time::Duration;

use serde_json::{Value, json};
use thermae_backplane::bus::{Bus, Message};
use thermae_schemas::{
    Approval, Capabilities, Decided, Decision, ErrorCode, EventBody, IfClientGone, Job, Status, ToolReply, ToolSpec,
    Verdict, names,
};

use crate::harness::{Fleet, options, python, within};
use decider::Decider;

const APPROVALS: &str = "thermae_worker_approvals_total";
const CALLS: &str = "thermae_worker_tool_calls_total";

/// A job whose calls of `transfer` need approval on these terms.
fn asks(code: &str, approval: &str) -> Job {
    let set = format!(r#"[{{"pattern": "transfer", "max_calls": 10, "approval": {approval}}}, {{"pattern": "look"}}]"#);
    let tools = ["transfer", "look"].map(ToolSpec::new).to_vec();
    Job { tools, capabilities: Some(Capabilities::from_json(&set).unwrap()), ..python(code) }
}

/// Makes a call, and prints its result or its error.
const ONE: &str = "
try:
    print(await transfer(amount=900))
except ToolError as error:
    print(error)
";

fn yes(calls: u32) -> Verdict {
    Verdict::approve(calls.try_into().unwrap())
}

/// The next question about a call of a job.
async fn asked(fleet: &mut Fleet, job: &Job) -> Approval {
    match fleet.event_of(job).await {
        EventBody::Approval(asked) => asked,
        other => panic!("no question: {other:?}"),
    }
}

/// What the client that follows the run is told when a call does not wait any more.
async fn over(fleet: &mut Fleet, job: &Job) -> Decided {
    match fleet.event_of(job).await {
        EventBody::Decided(decided) => decided,
        other => panic!("{other:?}"),
    }
}

fn code_of(decided: &Decided) -> Option<ErrorCode> {
    decided.error.as_ref().map(|error| error.code)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tool_hears_of_a_call_only_after_a_yes() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut decider = Decider::new(&fleet).await;
    let job = asks(&format!("print(await look())\n{ONE}{ONE}"), "{}");
    fleet.submit(&job).await;
    // Calls that need no approval go on as before.
    let call = fleet.tool_call(&job).await;
    fleet.answer(&call, ToolReply::Ok(json!("seen").into())).await;
    let question = asked(&mut fleet, &job).await;
    assert_eq!((question.tool.as_str(), question.pattern.as_str(), question.next.get()), ("transfer", "transfer", 1));
    assert_eq!(json!(question.arguments), json!({ "amount": 900 }));
    assert!(question.within_ms > 200_000, "{question:?}");
    // An answer is no decision, and neither is what says less than yes.
    let answer = format!(r#"{{"protocol": 1, "call": "{}", "ok": "sent"}}"#, question.call);
    let call = thermae_schemas::ToolCall {
        call: question.call.clone(),
        tool: "transfer".into(),
        arguments: json!({}).into(),
        reply_to: question.reply_to.clone(),
        within_ms: 1,
    };
    fleet.answer_with(&call, answer).await;
    assert_eq!(code_of(&decider.decide(&fleet, &job, &question, yes(2)).await), Some(ErrorCode::SchemaViolation));

    let decided = decider.decide(&fleet, &job, &question, yes(1)).await;
    assert_eq!((decided.verdict, decided.error), (Some(yes(1)), None));
    assert_eq!(over(&mut fleet, &job).await.verdict, Some(yes(1)));
    let call = fleet.tool_call(&job).await;
    assert!(json!(call.arguments) == json!({ "amount": 900 }) && call.call != question.call, "{call:?}");
    fleet.answer(&call, ToolReply::Ok(json!("sent").into())).await;

    let question = asked(&mut fleet, &job).await;
    let no = Verdict::deny(Some("not this account".into()));
    assert!(decider.decide(&fleet, &job, &question, no.clone()).await.error.is_none());
    assert_eq!(over(&mut fleet, &job).await.verdict, Some(no));
    let outcome = fleet.outcome(&job).await;
    let denied = "approval_denied: the call of \"transfer\" was denied: not this account";
    assert_eq!(outcome.stdout.lines().collect::<Vec<_>>(), ["seen", "sent", denied], "{outcome:?}");
    assert_eq!((worker.count(APPROVALS, "approved"), worker.count(APPROVALS, "denied")), (1.0, 1.0));
    assert_eq!(worker.count(CALLS, "approval_denied"), 1.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_can_count_for_the_next_calls_and_for_those_that_wait_already() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut decider = Decider::new(&fleet).await;
    let code = "
import asyncio
async def one(n):
    try:
        return await transfer(amount=n)
    except ToolError as error:
        return str(error)[:15]
print(sorted(await asyncio.gather(*(one(n) for n in range(4)))))
print(await one(9))
";
    let job = asks(code, r#"{"next": 3}"#);
    fleet.submit(&job).await;
    let mut questions = Vec::new();
    for _ in 0..4 {
        questions.push(asked(&mut fleet, &job).await);
    }
    let mut amounts: Vec<_> =
        questions.iter().map(|question| json!(question.arguments)["amount"].as_i64().unwrap()).collect();
    amounts.sort_unstable();
    assert_eq!(amounts, [0, 1, 2, 3]);
    assert!(decider.decide(&fleet, &job, &questions[0], yes(3)).await.error.is_none());
    let (mut settled, mut sent) = (Vec::new(), 0);
    while sent < 3 || settled.len() < 3 {
        match fleet.event_of(&job).await {
            EventBody::Decided(decided) => settled.push(decided.call),
            EventBody::ToolCall(call) => {
                sent += 1;
                fleet.answer(&call, ToolReply::Ok(json!("sent").into())).await;
            }
            other => panic!("{other:?}"),
        }
    }
    // Of the four calls that wait, one is left, and the yes is used up.
    let left: Vec<_> = questions.iter().filter(|question| !settled.contains(&question.call)).collect();
    let [left] = left[..] else { panic!("{settled:?}") };
    assert!(decider.decide(&fleet, &job, left, Verdict::deny(None)).await.error.is_none());
    // What passed by the yes about another call is decided, too.
    let passed = questions[1..].iter().find(|question| question.call != left.call).unwrap();
    let contrary = decider.decide(&fleet, &job, passed, Verdict::deny(None)).await;
    assert_eq!(code_of(&contrary), Some(ErrorCode::ApprovalDecided));
    assert_eq!(over(&mut fleet, &job).await.call, left.call);
    let last = asked(&mut fleet, &job).await;
    assert!(decider.decide(&fleet, &job, &last, yes(1)).await.error.is_none());
    let call = fleet.tool_call(&job).await;
    fleet.answer(&call, ToolReply::Ok(json!("last").into())).await;
    let outcome = fleet.outcome(&job).await;
    assert_eq!(outcome.stdout, "['approval_denied', 'sent', 'sent', 'sent']\nlast\n", "{outcome:?}");
    assert_eq!((worker.count(APPROVALS, "approved"), worker.count(APPROVALS, "approved_before")), (2.0, 2.0));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_decision_gets_the_same_answer_and_a_contrary_one_is_refused() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut decider = Decider::new(&fleet).await;
    let job = asks(ONE, "{}");
    fleet.submit(&job).await;
    let question = asked(&mut fleet, &job).await;
    for _ in 0..2 {
        let decided = decider.decide(&fleet, &job, &question, Verdict::deny(Some("first".into()))).await;
        assert_eq!(decided.verdict.unwrap().reason.as_deref(), Some("first"));
        assert_eq!(decided.error, None);
    }
    let other = python("");
    assert_eq!(
        code_of(&decider.decide(&fleet, &other, &question, Verdict::deny(None)).await),
        Some(ErrorCode::ApprovalOver),
        "the call is another run's"
    );
    assert!(fleet.outcome(&job).await.stdout.contains("was denied: first"));
    // The end of the run changes nothing.
    assert!(decider.decide(&fleet, &job, &question, Verdict::deny(None)).await.error.is_none());
    let contrary = decider.decide(&fleet, &job, &question, yes(1)).await;
    assert_eq!(code_of(&contrary), Some(ErrorCode::ApprovalDecided));
    assert_eq!(worker.count(CALLS, "ok"), 0.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_decision_in_time_the_call_is_not_made() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut decider = Decider::new(&fleet).await;
    let mut by_tool = asks(ONE, "{}");
    by_tool.tools[0].timeout_ms = Some(2000);
    for (job, seconds) in [(asks(ONE, r#"{"timeout_ms": 2000}"#), "2 s"), (by_tool, "")] {
        fleet.submit(&job).await;
        let question = asked(&mut fleet, &job).await;
        let late = over(&mut fleet, &job).await;
        assert_eq!((late.verdict.is_none(), code_of(&late)), (true, Some(ErrorCode::ApprovalTimedOut)));
        let outcome = fleet.outcome(&job).await;
        let said = format!("approval_timed_out: nobody approved the call of \"transfer\" within {seconds}");
        assert!(outcome.stdout.starts_with(&said), "{outcome:?}");
        assert_eq!(
            code_of(&decider.decide(&fleet, &job, &question, yes(1)).await),
            Some(ErrorCode::ApprovalOver),
            "it is too late"
        );
    }
    assert_eq!((worker.count(APPROVALS, "timed_out"), worker.count(CALLS, "approval_timed_out")), (2.0, 2.0));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_decides_but_who_may_approve_for_the_tenant() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut decider = Decider::new(&fleet).await;
    let job = asks(ONE, r#"{"next": 2}"#);
    fleet.submit(&job).await;
    let question = asked(&mut fleet, &job).await;
    let decision = Decision::new(job.id.clone(), question.call.clone(), yes(1));
    let honest = decider.message(&question, &decision);
    let by = |user: Option<&str>, message: Message| Message { user_id: user.map(str::to_owned), ..message };
    let globex = question.reply_to.replacen("acme", "globex", 1);
    let mut vouched = by(Some("globex"), honest.clone());
    vouched.headers.set_text(names::H_TENANT, "acme");
    let mut dead = by(Some("acme.approver"), honest.clone());
    dead.headers.set_text("x-first-death-queue", "replies.acme.trap");
    let forged = [
        // Whoever may answer calls may not approve them.
        by(Some("acme"), Message { exchange: names::CALLS.into(), ..honest.clone() }),
        by(None, honest.clone()),
        by(Some("globex"), honest.clone()),
        by(Some("globex"), Message { key: globex, ..honest.clone() }),
        vouched,
        dead,
        // What can't be read decides nothing.
        by(Some("acme"), Message { body: br#"{"verdict": "approve"}"#.as_slice().into(), ..honest.clone() }),
    ];
    for message in forged {
        let user = message.user_id.clone().unwrap_or_else(|| "acme".to_owned());
        fleet.broker.as_user(&user).publish(message).await.unwrap().wait().await.unwrap();
    }
    // The messages of a queue come in order: all forged ones came before this one.
    assert!(decider.decide(&fleet, &job, &question, Verdict::deny(None)).await.error.is_none());
    let outcome = fleet.outcome(&job).await;
    assert!(outcome.stdout.starts_with("approval_denied: "), "{outcome:?}");
    assert_eq!((worker.count(APPROVALS, "denied"), worker.count(APPROVALS, "approved")), (1.0, 0.0));
    assert!(worker.count("thermae_worker_forged_total", "") >= 4.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_while_it_waits_takes_its_question_with_it() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut decider = Decider::new(&fleet).await;
    let cancelled = asks(ONE, "{}");
    fleet.submit(&cancelled).await;
    let question = asked(&mut fleet, &cancelled).await;
    fleet.cancel(&worker.id, &cancelled).await;
    assert_eq!(fleet.outcome(&cancelled).await.status, Status::Cancelled);
    let late = decider.decide(&fleet, &cancelled, &question, yes(1)).await;
    assert_eq!(code_of(&late), Some(ErrorCode::ApprovalOver));

    // The code gives up by itself, and goes on.
    let code = "
import asyncio
try:
    await asyncio.wait_for(transfer(amount=1), 3)
except TimeoutError:
    print('gave up')
";
    let impatient = asks(code, "{}");
    fleet.submit(&impatient).await;
    asked(&mut fleet, &impatient).await;
    assert_eq!(fleet.outcome(&impatient).await.stdout, "gave up\n");
    assert_eq!(worker.count(APPROVALS, ""), 0.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_that_waits_for_approval_counts_as_a_pause() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut decider = Decider::new(&fleet).await;
    let mut job = asks(ONE, "{}");
    job.limits.wall_ms = Some(6000);
    fleet.submit(&job).await;
    let question = asked(&mut fleet, &job).await;
    let paused = async {
        while worker.count("thermae_worker_containers", "paused") != 1.0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within("the pause", paused).await;
    // Longer than the wall clock allows.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(decider.decide(&fleet, &job, &question, yes(1)).await.error.is_none());
    let call = fleet.tool_call(&job).await;
    fleet.answer(&call, ToolReply::Ok(json!("sent").into())).await;
    let outcome = fleet.outcome(&job).await;
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Succeeded, "sent\n"), "{outcome:?}");
    assert!(outcome.usage.paused_ms >= 6000.0, "{:?}", outcome.usage);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_reaches_nobody_waits_only_if_the_run_does() {
    let fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut decider = Decider::new(&fleet).await;
    let (gone, waits) = (asks(ONE, "{}"), Job { if_client_gone: IfClientGone::Wait, ..asks(ONE, "{}") });
    for job in [&gone, &waits] {
        let mut message = fleet.assign(&fleet.tenant.clone(), job, None).await;
        message.reply_to = Some("acme.gone".into());
        fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    }
    let recorded = fleet.until_recorded(&gone).await;
    assert!(recorded.contains("client_gone: no client is there"), "{recorded}");
    // The other call waits for whoever decides, and for whoever takes the run over.
    let asked = async {
        loop {
            let info = decider.info(&fleet, &worker.id, &waits).await;
            if let [asked] = &info.approvals[..] {
                assert!(info.calls.is_empty(), "{info:?}");
                return asked.clone();
            }
        }
    };
    let asked = within("the call that waits", asked).await;
    assert_eq!((asked.tool.as_str(), json!(asked.arguments)), ("transfer", json!({ "amount": 900 })));
    let question = Approval {
        call: asked.call,
        tool: asked.tool,
        arguments: Value::Null.into(),
        pattern: asked.pattern,
        next: asked.next,
        reply_to: asked.reply_to,
        within_ms: asked.left_ms,
    };
    assert!(decider.decide(&fleet, &waits, &question, Verdict::deny(None)).await.error.is_none());
    assert!(fleet.until_recorded(&waits).await.contains("approval_denied"));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_written_down_before_the_call_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit.jsonl");
    let mut fleet = Fleet::new().await;
    let mut with_audit = options();
    with_audit.audit.file = Some(file.clone());
    let worker = fleet.worker(with_audit).await;
    let mut decider = Decider::new(&fleet).await;
    let job = asks(&format!("{ONE}{ONE}{ONE}{ONE}"), r#"{"next": 2}"#);
    fleet.submit(&job).await;
    let question = asked(&mut fleet, &job).await;
    let decision = Decision {
        by: Some("API key 1f0c".into()),
        ..Decision::new(job.id.clone(), question.call.clone(), Verdict { reason: Some("fine".into()), ..yes(2) })
    };
    decider.send(&fleet, &question, &decision).await;
    for _ in 0..2 {
        let call = fleet.tool_call(&job).await;
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.lines().last().unwrap().contains("\"event\":\"decision\""), "{text}");
        fleet.answer(&call, ToolReply::Ok(json!("sent").into())).await;
    }
    let denied = asked(&mut fleet, &job).await;
    decider.send(&fleet, &denied, &Decision::new(job.id.clone(), denied.call.clone(), Verdict::deny(None))).await;
    let last = loop {
        if let EventBody::Approval(last) = fleet.event_of(&job).await {
            break last;
        }
    };
    // What can't be written is not made, whatever was decided.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    decider.decide(&fleet, &job, &last, yes(1)).await;
    let outcome = fleet.outcome(&job).await;
    let lines: Vec<_> = outcome.stdout.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(lines, ["sent", "sent", "approval_denied", "audit_failed"], "{outcome:?}");
    worker.end().await;
}
