//! Questions about runs. If the code has started, its worker answers: it alone knows what the code has printed and
//! which calls wait. All others are answered here.
//!
//! A client can take a run over with its question. The registry decides who has a run. What was sent to the client that
//! had it before, and is still on its way, may arrive there after that.

use std::sync::{Mutex, PoisonError};

use thermae_backplane::bus::{self, Message};
use thermae_backplane::record::{self, Ended, Millis, State, TakeOver};
use thermae_backplane::registry::JobKey;
use thermae_schemas::{Event, EventBody, JobId, RunInfo, RunQuery, RunState, TenantName, WorkerId, names};

use crate::answer::Address;
use crate::context::Context;
use crate::error::Trouble;

/// What the registry knows of a run.
enum Found {
    Unknown,
    Queued {
        attempt: u32,
    },
    Started {
        owner: WorkerId,
        attempt: u32,
        /// When a client took the run over for the last time, if this question takes it over.
        taken: Option<Millis>,
    },
    Ended(Ended),
}

/// A question about a run.
struct Question<'a> {
    ctx: &'a Context,
    id: &'a JobId,
    key: JobKey,
    asked: &'a RunQuery,
    to: &'a Address,
    message: &'a Message,
    /// The client that had the run before. The registry names it only once, and this may be tried several times.
    before: Mutex<Option<Address>>,
}

/// Answers a question about a run of this tenant, through outages.
pub(crate) async fn answer(
    ctx: &Context,
    tenant: &TenantName,
    id: &JobId,
    asked: &RunQuery,
    to: &Address,
    message: &Message,
) -> Result<(), Trouble> {
    let key = JobKey::new(tenant.clone(), asked.job.clone());
    let question = Question { ctx, id, key, asked, to, message, before: Mutex::default() };
    ctx.persist(|| question.answer()).await
}

impl Question<'_> {
    async fn answer(&self) -> Result<(), Trouble> {
        let ctx = self.ctx;
        match self.find().await? {
            Found::Unknown => self.say(RunState::Unknown, 0, None).await,
            Found::Queued { attempt } => {
                self.tell_before(attempt).await?;
                self.say(RunState::Queued, attempt, None).await
            }
            Found::Ended(ended) => {
                ctx.charge_again(&self.key.tenant, &ended);
                self.say(RunState::Ended, 0, None).await?;
                ctx.send_recorded(&self.key, self.to, ended).await
            }
            Found::Started { owner, attempt, taken } => {
                match ctx.publish(self.control(&owner, taken)).await {
                    Err(Trouble::Bus(bus::Error::Unroutable { .. })) => {}
                    sent => return sent,
                }
                // The worker is gone.
                self.tell_before(attempt).await?;
                self.say(RunState::Running, attempt, Some(owner)).await
            }
        }
    }

    /// Asks the registry, and takes the run over if the question says so.
    async fn find(&self) -> Result<Found, Trouble> {
        let Some(record) = self.ctx.registry.lookup(&self.key).await? else { return Ok(Found::Unknown) };
        if let Some(ended) = record.ended() {
            return Ok(Found::Ended(ended));
        }
        let attempt = record.attempt;
        let found = match record.state {
            State::Started { owner, .. } => Found::Started { owner, attempt, taken: None },
            _ => Found::Queued { attempt },
        };
        let Some(reply_key) = self.to.reply_key.clone().filter(|_| self.asked.take_over) else {
            return Ok(found);
        };
        let to = record::Address { reply_key, correlation_id: self.to.correlation_id.clone() };
        Ok(match self.ctx.registry.take_over(&self.key, &to).await? {
            TakeOver::Absent => Found::Unknown,
            TakeOver::Ended => {
                let ended = self.ctx.registry.lookup(&self.key).await?.and_then(|record| record.ended());
                ended.map_or(Found::Unknown, Found::Ended)
            }
            TakeOver::Assigned { attempt, previous } => {
                self.note(previous);
                Found::Queued { attempt }
            }
            TakeOver::Started { owner, attempt, at, previous } => {
                self.note(previous);
                Found::Started { owner, attempt, taken: at }
            }
        })
    }

    fn note(&self, previous: Option<record::Address>) {
        if let Some(previous) = previous {
            *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Some(previous.into());
        }
    }

    /// Tells the client that had the run before that it is another one's. If the code has started, its worker does
    /// this.
    async fn tell_before(&self, attempt: u32) -> Result<(), Trouble> {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match before {
            Some(before) => self.ctx.send_superseded(&self.key.job, attempt, &before).await,
            None => Ok(()),
        }
    }

    async fn say(&self, state: RunState, attempt: u32, worker: Option<WorkerId>) -> Result<(), Trouble> {
        let info = RunInfo { worker, ..RunInfo::new(self.key.job.clone(), state) };
        self.ctx.send_event(&Event::new(self.id.clone(), attempt, EventBody::Run(info)), self.to).await
    }

    /// The message to the worker. Nothing in it is the client's word but the body and the correlation id.
    fn control(&self, worker: &WorkerId, taken: Option<Millis>) -> Message {
        let mut control = Message {
            exchange: names::WORK.to_owned(),
            key: names::control_key(worker),
            body: self.message.body.clone(),
            message_id: Some(self.id.to_string()),
            reply_to: self.to.reply_key.clone(),
            correlation_id: self.to.correlation_id.clone(),
            mandatory: true,
            ..Message::default()
        };
        control.headers.set_text(names::H_TENANT, self.key.tenant.as_str());
        control.headers.set_text(names::H_QUERY, names::QUERY_RUN);
        if let Some(at) = taken {
            control.headers.set_int(names::H_TAKEN, i64::try_from(at).unwrap_or(i64::MAX));
        }
        control
    }
}
