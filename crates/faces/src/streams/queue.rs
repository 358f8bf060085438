//! Streams that queue for their slots. They are kept in memory only: their clients see the connection drop and ask
//! again. A place in the queue is kept by heartbeats, like a lease.

use super::facts::StreamFacts;
use super::shown::{ADMIN_REVOKED, FAILED, LEASE_EXPIRED, WAIT_TIMEOUT};
use crate::dispatch::Faces;
use crate::refusal::{self, Asked};
use core::time::Duration;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_api::{self as api, SlotSessionState};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::{Policy, Rejection, Text};
use tenure_engine::{Answer, Control, LeaseFound, Pending, Refused, Ticket};
use tenure_history::rfc3339;
use tokio::sync::Notify;

/// A stream that waits.
pub(crate) struct Queued {
    pub(crate) facts: StreamFacts,
    pub(crate) holder: Text,
    pub(crate) policy: Policy,
    pub(crate) attachment: Vec<u8>,
    /// Its request at the engine.
    pub(crate) ticket: Ticket,
    last_beat_boot_ms: AtomicU64,
    /// Why it is to leave, once somebody says so.
    leaves: Mutex<Option<String>>,
    told: Notify,
}

impl Queued {
    pub(crate) fn new(
        facts: StreamFacts,
        holder: Text,
        policy: Policy,
        attachment: Vec<u8>,
        ticket: Ticket,
    ) -> Self {
        Self {
            facts,
            holder,
            policy,
            attachment,
            ticket,
            last_beat_boot_ms: AtomicU64::new(read_clocks().boot_ms),
            leaves: Mutex::new(None),
            told: Notify::new(),
        }
    }

    /// Its client lives.
    pub(crate) fn beat(&self, boot_ms: u64) {
        self.last_beat_boot_ms.store(boot_ms, Ordering::Relaxed);
    }

    /// How long its place is kept without a heartbeat.
    pub(crate) fn lapses_in(&self, boot_ms: u64) -> u64 {
        let until = self.last_beat_boot_ms.load(Ordering::Relaxed) + u64::from(self.policy.ttl_ms);
        until.saturating_sub(boot_ms)
    }

    /// Tells it to leave, for this reason. Whether it had a lease by then shows when its place changes.
    pub(crate) fn leave(&self, reason: String) {
        let mut leaves = self.leaves.lock().expect("invariant: nobody panics here");
        leaves.get_or_insert(reason);
        self.told.notify_one();
    }

    fn leaving(&self) -> Option<String> {
        self.leaves.lock().expect("invariant: nobody panics here").clone()
    }
}

impl Faces {
    /// Keeps a stream's place until it has its lease or leaves.
    pub(crate) async fn keep_place(self, queued: Arc<Queued>, mut pending: Pending) {
        let answer = loop {
            let lapses_in = queued.lapses_in(read_clocks().boot_ms);
            tokio::select! {
                answers = &mut pending => break answers.into_iter().next(),
                () = queued.told.notified() => {}
                () = tokio::time::sleep(Duration::from_millis(lapses_in)) => {
                    if queued.lapses_in(read_clocks().boot_ms) == 0 {
                        queued.leave(LEASE_EXPIRED.to_owned());
                    }
                }
            }
            if queued.leaving().is_some() {
                self.handle().tell(Control::Cancel(queued.ticket));
                break (&mut pending).await.into_iter().next();
            }
        };
        match answer {
            Some(Answer::Lease(given)) => {
                if let LeaseFound::Live(lease) = given.lease {
                    self.streams().book.enter(lease.id, &queued.facts, &lease.policy);
                }
            }
            // Nothing is left of it after the restart.
            Some(Answer::Refused(Refused::ShuttingDown | Refused::OutcomeUnknown)) => {}
            Some(Answer::Refused(refused)) => self.left_queue(&queued, &refused),
            Some(_) | None => {}
        }
    }

    fn left_queue(&self, queued: &Queued, refused: &Refused) {
        let (state, reason) = match refused {
            Refused::WaitTimeout => (SlotSessionState::Failed, WAIT_TIMEOUT.to_owned()),
            Refused::Cancelled => {
                let reason = queued.leaving().unwrap_or_else(|| ADMIN_REVOKED.to_owned());
                let failed = reason.starts_with(FAILED);
                (if failed { SlotSessionState::Failed } else { SlotSessionState::Stopped }, reason)
            }
            Refused::Rejected(Rejection::PoolNotFound { .. }) => {
                (SlotSessionState::Stopped, ADMIN_REVOKED.to_owned())
            }
            other => {
                let error = refusal::error(&self.lens(), other, Asked::AsAnyone);
                (SlotSessionState::Failed, format!("{FAILED}{}", error.code))
            }
        };
        let counters = &self.streams().book.counters;
        if reason == LEASE_EXPIRED {
            counters.lease_expired();
        }
        let wall_ms = read_clocks().wall_ms;
        let last = api::SlotSession {
            state,
            reason: Some(reason.clone()),
            ended_at: Some(rfc3339(wall_ms)),
            ..self.waiting_stream(queued, wall_ms, wall_ms)
        };
        super::log_end(&queued.facts.id, state, &reason);
        self.streams().book.fade(queued, last);
    }
}
