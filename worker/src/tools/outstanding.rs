//! Tool calls that wait for the client's answer. An answer counts only for a call that waits, and only from its tenant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use thermae_schemas::TenantName;
use tokio::sync::oneshot;

/// What a client answered: any JSON, or why not.
pub(super) type Answer = Result<Box<RawValue>, String>;

/// The calls that wait.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outstanding(Arc<Mutex<HashMap<String, Pending>>>);

#[derive(Debug)]
struct Pending {
    tenant: TenantName,
    tx: oneshot::Sender<Answer>,
}

/// A call that waits; forgotten when it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    table: Outstanding,
    /// The call's name: 128 random bits.
    pub call: String,
    rx: oneshot::Receiver<Answer>,
}

impl Waiting {
    /// The answer.
    pub(crate) async fn answer(&mut self) -> Answer {
        (&mut self.rx).await.unwrap_or_else(|_| Err("the call was given up".into()))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.table.calls().remove(&self.call);
    }
}

/// Why an answer was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unwanted {
    /// It can't be read.
    #[error("it can't be read: {0}")]
    Unreadable(String),
    /// No such call waits (any more).
    #[error("no call {0:?} waits")]
    NotWaiting(String),
    /// Another tenant's call.
    #[error("call {0:?} belongs to another tenant")]
    Foreign(String),
}

/// The wire's tool result, with its value left as it came.
#[derive(Deserialize)]
struct Wire {
    call: String,
    #[serde(default, deserialize_with = "present")]
    ok: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<String>,
}

/// `"ok": null` is an answer, too.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

impl Outstanding {
    fn calls(&self) -> MutexGuard<'_, HashMap<String, Pending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new call of this tenant's job.
    pub(crate) fn begin(&self, tenant: &TenantName) -> Waiting {
        let call = uuid::Uuid::new_v4().simple().to_string();
        let (tx, rx) = oneshot::channel();
        self.calls().insert(call.clone(), Pending { tenant: tenant.clone(), tx });
        Waiting { table: self.clone(), call, rx }
    }

    /// Takes an answer that came under this tenant's key.
    ///
    /// # Errors
    /// It answers nothing that waits.
    pub(crate) fn answer(&self, tenant: &TenantName, body: &[u8]) -> Result<(), Unwanted> {
        let wire: Wire = serde_json::from_slice(body).map_err(|e| Unwanted::Unreadable(e.to_string()))?;
        let answer = match (wire.ok, wire.error) {
            (Some(value), None) => Ok(value),
            (None, Some(error)) => Err(error),
            _ => return Err(Unwanted::Unreadable("neither `ok` nor `error`, or both".into())),
        };
        let pending = {
            let mut calls = self.calls();
            match calls.get(&wire.call) {
                None => return Err(Unwanted::NotWaiting(wire.call)),
                Some(p) if p.tenant != *tenant => return Err(Unwanted::Foreign(wire.call)),
                Some(_) => calls.remove(&wire.call),
            }
        };
        if let Some(pending) = pending {
            let _ = pending.tx.send(answer);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_its_own_tenant_answers_a_call_and_only_once() {
        let (acme, globex) = (TenantName::new("acme").unwrap(), TenantName::new("globex").unwrap());
        let table = Outstanding::default();
        let mut call = table.begin(&acme);
        let body = format!(r#"{{"protocol": 1, "call": "{}", "ok": null}}"#, call.call);
        assert!(matches!(table.answer(&globex, body.as_bytes()), Err(Unwanted::Foreign(_))));
        table.answer(&acme, body.as_bytes()).unwrap();
        assert!(matches!(table.answer(&acme, body.as_bytes()), Err(Unwanted::NotWaiting(_))));
        assert_eq!(call.answer().await.unwrap().get(), "null");
    }

    #[tokio::test]
    async fn a_value_comes_through_as_it_was_written() {
        let acme = TenantName::new("acme").unwrap();
        let table = Outstanding::default();
        let mut call = table.begin(&acme);
        let body = format!(r#"{{"call": "{}", "ok": {{"n": 123456789012345678901234567890.10, "a":  1}}}}"#, call.call);
        table.answer(&acme, body.as_bytes()).unwrap();
        assert_eq!(call.answer().await.unwrap().get(), r#"{"n": 123456789012345678901234567890.10, "a":  1}"#);
    }

    #[test]
    fn a_call_that_is_given_up_is_forgotten() {
        let table = Outstanding::default();
        drop(table.begin(&TenantName::new("acme").unwrap()));
        assert!(table.calls().is_empty());
    }
}
