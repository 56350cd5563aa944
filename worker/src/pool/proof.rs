//! Proofs that containers are clean. One is asked for after each job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Member, Pool};
use crate::conn::Verdict;
use crate::options::Reuse;

/// Why a container is removed if its proof found something.
pub(super) const UNCLEAN: &str = "a job left something in it";

/// Jobs of one tenant that may follow each other without a pause for a proof. After that, the next job waits for the
/// proof.
const AT_MOST: u32 = 100;

/// How long a proof may take while no job runs. The runner itself gives what is left of a job two seconds to vanish.
const PROOF_TIMEOUT: Duration = Duration::from_secs(10);

impl Pool {
    /// Takes a container back from a job, and asks for a proof that it is clean. If only one tenant uses the container,
    /// the next job normally does not wait for the proof. If tenants share it, every job does.
    pub(super) fn prove(self: &Arc<Self>, member: Member) {
        let (conn, name) = (Arc::clone(&member.conn), member.container.name().to_owned());
        let mut proven = conn.verify();
        let overdue = proven.behind >= AT_MOST;
        let mut waits = Some(member);
        if let Some(member) = waits.take_if(|m| self.reuse(m) == Reuse::Tenant && !overdue) {
            self.place(member);
            if !proven.alone {
                return;
            }
        }
        self.state().proving += usize::from(waits.is_some());
        let pool = Arc::clone(self);
        self.tasks.spawn(async move {
            loop {
                let began = Instant::now();
                let verdict = proven.verdict(PROOF_TIMEOUT).await;
                if proven.alone {
                    pool.judged(&name, &verdict, began.elapsed());
                }
                if verdict.is_none() {
                    proven.despair();
                }
                pool.state().proving -= usize::from(waits.is_some());
                match (waits.take(), &verdict) {
                    (None, _) => pool.wake.notify_one(),
                    (Some(member), Some(Verdict::Clean)) => pool.place(member),
                    (Some(member), Some(Verdict::Moot)) => pool.destroy(member, "it died"),
                    (Some(member), _) => pool.quarantine(member, UNCLEAN),
                }
                if verdict != Some(Verdict::Clean) || !proven.alone {
                    return;
                }
                let Some(next) = proven.next() else { return };
                proven = next;
            }
        });
    }

    fn judged(&self, container: &str, verdict: &Option<Verdict>, took: Duration) {
        let result = match verdict {
            Some(Verdict::Clean) => {
                self.metrics.reset.observe(took.as_secs_f64());
                "clean"
            }
            Some(Verdict::Unclean(findings)) => {
                tracing::error!(pool = %self.name, container, ?findings, "a container is not clean after a job");
                "unclean"
            }
            Some(Verdict::Moot) => return,
            None => "none",
        };
        self.metrics.verified(result);
    }

    /// Removes a container that is not to be trusted any more, and counts it.
    pub(super) fn quarantine(self: &Arc<Self>, member: Member, why: &'static str) {
        tracing::warn!(pool = %self.name, container = member.container.name(), why, "a container is quarantined");
        self.metrics.quarantined.inc();
        self.destroy(member, why);
    }
}
