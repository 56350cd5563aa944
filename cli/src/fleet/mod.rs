//! The fleet that a command uses: the embedded one in this process, or a real one over AMQP. This turns arguments into
//! the fleet's options, and the fleet's errors into failures.

mod remote;
mod size;

use std::time::Duration;

use thermae_backplane::bus;
use thermae_fleet::{EmbeddedOptions, Error, Fleet, Unfit};
use tokio_util::sync::CancellationToken;

use crate::args::FleetArgs;
use crate::failure::{Failure, chain};
use crate::style;
pub(crate) use remote::password;
pub(crate) use size::{embedded, serving};

/// How long to wait for a broker before telling the user that the command waits.
const SAY_SO_AFTER: Duration = Duration::from_millis(500);

/// Opens the fleet that the options name; if they name none, an embedded one with the options `embedded`. Prints a note
/// when it has to wait. Gives up when interrupted.
pub(crate) async fn open(
    args: &FleetArgs,
    embedded: EmbeddedOptions,
    interrupt: &CancellationToken,
) -> Result<Fleet, Failure> {
    let remote = remote::options(args)?;
    let opening = async {
        match &remote {
            None => Fleet::embedded(embedded).await,
            Some(remote) => {
                let connecting = Fleet::connect(remote.clone());
                tokio::pin!(connecting);
                tokio::select! {
                    done = &mut connecting => return done,
                    () = tokio::time::sleep(SAY_SO_AFTER) => {}
                }
                style::note(&format!("waiting for the fleet at {} (up to {})", remote.host(), args.connect_timeout));
                connecting.await
            }
        }
    };
    tokio::select! {
        opened = opening => opened.map_err(explain),
        () = interrupt.cancelled() => Err(Failure::interrupted("interrupted while waiting for the fleet")),
    }
}

fn explain(error: Error) -> Failure {
    let message = match &error {
        Error::NoTenant => "the AMQP URL names no user: name the tenant with --tenant".to_owned(),
        error => chain(error),
    };
    match error {
        Error::Url | Error::NoTenant | Error::Tenant(_) => Failure::usage("bad_url", message).help(
            "the URL is amqp://USER:PASSWORD@HOST:5672, or amqps://USER:PASSWORD@HOST:5671 for TLS; --tenant NAME \
             names the tenant",
        ),
        Error::Tls(error) => Failure::usage("usage", error),
        Error::Unreachable { .. } => Failure::fleet("broker_unreachable", message)
            .help("start the fleet, wait longer with --connect-timeout, or leave --amqp out to use the embedded fleet"),
        Error::Denied { .. } => Failure::fleet("broker_denied", message).help(
            "check the user and the password, and that the user has the tenant's topic permissions (docs/protocol.md); \
             with amqps://, also check --tls-ca, --tls-cert and --tls-key",
        ),
        Error::Client(error) => failed(error),
        Error::Embedded(option @ (Unfit::Preload { .. } | Unfit::Dataset { .. })) => Failure::usage("usage", option),
        Error::Embedded(_) => {
            Failure::fleet("embedded_fleet", message).help("run `thermae doctor`: it says what this machine lacks")
        }
    }
}

/// The failure of an embedded fleet that can't run anything here.
pub(crate) fn unfit(why: Unfit) -> Failure {
    explain(Error::Embedded(why))
}

/// The failure of a command after an error of the client.
pub(crate) fn failed(error: thermae_client::Error) -> Failure {
    let message = chain(&error);
    match error {
        thermae_client::Error::NoScheduler => {
            Failure::fleet("no_scheduler", message).help("start thermae-scheduler on this RabbitMQ")
        }
        thermae_client::Error::Bus(error) if matches!(*error, bus::Error::Denied(_)) => {
            Failure::fleet("broker_denied", message).help(
                "check that the user has the tenant's topic permissions (docs/protocol.md), or name another --tenant",
            )
        }
        thermae_client::Error::Store(_) => {
            Failure::fleet("embedded_fleet", message).help("free some space there, or name another folder with --store")
        }
        thermae_client::Error::QueueFull => {
            Failure::fleet("queue_full", message).help("wait until some of the tenant's jobs have ended")
        }
        thermae_client::Error::Bus(error) if matches!(*error, bus::Error::TooLarge(_)) => {
            Failure::usage("job_too_large", message).help("send files by reference, or ask the operator for a dataset")
        }
        _ => Failure::fleet("fleet_failed", message).help("try again, with -v for more in the log"),
    }
}
