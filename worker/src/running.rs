//! The jobs under way on this worker, and their leases: how long each job may go on.
//!
//! A lease is measured by the worker's own clock, which also counts while the machine sleeps. It begins *before* the
//! request that renews it, so that it never outlasts the registry's own lease. When it has passed, the code is killed
//! and nothing more is sent, whether or not the registry can be reached.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ahash::HashMap;
use thermae_backplane::record::{Address, Millis, Taker};
use thermae_backplane::registry::{Claim, JobKey};
use thermae_schemas::{PoolName, RunningJob};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Moment;
use crate::course::Course;

/// How often a wait for the end of a lease looks at the clock, because timers stand still while the machine sleeps.
const GLANCE: Duration = Duration::from_secs(1);

/// The jobs under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table(Arc<Mutex<HashMap<JobKey, Arc<Entry>>>>);

/// One job under way.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Tenant and id of the job.
    pub key: JobKey,
    pub pool: PoolName,
    /// The claim with which the job is started.
    pub claim: Claim,
    /// Cancelled when the client cancels the job.
    pub cancel: CancellationToken,
    /// Cancelled once the code runs.
    pub runs: CancellationToken,
    /// Whether the claim has succeeded. Heartbeats name only such jobs.
    started: AtomicBool,
    /// What clients can learn of the run.
    pub course: Course,
    lease: watch::Sender<Lease>,
    client: Mutex<Client>,
}

/// The client that gets a run's messages.
#[derive(Debug, Clone)]
struct Client {
    address: Option<Address>,
    /// When it took the run over, as [`Taker::at`]; 0 if it submitted the job.
    since: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lease {
    Until(Moment),
    Revoked,
}

/// Why a lease no longer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseLost {
    /// The registry says that the claim is no longer valid.
    Revoked,
    /// No heartbeat reached the registry in time.
    Passed,
}

impl LeaseLost {
    /// The reason's name in metrics and logs.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Revoked => "revoked",
            Self::Passed => "passed",
        }
    }
}

impl Table {
    fn jobs(&self) -> MutexGuard<'_, HashMap<JobKey, Arc<Entry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job that is about to claim its start. `None` if a copy of the job is already under way here.
    pub(crate) fn enter(
        &self,
        key: &JobKey,
        pool: &PoolName,
        claim: Claim,
        submitter: Option<Address>,
    ) -> Option<Guard> {
        let entry = Arc::new(Entry {
            key: key.clone(),
            pool: pool.clone(),
            claim,
            cancel: CancellationToken::new(),
            runs: CancellationToken::new(),
            started: AtomicBool::new(false),
            course: Course::default(),
            lease: watch::Sender::new(Lease::Until(Moment::now())),
            client: Mutex::new(Client { address: submitter, since: 0 }),
        });
        match self.jobs().entry(key.clone()) {
            std::collections::hash_map::Entry::Occupied(_) => None,
            std::collections::hash_map::Entry::Vacant(slot) => {
                slot.insert(Arc::clone(&entry));
                Some(Guard { table: self.clone(), entry })
            }
        }
    }

    /// The jobs whose claim has succeeded, for a heartbeat.
    pub(crate) fn started(&self) -> Vec<Arc<Entry>> {
        self.jobs().values().filter(|e| e.started.load(Ordering::Acquire)).cloned().collect()
    }

    /// Number of jobs under way.
    pub(crate) fn len(&self) -> usize {
        self.jobs().len()
    }

    /// A job under way.
    pub(crate) fn entry(&self, key: &JobKey) -> Option<Arc<Entry>> {
        self.jobs().get(key).cloned()
    }

    /// Cancels a job. Returns whether the job is under way here.
    pub(crate) fn cancel(&self, key: &JobKey) -> bool {
        self.jobs().get(key).inspect(|e| e.cancel.cancel()).is_some()
    }
}

impl Entry {
    /// Marks the claim as valid until this moment. A later call can extend this time, but never shorten it.
    pub(crate) fn stands_until(&self, until: Moment) {
        self.lease.send_if_modified(|lease| match lease {
            Lease::Until(now) if until > *now => {
                *now = until;
                true
            }
            _ => false,
        });
        self.started.store(true, Ordering::Release);
    }

    /// Marks the claim as no longer valid.
    pub(crate) fn revoke(&self) {
        self.lease.send_replace(Lease::Revoked);
    }

    /// Whether the lease holds now. This is checked before anything is sent for the job.
    pub(crate) fn check(&self) -> Result<(), LeaseLost> {
        match *self.lease.borrow() {
            Lease::Until(at) if Moment::now() < at => Ok(()),
            Lease::Until(_) => Err(LeaseLost::Passed),
            Lease::Revoked => Err(LeaseLost::Revoked),
        }
    }

    /// Waits until the lease no longer holds.
    pub(crate) async fn lost(&self) -> LeaseLost {
        let mut lease = self.lease.subscribe();
        loop {
            let now = *lease.borrow_and_update();
            let Lease::Until(at) = now else { return LeaseLost::Revoked };
            let left = at.left();
            if left.is_zero() {
                return LeaseLost::Passed;
            }
            tokio::select! {
                () = tokio::time::sleep(left.min(GLANCE)) => {}
                _ = lease.changed() => {}
            }
        }
    }

    fn client(&self) -> MutexGuard<'_, Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the run's messages go at this moment. `None` if nobody wants them.
    pub(crate) fn address(&self) -> Option<Address> {
        self.client().address.clone()
    }

    /// A client has taken the run over: its messages go there from now on. Returns where the client that has lost the
    /// run by that is told so: the one that had it, or this one, if a later taker has it already. `None` if it is the
    /// same client.
    pub(crate) fn hand_over(&self, taker: Taker) -> Option<Address> {
        let mut client = self.client();
        let loser = match taker.at.cmp(&client.since) {
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Less => Some(taker.address),
            std::cmp::Ordering::Greater => {
                client.since = taker.at;
                client.address.replace(taker.address)
            }
        };
        let has = client.address.as_ref().map(|address| &address.reply_key);
        loser.filter(|loser| has != Some(&loser.reply_key))
    }

    /// The job as a heartbeat reports it.
    pub(crate) fn announce(&self) -> RunningJob {
        RunningJob {
            tenant: self.key.tenant.clone(),
            job: self.key.job.clone(),
            attempt: self.claim.attempt,
            nonce: self.claim.nonce.clone(),
            pool: self.pool.clone(),
            // A paused job holds no credit.
            paused: self.course.is_paused(),
        }
    }
}

/// Keeps a job in the table until it is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    table: Table,
    entry: Arc<Entry>,
}

impl std::ops::Deref for Guard {
    type Target = Entry;
    fn deref(&self) -> &Entry {
        &self.entry
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.table.jobs().remove(&self.entry.key);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use thermae_schemas::{JobId, TenantName, WorkerId};

    use super::*;

    /// A job of the client `acme.c` that is about to claim its start.
    pub(crate) fn enter(table: &Table) -> Option<Guard> {
        let key = JobKey::new(TenantName::new("acme").unwrap(), JobId::new("j").unwrap());
        let claim = Claim { attempt: 1, owner: WorkerId::new("w").unwrap(), nonce: "n".into() };
        table.enter(&key, &PoolName::new("default").unwrap(), claim, Some(address("acme.c")))
    }

    fn address(reply_key: &str) -> Address {
        Address { reply_key: reply_key.to_owned(), correlation_id: None }
    }

    #[test]
    fn the_last_client_that_took_a_run_over_has_it_whatever_comes_last() {
        let job = enter(&Table::default()).unwrap();
        let taken = |by: &str, at| job.hand_over(Taker { address: address(by), at });
        assert_eq!(taken("acme.c", 1), None, "its own client, with another correlation id");
        assert_eq!(taken("acme.d", 5), Some(address("acme.c")));
        assert_eq!(taken("acme.d", 5), None, "a repeat");
        assert_eq!(taken("acme.e", 3), Some(address("acme.e")), "it came late");
        assert_eq!(job.address(), Some(address("acme.d")));
        assert_eq!(taken("acme.c", 7), Some(address("acme.d")));
        assert_eq!(taken("acme.c", 6), None, "it has it again");
        assert_eq!(job.address(), Some(address("acme.c")));
    }

    #[tokio::test]
    async fn a_lease_that_is_renewed_holds_and_one_that_is_not_passes() {
        let table = Table::default();
        let job = enter(&table).unwrap();
        let began = Moment::now();
        job.stands_until(began + Duration::from_secs(3600));
        assert_eq!(job.check(), Ok(()));
        let job = enter(&Table::default()).unwrap();
        job.stands_until(began + Duration::from_millis(20));
        let renewed = began + Duration::from_millis(60);
        job.stands_until(renewed);
        assert_eq!(job.lost().await, LeaseLost::Passed);
        assert!(Moment::now() >= renewed);
        assert_eq!(job.check(), Err(LeaseLost::Passed));
    }

    #[tokio::test]
    async fn a_late_answer_never_shortens_a_lease_nor_revives_a_revoked_one() {
        let table = Table::default();
        let job = enter(&table).unwrap();
        let now = Moment::now();
        job.stands_until(now + Duration::from_secs(60));
        job.stands_until(now);
        assert_eq!(job.check(), Ok(()));
        job.revoke();
        job.stands_until(now + Duration::from_secs(120));
        assert_eq!(job.lost().await, LeaseLost::Revoked);
    }

    #[test]
    fn a_job_is_under_way_once() {
        let table = Table::default();
        let first = enter(&table);
        assert!(first.is_some() && enter(&table).is_none());
        assert!(table.started().is_empty(), "it has not started");
        drop(first);
        assert!(table.len() == 0 && enter(&table).is_some());
    }
}
