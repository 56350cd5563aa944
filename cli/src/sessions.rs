//! `thermae sessions`: lists and closes a tenant's sessions on a fleet.

use std::time::Duration;

use thermae_fleet::{EmbeddedOptions, Fleet};
use thermae_schemas::{ErrorCode, Job, NameError, PoolName, SessionInfo, SessionName, SessionRequest, Status};
use tokio_util::sync::CancellationToken;

use crate::args::{FleetArgs, SessionsArgs, SessionsVerb};
use crate::failure::{Exit, Failure};
use crate::fleet;
use crate::style;

/// How long a scheduler may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Whether the command prints JSON.
pub(crate) fn as_json(args: &SessionsArgs) -> bool {
    matches!(args.verb, SessionsVerb::List { json: true, .. })
}

/// Options of the fleet that the command asks.
pub(crate) fn fleet(args: &SessionsArgs) -> &FleetArgs {
    let (SessionsVerb::List { fleet, .. } | SessionsVerb::Close { fleet, .. }) = &args.verb;
    fleet
}

/// Lists or closes sessions.
///
/// # Errors
/// No fleet is named, it can't be reached, a name is invalid, or a session can't be closed.
pub(crate) async fn sessions(args: &SessionsArgs, interrupt: &CancellationToken) -> Result<Exit, Failure> {
    let fleet = open(fleet(args), interrupt).await?;
    let done = tokio::select! {
        done = act(&args.verb, &fleet) => done,
        () = interrupt.cancelled() => Ok(Exit::Interrupted),
    };
    fleet.close().await;
    done
}

async fn open(at: &FleetArgs, interrupt: &CancellationToken) -> Result<Fleet, Failure> {
    if !at.is_remote() {
        let problem =
            "an embedded fleet ends with its command, and so do its sessions: there are none to list or close";
        return Err(Failure::usage("no_fleet", problem)
            .help("name a fleet: set THERMAE_AMQP to its URL, or name a file that holds the URL with --amqp-file"));
    }
    fleet::open(at, EmbeddedOptions::default(), interrupt).await
}

async fn act(verb: &SessionsVerb, fleet: &Fleet) -> Result<Exit, Failure> {
    match verb {
        SessionsVerb::List { json, .. } => {
            let sessions = listed(fleet).await?;
            let text = if *json {
                serde_json::to_string(&sessions).unwrap_or_else(|_| "[]".into()) + "\n"
            } else {
                table(&sessions)
            };
            style::print(text.as_bytes());
            Ok(Exit::Success)
        }
        SessionsVerb::Close { all: true, .. } => {
            let mut exit = Exit::Success;
            for session in listed(fleet).await? {
                exit = close(fleet, session.id, Some(session.pool)).await?.max(exit);
            }
            Ok(exit)
        }
        SessionsVerb::Close { names, pool, .. } => {
            let bad = |e: NameError| Failure::usage("bad_name", e.to_string());
            let pool = pool.as_deref().map(PoolName::new).transpose().map_err(bad)?;
            let mut exit = Exit::Success;
            for name in names {
                let name = SessionName::new(name.as_str()).map_err(bad)?;
                exit = close(fleet, name, pool.clone()).await?.max(exit);
            }
            Ok(exit)
        }
    }
}

async fn listed(fleet: &Fleet) -> Result<Vec<SessionInfo>, Failure> {
    fleet.client().sessions(ANSWER_WITHIN).await.map_err(fleet::failed)
}

/// Closes a session by a job without code. Gives [`Exit::Code`] if there was no such session.
async fn close(fleet: &Fleet, name: SessionName, pool: Option<PoolName>) -> Result<Exit, Failure> {
    let mut job = Job::python("");
    job.session = Some(SessionRequest { close: true, ..SessionRequest::new(name.clone()) });
    job.pool = pool.unwrap_or(job.pool);
    let handle = fleet.submit(job, None).await.map_err(fleet::failed)?;
    let outcome = handle.result().await.map_err(fleet::failed)?;
    let gone = matches!(
        outcome.error.as_ref().map(|e| e.code),
        Some(ErrorCode::SessionLost | ErrorCode::SessionExpired | ErrorCode::SessionEvicted)
    );
    let fresh = outcome.session.as_ref().is_some_and(|s| s.fresh);
    if gone || fresh {
        style::note(&format!("there was no session {name}"));
        Ok(Exit::Code)
    } else if outcome.status == Status::Succeeded {
        style::print(format!("closed {name}\n").as_bytes());
        Ok(Exit::Success)
    } else {
        let why = outcome.error.map(|e| format!("{}: {}", e.code.as_str(), e.message)).unwrap_or_default();
        Err(Failure::fleet("fleet_failed", format!("the session {name} could not be closed ({why})")))
    }
}

fn table(sessions: &[SessionInfo]) -> String {
    if sessions.is_empty() {
        return "no sessions\n".into();
    }
    let width = sessions.iter().map(|s| s.id.as_str().len()).max().unwrap_or(0).max(7);
    let mut text = format!("{:<width$}  {:<12}  {:>8}  worker\n", "session", "pool", "left");
    for s in sessions {
        let left = format!("{} s", s.expires_in_ms / 1000);
        text.push_str(&format!("{:<width$}  {:<12}  {left:>8}  {}\n", s.id.as_str(), s.pool.as_str(), s.worker));
    }
    text
}
