//! `thermae bridge`: serves the frames of one program, usually an SDK that has started it. It ends with that program.

mod inherited;
mod parent;

use std::sync::Arc;

use thermae_bridge::Direct;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::BridgeArgs;
use crate::failure::{Exit, Failure};
use crate::fleet;
pub(crate) use inherited::Inherited;

/// Serves until the program closes the connection, ends, or this process is asked to end. Then nothing that it began
/// goes on.
///
/// # Errors
/// The socket or the program can't be watched.
pub(crate) async fn bridge(args: &BridgeArgs) -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| Failure::fleet("internal", format!("the bridge can't start: {error}"));
    let stop = CancellationToken::new();
    // A Ctrl-C in a terminal is meant for the program, which cancels what it wants to cancel.
    let _ignored = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(failed)?;
    let parent = args.parent.map(parent::Parent::watch).transpose().map_err(failed)?;
    let (access, password) = (&args.access, fleet::password());
    let opener = Direct { tls: access.tls(), password, password_file: access.amqp_password_file() };
    let socket = args.fd.take().and_then(UnixStream::from_std).map_err(failed)?;
    let (read, write) = socket.into_split();
    let ending = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
            () = parent::ended(parent) => {}
        }
        stop.cancel();
        std::future::pending::<()>().await;
    };
    // In a task of its own, so that one of the runtime's workers, which hear of frames first, also reads them.
    let serving = tokio::spawn(thermae_bridge::serve_stream(read, write, Arc::new(opener), stop.clone()));
    tokio::select! {
        served = serving => served.map_err(|error| Failure::fleet("internal", format!("the bridge failed: {error}")))?,
        () = ending => {}
    }
    Ok(Exit::Success)
}
