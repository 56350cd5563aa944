//! Tokens of jobs. A token is verified when the attempt begins, and anew before each call.

mod counts;

use std::sync::Arc;
use std::time::SystemTime;

use thermae_backplane::registry::SharedRegistry;
use thermae_capabilities::{Rules, Take};
use thermae_schemas::{ClientId, ErrorCode, TenantName, TokenText};
use thermae_tokens::{TokenId, Trust, TrustError, Verified};
use tokio::sync::{Mutex, MutexGuard};

use super::Refused;
use crate::context::Context;
use crate::heavy::Heavy;
use crate::metrics::Metrics;

pub(super) use counts::Counted;

/// A token is verified on a thread that may wait for the disk, however small it is.
const STEPS: usize = usize::MAX;

/// The token of one attempt.
pub(crate) struct Held {
    text: TokenText,
    tenant: TenantName,
    trust: Arc<Trust>,
    says: Verified,
    registry: SharedRegistry,
    turn: Mutex<()>,
}

impl Held {
    /// Verifies the token of a job of this tenant.
    ///
    /// # Errors
    /// The token gives no rights, or the worker takes no tokens.
    pub(crate) async fn verify(ctx: &Context, tenant: &TenantName, text: &TokenText) -> Result<Self, Refused> {
        let verified = async {
            let trust = ctx.trust.clone().ok_or_else(|| {
                let why = "this worker has no public keys (tokens.keys), so it takes no tokens";
                Refused::new(ErrorCode::TokenUnsupported, why)
            })?;
            let says = verify(&ctx.heavy, trust.clone(), text.clone(), tenant.clone()).await?;
            let registry = Arc::clone(&ctx.registry);
            Ok::<_, Refused>(Self {
                text: text.clone(),
                tenant: tenant.clone(),
                trust,
                says,
                registry,
                turn: Mutex::default(),
            })
        };
        let verified = verified.await;
        count(&ctx.metrics, verified.as_ref().err());
        verified
    }

    /// Verifies the token again: it may have expired, it or its key may have been revoked.
    ///
    /// # Errors
    /// As for [`Held::verify`].
    pub(super) async fn verify_again(&self, heavy: &Heavy) -> Result<(), Refused> {
        verify(heavy, self.trust.clone(), self.text.clone(), self.tenant.clone()).await.map(drop)
    }

    /// The token's id, for the audit log.
    pub(super) fn id(&self) -> &TokenId {
        &self.says.id
    }

    /// The sets of which each must allow a call.
    pub(super) fn rules(&self) -> &Rules {
        &self.says.rules
    }

    /// The client to which the calls go. `None` if it is the client that has the run.
    pub(super) fn answers(&self) -> Option<&ClientId> {
        self.says.answers.as_ref()
    }

    /// Waits until no other call of the attempt is being counted.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Has the registry count one call under these capabilities, whose sets begin at `first`, and under the limits of
    /// all calls of the token.
    ///
    /// # Errors
    /// The call must not be made. It may have been counted.
    pub(super) async fn count(&self, first: usize, takes: &[Take]) -> Result<Counted, Refused> {
        counts::count(self, first, takes).await
    }
}

async fn verify(heavy: &Heavy, trust: Arc<Trust>, text: TokenText, tenant: TenantName) -> Result<Verified, Refused> {
    let verify = move || {
        let verifier = trust.verifier().map_err(|error| unverifiable(&error))?;
        let verified = verifier.verify(text.as_str(), &tenant, SystemTime::now());
        // Nothing of the token stands in the text.
        verified.map_err(|refused| Refused::new(refused.code(), refused.to_string()))
    };
    heavy.scan(STEPS, verify).await
}

/// The refusal while the worker's own files are wrong. The log says how: a client need not know.
fn unverifiable(error: &TrustError) -> Refused {
    tracing::error!(error = %error, "tokens can't be verified");
    let why = "the worker can't read its public keys or its list of revoked tokens; its log says why";
    Refused::new(ErrorCode::TokenUnverifiable, why)
}

fn count(metrics: &Metrics, refused: Option<&Refused>) {
    let result = refused.map_or("ok", |refused| refused.code.as_str());
    metrics.tokens.with_label_values(&[result]).inc();
}
