//! An engine that follows: it applies what another writer committed, in order, and is only looked at. It decides nothing,
//! hears no holder, and its time is the log's.

use crate::answer::{Answer, Push, Refused};
use crate::engine::{Engine, EngineConfig, Outputs, Role, Stop};
use crate::journal::Out;
use crate::recovery::{RecoverError, Replay};
use crate::request::{Input, Request};
use crate::ticker::Now;
use tenure_kernel::codec::decode_event;
use tenure_kernel::{Actor, Change, Kernel, LeaseView, Lsn, Revoked, SessionKind, SessionView, Stamp, Tick};
use tenure_liveness::Liveness;
use tenure_log::{Batch, RecordKind};

impl Engine {
    /// An engine that follows a log from the state it is in now. `next_lsn` is where the log goes on.
    #[must_use]
    pub fn following(config: EngineConfig, kernel: Kernel, tick: Tick, next_lsn: Lsn, now: Now) -> Self {
        let synced = Lsn(next_lsn.0 - 1);
        let liveness = Liveness::new(config.liveness.clone(), tick);
        let mut engine = Self::with_liveness(config, kernel, liveness, now, next_lsn, synced, 0, tick);
        engine.role = Role::Following;
        engine
    }

    /// The same, from a state that was rebuilt.
    #[must_use]
    pub fn following_from(config: EngineConfig, replay: Replay, next_lsn: Lsn, now: Now) -> Self {
        let (kernel, tick) = replay.finish();
        Self::following(config, kernel, tick, next_lsn, now)
    }

    /// The state and the last tick, for the engine that goes on with them.
    #[must_use]
    pub fn into_state(self) -> (Kernel, Tick) {
        (self.kernel, self.tick)
    }

    /// Applies a frame of another writer.
    pub(crate) fn copied(&mut self, batch: Batch) {
        debug_assert_eq!(self.role, Role::Following);
        if let Err(error) = self.apply_copied(&batch) {
            return self.stop_for(match error {
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
        self.tick = self.tick.max(Tick(batch.at().tick));
        for record in batch.records() {
            let lsn = Lsn(record.lsn.0);
            let fail = |source| RecoverError::record(lsn, source);
            match record.kind {
                RecordKind::Event | RecordKind::Config => {
                    if lsn > self.kernel.applied().lsn {
                        let event = decode_event(record.bytes).map_err(fail)?;
                        self.kernel.evolve(Stamp { lsn, tick: self.tick }, &event);
                        if let Change::Revoked(revoked) = &event.change {
                            self.tell_of_loss(revoked);
                        }
                    }
                }
                RecordKind::Tick => {
                    let bytes = record.bytes.try_into();
                    let bytes = bytes.map_err(|_| fail(tenure_kernel::codec::DecodeError::Short))?;
                    self.tick = self.tick.max(Tick(u64::from_le_bytes(bytes)));
                }
                RecordKind::Note | RecordKind::Close => {}
            }
        }
        Ok(())
    }

    /// The connection that loses a lease may be open at this node.
    fn tell_of_loss(&mut self, revoked: &Revoked) {
        let session = self.kernel.live(revoked.lease).and_then(LeaseView::session);
        let kind = session.and_then(|session| self.kernel.session(session)).map(SessionView::kind);
        if let Some(session) = session
            && kind.is_some_and(SessionKind::is_connection)
            && revoked.actor != Actor::Holder
        {
            let (lease, epoch, reason) = (revoked.lease, revoked.epoch, revoked.reason);
            self.leaving.push(Out::Push(Push::Lost { session, lease, epoch, reason }));
        }
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
