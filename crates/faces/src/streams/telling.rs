//! Whoever is to be told of ends is told until it acknowledges: as the gate between revoke and reclaim where slots
//! wait for it, and as the notice after the end, which is kept across restarts.

use super::facts::StreamFacts;
use super::shown::Shown;
use crate::dispatch::Faces;
use core::time::Duration;
use tenure_api as api;
use tenure_engine::kernel::{Actor, Change, Fence, GateReport, LeaseId, LeaseState, Lsn, Tick};
use tenure_engine::{Answer, Control, LeaseFound, LeaseSnapshot, Request};

/// Tries that may be under way.
pub(super) const AT_ONCE_MAX: usize = 16;
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// The engine keeps a notice for a day, and reports that it gave it up.
const TOLD_WITHIN_MS: u64 = 24 * 60 * 60 * 1_000;

/// Whether the engine has given up the notice of an end.
fn is_given_up(ended: Tick, now: Tick) -> bool {
    now.ms_since(ended) > TOLD_WITHIN_MS
}

/// When a stream ended whose lease is being revoked.
fn ended_wall_ms(lease: &LeaseSnapshot) -> u64 {
    let at = match &lease.state {
        LeaseState::Revoking(revocation) if revocation.actor == Actor::Holder => revocation.at,
        LeaseState::Revoking(revocation) => {
            lease.liveness.deadline.unwrap_or(revocation.at).max(revocation.at)
        }
        LeaseState::Reserved { .. } | LeaseState::Active { .. } => lease.now,
    };
    lease.wall_of(at)
}

/// Pauses between tries: twice as long each time, and never the same for many.
struct Pauses {
    next: Duration,
}

impl Pauses {
    fn new() -> Self {
        Self { next: PAUSE_MIN }
    }

    async fn pause(&mut self) {
        let spread = getrandom::u64().expect("invariant: the system gives random bytes") % 1_000;
        // Between half and the whole of it.
        let pause = self.next.mul_f64(0.5 + spread as f64 / 2_000.0);
        self.next = (self.next * 2).min(PAUSE_MAX);
        tokio::time::sleep(pause).await;
    }
}

impl Faces {
    /// Tells of every end that somebody is to be told of, until the daemon stops.
    pub async fn keep_notices(self) {
        let Some(mut notices) = self.switchboard().take_notices() else { return };
        let mut settled = 0_u64;
        while let Some((lease, ended_lsn)) = notices.recv().await {
            if self.streams().options.on_end.is_some() {
                tokio::spawn(self.clone().tell_of_end(lease, ended_lsn));
                continue;
            }
            if self.is_of_cluster() {
                let lease = self.lens().lease_id(lease);
                tracing::warn!(%lease, "a notification waits for a leader that has on_end; this node has none");
                continue;
            }
            self.handle().tell(Control::NoticeDone(lease));
            self.streams().book.counters.notice_dropped();
            settled += 1;
            if notices.is_empty() {
                tracing::warn!(
                    sessions = settled,
                    "notifications dropped: on_end was removed from the settings"
                );
                settled = 0;
            }
        }
    }

    async fn tell_of_end(self, lease: LeaseId, ended_lsn: Lsn) {
        let mut pauses = Pauses::new();
        loop {
            let Some(record) = self.logged_record(ended_lsn).await else {
                tracing::warn!(lease = %self.lens().lease_id(lease), "notification dropped: the log does not have the end any more");
                break;
            };
            // Told already, before its slots were given to others.
            if let Some(Change::Reclaimed(reclaimed)) = record.event().map(|event| &event.change)
                && reclaimed.was.policy.gate
                && reclaimed.gate == GateReport::Confirmed
            {
                break;
            }
            if is_given_up(record.tick, self.handle().tick()) {
                return;
            }
            let Some(shown) = self.shown_end(lease, ended_lsn).await else { break };
            match self.tell(shown.stream).await {
                Ok(()) => break,
                Err(()) => pauses.pause().await,
            }
        }
        self.handle().tell(Control::NoticeDone(lease));
    }

    /// A stream that has ended, also where its lease is not kept any more.
    async fn shown_end(&self, lease: LeaseId, ended_lsn: Lsn) -> Option<Shown> {
        match self.shown_lease(lease).await {
            Ok(Some(shown)) => Some(shown),
            Ok(None) | Err(_) => {
                let fence = Fence(self.identity().fence_base + lease.lsn().0);
                self.shown_ended(lease, ended_lsn, fence, ended_lsn).await
            }
        }
    }

    /// One try; why it failed is logged.
    async fn tell(&self, stream: api::SlotSession) -> Result<(), ()> {
        let Some(hook) = &self.streams().options.on_end else { return Ok(()) };
        let Ok(_room) = self.streams().telling.acquire().await else { return Err(()) };
        let id = stream.session_id.clone();
        hook.tell(stream).await.map_err(|error| {
            tracing::warn!(session_id = %id, error, "on_end failed; the daemon tries again");
        })
    }

    /// Tells of an end before the slots may be used again.
    pub(crate) fn pass_stream_gate(&self, lease: &LeaseSnapshot) {
        // Of a leader that cannot tell it, nobody has heard; the gate ends by time.
        let may_tell = self.streams().options.on_end.is_some() || !self.is_of_cluster();
        if let LeaseState::Revoking(_) = &lease.state
            && StreamFacts::decode(&lease.face_data).is_some()
            && may_tell
        {
            tokio::spawn(self.clone().tell_before_reuse(lease.id));
        }
    }

    async fn tell_before_reuse(self, lease: LeaseId) {
        let mut pauses = Pauses::new();
        loop {
            // Once the gate has timed out the notice goes on.
            let answer = self.ask_until_heard(vec![Request::Read(lease)]).await.pop();
            let Some(Answer::Read(read)) = answer else { return };
            let LeaseFound::Live(live) = read.lease else { return };
            let Some(shown) = self.shown_live(&live, read.lsn) else { return };
            // One that was withdrawn has not ended while its promise stands.
            if let Some(left) = shown.left {
                tokio::time::sleep(Duration::from_millis(left.until_end_ms.max(1))).await;
                continue;
            }
            if !shown.stream.state.is_terminal() {
                return;
            }
            self.streams().book.ended_at(&shown.stream.session_id, ended_wall_ms(&live));
            if self.tell(shown.stream).await.is_ok() {
                self.handle().tell(Control::GateDone { lease, report: GateReport::Confirmed });
                return;
            }
            pauses.pause().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the wall clock, one that was set forward by a day silenced every notification that was under way.
    #[test]
    fn a_notification_is_given_up_after_a_day_of_ticks() {
        let ended = Tick(5_000);
        assert!(!is_given_up(ended, Tick(0)), "a tick that was read before the end");
        assert!(!is_given_up(ended, ended.after_ms(TOLD_WITHIN_MS)));
        assert!(is_given_up(ended, ended.after_ms(TOLD_WITHIN_MS + 1)));
    }
}
