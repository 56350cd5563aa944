//! Sessions: list, close. What happens in a session is in `exec` and `files`.

use thermae_client::Client;
use thermae_schemas::{ErrorCode, ErrorInfo, Job, PoolName, SessionInfo, SessionName, SessionRequest, Status};

use super::ANSWER_WITHIN;
use crate::problem::Problem;

/// The live sessions of the tenant.
pub(crate) struct Sessions {
    pub(super) client: Client,
}

impl Sessions {
    /// All sessions.
    pub(crate) async fn all(&self) -> Result<Vec<SessionInfo>, Problem> {
        match self.client.sessions(ANSWER_WITHIN).await {
            Err(error @ thermae_client::Error::NoAnswer(_)) => Err(Problem::new("no_answer", error.to_string())),
            listed => Ok(listed?),
        }
    }

    /// Closes a session, after the jobs that were submitted to it. Without a pool, looks where the session is.
    pub(crate) async fn close(&self, name: SessionName, pool: Option<PoolName>) -> Result<(), Problem> {
        let mut job = Job::python("");
        let pool = match pool {
            Some(pool) => Some(pool),
            // A session that is too new to be listed is usually in the default pool.
            None => self.all().await?.into_iter().find(|session| session.id == name).map(|session| session.pool),
        };
        job.pool = pool.unwrap_or(job.pool);
        let gone = || -> Problem {
            let message = format!("There is no session {:?}.", name.as_str());
            ErrorInfo::new(ErrorCode::SessionLost, message).into()
        };
        job.session = Some(SessionRequest { close: true, ..SessionRequest::new(name.clone()) });
        let outcome = self.client.submit(job, None).await?.result().await?;
        if outcome.session.as_ref().is_some_and(|session| session.fresh) {
            return Err(gone());
        }
        match outcome.error {
            _ if outcome.status == Status::Succeeded => Ok(()),
            Some(error) => Err(error.into()),
            None => Err(Problem::new("fleet_failed", "the session could not be closed")),
        }
    }
}
