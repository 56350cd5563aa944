//! The provider that stands between the code and whoever answers its calls.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;
use thermae_capabilities::Grant;
use thermae_schemas::ErrorCode;
use thermae_service::units::seconds;
use tokio::time::Instant;

use super::super::approval::{Approvals, Ask};
use super::super::{Answer, Call, Held, Provider, Refused};
use super::Allowed;
use crate::heavy::Heavy;

/// Decides calls by the job's capabilities, waits for approval if they want it, and has another provider answer the
/// calls that may be made.
pub(crate) struct Capable {
    inner: Arc<dyn Provider>,
    approvals: Arc<Approvals>,
    heavy: Arc<Heavy>,
}

impl Capable {
    pub(crate) fn new(inner: Arc<dyn Provider>, approvals: Arc<Approvals>, heavy: Arc<Heavy>) -> Self {
        Self { inner, approvals, heavy }
    }

    /// Decides a call and counts it, with `steps` of work for each look. Returns the arguments, as they came.
    async fn decide(
        &self,
        allowed: &Arc<Allowed>,
        tool: &str,
        arguments: Box<RawValue>,
        steps: usize,
    ) -> Result<(Grant, Box<RawValue>), Refused> {
        if let Some(held) = allowed.token() {
            return self.decide_with(held, allowed, tool, arguments, steps).await;
        }
        let (allowed, tool) = (Arc::clone(allowed), tool.to_owned());
        self.heavy.check(steps, move || Ok((allowed.decide(&tool, &arguments)?, arguments))).await
    }

    /// The same for a job with a token.
    async fn decide_with(
        &self,
        held: &Held,
        allowed: &Arc<Allowed>,
        tool: &str,
        mut arguments: Box<RawValue>,
        steps: usize,
    ) -> Result<(Grant, Box<RawValue>), Refused> {
        // Between a proposal and its count, no other call may use up what is proposed.
        let _turn = held.turn().await;
        held.verify_again(&self.heavy).await?;
        loop {
            let (its, tool) = (Arc::clone(allowed), tool.to_owned());
            let proposed = self.heavy.check(steps, move || Ok((its.propose(&tool, &arguments)?, arguments)));
            let ((grant, takes), same) = proposed.await?;
            if allowed.count(held, &takes).await? {
                return Ok((grant, same));
            }
            arguments = same;
        }
    }
}

#[async_trait]
impl Provider for Capable {
    async fn call(&self, call: Call<'_>) -> Answer {
        let Some(allowed) = call.open.gate().allowed().cloned() else { return self.inner.call(call).await };
        let began = Instant::now();
        let Call { work, entry, tool, arguments, within, open, trail } = call;
        let steps = allowed.cost(tool, arguments.get().len());
        let (grant, arguments) = self.decide(&allowed, tool, arguments, steps).await?;
        if let Some(needed) = allowed.approval(&grant) {
            let within = within.saturating_sub(began.elapsed());
            let (arguments, needed, yeses) = (&*arguments, &needed, &allowed.yeses);
            self.approvals.approved(&Ask { work, entry, tool, arguments, within, needed, yeses, trail }).await?;
            // The token may have expired meanwhile, or have been revoked.
            if let Some(held) = allowed.token() {
                held.verify_again(&self.heavy).await?;
            }
        }
        let left = within.saturating_sub(began.elapsed());
        let own = grant.timeout.filter(|own| *own < left);
        let answer = self.inner.call(Call { work, entry, tool, arguments, within: own.unwrap_or(left), open, trail });
        let answer = match own {
            None => answer.await?,
            Some(own) => tokio::time::timeout(own, answer).await.unwrap_or_else(|_| Err(late(tool, own)))?,
        };
        let steps = allowed.cost_of_result(&grant, answer.bytes()).max(answer.cost());
        answer.checked(&self.heavy, steps, move |result| allowed.check(&grant, result)).await
    }
}

fn late(tool: &str, own: Duration) -> Refused {
    let own = seconds(own);
    let message = format!("{tool:?} was not answered within {own}, the time-out of its capability");
    Refused::new(ErrorCode::ToolTimeout, message)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use thermae_backplane::bus;
    use thermae_capabilities::Set;
    use thermae_schemas::{ToolSpec, WorkerId};
    use tokio::sync::Mutex;

    use super::*;
    use crate::audit::{Audit, AuditOptions, Named};
    use crate::metrics::Metrics;
    use crate::options::AnswerOptions;
    use crate::options::Bounds;
    use crate::running::Table;
    use crate::running::tests::enter;
    use crate::tools::kept::tests::keeper;
    use crate::tools::{Gate, Open};
    use crate::work::tests::work;

    /// Answers with the arguments, except calls of `never`. Remembers what it was asked.
    #[derive(Default)]
    struct Echo(Mutex<Vec<(String, Duration)>>);

    #[async_trait]
    impl Provider for Echo {
        async fn call(&self, call: Call<'_>) -> Answer {
            self.0.lock().await.push((call.arguments.get().to_owned(), call.within));
            if call.tool == "never" {
                std::future::pending().await
            } else {
                keeper(AnswerOptions::default()).keep(&call.work.key, Ok(call.arguments))
            }
        }
    }

    /// A provider under this set, what is behind it, and the gate of the tools `t`, `u` and `never`.
    fn under(set: Option<&str>) -> (Capable, Arc<Echo>, Arc<Gate>) {
        let specs = ["t", "u", "never"].map(ToolSpec::new);
        let set = set.map(|set| Set::from_json(set).unwrap());
        let allowed = Allowed::new(set, None).unwrap().map(Arc::new);
        let gate = Gate::new(&specs, Bounds::default()).unwrap().0.under(allowed);
        let echo = Arc::new(Echo::default());
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        let (bus, worker) = (Arc::new(bus::Local::new()), WorkerId::boot("w"));
        let approvals = Arc::new(Approvals::new(bus, worker, BTreeMap::new(), metrics.approvals.clone()));
        (Capable::new(echo.clone(), approvals, Arc::default()), echo, Arc::new(gate))
    }

    async fn ask(capable: &Capable, gate: &Arc<Gate>, tool: &str, arguments: &str) -> Result<String, String> {
        let mut open: Open = gate.comes(arguments.len()).unwrap();
        let arguments = RawValue::from_string(arguments.to_owned()).unwrap();
        let entry = enter(&Table::default()).unwrap();
        let (within, work) = (Duration::from_secs(60), work());
        let audit = Audit::open(&AuditOptions::default(), &WorkerId::boot("w")).unwrap();
        let named = Named { work: &work, token: None, call: 1, tool: Some(tool) };
        let trail = audit.begin(named, &arguments).await.unwrap();
        let call = Call { work: &work, entry: &entry, tool, arguments, within, open: &mut open, trail: &trail };
        let answer = capable.call(call).await.map_err(|refused| refused.to_string())?;
        let (said, _share) = answer.take(&Heavy::default()).await.unwrap();
        said.map(|value| value.get().to_owned()).map_err(|failure| failure.message)
    }

    #[tokio::test]
    async fn a_schema_of_a_capability_judges_numbers_as_they_are_written_and_as_floats() {
        // Each schema, what it allows, and what it refuses.
        for (schema, good, bad) in [
            (r#"{"const": 18446744073709551617}"#, "18446744073709551617", "18446744073709551616"),
            (r#"{"enum": [1, [18446744073709551617]]}"#, "[18446744073709551617]", "[18446744073709551618]"),
            // A tool that rounds can't tell the two apart.
            (r#"{"not": {"const": 18446744073709551617}}"#, "18446744073709551615", "18446744073709551616"),
            (r#"{"maximum": 999.99999999999999999}"#, "999.99999999999999999", "1000"),
            (r#"{"exclusiveMaximum": 1000}"#, "999.9999999999999", "999.99999999999999999"),
            (r#"{"minimum": 18446744073709551617}"#, "18446744073709551617", "18446744073709551616"),
        ] {
            let set = format!(r#"[{{"pattern": "t", "arguments": {{"properties": {{"n": {schema}}}}}}}]"#);
            let (capable, _, gate) = under(Some(&set));
            let arguments = [good, bad].map(|n| format!(r#"{{"n": {n}}}"#));
            assert_eq!(ask(&capable, &gate, "t", &arguments[0]).await.as_ref(), Ok(&arguments[0]), "{schema}");
            let error = ask(&capable, &gate, "t", &arguments[1]).await.unwrap_err();
            assert!(error.contains("do not match its schema"), "{schema}: {error}");
        }
    }

    #[tokio::test]
    async fn without_capabilities_a_call_passes_as_it_came() {
        let (capable, echo, gate) = under(None);
        let twice = r#"{"a": 1, "a": 2}"#;
        assert_eq!(ask(&capable, &gate, "t", twice).await.unwrap(), twice);
        assert_eq!(*echo.0.lock().await, [(twice.to_owned(), Duration::from_secs(60))]);
    }

    #[tokio::test]
    async fn what_is_refused_never_leaves_and_what_leaves_is_what_was_checked() {
        let set = r#"[{"pattern": "t", "constraints": [{"path": "n", "op": "<=", "value": 5}], "max_calls": 2}]"#;
        let (capable, echo, gate) = under(Some(set));
        for (tool, arguments, why) in [
            ("t", r#"{"n": 6}"#, "capability_refused: \"t\" is not allowed: capabilities[0] (t): n <= 5 does not hold"),
            ("t", r#"{"n": true}"#, "because n is true"),
            ("u", r#"{"n": 1}"#, "capability_refused: \"u\" is not allowed: no capability has a pattern"),
            ("t", r#"{"n": 1, "n": 6}"#, "tool_arguments: the arguments of \"t\" can't be checked: the key \"n\""),
            ("t", r#"{"n": 36893488147419103233}"#, "because n is 36893488147419103233"),
            ("t", r#"{"n": 5.00000000000000000001}"#, "because n is 5.00000000000000000001"),
        ] {
            let error = ask(&capable, &gate, tool, arguments).await.unwrap_err();
            assert!(error.contains(why), "{arguments}: {error}");
        }
        assert!(echo.0.lock().await.is_empty());
        for _ in 0..2 {
            let text = r#"{"n":  5.0, "b": "\u0061", "a": 36893488147419103233}"#;
            assert_eq!(ask(&capable, &gate, "t", text).await.unwrap(), text);
        }
        let spent = ask(&capable, &gate, "t", r#"{"n": 1}"#).await.unwrap_err();
        assert!(spent.contains("all its calls are used: 2"), "{spent}");
        assert_eq!(echo.0.lock().await.len(), 2);
    }

    #[tokio::test]
    async fn results_are_checked() {
        let set = r#"[{"pattern": "t", "result": {"properties": {"n": {"type": "integer"}}}, "max_result_bytes": 20},
                      {"pattern": "u", "max_result_bytes": 5}]"#;
        let (capable, _, gate) = under(Some(set));
        assert_eq!(ask(&capable, &gate, "t", r#"{"n": 1}"#).await.unwrap(), r#"{"n": 1}"#);
        for (tool, arguments, why) in [
            ("t", r#"{"n": "1"}"#, "tool_answer: the result does not match the schema of capabilities[0]: at n: "),
            ("t", r#"{"long": "12345678901"}"#, "the result has 23 bytes, and the capability allows at most 20"),
            ("u", r#"{"n":1}"#, "the result has 7 bytes, and the capability allows at most 5"),
        ] {
            let error = ask(&capable, &gate, tool, arguments).await.unwrap_err();
            assert!(error.contains(why), "{arguments}: {error}");
        }
    }

    #[tokio::test]
    async fn a_capability_has_a_time_out_of_its_own() {
        let (capable, echo, gate) = under(Some(r#"[{"pattern": "**", "timeout_ms": 5}]"#));
        let late = ask(&capable, &gate, "never", "{}").await.unwrap_err();
        assert_eq!(late, "tool_timeout: \"never\" was not answered within 0.005 s, the time-out of its capability");
        assert_eq!(*echo.0.lock().await, [("{}".to_owned(), Duration::from_millis(5))]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn calls_at_once_are_not_more_than_allowed() {
        let (capable, echo, gate) = under(Some(r#"[{"pattern": "t", "max_calls": 3}]"#));
        let (capable, mut calls) = (Arc::new(capable), tokio::task::JoinSet::new());
        for _ in 0..200 {
            let (capable, gate) = (capable.clone(), gate.clone());
            calls.spawn(async move { ask(&capable, &gate, "t", "{}").await.is_ok() });
        }
        assert_eq!(calls.join_all().await.into_iter().filter(|ok| *ok).count(), 3);
        assert_eq!(echo.0.lock().await.len(), 3);
    }

    #[test]
    fn a_schema_that_is_none_is_refused_with_its_place() {
        let set =
            |field: &str, schema: &str| format!(r#"[{{"pattern": "t"}}, {{"pattern": "u", "{field}": {schema}}}]"#);
        for (field, schema, why) in [
            ("arguments", r#"{"type": "objekt"}"#, "capabilities[1].arguments: "),
            ("result", r#"{"$ref": "http://127.0.0.1:1/x.json"}"#, "capabilities[1].result: the reference"),
        ] {
            let error = Allowed::new(Set::from_json(&set(field, schema)).ok(), None).err().unwrap().to_string();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
