//! A node that follows: it copies frames as they are committed, watches who writes, and claims the log when nobody does.
//! One thread, blocking; what it copies it hands on, in order.
//!
//! Invariant: a frame is handed on only after it is in this machine's copy, and only if it continues it. Lost and
//! repeated changes do no harm: whatever is missing is read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_log::{Batch, CopyError, Moment, OrderedLog, frame};

use crate::claim::{Claimed, Lookout, Next};
use crate::keys::Keys;
use crate::remote::{Clock, RemoteLog, SharedMirror, lock, step_within};
use crate::store::{Changed, Op, Stepped, Store, Txn, WatchEnded};
use crate::term::Term;
use crate::trust::{Forgot, Progress, Trust};
use crate::values::{Floor, Head, Standing, ValueError, Writer, decode};

/// How long a read of the store may take.
const READ_WITHIN: Duration = Duration::from_millis(1_500);
/// Frames read at once.
pub(crate) const FRAMES_PER_READ: usize = 16;
/// Changes that may wait to be looked at.
const CHANGES_MAX: usize = 256;
/// The longest nap between two looks at the time.
const NAP_MAX: Duration = Duration::from_millis(100);
/// Pause after the store did not answer.
const PAUSE: Duration = Duration::from_millis(100);

/// One who follows.
pub struct Follower {
    store: Arc<dyn Store>,
    keys: Keys,
    mirror: SharedMirror,
    salt: u32,
    lookout: Lookout,
    clock: Clock,
    /// Where others look at what this one sees.
    seen: Arc<Mutex<Seen>>,
    /// Whether the store has forgotten something.
    trust: Arc<Mutex<Trust>>,
}

/// What is known of the log and its writer.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Who writes, or did last.
    pub writer: Option<Writer>,
    /// Where the log ends.
    pub head: Head,
    /// When `writer`, `head` or `beat` last changed, in milliseconds of boot time.
    pub changed_ms: u64,
    /// Whether everything was copied once.
    pub caught_up: bool,
    /// When everything was last copied, in milliseconds of boot time.
    pub caught_up_ms: u64,
    /// Claims by what became of them: won, lost, unknown.
    pub claims: [u64; 3],
}

/// Why a node stopped following.
pub enum FollowEnd {
    /// The log is this node's. Everything up to its head is copied.
    Won {
        /// The log.
        log: Box<RemoteLog>,
        /// The tick to go on from.
        tick: u64,
    },
    /// It was told to stop.
    Stopped,
}

/// Why a node can follow no longer.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// A frame does not continue this copy, or cannot be written.
    #[error("the log in the store does not continue the local log")]
    Copy(#[from] CopyError),
    /// Something in the store cannot be understood.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// What this copy needs next is gone.
    #[error("frame {wanted} is trimmed; the log begins with frame {floor}")]
    Trimmed {
        /// The next one.
        wanted: u64,
        /// The first there is.
        floor: u64,
    },
    /// A frame that was neither trimmed nor is there.
    #[error("frame {wanted} is missing from the store, though frames after it are there: the log is damaged")]
    Gap {
        /// The next one.
        wanted: u64,
    },
    /// The state on this machine did not take a frame.
    #[error("the local state could not apply a frame of the log")]
    Unapplied,
    /// A key that must be there is not.
    #[error("`{key}` is missing from the store, though the log refers to it")]
    Missing {
        /// Which.
        key: String,
    },
    /// The store has forgotten something.
    #[error("the store was restored from a backup")]
    Forgot(#[from] Forgot),
    /// Another node has found that the store has forgotten something, and marked it.
    #[error("the store lacks changes that {by} has: {what}")]
    Marked {
        /// Which.
        by: String,
        /// What is missing.
        what: String,
    },
}

enum News {
    Changed(Changed),
    /// Nothing; its sender finds out whether the receiver still listens.
    Idle,
    /// Watch again, and read what may be missing.
    Broken,
}

impl Follower {
    /// One who follows with a copy, and a lookout that has seen nothing yet.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        keys: Keys,
        mirror: SharedMirror,
        lookout: Lookout,
        clock: Clock,
        seen: Arc<Mutex<Seen>>,
        trust: Arc<Mutex<Trust>>,
    ) -> Self {
        let salt = lock(&mirror).identity().salt;
        Self { store, keys, mirror, salt, lookout, clock, seen, trust }
    }

    /// Follows until the log is this node's or `stop` says so. `copied` gets every frame and says whether it was taken;
    /// `may_claim` is asked before a claim, `claim_id` gives 128 random bits.
    ///
    /// # Errors
    /// When there is nothing to follow any more.
    pub fn run(
        &mut self,
        copied: &mut dyn FnMut(Batch) -> bool,
        stop: &AtomicBool,
        may_claim: &dyn Fn() -> bool,
        claim_id: &dyn Fn() -> String,
    ) -> Result<FollowEnd, FollowError> {
        let mut news: Option<Receiver<News>> = None;
        while !stop.load(Ordering::Relaxed) {
            if news.is_none() {
                match self.begin(copied)? {
                    Some(begun) => news = Some(begun),
                    None => {
                        nap(PAUSE);
                        continue;
                    }
                }
            }
            let now_ms = (self.clock.boot_ms)();
            match self.lookout.next(now_ms) {
                Next::Wait { until_ms } => {
                    let nap = Duration::from_millis(until_ms.saturating_sub(now_ms))
                        .clamp(Duration::from_millis(1), NAP_MAX);
                    self.listen_for(nap, &mut news, copied)?;
                }
                Next::Look => {
                    if !self.look(copied)? {
                        nap(PAUSE);
                    }
                }
                Next::Claim if !may_claim() => {
                    // Others may claim meanwhile: who must not goes on to follow.
                    self.listen_for(PAUSE, &mut news, copied)?;
                    let _ = self.look(copied)?;
                }
                Next::Claim => {
                    let txn = self.lookout.claim(claim_id(), (self.clock.wall_ms)());
                    if let Some(won) = self.claim(&txn, copied)? {
                        return Ok(won);
                    }
                }
                Next::FindOut => {
                    let txn = self.lookout.find_out();
                    match self.claim(&txn, copied)? {
                        Some(won) => return Ok(won),
                        None => nap(PAUSE),
                    }
                }
            }
            self.tell();
        }
        Ok(FollowEnd::Stopped)
    }

    /// Takes in what changes, for so long at most if nothing does.
    fn listen_for(
        &mut self,
        time: Duration,
        news: &mut Option<Receiver<News>>,
        copied: &mut dyn FnMut(Batch) -> bool,
    ) -> Result<(), FollowError> {
        let Some(receiver) = news.as_ref() else { return Ok(()) };
        match receiver.recv_timeout(time) {
            Ok(News::Changed(changed)) => self.changed(changed, copied)?,
            Ok(News::Idle) => {}
            Ok(News::Broken) | Err(RecvTimeoutError::Disconnected) => *news = None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        // What has come already is looked at before anything is concluded from silence.
        while let Some(Ok(said)) = news.as_ref().map(Receiver::try_recv) {
            match said {
                News::Changed(changed) => self.changed(changed, copied)?,
                News::Idle => {}
                News::Broken => *news = None,
            }
        }
        Ok(())
    }

    /// Reads everything once and begins to watch. `None`: the store does not answer.
    fn begin(
        &mut self,
        copied: &mut dyn FnMut(Batch) -> bool,
    ) -> Result<Option<Receiver<News>>, FollowError> {
        let key = self.keys.floor();
        let Ok(ranged) = self.store.range(&key, &after(&key), 1, READ_WITHIN) else { return Ok(None) };
        let found = ranged.found.first().ok_or(FollowError::Missing { key })?;
        let floor: Floor = decode("floor", &found.value)?;
        let wanted = lock(&self.mirror).last_frame() + 1;
        if wanted < floor.frame {
            return Err(FollowError::Trimmed { wanted, floor: floor.frame });
        }
        let since = ranged.revision + 1;
        let (from, _) = self.keys.all();
        let (snapshots, _) = self.keys.snapshots();
        let writer = self.keys.writer();
        let (sender, receiver) = sync_channel(CHANGES_MAX);
        for (from, to) in [(from, snapshots), (writer.clone(), after(&writer))] {
            let Ok(watching) = self.store.watch(&from, &to, since, READ_WITHIN) else { return Ok(None) };
            listen(watching, sender.clone());
        }
        if self.look(copied)? { Ok(Some(receiver)) } else { Ok(None) }
    }

    /// Where the log begins. `None`: the store does not answer.
    fn read_floor(&self) -> Result<Option<Floor>, FollowError> {
        let key = self.keys.floor();
        let Ok(ranged) = self.store.range(&key, &after(&key), 1, READ_WITHIN) else { return Ok(None) };
        let found = ranged.found.first().ok_or(FollowError::Missing { key })?;
        Ok(Some(decode("floor", &found.value)?))
    }

    /// Compares what the store has with all that is known here. `false`: it does not answer.
    fn compare(&mut self, revision: u64) -> Result<bool, FollowError> {
        {
            let (mirror, mut trust) = (lock(&self.mirror), lock(&self.trust));
            trust.copied(mirror.last_frame(), mirror.end().checksum);
        }
        let now_ms = (self.clock.boot_ms)();
        let Some(progress) = self.lookout.progress(revision) else { return Ok(false) };
        if lock(&self.trust).saw(now_ms, &progress).is_ok() {
            return Ok(true);
        }
        // That may have been an old answer.
        self.compare_fresh()
    }

    /// The same with an answer that is not old.
    fn compare_fresh(&mut self) -> Result<bool, FollowError> {
        let keys = self.lookout.look();
        let Ok(stepped) = self.store.step(&Txn::fresh(&keys), READ_WITHIN) else { return Ok(false) };
        self.read(&stepped)?;
        let Some(progress) = self.lookout.progress(stepped.revision) else { return Ok(false) };
        let now_ms = (self.clock.boot_ms)();
        lock(&self.trust).saw(now_ms, &progress)?;
        Ok(true)
    }

    fn read(&mut self, stepped: &Stepped) -> Result<(), FollowError> {
        let mut values = Vec::new();
        for (key, found) in self.lookout.look().into_iter().zip(&stepped.found) {
            values.push(found.as_ref().ok_or(FollowError::Missing { key })?);
        }
        let now_ms = (self.clock.boot_ms)();
        self.lookout.read(now_ms, values[0], values[1], values[2])?;
        Ok(())
    }

    /// Reads who writes and whatever frames are missing. `false`: the store does not answer.
    fn look(&mut self, copied: &mut dyn FnMut(Batch) -> bool) -> Result<bool, FollowError> {
        let keys = self.lookout.look();
        let then = keys.iter().map(|key| Op::Get { key: key.clone() }).collect();
        let txn = Txn { compares: Vec::new(), then, otherwise: Vec::new() };
        let Ok(stepped) = self.store.step(&txn, READ_WITHIN) else { return Ok(false) };
        self.read(&stepped)?;
        if !self.compare(stepped.revision)? {
            return Ok(false);
        }
        if let Some(Standing::Restored { by, what }) = self.lookout.writer().map(|writer| &writer.standing) {
            return Err(FollowError::Marked { by: by.clone(), what: what.clone() });
        }
        let head = self.lookout.head().copied().unwrap_or_default();
        self.catch_up(head.frame, copied)
    }

    /// Copies frames up to a number. `false`: the store does not answer.
    fn catch_up(&mut self, upto: u64, copied: &mut dyn FnMut(Batch) -> bool) -> Result<bool, FollowError> {
        loop {
            let last = lock(&self.mirror).last_frame();
            if last >= upto {
                return Ok(true);
            }
            if !self.read_frames(last + 1, upto, copied)? {
                return Ok(false);
            }
        }
    }

    fn read_frames(
        &mut self,
        first: u64,
        upto: u64,
        copied: &mut dyn FnMut(Batch) -> bool,
    ) -> Result<bool, FollowError> {
        // No further than what is read at once: etcd 3.4 walks through all keys of a range.
        let end = (upto + 1).min(first + FRAMES_PER_READ as u64);
        let (from, to) = (self.keys.frame(first), self.keys.frame(end));
        let Ok(ranged) = self.store.range(&from, &to, FRAMES_PER_READ, READ_WITHIN) else { return Ok(false) };
        let next = ranged.found.first().and_then(|found| self.keys.frame_number(&found.key));
        if next != Some(first) {
            let Some(floor) = self.read_floor()? else { return Ok(false) };
            if first < floor.frame {
                return Err(FollowError::Trimmed { wanted: first, floor: floor.frame });
            }
            // A store that was put back lacks frames too, and says so.
            return if self.compare_fresh()? { Err(FollowError::Gap { wanted: first }) } else { Ok(false) };
        }
        for found in ranged.found {
            if self.keys.frame_number(&found.key) != Some(lock(&self.mirror).last_frame() + 1) {
                break;
            }
            self.copy(&found.value, copied)?;
        }
        Ok(true)
    }

    fn copy(&mut self, bytes: &[u8], copied: &mut dyn FnMut(Batch) -> bool) -> Result<(), FollowError> {
        lock(&self.mirror).copy(bytes)?;
        let frame = frame::decode(bytes, self.salt).expect("invariant: what was copied is a frame");
        if copied(Batch::of_frame(&frame)) { Ok(()) } else { Err(FollowError::Unapplied) }
    }

    fn changed(
        &mut self,
        changed: Changed,
        copied: &mut dyn FnMut(Batch) -> bool,
    ) -> Result<(), FollowError> {
        let now_ms = (self.clock.boot_ms)();
        let Some(value) = changed.value else { return Ok(()) };
        if let Some(number) = self.keys.frame_number(&changed.key) {
            let last = lock(&self.mirror).last_frame();
            if number == last + 1 {
                self.copy(&value, copied)?;
            } else if number > last {
                // Looked at again when silence is, if the store does not answer now.
                let _ = self.catch_up(number, copied)?;
            }
        } else {
            self.lookout.saw(now_ms, &changed.key, &value)?;
        }
        lock(&self.trust).told(now_ms, changed.revision);
        if let Some(Standing::Restored { .. }) = self.lookout.writer().map(|writer| &writer.standing) {
            let _ = self.look(copied)?;
        }
        Ok(())
    }

    /// Sends a claim, or asks after one. `Some`: the log is this node's and everything is copied.
    fn claim(
        &mut self,
        txn: &Txn,
        copied: &mut dyn FnMut(Batch) -> bool,
    ) -> Result<Option<FollowEnd>, FollowError> {
        let sent_ms = (self.clock.boot_ms)();
        let ttl_ms = self.lookout.writer().map_or(3_000, |writer| writer.writer_ttl_ms);
        let stepped = self.store.step(txn, step_within(ttl_ms));
        let now_ms = (self.clock.boot_ms)();
        let claimed = self.lookout.claimed(sent_ms, now_ms, stepped)?;
        let won = match claimed {
            Claimed::Won(won) => won,
            Claimed::Lost => {
                lock(&self.seen).claims[1] += 1;
                return Ok(None);
            }
            Claimed::Unknown => {
                lock(&self.seen).claims[2] += 1;
                return Ok(None);
            }
        };
        lock(&self.seen).claims[0] += 1;
        let tick = won.tick;
        let term = Term::begin(self.keys.clone(), self.salt, *won)?;
        let head = *term.head();
        // It proves life from here on: neither what is copied now nor this machine's disk may cost the claim.
        let mut log = RemoteLog::new(Arc::clone(&self.store), &self.mirror, term, self.clock, tick);
        match self.copy_under_claim(&log, &head, copied) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            // What a store lacks is marked there, by which no claim stands any more.
            Err(error @ FollowError::Forgot(_)) => return Err(error),
            Err(error) => {
                // Other nodes need not wait for the silence of a node that cannot lead.
                let _ = log.close(Moment::default());
                return Err(error);
            }
        }
        self.tell();
        log.goes_on();
        Ok(Some(FollowEnd::Won { log: Box::new(log), tick }))
    }

    /// Copies what is missing up to the end of the log at the claim. `false`: another claim stands.
    fn copy_under_claim(
        &mut self,
        log: &RemoteLog,
        head: &Head,
        copied: &mut dyn FnMut(Batch) -> bool,
    ) -> Result<bool, FollowError> {
        loop {
            let last = lock(&self.mirror).last_frame();
            if last >= head.frame {
                break;
            }
            log.goes_on();
            if !self.read_frames(last + 1, head.frame, copied)? {
                nap(Duration::from_millis(20));
            }
            if log.is_over() {
                return Ok(false);
            }
        }
        let copied_upto = {
            let mirror = lock(&self.mirror);
            Head::of(mirror.last_frame(), &mirror.end())
        };
        if copied_upto.frame != head.frame || copied_upto.chain != head.chain {
            let of_copy =
                Progress { frame: copied_upto.frame, chain: copied_upto.chain, ..Progress::default() };
            let of_store = Progress { frame: head.frame, chain: head.chain, ..Progress::default() };
            let what = of_store
                .lacks(&of_copy)
                .unwrap_or_else(|| "its last frame is not the one that a node has seen".to_owned());
            return Err(Forgot { who: log.writer().node, what }.into());
        }
        Ok(true)
    }

    fn tell(&self) {
        let copied = lock(&self.mirror).last_frame();
        let mut seen = lock(&self.seen);
        seen.writer = self.lookout.writer().cloned();
        seen.head = self.lookout.head().copied().unwrap_or_default();
        seen.changed_ms = self.lookout.changed_ms();
        if copied >= seen.head.frame && self.lookout.head().is_some() {
            seen.caught_up = true;
            seen.caught_up_ms = (self.clock.boot_ms)();
        }
    }
}

/// The key right after another.
fn after(key: &str) -> String {
    format!("{key}\0")
}

fn nap(time: Duration) {
    std::thread::park_timeout(time);
}

/// Brings the changes of one watch into the common line, until nobody listens.
fn listen(mut watching: Box<dyn crate::store::Watching>, line: SyncSender<News>) {
    let run = move || {
        loop {
            let said = match watching.next(Duration::from_millis(500)) {
                Ok(Some(changed)) => News::Changed(changed),
                Ok(None) => News::Idle,
                Err(WatchEnded::Compacted { .. } | WatchEnded::Broken { .. }) => News::Broken,
            };
            let over = matches!(said, News::Broken);
            if line.send(said).is_err() || over {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("tenure-watch".to_owned())
        .spawn(run)
        .expect("invariant: the system lets a process start its few threads");
}
