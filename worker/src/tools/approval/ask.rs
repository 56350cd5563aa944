//! The way of one call that needs approval.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use thermae_backplane::bus::{self, Message};
use thermae_schemas::{Body, Choice, Decided, ErrorCode, ErrorInfo, Event, EventBody, IfClientGone, Verdict, names};
use thermae_service::units::seconds;

use super::table::{Ruling, Waiting};
use super::{Approvals, Needed, Yeses};
use crate::attempt::reply;
use crate::audit::{Ruled, Trail};
use crate::pending::WaitsFor;
use crate::running::Entry;
use crate::tools::Refused;
use crate::wire;
use crate::work::Work;

/// How long before the end of its time a call stops to wait, so that the code learns that the decision was late.
const MARGIN: Duration = Duration::from_millis(20);
/// How long the event that tells of a decision may hold up the call.
const TELL_WITHIN: Duration = Duration::from_millis(200);

/// A call that needs approval, and has passed all other checks.
pub(crate) struct Ask<'a> {
    pub work: &'a Work,
    pub entry: &'a Entry,
    pub tool: &'a str,
    pub arguments: &'a RawValue,
    /// How long the call may wait at all, from now.
    pub within: Duration,
    pub needed: &'a Needed,
    /// The yeses of the job.
    pub yeses: &'a Yeses,
    pub trail: &'a Trail<'a>,
}

/// How the wait ended.
enum Settled {
    /// A yes about this earlier call counts.
    Before(Arc<str>),
    /// Somebody decided.
    Ruled(Ruling),
    /// Nobody decided in time.
    Late,
}

impl Approvals {
    /// Waits for a yes. Returns when the yes is in the audit log.
    ///
    /// # Errors
    /// Why the call must not be made.
    pub(crate) async fn approved(&self, ask: &Ask<'_>) -> Result<(), Refused> {
        let Ask { work, tool, needed, yeses, .. } = *ask;
        // From before the first look, so that no yes is missed.
        let news = yeses.news();
        if let Some(about) = yeses.take(&needed.at) {
            return self.conclude(ask, &about, &Settled::Before(Arc::clone(&about))).await;
        }
        let left = needed.timeout.unwrap_or(ask.within).min(ask.within.saturating_sub(MARGIN));
        let mut waiting = self.table.begin(&work.key.tenant, &work.key.job, needed.next);
        let settled = self.wait(ask, news, &mut waiting, left).await?;
        let call = Arc::clone(&waiting.call);
        let concluded = self.conclude(ask, &call, &settled).await;
        let (verdict, error) = match settled {
            Settled::Before(_) => (Some(Verdict::approve(std::num::NonZeroU32::MIN)), None),
            Settled::Ruled(ruling) => (Some(ruling.verdict), None),
            Settled::Late => {
                let why = format!("nobody approved the call of {tool:?} in time");
                (None, Some(ErrorInfo::new(ErrorCode::ApprovalTimedOut, why)))
            }
        };
        self.tell(ask, EventBody::Decided(Decided { call: call.to_string(), verdict, error })).await;
        concluded
    }

    /// Asks, and waits for this time at most.
    async fn wait(
        &self,
        ask: &Ask<'_>,
        mut news: super::yeses::News,
        waiting: &mut Waiting,
        left: Duration,
    ) -> Result<Settled, Refused> {
        let Ask { work, entry, tool, needed, yeses, .. } = *ask;
        let question = wire::Approval {
            call: &waiting.call,
            tool,
            arguments: ask.arguments,
            pattern: &needed.pattern,
            next: needed.next,
            reply_to: &names::calls_key(&work.key.tenant, &self.worker),
            within_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        };
        let body = wire::approval(work, question).map_err(|e| Refused::new(ErrorCode::Internal, e.to_string()))?;
        let waits_for = WaitsFor::Approval { pattern: needed.pattern.clone(), next: needed.next };
        let _kept = entry.course.pending.add(&waiting.call, tool, &body, left, waits_for);
        let late = tokio::time::sleep(left);
        let asked = self.ask(ask, body);
        tokio::pin!(late, asked);
        loop {
            tokio::select! {
                biased;
                ruling = waiting.ruling() => return Ok(Settled::Ruled(ruling)),
                () = news.next() => if let Some(about) = yeses.take(&needed.at) {
                    if waiting.settle(Some(Verdict::approve(std::num::NonZeroU32::MIN))) {
                        return Ok(Settled::Before(about));
                    }
                    // A decision came at the same moment.
                    yeses.give(&needed.at, 1, &about);
                },
                () = &mut late => if waiting.settle(None) {
                    return Ok(Settled::Late);
                } else {
                    return Ok(Settled::Ruled(waiting.ruling().await));
                },
                refused = &mut asked => return Err(refused),
            }
        }
    }

    /// Sends the question to the client that follows the run. Returns only if nobody could answer the call after a yes.
    async fn ask(&self, ask: &Ask<'_>, body: bytes::Bytes) -> Refused {
        let Ask { work, entry, tool, .. } = *ask;
        let (tenant, patient) = (&work.key.tenant, work.job.if_client_gone == IfClientGone::Wait);
        if let Some(traffic) = self.pools.get(&work.job.pool).map(|pool| pool.traffic()) {
            traffic.wait_for_allowance(tenant).await;
            traffic.count(tenant, body.len());
        }
        let gone = || Refused::new(ErrorCode::ClientGone, format!("no client is there to answer the call of {tool:?}"));
        let sent = match entry.address() {
            Some(to) => async { self.bus.publish(reply(work, to, body, false)).await?.wait().await }.await,
            None if patient => Ok(()),
            None => return gone(),
        };
        match sent {
            // A question that is lost is among those that wait, for whoever asks for the run.
            Ok(()) | Err(bus::Error::Disconnected(_)) => std::future::pending().await,
            Err(bus::Error::Unroutable { .. }) if patient => std::future::pending().await,
            Err(bus::Error::Unroutable { .. }) => gone(),
            Err(error) => Refused::new(ErrorCode::Internal, error.to_string()),
        }
    }

    /// Writes down and counts what came of a call. `call` is the id of the call that was asked about.
    async fn conclude(&self, ask: &Ask<'_>, call: &Arc<str>, settled: &Settled) -> Result<(), Refused> {
        let Ask { work, entry, tool, needed, yeses, trail, .. } = *ask;
        let (result, ruling) = match settled {
            Settled::Before(_) => ("approved_before", None),
            Settled::Ruled(ruling) if ruling.verdict.decision == Choice::Approve => ("approved", Some(ruling)),
            Settled::Ruled(ruling) => ("denied", Some(ruling)),
            Settled::Late => ("timed_out", None),
        };
        self.counter.with_label_values(&[result]).inc();
        let about = if let Settled::Before(about) = settled { about } else { call };
        let ruled = Ruled {
            result,
            approval: about,
            user: ruling.map(|ruling| ruling.user.as_str()),
            by: ruling.and_then(|ruling| ruling.by.as_deref()),
            calls: ruling.filter(|_| result == "approved").map(|ruling| ruling.verdict.calls),
            why: ruling.and_then(|ruling| ruling.verdict.reason.as_deref()),
        };
        let written = match trail.decided(&ruled).await {
            Ok(None) => Ok(()),
            Ok(Some(line)) => {
                self.tell(ask, EventBody::Audit(line)).await;
                Ok(())
            }
            Err(error) => Err(Refused::new(ErrorCode::AuditFailed, error.to_string())),
        };
        let said = |ruling: &Ruling| ruling.verdict.reason.clone().filter(|why| !why.trim().is_empty());
        let reason = |ruling: &Ruling| said(ruling).map(|why| format!(": {why}")).unwrap_or_default();
        match (settled, ruling) {
            (Settled::Late, _) => {
                let within = seconds(needed.timeout.unwrap_or(ask.within).min(ask.within));
                let why = format!("nobody approved the call of {tool:?} within {within}");
                return Err(Refused::new(ErrorCode::ApprovalTimedOut, why));
            }
            (_, Some(ruling)) if result == "denied" => {
                let why = format!("the call of {tool:?} was denied{}", reason(ruling));
                return Err(Refused::new(ErrorCode::ApprovalDenied, why));
            }
            _ => written?,
        }
        // The wait may have been long.
        let lost = |_| Refused::new(ErrorCode::WorkerLost, "the worker lost its lease on the job");
        entry.check().map_err(lost)?;
        if let Some(ruling) = ruling {
            yeses.give(&needed.at, ruling.verdict.calls.get() - 1, call);
        }
        tracing::debug!(job.id = %work.key.job, tool.name = tool, result, "a call was approved");
        Ok(())
    }

    /// Tells the client that follows the run what came of a call that waited for approval. The event may get lost.
    async fn tell(&self, ask: &Ask<'_>, body: EventBody) {
        let Some(to) = ask.entry.address() else { return };
        let (job, attempt) = (ask.work.key.job.clone(), ask.work.attempt);
        let event = Event::new(job, attempt, body);
        let Ok(body) = event.to_json() else { return };
        let message = Message { mandatory: false, ..reply(ask.work, to, body.into(), false) };
        if tokio::time::timeout(TELL_WITHIN, self.bus.publish(message)).await.is_err() {
            tracing::debug!("the event that tells of a decision may be lost");
        }
    }
}
