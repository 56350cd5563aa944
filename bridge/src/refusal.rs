//! Why a request fails: what an `error` frame tells the SDK.

use thermae_backplane::bus;
use thermae_fleet::Error;
use thermae_worker::ArtifactsError;
use thermae_worker::backend::chain;

/// Why a request can't be fulfilled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Stable code. `docs/sdk-protocol.md` lists all codes.
    pub code: &'static str,
    /// What happened. It contains no secret.
    pub message: String,
    /// What to do about it.
    pub advice: Option<&'static str>,
}

impl Refusal {
    /// A refusal without advice.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), advice: None }
    }

    /// Adds advice.
    #[must_use]
    pub fn advice(self, advice: &'static str) -> Self {
        Self { advice: Some(advice), ..self }
    }

    /// The connection ends before the request does.
    pub(crate) fn closed() -> Self {
        Self::new("closed", "the connection was closed before the request ended")
    }

    /// The place where the bridge runs ends.
    pub(crate) fn draining() -> Self {
        Self::new("draining", "the gateway is stopping; runs on a fleet of its own end with it, and all others go on")
            .advice("connect again, and submit the jobs again under the same ids: they do not run twice")
    }

    /// The client doesn't take what is sent to it.
    pub(crate) fn too_slow() -> Self {
        Self::new("too_slow", "the client takes its frames too slowly, and more of them wait than may")
            .advice("read faster, or have fewer runs under way")
    }

    /// The client cancelled a request that has nothing else to tell.
    pub(crate) fn cancelled() -> Self {
        Self::new("cancelled", "the request was cancelled")
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let message = chain(&error);
        match error {
            Error::Url | Error::NoTenant | Error::Tenant(_) => Self::new("bad_url", message)
                .advice("the URL is amqp://USER:PASSWORD@HOST:5672, or amqps://USER:PASSWORD@HOST:5671 for TLS"),
            Error::Tls(_) => Self::new("bad_option", message),
            Error::Unreachable { .. } => Self::new("broker_unreachable", message)
                .advice("start the fleet, wait longer, or leave the URL out to use the embedded fleet"),
            Error::Denied { .. } => Self::new("broker_denied", message).advice(
                "check the user and the password, and that the user has the tenant's topic permissions \
                 (docs/protocol.md); with amqps://, also check the certificates",
            ),
            Error::Client(error) => error.into(),
            Error::Embedded(_) => Self::new("embedded_unavailable", message)
                .advice("run `thermae doctor`: it says what this machine lacks"),
        }
    }
}

impl From<thermae_client::Error> for Refusal {
    fn from(error: thermae_client::Error) -> Self {
        use thermae_client::Error as E;
        let message = chain(&error);
        match error {
            E::NoScheduler => Self::new("no_scheduler", message).advice("start thermae-scheduler on this RabbitMQ"),
            E::Store(_) => Self::new("store_unavailable", message).advice("free some space in the store's folder"),
            E::QueueFull => Self::new("queue_full", message).advice("wait until some of the tenant's jobs have ended"),
            E::AlreadySubmitted(_) => Self::new("already_submitted", message).advice("give every job an id of its own"),
            E::AlreadyRequested(_) => {
                Self::new("already_submitted", message).advice("give every request an id of its own, or none")
            }
            E::Bus(error) if matches!(*error, bus::Error::Denied(_)) => Self::new("broker_denied", message)
                .advice("check that the user has the tenant's topic permissions (docs/protocol.md)"),
            E::Bus(error) if matches!(*error, bus::Error::TooLarge(_)) => {
                Self::new("job_too_large", message).advice("send files by reference")
            }
            E::UnknownRun(_) => Self::new("unknown_run", message)
                .advice("check the id and the tenant; if the job was not submitted for sure, submit it under this id"),
            E::Superseded(_) => Self::new("superseded", message).advice("attach to the run again if it is yours"),
            E::UnknownCall(_) => Self::new("unknown_call", message)
                .advice("ask for the run: its calls have current reply keys, and its state says whether it still runs"),
            E::NoAnswer(_) => Self::new("no_answer", message).advice("ask again; check that a scheduler runs"),
            _ => Self::new("fleet_failed", message).advice("submit the job again under the same id"),
        }
    }
}

impl From<ArtifactsError> for Refusal {
    fn from(error: ArtifactsError) -> Self {
        let code = if error.is_missing() { "unknown_ref" } else { "store_unavailable" };
        Self::new(code, chain(&error))
    }
}
