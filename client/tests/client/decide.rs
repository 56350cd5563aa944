//! Decisions about calls that wait for approval.

use std::num::NonZeroU32;
use std::time::Duration;

use thermae_backplane::bus::{Bus, Consumer, Message, QueueSpec};
use thermae_client::{Error, Options};
use thermae_schemas::{
    Body, Decided, Decision, ErrorCode, ErrorInfo, EventBody, PendingApproval, RunInfo, RunState, Verdict, WorkerId,
    names,
};

use super::attach::{LONG, Questions, id};
use super::{Fleet, quick, soon, tenant};

/// The queue of decisions of a worker that the test plays.
struct Worker {
    id: WorkerId,
    decisions: Box<dyn Consumer>,
}

impl Worker {
    async fn of(fleet: &Fleet) -> Self {
        let id = WorkerId::boot("w");
        let queue = QueueSpec::calls(&id);
        fleet.bus.declare_queue(&queue).await.unwrap();
        Self { decisions: fleet.bus.consume(&queue.name, 10).await.unwrap(), id }
    }

    fn reply_to(&self) -> String {
        names::calls_key(&tenant(), &self.id)
    }

    async fn next(&mut self) -> (Message, Decision) {
        let delivery = soon(self.decisions.next()).await.unwrap();
        delivery.ack().await.unwrap();
        assert_eq!(delivery.message.exchange, names::APPROVALS);
        let decision = Decision::parse(&delivery.message.body).unwrap();
        (delivery.message.as_ref().clone(), decision)
    }
}

fn yes() -> Decision {
    Decision::new(id("j"), "c", Verdict::approve(NonZeroU32::MIN))
}

fn decided(error: Option<ErrorCode>) -> EventBody {
    let verdict = error.is_none().then(|| yes().verdict);
    EventBody::Decided(Decided { call: "c".into(), verdict, error: error.map(|code| ErrorInfo::new(code, "no")) })
}

#[tokio::test]
async fn a_decision_is_sent_until_it_is_answered() {
    let fleet = Fleet::new().await;
    let mut worker = Worker::of(&fleet).await;
    let client = fleet.client_with(Options { ask_again: Duration::from_millis(5), ..quick() }).await;
    let (decision, reply_to) = (yes(), worker.reply_to());
    let told = async {
        let (first, _) = worker.next().await;
        let (again, said) = worker.next().await;
        assert_eq!((&first.body, said.id.to_string()), (&again.body, again.message_id.clone().unwrap()));
        assert!(again.headers.flag(names::H_RESEND) && again.user_id.as_deref() == Some("acme"));
        fleet.tell(&again, decided(Some(ErrorCode::ApprovalDecided))).await;
        fleet.tell(&first, decided(None)).await;
    };
    let (answer, ()) = tokio::join!(client.decide(&decision, Some(&reply_to), LONG), told);
    assert_eq!(answer.unwrap().error.unwrap().code, ErrorCode::ApprovalDecided, "the first answer counts");
}

#[tokio::test]
async fn without_a_reply_key_the_fleet_is_asked_for_it() {
    let fleet = Fleet::new().await;
    let mut worker = Worker::of(&fleet).await;
    let mut questions = Questions::of(&fleet).await;
    let client = fleet.client().await;
    let pending = |reply_to: String| PendingApproval {
        call: "c".into(),
        tool: "t".into(),
        arguments: None,
        omitted: true,
        pattern: "t".into(),
        next: NonZeroU32::MIN,
        reply_to,
        within_ms: 9,
        waited_ms: 1,
        left_ms: 8,
    };
    let run = |state| RunInfo::new(id("j"), state);
    let waits = RunInfo { approvals: vec![pending(worker.reply_to())], ..run(RunState::Waiting) };
    // What does not wait any more is known to the worker alone.
    let over = RunInfo { worker: Some(worker.id.clone()), ..run(RunState::Running) };
    for info in [waits, over] {
        let decision = yes();
        let told = async {
            let (question, query) = questions.next().await;
            assert_eq!((query.job, query.take_over), (id("j"), false));
            fleet.tell(&question, EventBody::Run(info)).await;
            let (message, said) = worker.next().await;
            assert_eq!(said, decision);
            fleet.tell(&message, decided(None)).await;
        };
        let (answer, ()) = tokio::join!(client.decide(&decision, None, LONG), told);
        assert_eq!(answer.unwrap().verdict, Some(yes().verdict));
    }
    for (state, unknown_run) in [(RunState::Ended, false), (RunState::Unknown, true)] {
        let (decision, told) = (yes(), async {
            let (question, _) = questions.next().await;
            fleet.tell(&question, EventBody::Run(run(state))).await;
        });
        let (answer, ()) = tokio::join!(client.decide(&decision, None, LONG), told);
        let error = answer.unwrap_err();
        assert!(matches!(error, Error::UnknownRun(_)) == unknown_run, "{error:?}");
        assert!(matches!(error, Error::UnknownCall(_)) != unknown_run, "{error:?}");
    }
}

#[tokio::test]
async fn a_reply_key_of_nobody_or_of_others_is_refused() {
    let fleet = Fleet::new().await;
    let client = fleet.client().await;
    for reply_to in ["acme.nobody", "globex.w", "acme", "", "*.w"] {
        let refused = soon(client.decide(&yes(), Some(reply_to), LONG)).await;
        assert!(matches!(refused, Err(Error::UnknownCall(_))), "{reply_to}: {refused:?}");
    }
    // Nobody answers: the worker is dead, and its queue is not gone yet.
    let worker = Worker::of(&fleet).await;
    let silent = client.decide(&yes(), Some(&worker.reply_to()), Duration::from_millis(20)).await;
    assert!(matches!(silent, Err(Error::NoAnswer(_))), "{silent:?}");
}
