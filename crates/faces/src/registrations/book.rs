//! Which registration is which lease: found by id, by prefix, and by what was asked for. Ended ones are remembered for
//! as long as their leases are, so that an id is never given twice and its end can be explained.
//!
//! What a registration looks like now is not kept here: its lease says so.

use super::facts::Facts;
use super::service::folded;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use tenure_engine::kernel::{LeaseId, Lsn, Reason, SessionId};
use tenure_history::rfc3339;

/// Ended registrations that are remembered.
const ENDED_MAX: usize = 1_000_000;

/// What a registration was asked for by: type and name, capitals aside.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct AskedFor {
    service_type: String,
    name: String,
}

/// How a registration ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub(crate) reason: Reason,
    pub(crate) wall_ms: u64,
}

/// Where an id leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// To a lease that lives.
    Live(LeaseId),
    /// To one that has ended, or is about to.
    Ended(LeaseId, End),
}

/// What a prefix leads to.
pub(crate) enum ByPrefix {
    One(String, LeaseId),
    None,
    Many(Vec<String>),
}

#[derive(Default)]
pub(crate) struct Book {
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    by_id: BTreeMap<String, Entry>,
    ids: HashMap<LeaseId, String>,
    by_asked: BTreeMap<AskedFor, BTreeSet<LeaseId>>,
    ended: VecDeque<String>,
    /// Ids of registrations that are being granted.
    kept: BTreeSet<String>,
}

/// An id that nobody else gets meanwhile.
pub(crate) struct Kept<'a> {
    book: &'a Book,
    id: String,
}

struct Entry {
    lease: LeaseId,
    asked_for: AskedFor,
    operation: Option<u64>,
    /// The connection that asked for it last; a permanent one's lease does not say.
    asked_by: Option<SessionId>,
    /// The position of what the network was told last.
    as_of: Lsn,
    end: Option<End>,
}

impl AskedFor {
    pub(crate) fn new(service_type: &str, name: &str) -> Self {
        Self { service_type: service_type.to_owned(), name: folded(name) }
    }
}

impl End {
    pub(crate) fn at(&self) -> String {
        rfc3339(self.wall_ms)
    }
}

impl Book {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().expect("invariant: nobody panics over the book")
    }

    /// Enters a registration as it was at a position, and does `and_then` unless it has ended meanwhile or something
    /// newer was entered; nobody can end it in between.
    pub(crate) fn enter(&self, lease: LeaseId, facts: &Facts, lsn: Lsn, and_then: impl FnOnce()) {
        let mut pages = self.pages();
        let entry = pages.entry(lease, facts);
        if entry.end.is_none() && lsn > entry.as_of {
            entry.as_of = lsn;
            and_then();
        }
    }

    /// Strikes a registration out, and does `and_then`; nobody can enter it again afterwards.
    pub(crate) fn strike<T>(
        &self,
        lease: LeaseId,
        facts: &Facts,
        end: End,
        and_then: impl FnOnce() -> T,
    ) -> T {
        let mut pages = self.pages();
        pages.end(lease, facts, end);
        and_then()
    }

    /// Remembers one that ended in the past.
    pub(crate) fn remember(&self, lease: LeaseId, facts: &Facts, end: End) {
        self.pages().end(lease, facts, end);
    }

    /// Where an id leads.
    pub(crate) fn find(&self, id: &str) -> Option<Place> {
        self.pages().by_id.get(id).map(Entry::place)
    }

    /// Where the beginning of an id leads; a whole id leads to itself.
    pub(crate) fn find_by_prefix(&self, prefix: &str) -> ByPrefix {
        let pages = self.pages();
        let mut live = pages
            .by_id
            .range(prefix.to_owned()..)
            .take_while(|(id, _)| id.starts_with(prefix))
            .filter(|(_, entry)| entry.end.is_none());
        match (live.next(), live.next()) {
            (None, _) => ByPrefix::None,
            (Some((id, entry)), None) => ByPrefix::One(id.clone(), entry.lease),
            (Some((first, entry)), Some(_)) if first == prefix => ByPrefix::One(first.clone(), entry.lease),
            (Some((first, _)), Some((second, _))) => {
                let rest = live.take(3).map(|(id, _)| id.clone());
                ByPrefix::Many([first.clone(), second.clone()].into_iter().chain(rest).collect())
            }
        }
    }

    /// Remembers which connection asked for a registration.
    pub(crate) fn asked_by(&self, lease: LeaseId, session: Option<SessionId>) {
        let mut pages = self.pages();
        let id = pages.ids.get(&lease).cloned();
        if let Some(entry) = id.and_then(|id| pages.by_id.get_mut(&id)) {
            entry.asked_by = session;
        }
    }

    /// Whether this connection asked for a registration.
    pub(crate) fn is_asked_by(&self, lease: LeaseId, session: SessionId) -> bool {
        let pages = self.pages();
        let entry = pages.ids.get(&lease).and_then(|id| pages.by_id.get(id));
        entry.is_some_and(|entry| entry.asked_by == Some(session))
    }

    /// Live registrations that were asked for so, oldest first.
    pub(crate) fn asked_for(&self, asked_for: &AskedFor) -> Vec<LeaseId> {
        self.pages().by_asked.get(asked_for).into_iter().flatten().copied().collect()
    }

    /// Ids of the services of this name, with or without their type; those that have ended only if none lives.
    pub(crate) fn called(&self, name: &str) -> Vec<String> {
        let name = name.to_ascii_lowercase();
        let pages = self.pages();
        let is_called = |asked: &AskedFor| {
            let of_type = name.strip_prefix(asked.name.as_str()).and_then(|rest| rest.strip_prefix('.'));
            asked.name == name || of_type == Some(asked.service_type.as_str())
        };
        let called = pages.by_id.iter().filter(|(_, entry)| is_called(&entry.asked_for));
        let (live, ended): (Vec<_>, Vec<_>) = called.partition(|(_, entry)| entry.end.is_none());
        let found = if live.is_empty() { ended } else { live };
        found.into_iter().map(|(id, _)| id.clone()).collect()
    }

    /// Live registrations in order of their ids.
    pub(crate) fn live(&self) -> Vec<LeaseId> {
        self.pages().by_id.values().filter(|entry| entry.end.is_none()).map(|entry| entry.lease).collect()
    }

    /// Number of live registrations.
    pub(crate) fn live_count(&self) -> usize {
        let pages = self.pages();
        pages.by_id.len() - pages.ended.len()
    }

    /// Keeps an id for what this operation asks for, unless it is another's.
    pub(crate) fn keep(&self, id: &str, operation: Option<u64>) -> Option<Kept<'_>> {
        let mut pages = self.pages();
        let free = match pages.by_id.get(id) {
            Some(entry) => operation.is_some() && entry.operation == operation,
            // One whose grant is under way, in another try of the same operation perhaps.
            None => operation.is_some() || !pages.kept.contains(id),
        };
        if !free {
            return None;
        }
        pages.kept.insert(id.to_owned());
        Some(Kept { book: self, id: id.to_owned() })
    }
}

impl Pages {
    fn entry(&mut self, lease: LeaseId, facts: &Facts) -> &mut Entry {
        let asked_for = AskedFor::new(facts.described.service_type.as_str(), &facts.described.name);
        let id = self.ids.entry(lease).or_insert_with(|| facts.id.clone()).clone();
        if !self.by_id.contains_key(&id) {
            self.by_asked.entry(asked_for.clone()).or_default().insert(lease);
        }
        self.by_id.entry(id).or_insert(Entry {
            lease,
            asked_for,
            operation: facts.operation,
            asked_by: None,
            as_of: Lsn(0),
            end: None,
        })
    }

    fn end(&mut self, lease: LeaseId, facts: &Facts, end: End) {
        self.entry(lease, facts);
        let id = self.ids[&lease].clone();
        let Some(entry) = self.by_id.get_mut(&id) else { return };
        if entry.end.is_none() {
            self.ended.push_back(id);
            let asked_for = entry.asked_for.clone();
            if let Some(leases) = self.by_asked.get_mut(&asked_for) {
                leases.remove(&lease);
                if leases.is_empty() {
                    self.by_asked.remove(&asked_for);
                }
            }
        }
        entry.end = Some(end);
        while self.ended.len() > ENDED_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(entry) = self.ended.pop_front().and_then(|id| self.by_id.remove(&id)) {
            self.ids.remove(&entry.lease);
        }
    }
}

impl Entry {
    fn place(&self) -> Place {
        match &self.end {
            None => Place::Live(self.lease),
            Some(end) => Place::Ended(self.lease, end.clone()),
        }
    }
}

impl Kept<'_> {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.book.pages().kept.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::super::service::Described;
    use super::*;
    use core::cell::Cell;
    use tenure_api::Register;

    fn facts(id: &str, name: &str) -> Facts {
        let asked = Register {
            name: name.to_owned(),
            service_type: "_http._tcp".to_owned(),
            port: 1,
            ..Register::default()
        };
        let described = Described::check(&asked).expect("a service");
        Facts {
            id: id.to_owned(),
            described,
            spelled: None,
            renamed: None,
            operation: None,
            home: None,
            leaving: None,
        }
    }

    fn end() -> End {
        End { reason: Reason::Explicit, wall_ms: 5 }
    }

    fn lease(number: u128) -> LeaseId {
        LeaseId(number)
    }

    #[test]
    fn what_is_struck_out_is_never_entered_again() {
        let book = Book::default();
        book.strike(lease(1), &facts("aa000000", "x"), end(), || ());
        let announced = Cell::new(false);
        book.enter(lease(1), &facts("aa000000", "x"), Lsn(1), || announced.set(true));
        assert!(!announced.get());
        assert_eq!(book.find("aa000000"), Some(Place::Ended(lease(1), end())));
        assert_eq!(book.live_count(), 0);
    }

    #[test]
    fn the_network_is_told_of_the_newest_whatever_comes_last() {
        let book = Book::default();
        let told = Cell::new(0);
        for (lsn, count) in [(5, 1), (3, 1), (5, 1), (9, 2)] {
            book.enter(lease(1), &facts("aa000000", "x"), Lsn(lsn), || told.set(told.get() + 1));
            assert_eq!(told.get(), count, "as of {lsn}");
        }
    }

    #[test]
    fn prefixes_lead_to_live_ones_alone() {
        let book = Book::default();
        book.enter(lease(1), &facts("aa000000", "x"), Lsn(1), || ());
        book.enter(lease(2), &facts("aa100000", "x"), Lsn(1), || ());
        book.enter(lease(3), &facts("ab000000", "y"), Lsn(1), || ());
        assert!(matches!(book.find_by_prefix("aa"), ByPrefix::Many(ids) if ids == ["aa000000", "aa100000"]));
        assert!(matches!(book.find_by_prefix("ab"), ByPrefix::One(id, _) if id == "ab000000"));
        book.remember(lease(1), &facts("aa000000", "x"), end());
        assert!(matches!(book.find_by_prefix("aa"), ByPrefix::One(id, _) if id == "aa100000"));
        assert!(matches!(book.find_by_prefix("ff"), ByPrefix::None));
        assert_eq!(book.live(), [lease(2), lease(3)]);
    }

    #[test]
    fn rivals_are_told_oldest_first_whatever_their_capitals() {
        let book = Book::default();
        book.enter(lease(7), &facts("bb000000", "My App"), Lsn(1), || ());
        book.enter(lease(3), &facts("aa000000", "my app"), Lsn(1), || ());
        book.enter(lease(4), &facts("cc000000", "other"), Lsn(1), || ());
        let rivals = book.asked_for(&AskedFor::new("_http._tcp", "MY APP"));
        assert_eq!(rivals, [lease(3), lease(7)]);
        book.strike(lease(3), &facts("aa000000", "my app"), end(), || ());
        assert_eq!(book.asked_for(&AskedFor::new("_http._tcp", "my app")), [lease(7)]);
    }

    #[test]
    fn an_id_is_given_once() {
        let book = Book::default();
        let kept = book.keep("aa000000", None).expect("free");
        assert!(book.keep("aa000000", None).is_none(), "a grant is under way");
        book.enter(lease(1), &facts("aa000000", "x"), Lsn(1), || ());
        drop(kept);
        assert!(book.keep("aa000000", None).is_none());
        book.remember(lease(1), &facts("aa000000", "x"), end());
        assert!(book.keep("aa000000", None).is_none(), "ended ones are remembered");
        assert!(book.keep("aa000000", Some(9)).is_none(), "another operation's");
    }

    #[test]
    fn a_retry_gets_the_id_of_the_first_try() {
        let book = Book::default();
        let first = book.keep("aa000000", Some(9)).expect("free");
        assert!(book.keep("aa000000", Some(9)).is_some(), "both tries are under way");
        let made = Facts { operation: Some(9), ..facts("aa000000", "x") };
        book.enter(lease(1), &made, Lsn(1), || ());
        drop(first);
        assert!(book.keep("aa000000", Some(9)).is_some());
        assert!(book.keep("aa000000", Some(8)).is_none());
    }
}
