//! The calls that wait for approval, and what came of the last others.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use thermae_schemas::{Decided, Decision, ErrorCode, ErrorInfo, JobId, TenantName, Verdict};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::ended::Ended;

/// A verdict, and who has given it.
#[derive(Debug, Clone)]
pub(super) struct Ruling {
    pub verdict: Verdict,
    /// The RabbitMQ user that sent the decision.
    pub user: String,
    /// For whom the user decided, as the user says.
    pub by: Option<String>,
}

/// The calls that wait.
#[derive(Clone, Default)]
pub(super) struct Table(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    waiting: HashMap<String, Asked>,
    over: Ended,
}

struct Asked {
    tenant: TenantName,
    run: JobId,
    next: NonZeroU32,
    tx: oneshot::Sender<Ruling>,
}

/// What came of a call. `None` as verdict: nobody decided.
#[derive(Serialize, Deserialize)]
struct Over {
    run: JobId,
    verdict: Option<Verdict>,
}

/// A call that waits. Dropping it gives it up.
pub(super) struct Waiting {
    table: Table,
    /// Id of the call: a random UUID, as 32 hexadecimal digits.
    pub call: Arc<str>,
    rx: oneshot::Receiver<Ruling>,
}

impl Waiting {
    /// Waits for the decision.
    pub(super) async fn ruling(&mut self) -> Ruling {
        match (&mut self.rx).await {
            Ok(ruling) => ruling,
            // It was settled otherwise, and whoever did that does not wait here.
            Err(_) => std::future::pending().await,
        }
    }

    /// Ends the wait otherwise: with a verdict, or without one. `false` if a decision came before.
    pub(super) fn settle(&self, verdict: Option<Verdict>) -> bool {
        self.table.lock().settle(&self.call, verdict).is_some()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.settle(None);
    }
}

impl State {
    fn settle(&mut self, call: &str, verdict: Option<Verdict>) -> Option<Asked> {
        let asked = self.waiting.remove(call)?;
        let over = Over { run: asked.run.clone(), verdict };
        if let (Ok(id), Ok(text)) = (JobId::new(call), serde_json::to_vec(&over)) {
            self.over.remember((asked.tenant.clone(), id), text.into(), Instant::now());
        }
        Some(asked)
    }

    /// What came of a call of this run of the tenant.
    fn over(&self, tenant: &TenantName, decision: &Decision) -> Option<Verdict> {
        let id = JobId::new(decision.call.clone()).ok()?;
        let over: Over = serde_json::from_slice(&self.over.find(&(tenant.clone(), id))?).ok()?;
        if over.run == decision.run { over.verdict } else { None }
    }
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call of this run, for whose approval a yes can count for `next` calls.
    pub(super) fn begin(&self, tenant: &TenantName, run: &JobId, next: NonZeroU32) -> Waiting {
        let call = uuid::Uuid::new_v4().simple().to_string();
        let (tx, rx) = oneshot::channel();
        let asked = Asked { tenant: tenant.clone(), run: run.clone(), next, tx };
        self.lock().waiting.insert(call.clone(), asked);
        Waiting { table: self.clone(), call: call.into(), rx }
    }

    /// Takes a decision that this user of the tenant has sent. The first one about a call counts: returns the answer,
    /// and whether this is the first.
    pub(super) fn decide(&self, tenant: &TenantName, user: String, decision: Decision) -> (Decided, bool) {
        let Decision { call, verdict, by, .. } = &decision;
        let not = |verdict: Option<Verdict>, code: ErrorCode, why: String| {
            (Decided { call: call.clone(), verdict, error: Some(ErrorInfo::new(code, why)) }, false)
        };
        let yes = |verdict: Verdict| Decided { call: call.clone(), verdict: Some(verdict), error: None };
        let mut state = self.lock();
        let asked = state.waiting.get(call).filter(|asked| asked.tenant == *tenant && asked.run == decision.run);
        if let Some(next) = asked.map(|asked| asked.next) {
            if verdict.calls > next {
                let why = format!("a yes counts for at most {next} calls here, and not for {}", verdict.calls);
                return not(None, ErrorCode::SchemaViolation, why);
            }
            let ruling = Ruling { verdict: verdict.clone(), user, by: by.clone() };
            if let Some(asked) = state.settle(call, Some(verdict.clone())) {
                // The run may end at this very moment. Then the verdict changes nothing.
                let _ = asked.tx.send(ruling);
            }
            return (yes(verdict.clone()), true);
        }
        match state.over(tenant, &decision) {
            Some(same) if same.agrees(verdict) => (yes(same), false),
            Some(other) => {
                let why = format!("another decision about the call came before: {}", other.decision.as_str());
                not(Some(other), ErrorCode::ApprovalDecided, why)
            }
            None => not(None, ErrorCode::ApprovalOver, "no such call of the run waits for approval".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantName {
        TenantName::new(name).unwrap()
    }

    fn decision(run: &str, call: &str, verdict: Verdict) -> Decision {
        Decision::new(JobId::new(run).unwrap(), call, verdict)
    }

    fn yes(calls: u32) -> Verdict {
        Verdict::approve(NonZeroU32::new(calls).unwrap())
    }

    fn begin(table: &Table) -> Waiting {
        table.begin(&tenant("acme"), &JobId::new("j").unwrap(), NonZeroU32::new(3).unwrap())
    }

    /// The code of the answer; `None` if the decision counts.
    fn decide(table: &Table, by: &str, decision: Decision) -> Option<ErrorCode> {
        table.decide(&tenant(by), by.to_owned(), decision).0.error.map(|error| error.code)
    }

    #[tokio::test]
    async fn the_first_decision_counts_and_can_be_repeated() {
        let table = Table::default();
        let mut call = begin(&table);
        let id = call.call.to_string();
        let say = |verdict| decide(&table, "acme", decision("j", &id, verdict));
        assert_eq!(say(yes(4)), Some(ErrorCode::SchemaViolation), "more calls than were asked about");
        assert_eq!(say(yes(3)), None);
        let ruling = call.ruling().await;
        assert_eq!((ruling.verdict, ruling.user.as_str()), (yes(3), "acme"));
        assert_eq!(say(yes(3)), None, "the same again");
    }

    #[tokio::test]
    async fn only_the_first_decision_about_a_call_is_the_first() {
        let table = Table::default();
        let call = begin(&table);
        let first = |run, verdict| table.decide(&tenant("acme"), "acme".into(), decision(run, &call.call, verdict)).1;
        assert!(!first("j", yes(4)) && !first("other", yes(1)), "these do not count");
        assert_eq!([(); 3].map(|()| first("j", yes(1))), [true, false, false]);
    }

    #[tokio::test]
    async fn what_contradicts_the_first_decision_is_refused() {
        let table = Table::default();
        let mut call = begin(&table);
        let id = call.call.to_string();
        let say = |verdict| decide(&table, "acme", decision("j", &id, verdict));
        assert_eq!(say(Verdict::deny(Some("no".into()))), None);
        assert_eq!(call.ruling().await.verdict, Verdict::deny(Some("no".into())));
        drop(call);
        assert_eq!(say(Verdict::deny(None)), None, "the same without its reason");
        for contrary in [yes(1), yes(3)] {
            let (decided, first) = table.decide(&tenant("acme"), "acme".into(), decision("j", &id, contrary));
            assert!(!first);
            assert_eq!(decided.error.unwrap().code, ErrorCode::ApprovalDecided);
            assert_eq!(decided.verdict.unwrap().reason.as_deref(), Some("no"));
        }
    }

    #[tokio::test]
    async fn nobody_else_decides() {
        let table = Table::default();
        let call = begin(&table);
        for (by, run, id) in [("globex", "j", &*call.call), ("acme", "other", &*call.call), ("acme", "j", "none")] {
            let code = decide(&table, by, decision(run, id, yes(1)));
            assert_eq!(code, Some(ErrorCode::ApprovalOver), "{by} {run} {id}");
        }
        assert!(call.settle(Some(yes(1))), "it still waits");
        assert_eq!(decide(&table, "globex", decision("j", &call.call, yes(1))), Some(ErrorCode::ApprovalOver));
        assert_eq!(decide(&table, "acme", decision("other", &call.call, yes(1))), Some(ErrorCode::ApprovalOver));
        assert_eq!(decide(&table, "acme", decision("j", &call.call, yes(1))), None, "it was approved before");
    }

    #[test]
    fn a_call_that_is_given_up_takes_no_decision() {
        let table = Table::default();
        let call = begin(&table);
        let id = call.call.to_string();
        drop(call);
        assert_eq!(decide(&table, "acme", decision("j", &id, yes(1))), Some(ErrorCode::ApprovalOver));
        assert!(table.lock().waiting.is_empty());
    }
}
