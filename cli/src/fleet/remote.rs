//! The real fleet that the command line or the environment names.

use std::path::PathBuf;
use std::time::Duration;

use thermae_fleet::RemoteOptions;
use thermae_service::secret::{self, Secret};

use crate::args::FleetArgs;
use crate::failure::Failure;
use crate::style;

/// Variable that holds the password itself.
const PASSWORD: &str = "THERMAE_AMQP_PASSWORD";

/// Options for that fleet; `None` if none is named.
pub(super) fn options(args: &FleetArgs) -> Result<Option<RemoteOptions>, Failure> {
    let file = |path: &PathBuf| Secret::read(path).map_err(|why| Failure::usage("bad_url", why));
    let amqp = match (args.amqp(), args.amqp_file()) {
        (Some(url), _) => {
            if secret::is_shown_in_arguments(url.expose()) {
                style::warning(&secret::argument_warning("amqp"));
            }
            url.clone()
        }
        (None, Some(path)) => file(&path)?,
        (None, None) => return Ok(None),
    };
    let amqp_password = match args.access.amqp_password_file() {
        Some(path) => Some(file(&path)?),
        None => password(),
    };
    let (tls, tenant) = (args.access.tls(), args.tenant().map(str::to_owned));
    Ok(Some(RemoteOptions { amqp, amqp_password, tls, tenant, connect_timeout: Duration::from(args.connect_timeout) }))
}

/// The password in the environment.
pub(crate) fn password() -> Option<Secret> {
    std::env::var(PASSWORD).ok().filter(|password| !password.is_empty()).map(Secret::from)
}
