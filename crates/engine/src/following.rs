//! An engine that follows: it applies what another writer committed, in order, and is only looked at. It decides nothing,
//! hears no holder, and its time is the log's.

use crate::answer::{Answer, Push, Refused};
use crate::engine::{Engine, EngineConfig, Outputs, Role, Stop};
use crate::journal::Out;
use crate::mode::EngineMode;
use crate::recovery::{RecoverError, record_parts};
use crate::request::{Input, Request};
use crate::ticker::Now;
use tenure_kernel::{
    Actor, Change, Kernel, LeaseView, Lsn, Replica, Revoked, SessionKind, SessionView, Tick, apply_records,
};
use tenure_liveness::Liveness;
use tenure_log::Batch;

impl Engine {
    /// An engine that follows a log from the state it is in now. `next_lsn` is where the log goes on.
    #[must_use]
    pub fn following(config: EngineConfig, kernel: Kernel, tick: Tick, next_lsn: Lsn, now: Now) -> Self {
        let synced = Lsn(next_lsn.0 - 1);
        let liveness = Liveness::new(config.liveness.clone(), tick);
        let mut engine = Self::with_liveness(config, kernel, liveness, now, next_lsn, synced, 0, tick);
        engine.mode = EngineMode::Follows;
        engine
    }

    /// The same, from a state that was rebuilt.
    #[must_use]
    pub fn following_from(config: EngineConfig, replica: Replica, next_lsn: Lsn, now: Now) -> Self {
        let (kernel, tick) = replica.into_parts();
        Self::following(config, kernel, tick, next_lsn, now)
    }

    /// The state and the last tick, for the engine that goes on with them.
    #[must_use]
    pub fn into_state(self) -> (Kernel, Tick) {
        (self.kernel, self.tick)
    }

    /// Applies a frame of another writer.
    pub(crate) fn copied(&mut self, batch: Batch) {
        assert_eq!(self.role(), Role::Following, "invariant: an engine that decides copies nothing");
        if let Err(error) = self.apply_copied(&batch) {
            return self.mode.stop_if_running(match error {
                RecoverError::Newer { lsn, found, reads } => Stop::Newer { lsn, found, reads },
                error => Stop::LogFailed(format!("cannot apply a frame of the leader: {error}")),
            });
        }
        self.journal.copied(Lsn(batch.next_lsn().0), self.tick);
        if batch.count() > 0 {
            // Watchers that lag are told by the next look at them.
            let _ = self.hub.keep(batch, &mut self.pushes);
        }
    }

    fn apply_copied(&mut self, batch: &Batch) -> Result<(), RecoverError> {
        let leaving = &mut self.leaving;
        let begun = Tick(batch.at().tick);
        let records = record_parts(batch.records());
        apply_records(&mut self.kernel, &mut self.tick, begun, records, |kernel, _, event| {
            if let Change::Revoked(revoked) = &event.change {
                leaving.extend(loss_here(kernel, revoked));
            }
        })?;
        Ok(())
    }

    /// A turn of one who follows: whatever only looks is answered from what is applied.
    pub(crate) fn look_only(
        &mut self,
        inputs: impl IntoIterator<Item = Input>,
        mut outputs: Outputs,
    ) -> Outputs {
        self.look_at_facts();
        for input in inputs {
            if is_only_looking(&input.request) {
                self.handle(input);
            } else {
                outputs.outs.push(Out::Answer(input.ticket, Answer::Refused(Refused::NotLeader)));
            }
        }
        self.hub.deliver(self.journal.synced(), &mut self.pushes, &mut outputs.reads);
        self.leaving.extend(self.pushes.drain(..).map(Out::Push));
        outputs.outs.append(&mut self.leaving);
        outputs
    }
}

/// Whether one who follows may answer it. What a guarded store asks is never answered from what may be old.
fn is_only_looking(request: &Request) -> bool {
    match request {
        Request::Read(_)
        | Request::List(_)
        | Request::Ended { .. }
        | Request::Resource(_)
        | Request::Pools
        | Request::Session(_)
        | Request::Sessions { .. }
        | Request::Watch { .. }
        | Request::Status => true,
        Request::Submit(_)
        | Request::Heartbeat { .. }
        | Request::TimelyHeartbeat { .. }
        | Request::SessionHeartbeat { .. }
        | Request::ConnectionOpened(_)
        | Request::ConnectionsTold { .. }
        | Request::Acknowledge { .. }
        | Request::HeldAs { .. }
        | Request::ResetBreaker
        | Request::Trim(_)
        | Request::Check(_)
        | Request::Waiting(_) => false,
    }
}

/// What the connection that loses a lease is sent: it may be open at this node.
fn loss_here(kernel: &Kernel, revoked: &Revoked) -> Option<Out> {
    let session = kernel.live(revoked.lease).and_then(LeaseView::session)?;
    let kind = kernel.session(session).map(SessionView::kind);
    if !kind.is_some_and(SessionKind::is_connection) || revoked.actor == Actor::Holder {
        return None;
    }
    let (lease, epoch, reason) = (revoked.lease, revoked.epoch, revoked.reason);
    Some(Out::Push(Push::Lost { session, lease, epoch, reason }))
}
