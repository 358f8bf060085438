//! A node that claims while many frames are missing from its copy reads them under its claim. What takes long must not cost
//! the claim: between reads it sends barriers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_cluster::store::{Changed, Ranged, Stepped, Store, StoreError, Txn, WatchEnded, Watching};
use tenure_cluster::values::{self, Standing};
use tenure_cluster::{FollowError, RemoteLog, Seen, SharedMirror};
use tenure_log::{AppendOutcome, Batch, Moment, OrderedLog};

use crate::members::{SOON, wait_until};
use crate::remote::{Node, TTL_MS, keys};
use crate::remote_faults::over_both;
use crate::support::{Writer, read_all};

const FRAMES: u64 = 300;
/// How long one read takes: longer than a third of the ttl, after which a barrier is due.
const READ: Duration = Duration::from_millis(TTL_MS / 3 + 20);

/// What a node sent under its claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sent {
    /// The claim itself, or a barrier.
    Write,
    /// A read of frames.
    Read,
}

/// A store whose reads of frames are not answered before a claim, and slow after it.
struct Slow {
    under: Arc<dyn Store>,
    is_deaf: Arc<AtomicBool>,
    is_claimed: AtomicBool,
    sent: Mutex<Vec<Sent>>,
}

/// A watch that keeps to itself what it hears while the store is deaf.
struct DeafWatch(Box<dyn Watching>, Arc<AtomicBool>);

impl Slow {
    /// Takes its time, whatever wakes the thread.
    fn take_time() {
        let (_open, never) = channel::<()>();
        assert_eq!(never.recv_timeout(READ), Err(RecvTimeoutError::Timeout));
    }
}

impl Store for Slow {
    fn step(&self, txn: &Txn, within: Duration) -> Result<Stepped, StoreError> {
        if txn.writes() {
            self.sent.lock().unwrap().push(Sent::Write);
        }
        let stepped = self.under.step(txn, within)?;
        self.is_claimed.fetch_or(txn.writes() && stepped.held, Ordering::SeqCst);
        Ok(stepped)
    }

    fn range(&self, from: &str, to: &str, limit: usize, within: Duration) -> Result<Ranged, StoreError> {
        if keys().frame_number(from).is_some() && self.is_deaf.load(Ordering::SeqCst) {
            if !self.is_claimed.load(Ordering::SeqCst) {
                return Err(StoreError::Unanswered { why: "the claim comes first".to_owned() });
            }
            self.sent.lock().unwrap().push(Sent::Read);
            Self::take_time();
        }
        self.under.range(from, to, limit, within)
    }

    fn watch(
        &self,
        from: &str,
        to: &str,
        since: u64,
        within: Duration,
    ) -> Result<Box<dyn Watching>, StoreError> {
        let watching = self.under.watch(from, to, since, within)?;
        Ok(Box::new(DeafWatch(watching, Arc::clone(&self.is_deaf))))
    }

    fn compact(&self, revision: u64, within: Duration) -> Result<(), StoreError> {
        self.under.compact(revision, within)
    }
}

impl Watching for DeafWatch {
    fn next(&mut self, within: Duration) -> Result<Option<Changed>, WatchEnded> {
        let heard = self.0.next(within)?;
        Ok(heard.filter(|_| !self.1.load(Ordering::SeqCst)))
    }
}

/// A node that is behind when the log is given up: frames are not answered before its claim.
struct Behind {
    slow: Arc<Slow>,
    node: Arc<Node>,
    old: RemoteLog,
    _first: Node,
}

impl Behind {
    fn over(store: Arc<dyn Store>) -> Self {
        let first = Node::at(Arc::clone(&store), "a");
        let old = first.claim();
        let slow = Arc::new(Slow {
            under: store,
            is_deaf: Arc::default(),
            is_claimed: AtomicBool::new(false),
            sent: Mutex::default(),
        });
        let node = Arc::new(Node::at(Arc::clone(&slow) as Arc<dyn Store>, "b"));
        Self { slow, node, old, _first: first }
    }

    /// Lets the node claim once it has caught up and then missed so many frames. Gives what came of it, and the epoch before.
    fn claims_after(
        &mut self,
        frames: u64,
        mut copied: impl FnMut(Batch) -> bool + Send + 'static,
    ) -> (Result<(RemoteLog, SharedMirror), FollowError>, u64) {
        let (slow, node, old) = (&self.slow, Arc::clone(&self.node), &mut self.old);
        let (seen, may_claim) = (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicBool::new(false)));
        let (sees, may) = (Arc::clone(&seen), Arc::clone(&may_claim));
        let claiming =
            std::thread::spawn(move || node.claim_when(&mut copied, sees, &|| may.load(Ordering::SeqCst)));
        wait_until("it has caught up", || seen.lock().unwrap().caught_up);
        slow.is_deaf.store(true, Ordering::SeqCst);
        // What it wrote at its start was no claim.
        slow.is_claimed.store(false, Ordering::SeqCst);
        slow.sent.lock().unwrap().clear();
        let mut writer = Writer::new(old);
        for _ in 0..frames {
            writer.append(old, &[b"missing"]);
        }
        let before = old.writer_epoch();
        assert!(matches!(old.close(Moment::default()), AppendOutcome::Committed { .. }));
        may_claim.store(true, Ordering::SeqCst);
        (claiming.join().unwrap(), before)
    }
}

/// Its claim stood until it had been silent for the leader ttl.
#[test]
fn whoever_cannot_apply_what_it_reads_under_its_claim_resigns() {
    over_both(|store| {
        let mut behind = Behind::over(Arc::clone(&store));
        let is_deaf = Arc::clone(&behind.slow.is_deaf);
        // Up to its claim it applies everything.
        let (claimed, before) = behind.claims_after(3, move |_| !is_deaf.load(Ordering::SeqCst));
        assert!(matches!(claimed, Err(FollowError::Unapplied)), "{:?}", claimed.err());
        let found = store.step(&Txn::fresh(&[keys().writer()]), SOON).unwrap().found;
        let writer: values::Writer = values::decode("writer", found[0].as_ref().unwrap()).unwrap();
        assert_eq!((writer.epoch, writer.node.as_str()), (before + 1, "b"), "it claimed");
        assert_eq!(writer.standing, Standing::Resigned);
        // The next one begins at once where the log ended.
        assert_eq!(read_all(&Node::at(store, "c").claim()).len(), 3);
    });
}

/// Without barriers another node would claim from it before it has read everything.
#[test]
fn whoever_claims_far_behind_sends_barriers_between_its_reads() {
    over_both(|store| {
        let mut behind = Behind::over(store);
        let slow = Arc::clone(&behind.slow);
        let (claimed, before) = behind.claims_after(FRAMES, |_| true);
        // Barriers of its term come after what it read under its claim.
        let sent = std::mem::take(&mut *slow.sent.lock().unwrap());
        let (log, _) = claimed.unwrap();
        let (epoch, records) = (log.writer_epoch(), read_all(&log).len() as u64);
        assert_eq!((epoch, records), (before + 1, FRAMES));
        let reads = sent.iter().filter(|sent| **sent == Sent::Read).count() as u64;
        assert!(reads * READ.as_millis() as u64 > TTL_MS * 4, "{reads} reads take no time");
        let in_a_row = sent.windows(2).filter(|two| **two == [Sent::Read, Sent::Read]).count();
        assert_eq!(in_a_row, 0, "reads without a barrier between them: {sent:?}");
    });
}
