//! The signals that end a process in order.

use tokio::signal::unix::{SignalKind, signal};

/// Returns when SIGTERM or SIGINT comes.
pub(crate) async fn wait() -> std::io::Result<()> {
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
