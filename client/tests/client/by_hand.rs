//! Runs that a client asks for or leaves, and calls that it answers by hand.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use serde_json::json;
use serde_json::value::RawValue;
use thermae_backplane::bus::SharedBus;
use thermae_client::{Client, Error, Options};
use thermae_schemas::{EventBody, RunQuery, RunState, ToolFailure, ToolReply, ToolResult, WorkerId, names};

use super::attach::{LONG, Questions, Tools, attached, id, of_run, pending, running, worker};
use super::{Fleet, job, quick, soon, tenant};

#[tokio::test]
async fn whoever_asks_takes_nothing_over() {
    let fleet = Fleet::new().await;
    let mut questions = Questions::of(&fleet).await;
    let client = fleet.client().await;
    let asked = RunQuery { stderr_from: 9, take_over: true, ..RunQuery::new(id("j")) };
    let told = async {
        let (question, query) = questions.next().await;
        assert!(!query.take_over && query.stderr_from == 9, "{query:?}");
        fleet.tell(&question, running(vec![pending("1", "echo")])).await;
        fleet.tell(&of_run(&question), EventBody::ToolCall(pending("1", "echo").into_call().unwrap())).await;
    };
    let (info, ()) = tokio::join!(client.run_info(asked, LONG), told);
    assert_eq!(info.unwrap().calls, [pending("1", "echo")]);
}

#[tokio::test]
async fn a_question_whose_answer_is_lost_is_asked_again() {
    let fleet = Fleet::new().await;
    let mut questions = Questions::of(&fleet).await;
    let options = Options { ask_again: Duration::from_millis(5), ..quick() };
    let bus: SharedBus = Arc::new(fleet.bus.as_user("acme"));
    let client = Client::connect(bus, tenant(), options).await.unwrap();
    let (run, tools) = (id("j"), Arc::new(Tools::default()));
    let told = async |questions: &mut Questions| {
        let (first, _) = questions.next().await;
        let (again, _) = questions.next().await;
        assert!(again.headers.flag(names::H_RESEND) && !first.headers.flag(names::H_RESEND));
        assert_eq!((&again.body, &again.message_id), (&first.body, &first.message_id));
        // Both answers arrive after all.
        for question in [first, again] {
            fleet.tell(&question, running(vec![pending("1", "echo")])).await;
        }
    };
    let (info, ()) = tokio::join!(client.run_info(RunQuery::new(run.clone()), LONG), told(&mut questions));
    assert_eq!(info.unwrap().state, RunState::Running);
    // Those that were on their way when the answer came.
    while questions.asked.next().now_or_never().is_some() {}
    let (taken, ()) = tokio::join!(client.attach(&run, Some(tools.clone()), LONG), told(&mut questions));
    taken.unwrap();
    assert_eq!(questions.answer().await.call, "1");
    assert_eq!(*tools.called.lock().unwrap(), ["1"], "once");
}

#[tokio::test]
async fn a_job_that_is_forgotten_goes_on_without_this_client() {
    let mut fleet = Fleet::new().await;
    let mut questions = Questions::of(&fleet).await;
    let (client, tools) = (fleet.client().await, Arc::new(Tools::default()));
    let handle = client.submit(job("j"), Some(tools.clone())).await.unwrap();
    let message = fleet.take().await;
    fleet.tell(&message, EventBody::ToolCall(pending("1", "waits").into_call().unwrap())).await;
    soon(tools.begun.notified()).await;
    assert!(client.detach(&id("j")) && !client.detach(&id("j")));
    assert!(matches!(soon(handle.result()).await.unwrap_err(), Error::Closed));
    soon(async {
        while tools.given_up.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (taken, _) = attached(&fleet, &mut questions, &client, &tools, running(vec![pending("1", "echo")])).await;
    assert_eq!(questions.answer().await.call, "1");
    drop(taken);
}

#[tokio::test]
async fn a_call_can_be_answered_by_hand() {
    let mut fleet = Fleet::new().await;
    let mut questions = Questions::of(&fleet).await;
    let (client, tools) = (fleet.client().await, Arc::new(Tools::default()));
    let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
    let key = names::calls_key(&tenant(), &worker());
    client.answer("1", &key, Ok(raw("[0.10]"))).await.unwrap();
    let delivery = soon(questions.answers.next()).await.unwrap();
    assert_eq!(&delivery.message.body[..], br#"{"protocol":1,"call":"1","ok":[0.10]}"#);
    assert_eq!(delivery.message.user_id.as_deref(), Some("acme"));
    let typed = ToolFailure { kind: Some("KeyError".into()), message: "x".into(), data: None };
    client.answer("2", &key, Err(typed.clone())).await.unwrap();
    assert_eq!(questions.answer().await, ToolResult::new("2", ToolReply::Error(typed)));
    // No worker takes it, or none of this tenant.
    let gone = names::calls_key(&tenant(), &WorkerId::new("gone").unwrap());
    for key in [gone.as_str(), "other.w-1", "acme", "acmes.w-1", ""] {
        let error = client.answer("3", key, Ok(raw("1"))).await.unwrap_err();
        assert!(matches!(&error, Error::UnknownCall(call) if call == "3"), "{key}: {error:?}");
    }

    // A tool that is about to answer is given up, and its call is not begun anew.
    let handle = client.submit(job("j"), Some(tools.clone())).await.unwrap();
    let message = fleet.take().await;
    let call = || EventBody::ToolCall(pending("4", "waits").into_call().unwrap());
    fleet.tell(&message, call()).await;
    soon(tools.begun.notified()).await;
    client.answer("4", &key, Ok(raw("\"by hand\""))).await.unwrap();
    fleet.tell(&message, call()).await;
    let by_hand = ToolResult::new("4", ToolReply::Ok(json!("by hand").into()));
    assert_eq!((questions.answer().await, questions.answer().await), (by_hand.clone(), by_hand));
    assert_eq!(*tools.called.lock().unwrap(), ["4"]);
    fleet.end(&message, "").await;
    soon(handle.result()).await.unwrap();
    assert_eq!(tools.given_up.load(Ordering::Relaxed), 1);
}
