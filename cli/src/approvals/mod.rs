//! Approval of tool calls: `thermae run` asks in the terminal, and `thermae approvals` decides about calls of any run.

mod command;
mod prompt;
mod screen;
mod terminal;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use thermae_client::{Client, Events};
use thermae_fleet::Fleet;
use thermae_schemas::{Approval, Decision, ErrorInfo, EventBody, Job, JobId, Verdict};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::style;
pub(crate) use command::{approvals, as_json, fleet};
use screen::{Output, Screen};

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
    output: Output,
    _task: AbortOnDropHandle<()>,
}

impl Approver {
    /// Begins to see to the calls of a job that `fleet` runs. `None` if none of them can need approval.
    pub(crate) fn of(job: &Job, fleet: &Fleet) -> Option<Self> {
        Self::by(if terminal::is_there() { Who::Terminal } else { Who::unattended(fleet) }, job, fleet)
    }

    /// As [`Approver::of`], for a job that no person looks after.
    pub(crate) fn unattended(job: &Job, fleet: &Fleet) -> Option<Self> {
        Self::by(Who::unattended(fleet), job, fleet)
    }

    fn by(who: Who, job: &Job, fleet: &Fleet) -> Option<Self> {
        if !may_ask(job) {
            return None;
        }
        let ((heard, hears), (screen, output)) = (mpsc::unbounded_channel(), Screen::new());
        let (client, run, waiting, screen) =
            (fleet.client().clone(), job.id.clone(), VecDeque::new(), Arc::new(screen));
        let deciding = Deciding { client, run, waiting, hears, screen };
        Some(Self { heard, output, _task: AbortOnDropHandle::new(tokio::spawn(deciding.decide(who))) })
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

    /// Prints something of the program, unless a question is open in the terminal. None is opened meanwhile.
    pub(crate) fn unless_asking(&self, print: impl FnOnce()) {
        self.output.unless_asking(print);
    }

    /// Waits until no question is open in the terminal.
    pub(crate) async fn answered(&self) {
        self.output.answered().await;
    }

    /// Hears of all events of the run, up to its end.
    pub(crate) async fn hear_all(&self, mut events: Events) {
        while let Some(event) = events.next().await {
            self.hear(event.body);
        }
    }
}

/// Whether calls of a job can need approval. Only a worker can read what a token asks for.
fn may_ask(job: &Job) -> bool {
    let mut capabilities = job.capabilities.iter().flat_map(|set| set.capabilities());
    job.token.is_some() || capabilities.any(|capability| capability.approval().is_some())
}

/// The task of an [`Approver`].
struct Deciding {
    client: Client,
    run: JobId,
    /// The calls that are asked about next.
    waiting: VecDeque<Approval>,
    hears: mpsc::UnboundedReceiver<Heard>,
    screen: Arc<Screen>,
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
        let screen = Arc::clone(&self.screen);
        let _question = screen.question();
        // What was typed before the question is no answer to it.
        terminal::drop_typed();
        terminal::calm();
        style::eprint(&prompt::question(asked));
        let mut line = tokio::task::spawn_blocking(terminal::line);
        let mut over = false;
        loop {
            tokio::select! {
                line = &mut line => {
                    let line = line.ok().flatten().unwrap_or_default();
                    return (!over).then(|| prompt::verdict(&line, asked));
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

#[cfg(test)]
mod tests {
    use thermae_schemas::{Capabilities, TokenText};

    use super::*;

    #[test]
    fn somebody_is_asked_if_the_job_s_set_or_its_token_may_want_it() {
        let under = |set: &str| Job { capabilities: Capabilities::from_json(set).ok(), ..Job::python("") };
        assert!(!may_ask(&Job::python("")) && !may_ask(&under(r#"[{"pattern": "t"}]"#)));
        assert!(may_ask(&under(r#"[{"pattern": "t"}, {"pattern": "u", "approval": {}}]"#)));
        let token = Some(TokenText::new("any"));
        assert!(may_ask(&Job { token, ..under(r#"[{"pattern": "t"}]"#) }));
    }
}
