//! Opens the fleet that an SDK asks for. Who serves others than their own user replaces [`Direct`], and decides there
//! which tenant an SDK acts as.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use thermae_client::Client;
use thermae_fleet::{Fleet, Millis, RemoteOptions, Secret, Tls};

use crate::Refusal;
use crate::embedded::Embedded;

/// How long the end of an SDK's client may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// Opens fleets for SDKs.
#[async_trait]
pub trait Opener: Send + Sync + 'static {
    /// Opens what an SDK asks for. `ask` has the fields of its `open` request.
    async fn open(&self, ask: Map<String, Value>) -> Result<Opened, Refusal>;
}

/// An open fleet, as one SDK uses it.
pub struct Opened {
    /// Submits the SDK's jobs, and has its tenant. It is closed with the SDK's connection.
    pub client: Client,
    /// The fleet. It is closed with the SDK's connection, unless something else holds it, too.
    pub fleet: Arc<Fleet>,
    /// What the SDK learns about the fleet, in addition to its tenant and whether it is embedded.
    pub facts: Map<String, Value>,
}

impl Opened {
    /// What the SDK learns about the fleet.
    pub(crate) fn facts(&self) -> Map<String, Value> {
        let mut facts = self.facts.clone();
        facts.insert("tenant".to_owned(), json!(self.client.tenant()));
        facts.insert("embedded".to_owned(), json!(self.fleet.is_embedded()));
        facts
    }

    /// Ends the client and, if nothing else uses it, the fleet with all that runs on it.
    pub(crate) async fn close(self) {
        if tokio::time::timeout(CLOSE_WITHIN, self.client.close()).await.is_err() {
            tracing::warn!("the client did not end in time");
        }
        if let Some(fleet) = Arc::into_inner(self.fleet)
            && tokio::time::timeout(4 * CLOSE_WITHIN, fleet.close()).await.is_err()
        {
            tracing::warn!("the fleet did not end in time");
        }
    }
}

/// Opens what its own user asks for: an embedded fleet, or the connection to a fleet by its URL.
#[derive(Debug, Clone, Default)]
pub struct Direct {
    /// For `amqps://`.
    pub tls: Tls,
    /// Password that replaces the one in the URL, unless the SDK gives another.
    pub password: Option<Secret>,
    /// File that contains such a password, and counts before `password`.
    pub password_file: Option<PathBuf>,
}

/// The fields that [`Direct`] knows.
#[derive(Deserialize)]
struct Ask {
    embedded: Option<Map<String, Value>>,
    url: Option<Secret>,
    tenant: Option<String>,
    password: Option<Secret>,
    connect_timeout: Option<Millis>,
}

#[async_trait]
impl Opener for Direct {
    async fn open(&self, ask: Map<String, Value>) -> Result<Opened, Refusal> {
        let malformed = |error: serde_path_to_error::Error<serde_json::Error>| {
            Refusal::new("bad_option", format!("{}: {}", error.path(), error.inner()))
        };
        let ask: Ask = serde_path_to_error::deserialize(Value::Object(ask)).map_err(malformed)?;
        let mut facts = Map::new();
        let fleet = match (ask.embedded, ask.url) {
            (Some(options), None) => {
                let options = Embedded::read(options)?;
                facts.insert("slots".to_owned(), json!(options.pool().slots()));
                Fleet::embedded(options).await.map_err(crate::embedded::unfit)?
            }
            (None, Some(url)) => {
                let mut options = RemoteOptions::new(url);
                options.tls = self.tls.clone();
                options.amqp_password = match (ask.password, &self.password_file) {
                    (Some(password), _) => Some(password),
                    (None, Some(path)) => Some(read(path)?),
                    (None, None) => self.password.clone(),
                };
                options.tenant = ask.tenant;
                if let Some(within) = ask.connect_timeout {
                    options.connect_timeout = within.duration();
                }
                Fleet::connect(options).await?
            }
            (None, None) => return Err(Refusal::new("bad_request", "open needs either `embedded` or `url`")),
            (Some(_), Some(_)) => return Err(Refusal::new("bad_request", "open has both `embedded` and `url`")),
        };
        Ok(Opened { client: fleet.client().clone(), fleet: Arc::new(fleet), facts })
    }
}

fn read(path: &Path) -> Result<Secret, Refusal> {
    Secret::read(path).map_err(|error| Refusal::new("bad_url", error.to_string()))
}
