//! A container that is lent to a job or a session.

use std::sync::Arc;

use thermae_schemas::TenantName;
use tokio::time::Instant;

use super::proof::UNCLEAN;
use super::{Member, Pool};
use crate::conn::Conn;
use crate::options::Reuse;

/// A container on loan. If it is dropped after use, it counts as broken and is removed.
pub(crate) struct PooledContainer {
    member: Option<Member>,
    pool: Arc<Pool>,
    tenant: TenantName,
    used: bool,
    session: bool,
}

impl PooledContainer {
    pub(super) fn new(member: Member, pool: Arc<Pool>, tenant: &TenantName) -> Self {
        Self { member: Some(member), pool, tenant: tenant.clone(), used: false, session: false }
    }

    /// The container's connection. From now on, the container counts as used, and belongs to its tenant.
    pub(crate) fn conn(&mut self) -> Arc<Conn> {
        if !self.used {
            self.used = true;
            if let Some(member) = &mut self.member {
                member.tenant = Some(self.tenant.clone());
            }
        }
        match &self.member {
            Some(member) => Arc::clone(&member.conn),
            None => unreachable!("a container on loan is there until it is given back"),
        }
    }

    /// The container's name.
    pub(crate) fn name(&self) -> &str {
        self.member.as_ref().map_or("", |m| m.container.name())
    }

    /// Counts a job that runs in the container.
    pub(crate) fn count_job(&mut self) {
        if let Some(member) = &mut self.member {
            member.jobs += 1;
            member.used = Instant::now();
        }
    }

    /// Keeps the container for a session, so that it no longer counts as lent to a job.
    pub(crate) fn keep_for_session(&mut self) {
        if !self.session {
            self.session = true;
            if let Some(member) = &self.member {
                member.conn.no_more_proofs();
            }
            let mut state = self.pool.state();
            state.busy -= 1;
            state.sessions += 1;
            drop(state);
            self.pool.wake.notify_one();
        }
    }

    /// Gives the container back for the next job, or retires it if it is due.
    pub(crate) fn give_back(mut self) {
        let Some(member) = self.end_loan() else { return };
        let options = &self.pool.options;
        if member.conn.is_unclean() {
            return self.pool.quarantine(member, UNCLEAN);
        }
        let retire = member.conn.closed().is_cancelled()
            || self.pool.reuse(&member) == Reuse::Job
            || member.jobs >= options.retire_after_jobs
            || member.born.elapsed() >= options.retire_after.0;
        if retire {
            self.pool.destroy(member, "retired");
        } else if options.verify {
            self.pool.prove(member);
        } else {
            self.pool.place(member);
        }
    }

    /// Removes the container, because it is not to be trusted any more.
    pub(crate) fn quarantine(mut self, why: &'static str) {
        if let Some(member) = self.end_loan() {
            self.pool.quarantine(member, why);
        }
    }

    /// Removes the container, because its session has ended or never began.
    pub(crate) fn discard(mut self, why: &'static str) {
        if let Some(member) = self.end_loan() {
            self.pool.destroy(member, why);
        }
    }

    /// Takes the container out of the loan if it was never used. The pool still counts it as lent.
    pub(super) fn take_unused(&mut self) -> Option<Member> {
        if self.used { None } else { self.member.take() }
    }

    /// Takes the container out of the loan. The pool no longer counts it as lent.
    fn end_loan(&mut self) -> Option<Member> {
        let member = self.member.take()?;
        let mut state = self.pool.state();
        if self.session {
            state.sessions -= 1;
        } else {
            state.busy -= 1;
        }
        Some(member)
    }
}

impl Drop for PooledContainer {
    fn drop(&mut self) {
        let used = self.used;
        if let Some(member) = self.end_loan() {
            if used {
                self.pool.quarantine(member, "dropped in use");
            } else {
                self.pool.place(member);
            }
        }
    }
}
