//! SIGTERM and SIGINT: the first signal asks the process to stop in order, and the second ends it.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Returns a token that the first SIGTERM or SIGINT cancels. The second signal ends the process at once, with the
/// status that shells use for it (143 or 130). The task that listens for signals lives as long as the process.
///
/// # Errors
/// The handlers can't be installed.
pub fn shutdown() -> std::io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let first = token.clone();
    tokio::spawn(async move {
        let (name, _) = next(&mut term, &mut int).await;
        tracing::info!(signal = name, "stopping");
        first.cancel();
        let (name, status) = next(&mut term, &mut int).await;
        tracing::warn!(signal = name, "stopping at once");
        std::process::exit(status);
    });
    Ok(token)
}

async fn next(term: &mut Signal, int: &mut Signal) -> (&'static str, i32) {
    tokio::select! {
        _ = term.recv() => ("SIGTERM", 143),
        _ = int.recv() => ("SIGINT", 130),
    }
}
