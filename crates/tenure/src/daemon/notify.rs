//! What systemd is told. Outside systemd nobody listens, and that is fine.

use std::time::Duration;

use sd_notify::NotifyState;
use tenure_faces::Faces;
use tokio_util::sync::CancellationToken;

/// Recovered, bound, serving.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// Says that the daemon is about to end as soon as it is told to.
pub(crate) async fn tell_of_stop(stopping: CancellationToken) {
    stopping.cancelled().await;
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd could not be told");
    }
}

/// Says that the writer lives, for as long as it answers: a writer that hangs is not vouched for.
pub(crate) async fn keep_watchdog(faces: Faces, stopping: CancellationToken) {
    let Some(every) = watchdog_interval() else { return };
    loop {
        if faces.is_ready().await {
            tell(&[NotifyState::Watchdog]);
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = stopping.cancelled() => return,
        }
    }
}

/// The same, once.
pub(crate) async fn keep_watchdog_once(faces: &Faces) {
    if watchdog_interval().is_some() && faces.is_ready().await {
        tell(&[NotifyState::Watchdog]);
    }
}

/// How long to wait before the next time.
pub(crate) fn watchdog_pause() -> Duration {
    watchdog_interval().unwrap_or(Duration::from_secs(60))
}

/// Twice as often as asked for.
fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}
