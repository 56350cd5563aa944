//! Serves until a signal ends it.

use std::sync::Arc;
use std::time::Duration;

use thermae_gateway::{Config, Gateway, Options, Parts};
use thermae_keys::Keys;
use thermae_service::http::{Condition, Router};
use thermae_service::program::{Failure, Process};

use crate::credentials::Credentials;
use crate::keyring::Keyring;
use crate::store::{Late, Place};

/// How often it is looked whether the store of keys is there.
const LOOK: Duration = Duration::from_secs(5);

/// Opens the ports, and serves callers and, at another port, health and metrics.
pub(crate) async fn serve(config: Config, process: Process) -> Result<(), Failure> {
    let Process { health, metrics, stop, listening } = process;
    let place = Place::of(&config.gateway).map_err(Failure::usage)?;
    let credentials = Credentials::of(&config).map_err(Failure::usage)?;
    let store = Arc::new(Late::new(place));
    let parts = Parts {
        identity: Arc::new(Keyring::new(Keys::new(store.clone()))),
        fleets: Arc::new(credentials),
        health: health.clone(),
        registry: metrics.clone(),
    };
    let tokens = config.gateway.tokens().map_err(Failure::usage)?;
    let gateway = Gateway::of(Options { tokens, ..config.gateway.options() }, parts).await?;
    tracing::info!(addr = %gateway.addr(), "serving callers");
    if !gateway.addr().ip().is_loopback() {
        tracing::warn!(
            "other machines can reach the gateway, and HTTP is not encrypted: put a TLS proxy in front of it"
        );
    }
    let serving = async {
        let watched = watch(&store, health.condition("keys"));
        tokio::select! {
            () = gateway.run(stop.clone()) => {}
            () = watched => {}
        }
        Ok(())
    };
    listening.serve_while(health.clone(), metrics, Router::new(), Box::pin(serving)).await
}

/// Opens the store whenever it can be, and says whether it is there. Never ends.
async fn watch(store: &Late, condition: Condition) {
    loop {
        match store.look().await {
            Ok(()) => condition.ready(),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the store of API keys is away");
                condition.not_ready(error.to_string());
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
