//! From bytes to a running engine: the newest good snapshot, then every record after it. No rule is asked
//! again; what cannot be understood is refused, never skipped.

use crate::engine::{Engine, EngineConfig, newer_words};
use crate::ticker::Now;
use std::io::Read;
use tenure_kernel::codec::{DecodeError, decode_event, decode_state};
use tenure_kernel::{
    Event, Internal, Kernel, LeaseId, LeaseState, LeaseView, Lsn, Mode, Note, SessionId, Setup, Stamp, Text,
    Tick, Violation,
};
use tenure_log::snapshot::LoadError;
use tenure_log::{Authority, Frame, Identity, OrderedLog, ReadError, RecordKind, Recovery};

/// Why a log cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The log cannot be read.
    #[error("cannot read the log")]
    Read(#[from] ReadError),
    /// The snapshot cannot be read.
    #[error("cannot read the snapshot at {lsn}")]
    Snapshot {
        /// Its position.
        lsn: Lsn,
        /// Why.
        #[source]
        source: LoadError,
    },
    /// The snapshot cannot be read to its end.
    #[error("cannot read the snapshot")]
    SnapshotBytes(#[from] std::io::Error),
    /// A record is not one this version knows.
    #[error("record {lsn} cannot be understood; hint: `tenure log verify`")]
    Record {
        /// Its position.
        lsn: Lsn,
        /// Why.
        #[source]
        source: DecodeError,
    },
    /// Written by a newer program.
    #[error("{}", newer_words(*lsn, *found, *reads))]
    Newer {
        /// Position of the record, or of the snapshot.
        lsn: Lsn,
        /// Its format.
        found: u32,
        /// The newest format that this program reads.
        reads: u32,
    },
    /// The snapshot's bytes are whole but no state.
    #[error("the snapshot at {lsn} cannot be understood")]
    State {
        /// Its position.
        lsn: Lsn,
        /// Why.
        #[source]
        source: DecodeError,
    },
    /// The state breaks an invariant.
    #[error("the recovered state is broken: {0}")]
    Broken(#[from] Violation),
}

impl RecoverError {
    /// Why a record cannot be applied.
    pub(crate) fn record(lsn: Lsn, source: DecodeError) -> Self {
        match source {
            DecodeError::Newer { found, reads } => Self::Newer { lsn, found, reads },
            source => Self::Record { lsn, source },
        }
    }

    /// Why a snapshot is no state.
    fn state(lsn: Lsn, source: DecodeError) -> Self {
        match source {
            DecodeError::Newer { found, reads } => Self::Newer { lsn, found, reads },
            source => Self::State { lsn, source },
        }
    }
}

/// What a writer's log says when it goes on with it.
#[derive(Clone, Copy, Debug)]
pub struct GoingOn {
    /// Where the log goes on.
    pub next_lsn: Lsn,
    /// This writer's incarnation.
    pub writer_epoch: u64,
    /// How long it may answer before it has heard anything from its log.
    pub authority: Authority,
    /// The position at which the log's identity began.
    pub identity_since: Lsn,
}

/// A state being rebuilt from records.
pub struct Replay {
    kernel: Kernel,
    tick: Tick,
}

impl Replay {
    /// Begins with an empty state.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        Self { kernel: Kernel::new(setup), tick: Tick(0) }
    }

    /// Begins with the state of a snapshot.
    ///
    /// # Errors
    /// When the bytes are no state, or a broken one.
    pub fn from_snapshot(setup: Setup, lsn: Lsn, tick: Tick, bytes: &[u8]) -> Result<Self, RecoverError> {
        let kernel = decode_state(setup, bytes).map_err(|source| RecoverError::state(lsn, source))?;
        kernel.check_invariants()?;
        Ok(Self { kernel, tick })
    }

    /// Applies the records of one frame that come after what is already applied.
    ///
    /// # Errors
    /// When a record cannot be understood.
    pub fn frame(&mut self, frame: &Frame<'_>) -> Result<(), RecoverError> {
        self.frame_upto(frame, Lsn(u64::MAX))
    }

    /// As [`Replay::frame`], but nothing after `upto`.
    ///
    /// # Errors
    /// When a record cannot be understood.
    pub fn frame_upto(&mut self, frame: &Frame<'_>, upto: Lsn) -> Result<(), RecoverError> {
        self.tick = self.tick.max(Tick(frame.header.at.tick));
        for record in frame.records() {
            let lsn = Lsn(record.lsn.0);
            if lsn > upto {
                break;
            }
            let fail = |source| RecoverError::record(lsn, source);
            match record.kind {
                RecordKind::Event | RecordKind::Config => {
                    if lsn > self.kernel.applied().lsn {
                        let event: Event = decode_event(record.bytes).map_err(fail)?;
                        self.kernel.evolve(Stamp { lsn, tick: self.tick }, &event);
                    }
                }
                RecordKind::Tick => {
                    let bytes = record.bytes.try_into().map_err(|_| fail(DecodeError::Short))?;
                    self.tick = self.tick.max(Tick(u64::from_le_bytes(bytes)));
                }
                // Observed, not decided: recovery never reads them.
                RecordKind::Note | RecordKind::Close => {}
            }
        }
        Ok(())
    }

    /// The state so far.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The last tick seen.
    #[must_use]
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// The state and the last tick.
    #[must_use]
    pub fn finish(self) -> (Kernel, Tick) {
        (self.kernel, self.tick)
    }
}

/// What the kernel needs to know of a log and a configuration.
#[must_use]
pub fn setup(identity: &Identity, config: &EngineConfig) -> Setup {
    Setup {
        shard: identity.shard,
        fence_base: identity.fence_base,
        limits: config.limits.clone(),
        hashing: config.hashing.clone(),
    }
}

impl Engine {
    /// Rebuilds the engine from an opened log.
    ///
    /// # Errors
    /// When the log or its snapshot cannot be read or understood.
    pub fn recover(
        log: &dyn OrderedLog,
        recovery: &Recovery,
        config: EngineConfig,
        now: Now,
    ) -> Result<Self, RecoverError> {
        let setup = setup(&log.identity(), &config);
        let mut replay = match &recovery.snapshot {
            None => Replay::new(setup),
            Some(header) => {
                let lsn = Lsn(header.lsn.0);
                let mut reader = log
                    .snapshots()
                    .open(header.lsn)
                    .map_err(|source| RecoverError::Snapshot { lsn, source })?;
                let mut bytes = Vec::new();
                reader.read_to_end(&mut bytes)?;
                Replay::from_snapshot(setup, lsn, Tick(header.at.tick), &bytes)?
            }
        };
        let mut reader = log.reader();
        reader.seek(recovery.replay_from())?;
        while let Some(frame) = reader.next_frame()? {
            replay.frame(&frame)?;
        }
        let (kernel, tick) = replay.finish();
        Ok(Self::take_over(log, kernel, tick, Lsn(recovery.identity_since.0), config, now))
    }

    /// Goes on as the writer of a log, from the state it is in now. `tick` is the last one that was ever told.
    #[must_use]
    pub fn take_over(
        log: &dyn OrderedLog,
        kernel: Kernel,
        tick: Tick,
        identity_since: Lsn,
        config: EngineConfig,
        now: Now,
    ) -> Self {
        let from = GoingOn {
            next_lsn: Lsn(log.next_lsn().0),
            writer_epoch: log.writer_epoch(),
            authority: log.authority_until(),
            identity_since,
        };
        Self::go_on(from, kernel, tick, config, now)
    }

    /// The same, where what the log says is known without it.
    #[must_use]
    pub fn go_on(from: GoingOn, kernel: Kernel, tick: Tick, config: EngineConfig, now: Now) -> Self {
        let GoingOn { next_lsn, writer_epoch, authority, identity_since } = from;
        let synced = Lsn(next_lsn.0 - 1);
        let retention = config.retention;
        let mut engine = Self::new(config, kernel, now, next_lsn, synced, writer_epoch, tick);
        engine.set_authority(authority);
        engine.configure(&Internal::Configure(retention));
        if engine.kernel.leases_from(LeaseId(0)).next().is_some() {
            engine.note(&Note::Restarted);
        }
        engine.resume_ends();
        engine.revoke_restored(identity_since);
        engine
    }

    /// Nothing is granted before this tick: somebody may hold what the log has forgotten.
    pub fn wait_with_grants(&mut self, until: Tick) {
        if until > self.tick {
            self.restored_until = Some(self.restored_until.map_or(until, |known| known.max(until)));
        }
    }

    fn configure(&mut self, configure: &Internal) {
        if let Some(event) = self.kernel.decide_internal(self.journal.peek(self.tick), configure) {
            self.apply(&event);
        }
    }

    /// Goes on with what was under way: gates run again, sessions and pools go on ending, notices are
    /// sent again.
    fn resume_ends(&mut self) {
        let gates: Vec<LeaseId> = self
            .kernel
            .leases_from(LeaseId(0))
            .filter(|view| matches!(view.state(), LeaseState::Revoking(_)) && view.terms().gate)
            .map(LeaseView::id)
            .collect();
        for lease in gates {
            self.open_gate(lease);
        }
        let closed: Vec<SessionId> = self
            .kernel
            .sessions_from(SessionId(0))
            .filter(|session| session.closed().is_some())
            .map(|session| session.id())
            .collect();
        closed.into_iter().for_each(|session| self.endings.session(session));
        let removed: Vec<Text> =
            self.kernel.pools().filter(|pool| pool.removed).map(|pool| pool.name.into()).collect();
        removed.into_iter().for_each(|pool| self.endings.pool(pool));
        for (lease, notice) in self.kernel.notices() {
            self.notices.sent(lease, notice.ended_tick);
            self.leaving.push(crate::journal::Out::SendNotice { lease, ended_lsn: notice.ended_lsn });
        }
    }

    /// A restored log must not let old ownership rise again: what was live before it became this log is
    /// revoked, and nothing is granted until the longest of those promises has run out.
    fn revoke_restored(&mut self, identity_since: Lsn) {
        let mut longest_ms = 0;
        let mut old = Vec::new();
        for view in self.kernel.leases_from(LeaseId(0)) {
            if view.id().lsn() >= identity_since {
                break;
            }
            longest_ms = longest_ms.max(self.assumed_promise_ms(view));
            match view.state() {
                LeaseState::Reserved { .. } | LeaseState::Active { .. } => old.push(view.id()),
                LeaseState::Revoking(_) => {}
            }
        }
        if longest_ms > 0 {
            self.restored_until = Some(self.tick.after_ms(longest_ms));
        }
        let sessions = self
            .kernel
            .sessions_from(SessionId(0))
            .filter(|session| session.opened_lsn() < identity_since && session.closed().is_none())
            .map(|session| session.id())
            .collect();
        self.endings.restored(old, sessions);
    }

    fn assumed_promise_ms(&self, view: LeaseView<'_>) -> u64 {
        match view.terms().mode {
            Mode::Heartbeat => view.terms().ttl_ms.into(),
            Mode::Session => {
                let session = view.session().and_then(|session| self.kernel.session(session));
                session.map_or(0, |session| session.ttl_ms().into())
            }
            Mode::Permanent => 0,
        }
    }
}
