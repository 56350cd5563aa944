//! Sessions: list, close, and their checkpoints. What happens in a session is in `exec` and `files`.

use bytes::Bytes;
use thermae_client::Client;
use thermae_schemas::{
    CheckpointWhen, ErrorCode, ErrorInfo, IfGone, Job, JobId, Language, PoolName, Request, RequestWork, SessionInfo,
    SessionName, SessionRequest, SessionState,
};

use super::ANSWER_WITHIN;
use super::exec::ended;
use crate::problem::Problem;

/// The live sessions of the tenant.
pub(crate) struct Sessions {
    pub(super) client: Client,
}

/// How a session begins with the files of a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Restore {
    /// The session whose checkpoint it is; by default, the one that begins.
    pub(crate) from: Option<SessionName>,
    /// Pool of the session.
    pub(crate) pool: Option<PoolName>,
    /// Language of the session's programs.
    pub(crate) language: Option<Language>,
    /// How long the session's own checkpoint is kept, in milliseconds.
    pub(crate) ttl_ms: Option<u64>,
    /// Whether a session that lives under the name, and its checkpoint, are given up.
    pub(crate) reset: bool,
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
        let pool = self.pool(&name, pool).await?;
        let wish = SessionRequest { close: true, ..SessionRequest::new(name.clone()) };
        let (state, _) = self.run_nothing(wish, pool, None).await?;
        if state.fresh { Err(gone(&name)) } else { Ok(()) }
    }

    /// Stores the files of a live session, after the jobs that were submitted to it. Without a pool, looks where the
    /// session is.
    pub(crate) async fn checkpoint(
        &self,
        name: SessionName,
        pool: Option<PoolName>,
        ttl_ms: Option<u64>,
    ) -> Result<SessionState, Problem> {
        // The job below would make a session that is not there.
        self.keep_alive(name.clone()).await?;
        let pool = self.pool(&name, pool).await?;
        let checkpoint = Some(CheckpointWhen::Once);
        let wish = SessionRequest { checkpoint, checkpoint_ttl_ms: ttl_ms, ..SessionRequest::new(name.clone()) };
        let (state, error) = self.run_nothing(wish, pool.clone(), None).await?;
        if state.fresh {
            // It was closed in between.
            self.close(name.clone(), pool).await?;
            return Err(gone(&name));
        }
        if state.checkpointed {
            return Ok(state);
        }
        Err(state.checkpoint_error.or(error).map_or_else(unexplained, Problem::from))
    }

    /// Begins a session with the files of a checkpoint, and stores them as its own.
    pub(crate) async fn restore(&self, name: SessionName, how: Restore) -> Result<SessionState, Problem> {
        let lives = || Problem::new("session_lives", format!("there is a session {:?} already", name.as_str()));
        if !how.reset {
            // An older worker would store the files of a session that is there.
            match self.keep_alive(name.clone()).await {
                Ok(()) => return Err(lives()),
                Err(problem) if problem.session_is_gone() => {}
                Err(problem) => return Err(problem),
            }
        }
        let wish = SessionRequest {
            if_gone: IfGone::New,
            reset: how.reset,
            checkpoint: Some(CheckpointWhen::Once),
            checkpoint_ttl_ms: how.ttl_ms,
            restore: Some(how.from.unwrap_or_else(|| name.clone())),
            ..SessionRequest::new(name.clone())
        };
        let (state, error) = self.run_nothing(wish, how.pool, how.language).await?;
        if !state.fresh {
            return Err(lives());
        }
        if state.alive { Ok(state) } else { Err(error.map_or_else(unexplained, Problem::from)) }
    }

    /// Has a session count as used. Fails if it does not live.
    async fn keep_alive(&self, name: SessionName) -> Result<(), Problem> {
        let request = Request::new(JobId::random(), name, RequestWork::Keepalive {});
        let (handle, _) = self.start(request, Bytes::new())?;
        ended(handle.done().await?).map(drop)
    }

    /// The pool of a session: the one that is given, or where the session is. A session that is too new to be listed is
    /// usually in the default pool.
    async fn pool(&self, name: &SessionName, given: Option<PoolName>) -> Result<Option<PoolName>, Problem> {
        if given.is_some() {
            return Ok(given);
        }
        Ok(self.all().await?.into_iter().find(|session| session.id == *name).map(|session| session.pool))
    }

    /// Submits a job without code, for what the session does about it. Returns the session's state after it, and why
    /// the job failed. A session of another language refuses the job's code and nothing else of it.
    async fn run_nothing(
        &self,
        wish: SessionRequest,
        pool: Option<PoolName>,
        language: Option<Language>,
    ) -> Result<(SessionState, Option<ErrorInfo>), Problem> {
        let mut job = Job::python("");
        job.pool = pool.unwrap_or(job.pool);
        job.language = language.unwrap_or(job.language);
        job.session = Some(wish);
        let outcome = self.client.submit(job, None).await?.result().await?;
        match outcome.session {
            Some(state) => Ok((state, outcome.error)),
            None => Err(outcome.error.map_or_else(unexplained, Problem::from)),
        }
    }
}

fn gone(name: &SessionName) -> Problem {
    ErrorInfo::new(ErrorCode::SessionLost, format!("There is no session {:?}.", name.as_str())).into()
}

fn unexplained() -> Problem {
    Problem::new("fleet_failed", "the fleet did not say what came of the session")
}
