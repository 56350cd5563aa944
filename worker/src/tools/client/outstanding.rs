//! Tool calls that wait for the client's answer. An answer counts only if a call waits for it, and only from the call's
//! own tenant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use thermae_backplane::registry::JobKey;
use thermae_schemas::json::measure_unique;
use thermae_schemas::{ErrorCode, TenantName};
use tokio::sync::oneshot;

use crate::tools::failure;
use crate::tools::provider::{Answer, LARGEST_ANSWER, Refused};
use crate::tools::{Keeper, Said};

/// Bytes that a message may have in addition to its result.
const ENVELOPE: usize = 64 << 10;

/// The calls that wait.
#[derive(Clone)]
pub(super) struct Outstanding {
    calls: Arc<Mutex<HashMap<String, Pending>>>,
    keeper: Keeper,
}

struct Pending {
    run: JobKey,
    tx: oneshot::Sender<Answer>,
}

/// A call that waits. Dropping it forgets the call.
pub(super) struct Waiting {
    table: Outstanding,
    /// Id of the call: a random UUID, as 32 hexadecimal digits.
    pub call: String,
    rx: oneshot::Receiver<Answer>,
}

impl Waiting {
    /// Waits for the answer.
    pub(super) async fn answer(&mut self) -> Answer {
        let given_up = || Refused::new(ErrorCode::Internal, "the call was given up");
        (&mut self.rx).await.unwrap_or_else(|_| Err(given_up()))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.table.calls().remove(&self.call);
    }
}

/// Why an answer was not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unwanted {
    /// It can't be read. The call that it names was told so.
    #[error("it can't be read, and its call was told so: {0}")]
    Told(Malformed),
    /// It can't be read, and it names no call that waits.
    #[error("it can't be read, and names no call that waits: {0}")]
    Unreadable(Malformed),
    /// No such call waits (any more).
    #[error("no call {0:?} waits")]
    NotWaiting(String),
    /// It is for a call of another tenant.
    #[error("call {0:?} belongs to another tenant")]
    Foreign(String),
}

/// What is wrong with an answer. The text is also for the code that called.
#[derive(Debug, thiserror::Error)]
pub(super) enum Malformed {
    #[error("it has {0} bytes; at most {LARGEST_ANSWER} are allowed")]
    LargeMessage(usize),
    #[error("its `ok` has {0} bytes; at most {LARGEST_ANSWER} are allowed")]
    LargeResult(usize),
    #[error("it is not JSON of the expected form (NaN and Infinity are not JSON): {0}")]
    Form(serde_json::Error),
    #[error("{0}")]
    Data(serde_json::Error),
    #[error("its `error` is neither a string nor an object with a `message`: {0}")]
    Error(serde_json::Error),
    #[error("it has both `ok` and `error`")]
    Both,
    #[error("it has neither `ok` nor `error`")]
    Neither,
}

/// A tool result, with its content left as it came.
#[derive(Deserialize)]
struct Wire {
    call: String,
    #[serde(default, deserialize_with = "present")]
    ok: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    error: Option<Box<RawValue>>,
}

impl Wire {
    fn said(self) -> Result<Said, Malformed> {
        match (self.ok, self.error) {
            (Some(value), None) if value.get().len() > LARGEST_ANSWER => Err(Malformed::LargeResult(value.get().len())),
            (Some(value), None) => Ok(Ok(value)),
            (None, Some(error)) => Ok(Err(failure::read(&error).map_err(Malformed::Error)?)),
            (Some(_), Some(_)) => Err(Malformed::Both),
            (None, None) => Err(Malformed::Neither),
        }
    }
}

/// The calls that a message names, as far as this can be seen without parsing it.
fn named(body: &[u8]) -> impl Iterator<Item = &str> {
    const KEY: &[u8] = b"\"call\"";
    let places = body.windows(KEY.len()).enumerate().filter(|(_, found)| *found == KEY);
    places.filter_map(|(at, _)| {
        let rest = body[at + KEY.len()..].trim_ascii_start().strip_prefix(b":")?;
        let rest = rest.trim_ascii_start().strip_prefix(b"\"")?;
        // As long as the ids that are given here.
        std::str::from_utf8(rest.get(..32)?).ok()
    })
}

/// `"ok": null` is an answer, too.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

impl Outstanding {
    /// No calls. What `keeper` keeps are their answers.
    pub(super) fn new(keeper: Keeper) -> Self {
        Self { calls: Arc::default(), keeper }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<String, Pending>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a new call of this run.
    pub(super) fn begin(&self, run: &JobKey) -> Waiting {
        let call = uuid::Uuid::new_v4().simple().to_string();
        let (tx, rx) = oneshot::channel();
        self.calls().insert(call.clone(), Pending { run: run.clone(), tx });
        Waiting { table: self.clone(), call, rx }
    }

    /// Takes an answer that this tenant sent.
    ///
    /// # Errors
    /// No such call waits, or the answer can't be read.
    pub(super) fn answer(&self, tenant: &TenantName, body: &[u8]) -> Result<(), Unwanted> {
        if body.len() > LARGEST_ANSWER + ENVELOPE {
            return Err(self.unreadable(tenant, named(body), Malformed::LargeMessage(body.len())));
        }
        let wire: Wire = match serde_json::from_slice(body) {
            Ok(wire) => wire,
            Err(e) => return Err(self.unreadable(tenant, named(body), Malformed::Form(e))),
        };
        let call = wire.call.clone();
        // The code must get what the client has said: no number that is no longer the same, and no key of two.
        let measured = measure_unique(body, usize::MAX).map_err(Malformed::Data);
        match measured.and_then(|_| wire.said()) {
            Ok(said) => self.give(tenant, call, Ok(said)),
            Err(why) => Err(self.unreadable(tenant, std::iter::once(&*call), why)),
        }
    }

    fn give(&self, tenant: &TenantName, call: String, said: Result<Said, Refused>) -> Result<(), Unwanted> {
        let pending = {
            let mut calls = self.calls();
            match calls.get(&call) {
                None => return Err(Unwanted::NotWaiting(call)),
                Some(p) if p.run.tenant != *tenant => return Err(Unwanted::Foreign(call)),
                Some(_) => calls.remove(&call),
            }
        };
        if let Some(pending) = pending {
            let answer = said.and_then(|said| self.keeper.keep(&pending.run, said));
            let _ = pending.tx.send(answer);
        }
        Ok(())
    }

    /// Tells the first of these calls that waits what is wrong with its answer.
    fn unreadable<'a>(
        &self,
        tenant: &TenantName,
        calls: impl IntoIterator<Item = &'a str>,
        why: Malformed,
    ) -> Unwanted {
        let message = format!(
            "the client's answer can't be used: {why}. An answer is JSON with `call` and either `ok` (any JSON) or \
             `error` (a string, or an object with `message`)"
        );
        let refused = Refused::new(ErrorCode::ToolAnswer, message);
        for call in calls {
            match self.give(tenant, call.to_owned(), Err(refused.clone())) {
                Ok(()) => return Unwanted::Told(why),
                Err(foreign @ Unwanted::Foreign(_)) => return foreign,
                Err(_) => {}
            }
        }
        Unwanted::Unreadable(why)
    }
}

#[cfg(test)]
mod tests {
    use thermae_schemas::JobId;

    use super::*;
    use crate::heavy::Heavy;
    use crate::options::AnswerOptions;
    use crate::tools::kept::tests::keeper;

    fn table() -> Outstanding {
        Outstanding::new(keeper(AnswerOptions::default()))
    }

    fn run(tenant: &TenantName) -> JobKey {
        JobKey::new(tenant.clone(), JobId::new("j").unwrap())
    }

    /// What the tool says, of which there is a result.
    async fn result(answer: Answer) -> String {
        let (said, _share) = answer.unwrap().take(&Heavy::default()).await.unwrap();
        said.unwrap().get().to_owned()
    }

    #[tokio::test]
    async fn only_its_own_tenant_answers_a_call_and_only_once() {
        let (acme, globex) = (TenantName::new("acme").unwrap(), TenantName::new("globex").unwrap());
        let table = table();
        let mut call = table.begin(&run(&acme));
        let body = format!(r#"{{"protocol": 1, "call": "{}", "ok": null}}"#, call.call);
        assert!(matches!(table.answer(&globex, body.as_bytes()), Err(Unwanted::Foreign(_))));
        table.answer(&acme, body.as_bytes()).unwrap();
        assert!(matches!(table.answer(&acme, body.as_bytes()), Err(Unwanted::NotWaiting(_))));
        assert_eq!(result(call.answer().await).await, "null");
    }

    #[tokio::test]
    async fn a_value_comes_through_as_it_was_written() {
        let acme = TenantName::new("acme").unwrap();
        let table = table();
        let mut call = table.begin(&run(&acme));
        let body = format!(r#"{{"call": "{}", "ok": {{"n": 123456789012345678901234567890.10, "a":  1}}}}"#, call.call);
        table.answer(&acme, body.as_bytes()).unwrap();
        assert_eq!(result(call.answer().await).await, r#"{"n": 123456789012345678901234567890.10, "a":  1}"#);
    }

    #[test]
    fn a_call_that_is_given_up_is_forgotten() {
        let table = table();
        drop(table.begin(&run(&TenantName::new("acme").unwrap())));
        assert!(table.calls().is_empty());
    }

    #[tokio::test]
    async fn an_answer_that_can_t_be_read_is_told_to_its_call() {
        let acme = TenantName::new("acme").unwrap();
        let table = table();
        let large = format!("\"{}\"", "x".repeat(LARGEST_ANSWER));
        let larger = format!("\"{}\"", "x".repeat(LARGEST_ANSWER + ENVELOPE));
        for (rest, said) in [
            (r#""ok": NaN"#, "NaN and Infinity are not JSON"),
            (r#""ok": [1, -Infinity]"#, "not JSON"),
            (r#""ok": 1, "error": "no""#, "both"),
            (r#""error": 5"#, "neither a string"),
            (r#""error": null"#, "neither a string"),
            (r#""fine": 1"#, "neither"),
            (r#""ok": 1, "ok": 2"#, "duplicate"),
            (r#""ok": [0, {"n": 1e400}]"#, "can't be used: at /ok/1/n: number out of range"),
            (r#""ok": {"a": {"b": 1, "b": 2}}"#, "at /ok/a/b: the key \"b\" stands twice"),
            (r#""error": {"message": "m", "data": -1e400}"#, "at /error/data: number out of range"),
            (&format!(r#""ok": {large}"#), "are allowed"),
            (&format!(r#""ok": {larger}"#), "are allowed"),
        ] {
            for swapped in [false, true] {
                let mut call = table.begin(&run(&acme));
                let name = format!(r#""call": "{}""#, call.call);
                let body = if swapped { format!("{{{rest}, {name}}}") } else { format!("{{{name}, {rest}}}") };
                let taken = table.answer(&acme, body.as_bytes());
                assert!(matches!(taken, Err(Unwanted::Told(_))), "{taken:?}");
                let Err(refused) = call.answer().await else { panic!("{rest} is accepted") };
                assert_eq!(refused.code, ErrorCode::ToolAnswer);
                assert!(refused.message.contains(said), "{}", refused.message);
            }
        }
    }

    #[tokio::test]
    async fn an_unreadable_answer_reaches_no_call_of_another_tenant() {
        let (acme, globex) = (TenantName::new("acme").unwrap(), TenantName::new("globex").unwrap());
        let table = table();
        let call = table.begin(&run(&acme));
        let body = format!(r#"{{"call": "{}", "ok": NaN}}"#, call.call);
        assert!(matches!(table.answer(&globex, body.as_bytes()), Err(Unwanted::Foreign(_))));
        assert!(matches!(table.answer(&acme, b"not JSON"), Err(Unwanted::Unreadable(_))));
        assert!(matches!(table.answer(&acme, br#"{"call": "x", "ok": NaN}"#), Err(Unwanted::Unreadable(_))));
        assert_eq!(table.calls().len(), 1, "it still waits");
    }
}
