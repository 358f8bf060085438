//! What systemd is told. Outside systemd nobody listens, and that is fine.

use std::time::Duration;

use sd_notify::NotifyState;
use tenure_faces::Faces;
use tenure_server::Stopping;
use tokio_util::sync::CancellationToken;

/// How long the watchdog waits for a daemon that restarts: as long as the unit of `tenure install` lets one start.
const RESTART_WITHIN: Duration = Duration::from_secs(600);

/// Recovered, bound, serving. From here on the watchdog waits as long as it was set to, also after a restart.
pub(crate) fn ready() {
    let mut states = vec![NotifyState::Ready];
    states.extend(sd_notify::watchdog_enabled().map(watchdog_after));
    tell(&states);
}

/// Says that the daemon is about to end as soon as it is told to. A restart is a reload to systemd, which would take
/// anything else for the end of the service.
pub(crate) async fn tell_of_stop(stopping: Stopping) {
    stopping.token().cancelled().await;
    if !stopping.wish().restart {
        tell(&[NotifyState::Stopping]);
        return;
    }
    let mut states = vec![NotifyState::Reloading];
    states.extend(NotifyState::monotonic_usec_now().ok());
    // Recovery may take longer than a daemon that serves may be silent.
    states.extend(sd_notify::watchdog_enabled().map(|limit| watchdog_after(limit.max(RESTART_WITHIN))));
    tell(&states);
}

fn watchdog_after(limit: Duration) -> NotifyState<'static> {
    NotifyState::WatchdogUsec(u32::try_from(limit.as_micros()).unwrap_or(u32::MAX))
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot notify systemd");
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
