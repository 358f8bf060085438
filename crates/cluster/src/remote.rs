//! The log of a cluster as its writer sees it: frames go to the store, and into this machine's copy once they are
//! committed there. And as everybody else sees it: the copy alone.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use tenure_log::{
    AppendError, AppendOutcome, Authority, Batch, BatchId, BatchRefusal, Chore, ChoreDone, CopyError, Extent,
    Identity, Lsn, Mirror, Moment, OrderedLog, Proof, Resolution, SnapshotStore, Space, Trimmed,
    file::FileReader,
};

use crate::planted::{Planted, has};
use crate::store::{Stepped, Store, StoreError, Txn};
use crate::term::{Beaten, Over, Term, Written};
use crate::trust::Progress;
use crate::values::{Head, Writer};

/// This machine's copy of the log, for everybody here.
pub type SharedMirror = Arc<Mutex<Mirror>>;

/// Milliseconds of boot time, and of wall time for people.
#[derive(Clone, Copy)]
pub struct Clock {
    /// Counts suspend, never goes back.
    pub boot_ms: fn() -> u64,
    /// The same in microseconds, for measuring how long things take.
    pub boot_us: fn() -> u64,
    /// Unix milliseconds.
    pub wall_ms: fn() -> u64,
}

/// What others may know of a writer's log, without waiting for it.
#[derive(Clone, Debug, Default)]
pub struct Vitals {
    /// How long steps that appended took, in microseconds, since the last look; at most a few thousand.
    pub append_us: Vec<u64>,
    /// Frames whose outcome was unknown and turned out committed.
    pub unknown_committed: u64,
    /// The same, absent.
    pub unknown_absent: u64,
    /// The same, and another writer had taken over.
    pub unknown_fenced: u64,
    /// Until when answers may leave, in milliseconds of boot time.
    pub authority_until_ms: u64,
    /// When the last step that counted was sent, in milliseconds of boot time.
    pub proved_ms: u64,
    /// How far the log has come.
    pub progress: Progress,
    /// The store refused the last step because it is full.
    pub is_store_full: bool,
}

/// The log of a cluster, in the hands of its writer.
pub struct RemoteLog {
    claim: Arc<Mutex<Claim>>,
    copy: LocalCopy,
    wait: Arc<Wait>,
    clock: Clock,
    vitals: Arc<Mutex<Vitals>>,
    /// The store is short of room.
    is_short: Arc<AtomicBool>,
    keeps_authority: bool,
    _proofs: Proofs,
}

/// This machine's copy of the log, and what can be known of it without waiting for a thread that writes to it.
struct LocalCopy {
    mirror: SharedMirror,
    identity: Identity,
    reader: FileReader,
    snapshots: SnapshotStore,
}

/// Since when the thread of the log may be waiting for something other than the store: its machine's disk, or a term that
/// has yet to begin. In milliseconds of boot time; 0: it does not wait.
#[derive(Default)]
struct Wait(AtomicU64);

/// The copy in the hands of the log's owner, who may wait for this machine's disk until this goes out of scope.
struct Waited<'a> {
    mirror: MutexGuard<'a, Mirror>,
    /// `None`: another wait began before this one and goes on after it.
    wait: Option<&'a Wait>,
}

/// The term and how its steps are sent. Never waits for this machine's disk: while the thread of the log does, proofs of
/// life go on.
struct Claim {
    store: Arc<dyn Store>,
    term: Term,
    clock: Clock,
    vitals: Arc<Mutex<Vitals>>,
    /// When the last step that counted was sent.
    proved_ms: u64,
    /// Not before this instant again: somebody does not answer.
    pause_until_ms: u64,
    tick: u64,
    /// The newest revision that a step of ours was answered with.
    revision: u64,
    wait: Arc<Wait>,
}

/// Proves life where the thread of the log is late with it, until it goes out of scope.
struct Proofs {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What a step came to.
enum Taken {
    Committed { synced: Lsn },
    Absent,
    Fenced,
    Unknown,
    Failed(AppendError),
}

/// The same, in the hands of one who follows: nothing can be appended.
pub struct FollowedLog {
    copy: LocalCopy,
}

/// Steps take at least this long before they are given up.
const STEP_MS_MIN: u64 = 200;
/// How long a disk may take for one frame before its node leaves the log to others, in times of `writer_ttl`.
const STUCK_TTLS_MAX: u64 = 4;
/// Pause after a step that nobody answered.
const PAUSE_MS: u64 = 50;
/// Measurements kept between two looks.
const MEASURED_MAX: usize = 4_096;

/// How long one step may take, where `ttl_ms` is how long it would be good for.
#[must_use]
pub fn step_within(ttl_ms: u64) -> Duration {
    Duration::from_millis((ttl_ms / 3).max(STEP_MS_MIN))
}

impl Claim {
    /// Sends a step. A store whose revisions go back was put back to an earlier state: what it says then counts as
    /// another writer's word, since this term's frames may be forgotten.
    fn step(&mut self, txn: &Txn) -> Result<Stepped, StoreError> {
        if !self.term.may_step((self.clock.boot_ms)()) {
            return Err(StoreError::Unanswered { why: "the leadership lease has expired".to_owned() });
        }
        let stepped = self.store.step(txn, step_within(self.term.ttl_ms()));
        lock(&self.vitals).is_store_full = matches!(stepped, Err(StoreError::Refused { no_space: true, .. }));
        let stepped = stepped?;
        if stepped.revision < self.revision {
            return Ok(Stepped { held: false, found: Vec::new(), revision: stepped.revision });
        }
        self.revision = stepped.revision;
        Ok(stepped)
    }

    /// Sends a frame, and says how many microseconds that took.
    fn send(&mut self, txn: &Txn) -> (Written, u64) {
        self.pause();
        let sent_ms = (self.clock.boot_ms)();
        let began_us = (self.clock.boot_us)();
        let stepped = self.step(txn);
        let took_us = (self.clock.boot_us)().saturating_sub(began_us);
        let written = self.term.appended(sent_ms, (self.clock.boot_ms)(), stepped);
        self.judged(&written, sent_ms);
        (written, took_us)
    }

    fn look(&mut self) -> Written {
        self.pause();
        let txn = self.term.look(self.tick);
        let sent_ms = (self.clock.boot_ms)();
        let stepped = self.step(&txn);
        let written = self.term.looked(sent_ms, stepped);
        self.judged(&written, sent_ms);
        written
    }

    fn judged(&mut self, written: &Written, sent_ms: u64) {
        match written {
            Written::Committed { .. } | Written::Absent => self.proved_ms = sent_ms,
            Written::Unknown => self.pause_until_ms = (self.clock.boot_ms)() + PAUSE_MS,
            Written::Fenced | Written::Corrupt { .. } => {}
        }
        self.tell_authority();
    }

    fn prove(&mut self) -> Proof {
        let txn = self.term.beat(self.tick);
        let sent_ms = (self.clock.boot_ms)();
        let stepped = self.step(&txn);
        let beaten = self.term.beaten(sent_ms, (self.clock.boot_ms)(), stepped);
        self.tell_authority();
        match beaten {
            Beaten::Held => {
                self.proved_ms = sent_ms;
                Proof::Held
            }
            Beaten::Fenced => Proof::Fenced,
            Beaten::Unknown => {
                self.pause_until_ms = (self.clock.boot_ms)() + PAUSE_MS;
                Proof::Unknown
            }
        }
    }

    fn proof_due_ms(&self) -> u64 {
        (self.proved_ms + self.term.ttl_ms() / 3).max(self.pause_until_ms)
    }

    /// Proves life for the thread of the log while that waits. Not for ever: a leader whose disk is gone serves nobody.
    fn prove_if_late(&mut self) {
        let now_ms = (self.clock.boot_ms)();
        let waited_ms = self.wait.since_ms().map(|since_ms| now_ms.saturating_sub(since_ms));
        let is_bearable = waited_ms.is_some_and(|ms| ms < STUCK_TTLS_MAX * self.term.ttl_ms());
        if is_bearable && self.term.over().is_none() && now_ms >= self.proof_due_ms() {
            let _ = self.prove();
        }
    }

    fn tell_authority(&self) {
        let mut vitals = lock(&self.vitals);
        vitals.authority_until_ms = self.term.authority_until_ms();
        vitals.proved_ms = self.term.proved_ms();
        vitals.progress = self.term.progress(self.revision);
    }

    /// After a step that nobody answered the next one waits a moment: a store that is gone is not asked in a loop.
    fn pause(&self) {
        let mut left_ms = self.pause_until_ms.saturating_sub((self.clock.boot_ms)());
        while left_ms > 0 {
            std::thread::park_timeout(Duration::from_millis(left_ms));
            left_ms = self.pause_until_ms.saturating_sub((self.clock.boot_ms)());
        }
    }

    fn check(&self, batch: &Batch) -> Result<(), BatchRefusal> {
        let next = Lsn(self.term.head().lsn).next();
        if batch.count() == 0 {
            return Err(BatchRefusal::Empty);
        }
        if batch.first_lsn() != next {
            return Err(BatchRefusal::Position { expected: next, found: batch.first_lsn() });
        }
        let head = self.term.head();
        let last = BatchId(head.batch);
        if batch.id() <= last || batch.id().writer_epoch() != self.term.writer().epoch {
            return Err(BatchRefusal::Id { last, found: batch.id() });
        }
        if batch.at().tick < head.tick {
            return Err(BatchRefusal::TickBack { last: head.tick, found: batch.at().tick });
        }
        Ok(())
    }
}

impl Wait {
    fn since_ms(&self) -> Option<u64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|since_ms| *since_ms > 0)
    }

    fn begins(&self, now_ms: u64) {
        self.0.store(now_ms.max(1), Ordering::SeqCst);
    }

    fn is_over(&self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

impl Drop for Waited<'_> {
    fn drop(&mut self) {
        if let Some(wait) = self.wait {
            wait.is_over();
        }
    }
}

impl Deref for Waited<'_> {
    type Target = Mirror;

    fn deref(&self) -> &Mirror {
        &self.mirror
    }
}

impl DerefMut for Waited<'_> {
    fn deref_mut(&mut self) -> &mut Mirror {
        &mut self.mirror
    }
}

impl LocalCopy {
    fn of(shared: &SharedMirror) -> Self {
        let mirror = lock(shared);
        let copy = Arc::downgrade(shared);
        // Once a snapshot is stored, this copy alone has the frames up to it: they are synced first.
        let ready = move || sync_copy(&copy).map_err(io::Error::other);
        Self {
            mirror: Arc::clone(shared),
            identity: mirror.identity(),
            reader: mirror.reader(),
            snapshots: mirror.snapshots().once_ready(ready),
        }
    }
}

impl Proofs {
    fn begin(claim: Arc<Mutex<Claim>>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let every = Duration::from_millis((lock(&claim).term.ttl_ms() / 12).max(1));
        let run = move || {
            while !over.load(Ordering::SeqCst) {
                // Who holds it is sending a step.
                if let Ok(mut claim) = claim.try_lock() {
                    claim.prove_if_late();
                }
                std::thread::park_timeout(every);
            }
        };
        let thread = std::thread::Builder::new().name("tenure-proofs".to_owned()).spawn(run);
        Self {
            is_over,
            thread: Some(thread.expect("invariant: the system lets a process start its few threads")),
        }
    }
}

impl Drop for Proofs {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl RemoteLog {
    /// The log of a term that was claimed at this tick. Nothing may be appended before the copy has everything up to the
    /// term's head. Until the first [`OrderedLog::proof_due_ms`] it proves life by itself, as while it waits for the disk.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, mirror: &SharedMirror, term: Term, clock: Clock, tick: u64) -> Self {
        let wait = Arc::new(Wait::default());
        wait.begins((clock.boot_ms)());
        let vitals = Arc::new(Mutex::new(Vitals {
            authority_until_ms: term.authority_until_ms(),
            proved_ms: term.proved_ms(),
            progress: term.progress(0),
            ..Vitals::default()
        }));
        let claim = Arc::new(Mutex::new(Claim {
            store,
            tick: term.writer().tick.max(tick),
            proved_ms: term.proved_ms(),
            term,
            clock,
            vitals: Arc::clone(&vitals),
            pause_until_ms: 0,
            revision: 0,
            wait: Arc::clone(&wait),
        }));
        let proofs = Proofs::begin(Arc::clone(&claim));
        // From here on the copy may be waited for.
        let copy = LocalCopy::of(mirror);
        let is_short = Arc::default();
        Self { claim, copy, wait, clock, vitals, is_short, keeps_authority: false, _proofs: proofs }
    }

    /// The copy, which another thread may be writing to.
    fn mirror(&self) -> Waited<'_> {
        let begins = self.wait.since_ms().is_none();
        if begins {
            self.wait.begins((self.clock.boot_ms)());
        }
        Waited { mirror: lock(&self.copy.mirror), wait: begins.then_some(&self.wait) }
    }

    /// The node that claimed it goes on towards its term: life is proved for it as long again.
    pub(crate) fn goes_on(&self) {
        self.wait.begins((self.clock.boot_ms)());
    }

    /// Whether another claim stands, as far as is known.
    pub(crate) fn is_over(&self) -> bool {
        self.claim().term.over().is_some()
    }

    fn claim(&self) -> MutexGuard<'_, Claim> {
        lock(&self.claim)
    }

    /// What others may know of it.
    #[must_use]
    pub fn vitals(&self) -> Arc<Mutex<Vitals>> {
        Arc::clone(&self.vitals)
    }

    /// The upkeep of the store reports here whether its space is short.
    #[must_use]
    pub fn shortage(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_short)
    }

    /// The value of this claim.
    #[must_use]
    pub fn writer(&self) -> Writer {
        self.claim().term.writer().clone()
    }

    /// Where the log ends.
    #[must_use]
    pub fn head(&self) -> Head {
        *self.claim().term.head()
    }

    /// When the last step that counted was sent, and how far the log had come.
    #[must_use]
    pub fn proved(&self) -> (u64, Progress) {
        let claim = self.claim();
        (claim.term.proved_ms(), claim.term.progress(0))
    }

    /// Appends the frame that opens this term: from here on its epoch and tick are part of the log.
    pub fn open(&mut self, at: Moment) -> AppendOutcome {
        let mut claim = lock(&self.claim);
        let txn = claim.term.open(at);
        claim.tick = at.tick;
        let sent = claim.send(&txn);
        drop(claim);
        self.sent(sent)
    }

    /// For tests alone: answers however long ago the last step was.
    #[doc(hidden)]
    pub fn keep_authority(&mut self) {
        self.keeps_authority = true;
    }

    /// Finds out what became of the frame that opens this term.
    pub fn resolve_opening(&mut self) -> Resolution {
        resolution(self.look())
    }

    fn sent(&self, (written, took_us): (Written, u64)) -> AppendOutcome {
        match self.take_in(written) {
            Taken::Committed { synced } => {
                let mut vitals = lock(&self.vitals);
                if vitals.append_us.len() < MEASURED_MAX {
                    vitals.append_us.push(took_us);
                }
                AppendOutcome::Committed { synced }
            }
            Taken::Fenced => AppendOutcome::Fenced,
            Taken::Absent | Taken::Unknown => AppendOutcome::Unknown,
            Taken::Failed(error) => AppendOutcome::Failed(error),
        }
    }

    fn look(&mut self) -> Taken {
        let written = self.claim().look();
        let taken = self.take_in(written);
        let mut vitals = lock(&self.vitals);
        match taken {
            Taken::Committed { .. } => vitals.unknown_committed += 1,
            Taken::Absent => vitals.unknown_absent += 1,
            Taken::Fenced => vitals.unknown_fenced += 1,
            Taken::Unknown | Taken::Failed(_) => {}
        }
        taken
    }

    /// What a step came to, for the copy and for the waiting caller. The claim is nobody's meanwhile: the disk may take its
    /// time.
    fn take_in(&self, written: Written) -> Taken {
        match written {
            Written::Committed { frame } => {
                let copied = self.mirror().copy(&frame);
                match copied {
                    Ok(header) => Taken::Committed { synced: header.last_lsn() },
                    Err(CopyError::Write(error)) => Taken::Failed(error),
                    Err(error) => Taken::Failed(AppendError::Foreign { why: error.to_string() }),
                }
            }
            Written::Absent => Taken::Absent,
            Written::Fenced => Taken::Fenced,
            Written::Unknown => Taken::Unknown,
            Written::Corrupt { why } => Taken::Failed(AppendError::Foreign { why }),
        }
    }
}

impl OrderedLog for RemoteLog {
    fn identity(&self) -> Identity {
        self.copy.identity
    }

    fn writer_epoch(&self) -> u64 {
        self.claim().term.writer().epoch
    }

    fn authority_until(&self) -> Authority {
        if has(Planted::AuthorityNotChecked) || self.keeps_authority {
            return Authority::Forever;
        }
        Authority::Until { boot_ms: self.claim().term.authority_until_ms() }
    }

    fn proof_due_ms(&self) -> Option<u64> {
        // The thread that sends them is here.
        self.wait.is_over();
        Some(self.claim().proof_due_ms())
    }

    fn prove(&mut self, tick: u64) -> Proof {
        let mut claim = self.claim();
        claim.tick = claim.tick.max(tick);
        claim.prove()
    }

    fn next_lsn(&self) -> Lsn {
        self.synced_lsn().next()
    }

    fn synced_lsn(&self) -> Lsn {
        Lsn(self.claim().term.head().lsn)
    }

    fn extents(&self) -> Vec<Extent> {
        self.copy.reader.extents()
    }

    fn append(&mut self, batch: &Batch) -> AppendOutcome {
        let mut claim = lock(&self.claim);
        if claim.term.over() == Some(Over::Resigned) {
            return AppendOutcome::Failed(AppendError::Closed);
        }
        if let Err(refusal) = claim.check(batch) {
            return AppendOutcome::Failed(refusal.into());
        }
        claim.tick = claim.tick.max(batch.at().tick);
        let txn = claim.term.append(batch);
        let sent = claim.send(&txn);
        drop(claim);
        self.sent(sent)
    }

    fn resolve(&mut self, batch: BatchId) -> Resolution {
        let claim = self.claim();
        if batch.writer_epoch() != claim.term.writer().epoch {
            return Resolution::Unknown;
        }
        // What was committed while nobody looked is not in flight any more.
        if !claim.term.is_in_flight() && batch.0 <= claim.term.head().batch {
            return Resolution::Committed { synced: Lsn(claim.term.head().lsn) };
        }
        drop(claim);
        resolution(self.look())
    }

    fn reader(&self) -> FileReader {
        self.copy.reader.another()
    }

    fn snapshots(&self) -> SnapshotStore {
        self.copy.snapshots.clone()
    }

    fn trim(&mut self, below: Lsn) -> Trimmed {
        self.mirror().trim(below)
    }

    fn space(&self) -> Space {
        match self.mirror().space() {
            Space::Ok if self.is_short.load(Ordering::Relaxed) => Space::Low,
            space @ (Space::Ok | Space::Low) => space,
        }
    }

    fn wants_chore(&self) -> bool {
        self.mirror().wants_chore()
    }

    fn chore(&mut self) -> Option<Chore> {
        self.mirror().chore()
    }

    fn chore_done(&mut self, done: ChoreDone) {
        self.mirror().chore_done(done);
    }

    /// Gives the log up for the next leader. Nothing is written: the log goes on.
    fn close(&mut self, at: Moment) -> AppendOutcome {
        let mut claim = self.claim();
        let (tick, wall_ms) = (at.tick.max(claim.tick), (claim.clock.wall_ms)());
        let txn = claim.term.resign(tick, wall_ms);
        claim.tell_authority();
        // Once sent, this claim answers nothing any more, whatever became of it.
        match claim.store.step(&txn, step_within(claim.term.ttl_ms())) {
            Ok(stepped) if stepped.held => AppendOutcome::Committed { synced: Lsn(claim.term.head().lsn) },
            Ok(_) => AppendOutcome::Fenced,
            Err(_) => AppendOutcome::Unknown,
        }
    }
}

/// Syncs what a copy has, and keeps nobody from the copy meanwhile, nor the copy from being closed.
///
/// # Errors
/// When the disk refuses: then the copy takes nothing more in. And when it is closed.
pub fn sync_copy(copy: &Weak<Mutex<Mirror>>) -> Result<(), AppendError> {
    let due = copy.upgrade().map_or(Err(AppendError::Closed), |mirror| lock(&mirror).sync_apart())?;
    let Some(due) = due else { return Ok(()) };
    let synced = due.sync();
    copy.upgrade().map_or(Err(AppendError::Closed), |mirror| lock(&mirror).synced_apart(&due, synced))
}

impl FollowedLog {
    /// The copy of one who follows.
    #[must_use]
    pub fn new(mirror: &SharedMirror) -> Self {
        Self { copy: LocalCopy::of(mirror) }
    }
}

impl OrderedLog for FollowedLog {
    fn identity(&self) -> Identity {
        self.copy.identity
    }

    fn writer_epoch(&self) -> u64 {
        0
    }

    fn authority_until(&self) -> Authority {
        Authority::Forever
    }

    fn next_lsn(&self) -> Lsn {
        self.synced_lsn().next()
    }

    fn synced_lsn(&self) -> Lsn {
        lock(&self.copy.mirror).end().last_lsn
    }

    fn extents(&self) -> Vec<Extent> {
        self.copy.reader.extents()
    }

    fn append(&mut self, _batch: &Batch) -> AppendOutcome {
        AppendOutcome::Fenced
    }

    fn resolve(&mut self, _batch: BatchId) -> Resolution {
        Resolution::Fenced
    }

    fn reader(&self) -> FileReader {
        self.copy.reader.another()
    }

    fn snapshots(&self) -> SnapshotStore {
        self.copy.snapshots.clone()
    }

    fn trim(&mut self, below: Lsn) -> Trimmed {
        lock(&self.copy.mirror).trim(below)
    }

    fn space(&self) -> Space {
        lock(&self.copy.mirror).space()
    }

    fn wants_chore(&self) -> bool {
        lock(&self.copy.mirror).wants_chore()
    }

    fn chore(&mut self) -> Option<Chore> {
        lock(&self.copy.mirror).chore()
    }

    fn chore_done(&mut self, done: ChoreDone) {
        lock(&self.copy.mirror).chore_done(done);
    }

    /// There is nothing to end: the log is the writer's.
    fn close(&mut self, _at: Moment) -> AppendOutcome {
        AppendOutcome::Committed { synced: self.synced_lsn() }
    }
}

fn resolution(taken: Taken) -> Resolution {
    match taken {
        Taken::Committed { synced } => Resolution::Committed { synced },
        Taken::Absent => Resolution::Absent,
        Taken::Fenced => Resolution::Fenced,
        Taken::Unknown => Resolution::Unknown,
        Taken::Failed(_) => Resolution::Corrupt,
    }
}

pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("invariant: nobody panics while holding the copy")
}
