//! SIGTERM and SIGINT: the first asks the process to end in order, the second ends it.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that the first SIGTERM or SIGINT cancels. The second ends the process at once, with the status that shells give it
/// (143 or 130). The listening task lives as long as the process.
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
