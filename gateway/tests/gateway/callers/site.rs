//! A gateway for several callers and tenants, whose keys and fleets the test decides on.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use async_trait::async_trait;
use serde_json::Value;
use thermae_fleet::{EmbeddedOptions, Fleet};
use thermae_gateway::{Caller, Denied, Fleets, Gateway, Identity, Options, Parts, Unopened};
use thermae_schemas::{Scope, Scopes, TenantName};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::http::{Answer, Connection};
use crate::serving::head;

/// Knows secrets, and what comes of each.
#[derive(Default)]
pub(super) struct Known {
    secrets: Mutex<HashMap<String, Result<Caller, Denied>>>,
    /// How often each was shown.
    shown: Mutex<HashMap<String, usize>>,
}

impl Known {
    pub(super) fn set(&self, secret: &str, found: Result<Caller, Denied>) {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).insert(secret.to_owned(), found);
    }

    /// How often this secret was shown.
    pub(super) fn shown(&self, secret: &str) -> usize {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).get(secret).copied().unwrap_or(0)
    }

    fn find(&self, wanted: impl Fn(&str, &Result<Caller, Denied>) -> bool) -> Option<Result<Caller, Denied>> {
        let known = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(secret, found)| wanted(secret, found)).map(|(_, found)| found.clone())
    }
}

#[async_trait]
impl Identity for Known {
    async fn caller(&self, secret: &str) -> Result<Caller, Denied> {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner).entry(secret.to_owned()).or_default() += 1;
        self.find(|known, _| known == secret).unwrap_or(Err(Denied::Unknown))
    }

    async fn goes_on(&self, caller: &Caller) -> Result<(), Denied> {
        let same = |_: &str, found: &Result<Caller, Denied>| found.as_ref().is_ok_and(|known| known.key == caller.key);
        self.find(same).map_or(Err(Denied::Revoked), |_| Ok(()))
    }
}

/// A fleet for each of two tenants. A third tenant has none.
pub(super) struct Two {
    fleets: HashMap<&'static str, Arc<Fleet>>,
    pub(super) opened: AtomicUsize,
}

#[async_trait]
impl Fleets for Two {
    async fn open(&self, tenant: &TenantName) -> Result<Arc<Fleet>, Unopened> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.fleets.get(tenant.as_str()).cloned().ok_or(Unopened::NoCredentials)
    }
}

/// The gateway.
pub(super) struct Site {
    pub(super) addr: SocketAddr,
    pub(super) known: Arc<Known>,
    pub(super) fleets: Arc<Two>,
    pub(super) metrics: prometheus::Registry,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// A caller of a tenant who holds the key of this name, with these scopes.
pub(super) fn caller(tenant: &str, key: &str, scopes: impl IntoIterator<Item = Scope>) -> Result<Caller> {
    let (tenant, scopes, key) = (TenantName::new(tenant)?, scopes.into_iter().collect(), Some(key.into()));
    Ok(Caller { tenant, scopes, key, runs_at_once: None, operator: false })
}

impl Site {
    /// The callers `acme`, `globex` and `initech` may do everything for the tenants of these names.
    pub(super) async fn new(options: Options) -> Result<Self> {
        let known = Arc::new(Known::default());
        let mut fleets = HashMap::new();
        for tenant in ["acme", "globex"] {
            let embedded = EmbeddedOptions { slots: Some(1), warm: Some(1), ..EmbeddedOptions::default() };
            fleets.insert(tenant, Arc::new(Fleet::embedded(embedded).await?));
        }
        for tenant in ["acme", "globex", "initech"] {
            known.set(tenant, Ok(caller(tenant, tenant, Scopes::all().iter())?));
        }
        let fleets = Arc::new(Two { fleets, opened: AtomicUsize::new(0) });
        let metrics = prometheus::Registry::new();
        let health = thermae_service::health::Health::new();
        let parts = Parts { identity: known.clone(), fleets: fleets.clone(), health, registry: metrics.clone() };
        let options = Options { listen: ([127, 0, 0, 1], 0).into(), ..options };
        let gateway = Gateway::of(options, parts).await?;
        let (addr, stop) = (gateway.addr(), CancellationToken::new());
        let task = tokio::spawn(gateway.run(stop.clone()));
        Ok(Self { addr, known, fleets, metrics, stop, task })
    }

    /// Sends a request that shows this secret. A body is JSON.
    pub(super) async fn ask(&self, secret: &str, what: &str, body: &Value) -> Result<Answer> {
        self.ask_with(secret, what, "", body).await
    }

    /// The same, with these further header lines.
    pub(super) async fn ask_with(&self, secret: &str, what: &str, headers: &str, body: &Value) -> Result<Answer> {
        let (method, path) = what.split_once(' ').context("METHOD PATH")?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let headers = format!("Authorization: Bearer {secret}\r\nContent-Type: application/json\r\n{headers}");
        let mut connection = Connection::open(self.addr).await?;
        connection.send(head(method, path, &headers, body.len())).await?;
        connection.send(body).await?;
        connection.answer(true).await
    }

    pub(super) async fn get(&self, secret: &str, path: &str) -> Result<Answer> {
        self.ask(secret, &format!("GET {path}"), &Value::Null).await
    }

    /// The value of a metric, summed over the series with this label value.
    pub(super) fn metric(&self, name: &str, label: &str) -> f64 {
        let families = self.metrics.gather();
        let of_name = families.iter().filter(|family| family.name() == name).flat_map(|family| family.get_metric());
        let fits = |one: &&prometheus::proto::Metric| {
            label.is_empty() || one.get_label().iter().any(|pair| pair.value() == label)
        };
        of_name.filter(fits).map(|one| one.get_counter().get_value() + one.get_gauge().get_value()).sum()
    }

    /// Ends the gateway and the fleets.
    pub(super) async fn end(self) -> Result<()> {
        self.stop.cancel();
        self.task.await?;
        let two = Arc::into_inner(self.fleets).context("something still has the fleets")?;
        for fleet in two.fleets.into_values() {
            Arc::into_inner(fleet).context("something still has a fleet")?.close().await;
        }
        Ok(())
    }
}
