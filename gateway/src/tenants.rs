//! The service of each tenant: made with the tenant's first request, shared by its requests, and closed once it is
//! idle. No request sees the service of another tenant, so none sees another tenant's runs.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use thermae_schemas::TenantName;
use thermae_worker::backend::chain;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::budget::Budget;
use crate::fleets::Fleets;
use crate::problem::Problem;
use crate::service::{Places, Service};
use crate::usage::Usage;
use crate::{Metrics, Options};

/// How long a fleet that could not be opened is not tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// How long closing may take when the gateway ends.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// When a service could not be opened, and why.
type Failed = (Instant, Problem);

/// A service that is open, or is being opened. Many can wait for it.
type Opening = Shared<BoxFuture<'static, Result<Arc<Service>, Failed>>>;

/// The services of all tenants.
pub(crate) struct Tenants {
    fleets: Arc<dyn Fleets>,
    options: Options,
    budget: Budget,
    places: Places,
    /// What tenants used, also those whose service is closed.
    usage: Usage,
    metrics: Metrics,
    draining: CancellationToken,
    open: Mutex<HashMap<TenantName, Slot>>,
    closing: TaskTracker,
}

/// The service of one tenant, or the attempt to open it.
struct Slot {
    opened: Opening,
    /// The requests that the tenant may have at once.
    requests: Arc<Semaphore>,
    /// The connections of SDKs that the tenant may have at once.
    sdks: Arc<Semaphore>,
    used: Instant,
}

/// A tenant's service for one request. While there is one, the service stays open.
pub(crate) struct Lease {
    service: Arc<Service>,
    sdks: Arc<Semaphore>,
    _request: OwnedSemaphorePermit,
}

impl Deref for Lease {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

impl Lease {
    /// A place for the connection of an SDK; `None` if the tenant has as many as it may.
    pub(crate) fn place_of_sdk(&self) -> Option<OwnedSemaphorePermit> {
        self.sdks.clone().try_acquire_owned().ok()
    }
}

impl Slot {
    /// The service, if it is open, or why it is not; `None` while it is being opened.
    fn now(&self) -> Option<Result<Arc<Service>, Failed>> {
        self.opened.clone().now_or_never()
    }

    /// Whether the fleet could not be opened, long enough ago that it can be tried again.
    fn can_be_tried_again(&self) -> bool {
        matches!(self.now(), Some(Err((at, _))) if at.elapsed() >= AGAIN)
    }
}

impl Tenants {
    pub(crate) fn new(
        fleets: Arc<dyn Fleets>,
        options: &Options,
        budget: Budget,
        metrics: Metrics,
        draining: CancellationToken,
    ) -> Self {
        let places = Places::new(options, metrics.clone());
        let (options, open, closing) = (options.clone(), Mutex::default(), TaskTracker::new());
        let usage = Usage::new();
        Self { fleets, options, budget, places, usage, metrics, draining, open, closing }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantName, Slot>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The service of a tenant, for one request.
    pub(crate) async fn service(&self, tenant: &TenantName) -> Result<Lease, Problem> {
        let (opened, sdks, request) = self.slot(tenant)?;
        match opened.await {
            Ok(service) => Ok(Lease { service, sdks, _request: request }),
            Err((_, problem)) => Err(problem),
        }
    }

    /// The service, which may still have to open, the places of its SDKs, and a place among the tenant's requests.
    fn slot(&self, tenant: &TenantName) -> Result<(Opening, Arc<Semaphore>, OwnedSemaphorePermit), Problem> {
        let mut open = self.lock();
        if open.get(tenant).is_some_and(Slot::can_be_tried_again) {
            open.remove(tenant);
        }
        if !open.contains_key(tenant) {
            self.has_room(&mut open)?;
            open.insert(tenant.clone(), self.begin(tenant.clone()));
            self.count(&open);
        }
        let Some(slot) = open.get_mut(tenant) else { return Err(Problem::new("internal_error", "no slot")) };
        slot.used = Instant::now();
        let Ok(request) = slot.requests.clone().try_acquire_owned() else {
            self.metrics.refused.with_label_values(&["requests"]).inc();
            let most = self.options.share(self.options.requests);
            return Err(Problem::new("too_many_requests", format!("{most} requests of the tenant are under way")));
        };
        Ok((slot.opened.clone(), slot.sdks.clone(), request))
    }

    /// Begins to open the fleet. A task does it, so that it goes on if the request that needs it is given up.
    fn begin(&self, tenant: TenantName) -> Slot {
        let (fleets, options, metrics) = (self.fleets.clone(), self.options.clone(), self.metrics.clone());
        let budget = self.budget.part(options.share(options.held_bytes));
        let (places, draining) = (self.places.clone(), self.draining.clone());
        let meter = self.usage.meter(tenant.clone());
        let [requests, sdks] =
            [options.requests, options.sdks].map(|most| Arc::new(Semaphore::new(options.share(most))));
        let opening = AbortOnDropHandle::new(tokio::spawn(async move {
            match fleets.open(&tenant).await {
                Ok(fleet) => Ok(Arc::new(Service::new(fleet, &options, budget, places, meter, metrics, draining))),
                Err(why) => {
                    tracing::warn!(%tenant, why = chain(&why), "the fleet can't be used for a tenant");
                    Err((Instant::now(), Problem::from(&why)))
                }
            }
        }));
        let failed = || (Instant::now(), Problem::new("internal_error", "the fleet could not be opened"));
        let opened = async move { opening.await.unwrap_or_else(|_| Err(failed())) };
        Slot { opened: opened.boxed().shared(), requests, sdks, used: Instant::now() }
    }

    /// Makes room for one more tenant.
    fn has_room(&self, open: &mut HashMap<TenantName, Slot>) -> Result<(), Problem> {
        if open.len() < self.options.tenants {
            return Ok(());
        }
        let idle = open.iter().filter(|(_, slot)| self.is_idle(slot)).min_by_key(|(_, slot)| slot.used);
        if let Some(tenant) = idle.map(|(tenant, _)| tenant.clone()) {
            self.close_one(open, &tenant);
            return Ok(());
        }
        self.metrics.refused.with_label_values(&["tenants"]).inc();
        let detail = format!("the gateway works for {} tenants already", self.options.tenants);
        Err(Problem::new("too_many_tenants", detail))
    }

    /// Whether a tenant has no request, no run and no upload here, and nothing is being opened for it.
    fn is_idle(&self, slot: &Slot) -> bool {
        let nobody = slot.requests.available_permits() == self.options.share(self.options.requests);
        nobody && slot.now().is_some_and(|opened| opened.map_or(true, |service| service.is_idle()))
    }

    fn close_one(&self, open: &mut HashMap<TenantName, Slot>, tenant: &TenantName) {
        let Some(slot) = open.remove(tenant) else { return };
        let opened = slot.now();
        drop(slot);
        if let Some(Ok(service)) = opened {
            tracing::debug!(%tenant, "an idle tenant's fleet is closed");
            self.closing.spawn(close(service));
        }
        self.count(open);
    }

    /// Forgets old runs, and closes what is idle.
    pub(crate) fn sweep(&self) {
        let mut open = self.lock();
        for slot in open.values() {
            if let Some(Ok(service)) = slot.now() {
                service.sweep();
            }
        }
        let idle = open.iter().filter(|(_, slot)| {
            let is_over = slot.used.elapsed() >= self.options.tenant_idle || slot.can_be_tried_again();
            is_over && self.is_idle(slot)
        });
        let idle: Vec<TenantName> = idle.map(|(tenant, _)| tenant.clone()).collect();
        for tenant in idle {
            self.close_one(&mut open, &tenant);
        }
    }

    /// Forgets runs that have ended, so that this many bytes more may be held: those of this service, if they are for
    /// its tenant, and if that is not enough because others hold so much, theirs.
    pub(crate) fn make_room(&self, service: Option<&Service>, bytes: usize) {
        if let Some(service) = service {
            service.make_room(bytes);
        }
        if self.budget.has_room(bytes) {
            return;
        }
        for other in self.lock().values().filter_map(|slot| slot.now()?.ok()) {
            other.make_room(bytes);
        }
    }

    fn count(&self, open: &HashMap<TenantName, Slot>) {
        self.metrics.tenants.set(i64::try_from(open.len()).unwrap_or(i64::MAX));
    }

    /// Closes everything. No request may be under way any more.
    pub(crate) async fn close(&self) {
        let slots = std::mem::take(&mut *self.lock());
        for slot in slots.into_values() {
            let opened = slot.now();
            drop(slot);
            if let Some(Ok(service)) = opened {
                self.closing.spawn(close(service));
            }
        }
        self.closing.close();
        if tokio::time::timeout(CLOSE_WITHIN, self.closing.wait()).await.is_err() {
            tracing::warn!("connections to the fleet did not end in time");
        }
    }
}

/// Closes a service that nobody else has.
async fn close(service: Arc<Service>) {
    if let Some(service) = Arc::into_inner(service) {
        service.close().await;
    }
}
