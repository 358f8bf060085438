//! Which stream is which lease, which ones queue, and how many there are. Ended ones are remembered for as long as
//! their leases are, so that their ends can be explained.
//!
//! What a stream looks like now is not kept here: its lease says so.

use super::counters::StreamCounters;
use super::facts::StreamFacts;
use super::queue::Queued;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use tenure_api as api;
use tenure_engine::OperationId;
use tenure_engine::kernel::{LeaseId, Policy, Text};
use tokio::sync::watch;

/// Ended streams that are remembered.
const ENDED_MAX: usize = 1_000_000;
/// Of them, those that never had a lease.
const FADED_MAX: usize = 10_000;
/// Heartbeats that count within one interval.
pub(crate) const BEATS_PER_INTERVAL: usize = 2;

/// Where an id leads.
#[derive(Clone)]
pub(crate) enum Place {
    /// To a wait for slots.
    Queued(Arc<Queued>),
    /// To a lease that lives, or did a moment ago.
    Live(LeaseId),
    /// To a lease that has ended.
    Ended(LeaseId),
    /// To a wait that ended without a lease.
    Faded(Arc<api::SlotSession>),
}

/// What is known of a stream beside its lease.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) place: Place,
    /// Whose it is.
    pub(crate) principal: Text,
    /// Of its lease; longest life included.
    pub(crate) grace_ms: u32,
    pub(crate) max_lifetime_ms: u64,
    /// When it ended, where its slots were kept from others for a while after that.
    pub(crate) ended_wall_ms: Option<u64>,
    /// Its place in the order of waiting; 0 where it never waited.
    waited: u64,
}

struct Entry {
    known: Known,
    last_beat_wall_ms: Option<u64>,
    /// When its last heartbeats came.
    beats: [Option<u64>; BEATS_PER_INTERVAL],
    /// Moves when something about it has changed.
    changed: watch::Sender<()>,
}

/// Whose try it was, and under which key.
type OperationKey = (Text, Text);

#[derive(Default)]
pub(crate) struct Book {
    pages: Mutex<Pages>,
    pub(crate) counters: StreamCounters,
}

#[derive(Default)]
struct Pages {
    by_id: HashMap<String, Entry>,
    live: BTreeMap<LeaseId, String>,
    ended_leases: HashMap<LeaseId, String>,
    /// Queued and faded ones, in the order in which they came.
    waited: BTreeMap<u64, String>,
    next_waited: u64,
    ended: VecDeque<String>,
    faded: VecDeque<String>,
    /// Streams without a lease by the keys they were asked for or ended with; the engine knows the others.
    operations: HashMap<OperationKey, (String, u64)>,
    operations_of: HashMap<String, Vec<OperationKey>>,
    queued: usize,
    /// Asked for and not decided yet.
    starting: u64,
}

/// Room for one stream while it is being started.
pub(crate) struct Admitted {
    book: Arc<Book>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.book.pages().starting -= 1;
    }
}

impl Book {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().expect("invariant: nobody panics over the book")
    }

    /// Room for one more; `None` where `max` there are.
    pub(crate) fn admit(self: &Arc<Self>, max: u64) -> Option<Admitted> {
        let mut pages = self.pages();
        let there = (pages.live.len() + pages.queued) as u64 + pages.starting;
        if there >= max {
            return None;
        }
        pages.starting += 1;
        Some(Admitted { book: Arc::clone(self) })
    }

    /// What an id stands for.
    pub(crate) fn find(&self, id: &str) -> Option<Known> {
        self.pages().by_id.get(id).map(|entry| entry.known.clone())
    }

    /// The same, and a way to hear of changes.
    pub(crate) fn follow(&self, id: &str) -> Option<(Known, watch::Receiver<()>)> {
        self.pages().by_id.get(id).map(|entry| (entry.known.clone(), entry.changed.subscribe()))
    }

    /// Enters a stream that has its lease, unless that has ended meanwhile.
    pub(crate) fn enter(&self, lease: LeaseId, facts: &StreamFacts, policy: &Policy) {
        let mut pages = self.pages();
        if pages.ended_leases.contains_key(&lease) {
            return;
        }
        pages.live.insert(lease, facts.id.clone());
        pages.leave_queue(&facts.id);
        pages.put(&facts.id, Place::Live(lease), policy);
    }

    /// Remembers how a stream's lease ended.
    pub(crate) fn end(&self, lease: LeaseId, facts: &StreamFacts, policy: &Policy) {
        let mut pages = self.pages();
        pages.live.remove(&lease);
        pages.leave_queue(&facts.id);
        if pages.ended_leases.insert(lease, facts.id.clone()).is_none() {
            pages.ended.push_back(facts.id.clone());
        }
        pages.put(&facts.id, Place::Ended(lease), policy);
        while pages.ended.len() > ENDED_MAX {
            pages.forget_oldest();
        }
    }

    /// Enters a stream that queues.
    pub(crate) fn enqueue(&self, queued: &Arc<Queued>, operation: Option<&OperationId>) {
        let mut pages = self.pages();
        let id = queued.facts.id.clone();
        pages.queued += 1;
        pages.next_waited += 1;
        let waited = pages.next_waited;
        pages.waited.insert(waited, id.clone());
        pages.keep_operation(&id, operation);
        pages.put(&id, Place::Queued(Arc::clone(queued)), &queued.policy);
        if let Some(entry) = pages.by_id.get_mut(&id) {
            entry.known.waited = waited;
        }
    }

    /// Remembers the operation under which a stream that has no lease was ended.
    pub(crate) fn keep_operation(&self, id: &str, operation: Option<&OperationId>) {
        self.pages().keep_operation(id, operation);
    }

    /// When a stream ended whose slots are not free yet.
    pub(crate) fn ended_at(&self, id: &str, wall_ms: u64) {
        if let Some(entry) = self.pages().by_id.get_mut(id) {
            entry.known.ended_wall_ms.get_or_insert(wall_ms);
        }
    }

    /// A wait ended without a lease.
    pub(crate) fn fade(&self, queued: &Queued, last: api::SlotSession) {
        let mut pages = self.pages();
        let id = queued.facts.id.clone();
        if !pages.is_queued(&id) {
            return;
        }
        pages.queued -= 1;
        pages.put(&id, Place::Faded(Arc::new(last)), &queued.policy);
        pages.faded.push_back(id);
        while pages.faded.len() > FADED_MAX {
            if let Some(oldest) = pages.faded.pop_front() {
                pages.forget(&oldest);
            }
        }
    }

    /// The stream that an operation asked for, where it had to queue, and what it asked for.
    pub(crate) fn operation(&self, operation: &OperationId) -> Option<(String, u64)> {
        self.pages().operations.get(&(operation.principal.clone(), operation.id.clone())).cloned()
    }

    /// Counts a heartbeat; `Err` says how long to wait where there are too many.
    pub(crate) fn beat(&self, id: &str, boot_ms: u64, interval_ms: u64) -> Result<(), u64> {
        let mut pages = self.pages();
        let Some(entry) = pages.by_id.get_mut(id) else { return Ok(()) };
        if let Some(oldest) = entry.beats[0] {
            let since = boot_ms.saturating_sub(oldest);
            if since < interval_ms {
                return Err(interval_ms - since);
            }
        }
        entry.beats.rotate_left(1);
        entry.beats[BEATS_PER_INTERVAL - 1] = Some(boot_ms);
        Ok(())
    }

    /// A heartbeat counted.
    pub(crate) fn renewed(&self, id: &str, wall_ms: u64) {
        if let Some(entry) = self.pages().by_id.get_mut(id) {
            entry.last_beat_wall_ms = Some(wall_ms);
            entry.changed.send_replace(());
        }
    }

    /// When its last heartbeat came.
    pub(crate) fn last_beat(&self, id: &str) -> Option<u64> {
        self.pages().by_id.get(id)?.last_beat_wall_ms
    }

    /// Something happened to a lease.
    pub(crate) fn touch(&self, lease: LeaseId) {
        let pages = self.pages();
        if let Some(entry) = pages.live.get(&lease).and_then(|id| pages.by_id.get(id)) {
            entry.changed.send_replace(());
        }
    }

    /// Something may have happened to any lease.
    pub(crate) fn touch_all(&self) {
        let pages = self.pages();
        for entry in pages.live.values().filter_map(|id| pages.by_id.get(id)) {
            entry.changed.send_replace(());
        }
    }

    /// Streams with a lease, from this one on.
    pub(crate) fn live_from(&self, from: LeaseId, limit: usize) -> Vec<LeaseId> {
        self.pages().live.range(from..).take(limit).map(|(lease, _)| *lease).collect()
    }

    /// Streams that queue or did so to no end, from this place on.
    pub(crate) fn waited_from(&self, from: u64, limit: usize) -> Vec<(u64, String)> {
        let pages = self.pages();
        pages.waited.range(from..).take(limit).map(|(place, id)| (*place, id.clone())).collect()
    }

    /// How many queue.
    pub(crate) fn queued(&self) -> usize {
        self.pages().queued
    }
}

impl Pages {
    fn put(&mut self, id: &str, place: Place, policy: &Policy) {
        if let Some(entry) = self.by_id.get_mut(id) {
            entry.known.place = place;
            entry.changed.send_replace(());
            return;
        }
        let known = Known {
            place,
            principal: policy.principal.clone(),
            grace_ms: policy.grace_ms,
            max_lifetime_ms: policy.max_lifetime_ms,
            ended_wall_ms: None,
            waited: 0,
        };
        let entry = Entry {
            known,
            last_beat_wall_ms: None,
            beats: [None; BEATS_PER_INTERVAL],
            changed: watch::Sender::new(()),
        };
        self.by_id.insert(id.to_owned(), entry);
    }

    fn is_queued(&self, id: &str) -> bool {
        self.by_id.get(id).is_some_and(|entry| matches!(entry.known.place, Place::Queued(_)))
    }

    /// A queued stream has its lease: the engine knows its operation from now on.
    fn leave_queue(&mut self, id: &str) {
        if self.is_queued(id) {
            self.queued -= 1;
            self.forget_wait(id);
        }
    }

    fn keep_operation(&mut self, id: &str, operation: Option<&OperationId>) {
        let Some(OperationId { principal, id: key, asked: Some(asked), .. }) = operation else { return };
        let key = (principal.clone(), key.clone());
        self.operations.insert(key.clone(), (id.to_owned(), *asked));
        self.operations_of.entry(id.to_owned()).or_default().push(key);
    }

    fn forget_wait(&mut self, id: &str) {
        if let Some(entry) = self.by_id.get(id) {
            self.waited.remove(&entry.known.waited);
        }
        for key in self.operations_of.remove(id).into_iter().flatten() {
            self.operations.remove(&key);
        }
    }

    fn forget(&mut self, id: &str) {
        self.forget_wait(id);
        self.by_id.remove(id);
    }

    fn forget_oldest(&mut self) {
        let Some(id) = self.ended.pop_front() else { return };
        if let Some(Entry { known: Known { place: Place::Ended(lease), .. }, .. }) = self.by_id.remove(&id) {
            self.ended_leases.remove(&lease);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_engine::kernel::Lsn;

    fn facts(id: &str) -> StreamFacts {
        StreamFacts { id: id.to_owned(), service_ref: None, correlation_id: None, created_wall_ms: 0 }
    }

    fn lease(lsn: u64) -> LeaseId {
        LeaseId::new(0, Lsn(lsn))
    }

    #[test]
    fn an_end_that_was_heard_first_is_not_undone() {
        let book = Book::default();
        let policy = Policy::heartbeat(60_000, 0);
        book.end(lease(1), &facts("a"), &policy);
        book.enter(lease(1), &facts("a"), &policy);
        assert!(matches!(book.find("a"), Some(Known { place: Place::Ended(_), .. })));
        assert_eq!(book.live_from(lease(0), 9), []);
    }

    #[test]
    fn no_more_are_admitted_than_there_may_be_live_or_starting() {
        let book = Arc::new(Book::default());
        let first = book.admit(2).expect("room");
        book.enter(lease(1), &facts("a"), &Policy::heartbeat(60_000, 0));
        assert!(book.admit(2).is_none());
        drop(first);
        assert!(book.admit(2).is_some());
        book.end(lease(1), &facts("a"), &Policy::heartbeat(60_000, 0));
        let both = (book.admit(2), book.admit(2), book.admit(2));
        assert!(both.0.is_some() && both.1.is_some() && both.2.is_none());
    }

    #[test]
    fn two_heartbeats_count_in_one_interval() {
        let book = Book::default();
        book.enter(lease(1), &facts("a"), &Policy::heartbeat(60_000, 0));
        let beat = |at| book.beat("a", at, 5_000);
        assert_eq!((beat(0), beat(1_000), beat(2_000)), (Ok(()), Ok(()), Err(3_000)));
        // One that did not count does not push the next one back.
        assert_eq!((beat(4_999), beat(5_000), beat(5_001)), (Err(1), Ok(()), Err(999)));
    }

    #[test]
    fn whoever_follows_hears_of_changes() {
        let book = Book::default();
        book.enter(lease(1), &facts("a"), &Policy::heartbeat(60_000, 0));
        let (_, changed) = book.follow("a").expect("known");
        assert!(!changed.has_changed().expect("the entry is there"));
        book.touch(lease(1));
        assert!(changed.has_changed().expect("the entry is there"));
    }
}
