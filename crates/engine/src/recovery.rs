//! From bytes to a running engine: the newest good snapshot, then every record after it. No rule is asked
//! again; what cannot be understood is refused, never skipped.

use crate::engine::{Engine, EngineConfig, newer_words};
use crate::mode::EngineMode;
use crate::ticker::Now;
use std::io::Read;
use tenure_kernel::codec::DecodeError;
use tenure_kernel::{
    Internal, Kernel, LeaseId, LeaseState, LeaseView, Lsn, Mode, Note, Reason, Replica, SessionId, Setup,
    StateError, Text, Tick, Unreadable, Violation,
};
use tenure_log::snapshot::{LoadError, SnapshotHeader};
use tenure_log::{
    Authority, FileReader, Frame, Identity, OrderedLog, ReadError, Record, Recovery, SnapshotStore,
};

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
    #[error(
        "record {lsn} cannot be decoded: it is damaged or written by a newer version; check it with `tenure log verify`"
    )]
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
    #[error("the snapshot at {lsn} cannot be decoded: it is damaged or written by a newer version")]
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

impl From<Unreadable> for RecoverError {
    fn from(Unreadable { lsn, error }: Unreadable) -> Self {
        Self::record(lsn, error)
    }
}

/// The state of a snapshot.
///
/// # Errors
/// When the bytes are not a state, or a broken one.
pub fn load_state(setup: Setup, lsn: Lsn, tick: Tick, bytes: &[u8]) -> Result<Replica, RecoverError> {
    Replica::from_snapshot(setup, tick, bytes).map_err(|error| match error {
        StateError::Decode(source) => RecoverError::state(lsn, source),
        StateError::Broken(violation) => RecoverError::Broken(violation),
    })
}

/// The state that a snapshot, or the beginning of the log, and every frame after it come to.
///
/// # Errors
/// When something cannot be read or understood.
pub fn rebuild(
    setup: Setup,
    snapshots: &SnapshotStore,
    newest: Option<&SnapshotHeader>,
    reader: &mut FileReader,
) -> Result<Replica, RecoverError> {
    let mut replica = match newest {
        None => Replica::new(setup),
        Some(header) => {
            let lsn = Lsn(header.lsn.0);
            let unreadable = |source| RecoverError::Snapshot { lsn, source };
            let mut bytes = Vec::new();
            snapshots.open(header.lsn).map_err(unreadable)?.read_to_end(&mut bytes)?;
            load_state(setup, lsn, Tick(header.at.tick), &bytes)?
        }
    };
    reader.seek(newest.map_or(tenure_log::Lsn(1), |header| header.lsn.next()))?;
    while let Some(frame) = reader.next_frame()? {
        apply_frame(&mut replica, &frame)?;
    }
    Ok(replica)
}

/// Applies the records of one frame that the state does not have yet.
///
/// # Errors
/// When a record cannot be understood.
pub fn apply_frame(replica: &mut Replica, frame: &Frame<'_>) -> Result<(), RecoverError> {
    Ok(replica.apply(Tick(frame.header.at.tick), record_parts(frame.records()), |_, _, _| {})?)
}

/// Records as [`Replica`] takes them.
pub fn record_parts<'a>(
    records: impl Iterator<Item = Record<'a>>,
) -> impl Iterator<Item = (Lsn, u8, &'a [u8])> {
    records.map(|record| (Lsn(record.lsn.0), record.kind, record.bytes))
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
        let mut reader = log.reader();
        let replica = rebuild(setup, &log.snapshots(), recovery.snapshot.as_ref(), &mut reader)?;
        let (kernel, tick) = replica.into_parts();
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
        engine.mode = EngineMode::leads(authority);
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
        self.grants.wait_until(until, self.tick);
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
    /// revoked, and nothing is granted until the longest of those promises has run out, counted from the first of these
    /// revocations: a later restart or leader does not begin the wait again.
    fn revoke_restored(&mut self, identity_since: Lsn) {
        let mut longest_ms = 0;
        let mut since: Option<Tick> = None;
        let mut old = Vec::new();
        for view in self.kernel.leases_from(LeaseId(0)) {
            if view.id().lsn() >= identity_since {
                break;
            }
            longest_ms = longest_ms.max(self.assumed_promise_ms(view));
            match view.state() {
                LeaseState::Reserved { .. } | LeaseState::Active { .. } => old.push(view.id()),
                LeaseState::Revoking(revocation) => {
                    // Another restore may have revoked it before this log was what it is.
                    let is_of_this = view.changed_lsn() >= identity_since;
                    if is_of_this && revocation.reason == Reason::Restored {
                        since = Some(since.map_or(revocation.at, |known| known.min(revocation.at)));
                    }
                }
            }
        }
        self.wait_with_grants(since.unwrap_or(self.tick).after_ms(longest_ms));
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
