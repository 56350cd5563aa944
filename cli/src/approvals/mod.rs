//! Approval of tool calls: `thermae run` asks in the terminal, and `thermae approvals` decides about calls of any run.

mod command;
mod prompt;
mod terminal;

use std::collections::VecDeque;
use std::time::Duration;

use thermae_client::{Client, Events};
use thermae_fleet::Fleet;
use thermae_schemas::{Approval, Decision, ErrorInfo, EventBody, Job, JobId, Verdict};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::style;
pub(crate) use command::{approvals, as_json, fleet};

/// How long a worker or a scheduler may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Who decides about the calls of a run.
#[derive(Debug, Clone, Copy)]
enum Who {
    /// The person at the terminal.
    Terminal,
    /// Somebody else who may approve.
    Others,
    /// Nobody: there is no terminal, and nobody else reaches the embedded fleet.
    Nobody,
}

impl Who {
    fn unattended(fleet: &Fleet) -> Self {
        if fleet.is_embedded() { Self::Nobody } else { Self::Others }
    }
}

/// What an [`Approver`] hears.
enum Heard {
    /// A call waits for approval.
    Asked(Box<Approval>),
    /// The call with this id does not wait any more.
    Over(String),
}

/// Sees to the calls of one run that wait for approval, until it is dropped.
pub(crate) struct Approver {
    heard: mpsc::UnboundedSender<Heard>,
    _task: AbortOnDropHandle<()>,
}

impl Approver {
    /// Begins to see to the calls of a job that `fleet` runs. `None` if its capabilities want no approval.
    pub(crate) fn of(job: &Job, fleet: &Fleet) -> Option<Self> {
        Self::by(if terminal::is_there() { Who::Terminal } else { Who::unattended(fleet) }, job, fleet)
    }

    /// As [`Approver::of`], for a job that no person looks after.
    pub(crate) fn unattended(job: &Job, fleet: &Fleet) -> Option<Self> {
        Self::by(Who::unattended(fleet), job, fleet)
    }

    fn by(who: Who, job: &Job, fleet: &Fleet) -> Option<Self> {
        let mut capabilities = job.capabilities.iter().flat_map(|set| set.capabilities());
        capabilities.find(|capability| capability.approval().is_some())?;
        let (heard, hears) = mpsc::unbounded_channel();
        let deciding =
            Deciding { client: fleet.client().clone(), run: job.id.clone(), waiting: VecDeque::new(), hears };
        Some(Self { heard, _task: AbortOnDropHandle::new(tokio::spawn(deciding.decide(who))) })
    }

    /// Hears of an event of the run.
    pub(crate) fn hear(&self, event: EventBody) {
        let heard = match event {
            EventBody::Approval(asked) => Heard::Asked(Box::new(asked)),
            EventBody::Decided(decided) => Heard::Over(decided.call),
            _ => return,
        };
        let _ = self.heard.send(heard);
    }

    /// Hears of all events of the run, up to its end.
    pub(crate) async fn hear_all(&self, mut events: Events) {
        while let Some(event) = events.next().await {
            self.hear(event.body);
        }
    }
}

/// The task of an [`Approver`].
struct Deciding {
    client: Client,
    run: JobId,
    /// The calls that are asked about next.
    waiting: VecDeque<Approval>,
    hears: mpsc::UnboundedReceiver<Heard>,
}

impl Deciding {
    async fn decide(mut self, who: Who) {
        while let Some(asked) = self.next().await {
            let verdict = match who {
                Who::Terminal => self.ask(&asked).await,
                Who::Others => {
                    style::note(&prompt::elsewhere(&self.run, &asked));
                    None
                }
                Who::Nobody => Some(Verdict::deny(Some("nobody is there who could approve it".to_owned()))),
            };
            if let Some(verdict) = verdict {
                self.send(asked, verdict).await;
            }
        }
    }

    async fn next(&mut self) -> Option<Approval> {
        loop {
            if let Some(asked) = self.waiting.pop_front() {
                return Some(asked);
            }
            let heard = self.hears.recv().await?;
            self.hear(heard);
        }
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Asked(approval) => self.waiting.push_back(*approval),
            Heard::Over(call) => self.waiting.retain(|asked| asked.call != call),
        }
    }

    /// Asks the person at the terminal. `None` if the call does not wait any more.
    async fn ask(&mut self, asked: &Approval) -> Option<Verdict> {
        // What was typed before the question is no answer to it.
        terminal::drop_typed();
        style::eprint(&prompt::question(asked));
        let mut line = tokio::task::spawn_blocking(terminal::line);
        let mut over = false;
        loop {
            tokio::select! {
                line = &mut line => {
                    let line = line.ok().flatten().unwrap_or_default();
                    return (!over).then(|| prompt::verdict(&line, asked.next));
                }
                heard = self.hears.recv() => match heard {
                    Some(Heard::Over(call)) if call == asked.call => {
                        over = true;
                        style::eprint("\n");
                        style::note("the call does not wait for approval any more; press Enter");
                    }
                    Some(heard) => self.hear(heard),
                    None => return None,
                },
            }
        }
    }

    async fn send(&self, asked: Approval, verdict: Verdict) {
        let decision = Decision::new(self.run.clone(), asked.call, verdict);
        match self.client.decide(&decision, Some(&asked.reply_to), ANSWER_WITHIN).await {
            Ok(decided) => {
                if let Some(ErrorInfo { message, .. }) = decided.error {
                    style::warning(&message);
                }
            }
            Err(error) => {
                let failure = crate::fleet::failed(error);
                let help = "the call goes on to wait; `thermae approvals` decides as another user who may approve";
                style::warn(&format!("the decision did not reach the fleet: {}", failure.message), help);
            }
        }
    }
}
