//! `thermae approvals`: lists the calls of a run that wait for approval, and decides about them.

use std::num::NonZeroU32;

use thermae_fleet::{EmbeddedOptions, Fleet};
use thermae_schemas::{Choice, Decision, JobId, PendingApproval, RunQuery, RunState, Verdict};
use tokio_util::sync::CancellationToken;

use super::ANSWER_WITHIN;
use super::prompt::{arguments, escaped};
use crate::args::{ApprovalsArgs, ApprovalsVerb, FleetArgs};
use crate::failure::{Exit, Failure};
use crate::fleet;
use crate::style;

/// Whether the command prints JSON.
pub(crate) fn as_json(args: &ApprovalsArgs) -> bool {
    matches!(args.verb, ApprovalsVerb::List { json: true, .. })
}

/// Options of the fleet that the command asks.
pub(crate) fn fleet(args: &ApprovalsArgs) -> &FleetArgs {
    match &args.verb {
        ApprovalsVerb::List { fleet, .. } => fleet,
        ApprovalsVerb::Approve { of, .. } | ApprovalsVerb::Deny { of, .. } => &of.fleet,
    }
}

/// Lists calls that wait for approval, or decides about one.
///
/// # Errors
/// No fleet is named, it can't be reached or lets the user not approve, or a value is invalid.
pub(crate) async fn approvals(args: &ApprovalsArgs, interrupt: &CancellationToken) -> Result<Exit, Failure> {
    let at = fleet(args);
    if !at.is_remote() {
        let problem = "an embedded fleet ends with its command, and `thermae run` asks in its own terminal";
        return Err(Failure::usage("no_fleet", problem)
            .help("name a fleet: set THERMAE_AMQP to its URL, or name a file that holds the URL with --amqp-file"));
    }
    let fleet = fleet::open(at, EmbeddedOptions::default(), interrupt).await?;
    let done = tokio::select! {
        done = act(&args.verb, &fleet) => done,
        () = interrupt.cancelled() => Ok(Exit::Interrupted),
    };
    fleet.close().await;
    done
}

async fn act(verb: &ApprovalsVerb, fleet: &Fleet) -> Result<Exit, Failure> {
    match verb {
        ApprovalsVerb::List { run, json, .. } => list(fleet, run, *json).await,
        ApprovalsVerb::Approve { of, calls, reason } => {
            let verdict = Verdict { reason: reason.clone(), ..Verdict::approve(*calls) };
            decide(fleet, &of.run, &of.call, verdict).await
        }
        ApprovalsVerb::Deny { of, reason } => decide(fleet, &of.run, &of.call, Verdict::deny(reason.clone())).await,
    }
}

fn run_of(text: &str) -> Result<JobId, Failure> {
    JobId::new(text).map_err(|error| Failure::usage("bad_name", error))
}

async fn list(fleet: &Fleet, run: &str, json: bool) -> Result<Exit, Failure> {
    let info = fleet.client().run_info(RunQuery::new(run_of(run)?), ANSWER_WITHIN).await.map_err(fleet::failed)?;
    if json {
        style::print(format!("{}\n", serde_json::to_string(&info.approvals).unwrap_or_default()).as_bytes());
    } else if info.state == RunState::Unknown {
        style::note(&format!("the fleet knows no run {run} of this tenant"));
        return Ok(Exit::Code);
    } else {
        style::print(table(&info.approvals).as_bytes());
    }
    Ok(Exit::Success)
}

fn table(approvals: &[PendingApproval]) -> String {
    if approvals.is_empty() {
        return "no call waits for approval\n".to_owned();
    }
    let one = |asked: &PendingApproval| {
        let shown = asked.arguments.as_ref().map_or_else(|| "(too large to keep)".to_owned(), arguments);
        let next = if asked.next > NonZeroU32::MIN { format!("  next {}", asked.next) } else { String::new() };
        let (tool, pattern, left) = (escaped(&asked.tool), escaped(&asked.pattern), asked.left_ms / 1000);
        format!("{}  {tool}  pattern {pattern}{next}  {left} s left\n  {shown}\n", asked.call)
    };
    approvals.iter().map(one).collect()
}

async fn decide(fleet: &Fleet, run: &str, call: &str, verdict: Verdict) -> Result<Exit, Failure> {
    verdict.check().map_err(|why| Failure::usage("usage", why))?;
    let decision = Decision::new(run_of(run)?, call, verdict);
    let decided = match fleet.client().decide(&decision, None, ANSWER_WITHIN).await {
        Ok(decided) => decided,
        Err(error @ (thermae_client::Error::UnknownRun(_) | thermae_client::Error::UnknownCall(_))) => {
            style::note(&error.to_string());
            return Ok(Exit::Code);
        }
        Err(error) => return Err(fleet::failed(error)),
    };
    match (decided.error, decided.verdict) {
        (Some(error), _) => {
            style::error(error.code.as_str(), &error.message, Some(crate::advice::advice(error.code)));
            Ok(Exit::Code)
        }
        (None, verdict) => {
            let done = match verdict.map(|verdict| verdict.decision) {
                Some(Choice::Deny) => "denied",
                _ => "approved",
            };
            style::print(format!("{done} {call}\n").as_bytes());
            Ok(Exit::Success)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_listed_with_all_that_a_decision_needs() {
        let asked = PendingApproval {
            call: "c1".into(),
            tool: "transfer".into(),
            arguments: Some(json!({ "amount": 900, "to": "\u{1b}]0;x\u{7}" }).into()),
            omitted: false,
            pattern: "transfer".into(),
            next: NonZeroU32::new(5).unwrap(),
            reply_to: "acme.w".into(),
            within_ms: 60_000,
            waited_ms: 18_000,
            left_ms: 42_000,
        };
        let large = PendingApproval { arguments: None, omitted: true, next: NonZeroU32::MIN, ..asked.clone() };
        insta::assert_snapshot!(table(&[asked, large]), @r#"
        c1  transfer  pattern transfer  next 5  42 s left
          {"amount":900,"to":"\u001b]0;x\u0007"}
        c1  transfer  pattern transfer  42 s left
          (too large to keep)
        "#);
        assert_eq!(table(&[]), "no call waits for approval\n");
    }
}
