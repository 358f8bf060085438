//! The book: what is entered, what comes free, what is remembered over a restart.

use super::*;
use tenure_api::PollerStatus;
use tenure_engine::kernel::{Epoch, LeaseState, Policy, SessionId, Tick};
use tenure_engine::liveness::{LivenessView, Standing};

fn lease(id: u64, holder: &str, resource: &str) -> LeaseSnapshot {
    LeaseSnapshot {
        id: LeaseId::new(0, Lsn(id)),
        holder: holder.into(),
        state: LeaseState::Active { since: Tick(0), drained: false },
        epoch: Epoch(1),
        fence: Fence(id),
        members: [resource.into()].into_iter().collect(),
        policy: Policy::session(SessionId(7), 30_000, 0),
        granted_tick: Tick(0),
        granted_wall_ms: 1_000,
        attachment: Vec::new(),
        face_data: Vec::new(),
        liveness: LivenessView {
            standing: Some(Standing::Alive),
            counts_from: Tick(0),
            last_seen: Some(Tick(0)),
            deadline: None,
            valid_ms: None,
        },
        now: Tick(0),
        now_wall_ms: 1_000,
    }
}

fn granted(book: &Book, id: u64, holder: &str, resource: &str) {
    let lease = lease(id, holder, resource);
    book.follow(&Followed { lease, changed_hands: true, lsn: Lsn(id) });
}

fn handed_over(book: &Book, id: u64, holder: &str, resource: &str, lsn: u64) {
    let lease = LeaseSnapshot { fence: Fence(lsn), ..lease(id, holder, resource) };
    book.follow(&Followed { lease, changed_hands: true, lsn: Lsn(lsn) });
}

fn joined(book: &Book, id: u64, name: &str, status: PollerStatus) {
    let facts =
        tenure_api::PollerFacts { instance: name.to_owned(), weight: 1, status, ..Default::default() };
    let attachment = serde_json::to_vec(&facts).expect("plain data");
    let lease = LeaseSnapshot { attachment, ..lease(id, name, &format!("poll/web/@poller/{name}")) };
    book.follow(&Followed { lease, changed_hands: true, lsn: Lsn(id) });
}

struct Over<'a> {
    id: u64,
    resource: &'a str,
    reason: Reason,
    text: &'a str,
    lsn: u64,
}

impl Over<'_> {
    fn told(&self, tell: impl FnOnce(&End<'_>)) {
        tell(&End {
            lease: LeaseId::new(0, Lsn(self.id)),
            holder: &"a".into(),
            members: &[self.resource.into()],
            reason: self.reason,
            text: self.text,
            wall_ms: 5_000,
            lsn: Lsn(self.lsn),
        });
    }
}

fn silent(id: u64, resource: &str, lsn: u64) -> Over<'_> {
    Over { id, resource, reason: Reason::SessionExpired, text: "", lsn }
}

fn released<'a>(id: u64, resource: &'a str, text: &'a str, lsn: u64) -> Over<'a> {
    Over { id, resource, reason: Reason::Explicit, text, lsn }
}

fn free(book: &Book) -> Vec<(String, &'static str)> {
    let group = book.group("web").0.unwrap_or_default();
    group.free.iter().map(|(target, free)| (target.to_string(), free.left_for.as_str())).collect()
}

fn moves(book: &Book, left_for: LeftFor) -> u64 {
    book.counted().0.iter().map(|(_, moves)| moves[left_for as usize]).sum()
}

#[test]
fn a_target_is_free_from_its_end_until_it_is_taken() {
    let book = Book::default();
    granted(&book, 1, "a", "poll/web/s1");
    assert_eq!(free(&book), []);
    silent(1, "poll/web/s1", 2).told(|end| book.end(end));
    assert_eq!(free(&book), [("s1".to_owned(), "ttl_expiry")]);
    let taken = LeaseSnapshot { now_wall_ms: 5_300, ..lease(3, "b", "poll/web/s1") };
    book.follow(&Followed { lease: taken, changed_hands: true, lsn: Lsn(3) });
    assert_eq!(free(&book), []);
    let (_, unowned) = book.counted();
    assert_eq!((unowned.sum, unowned.buckets[9]), (300, 1));
    assert_eq!(moves(&book, LeftFor::TtlExpiry), 1);
    assert_eq!(book.group("web").0.map(|group| group.generation), Some(Lsn(3)));
}

#[test]
fn a_target_that_was_removed_is_nobodys_business() {
    let book = Book::default();
    granted(&book, 1, "a", "poll/web/s1");
    released(1, "poll/web/s1", "target_removed", 2).told(|end| book.end(end));
    let (group, at_least) = book.group("web");
    assert!(group.is_none());
    assert_eq!(at_least, Lsn(2), "its generation does not fall");
    assert_eq!(moves(&book, LeftFor::TargetRemoved), 1);
}

#[test]
fn handing_over_is_a_move_unless_it_is_to_another_run_of_the_same_poller() {
    let book = Book::default();
    joined(&book, 1, "a", PollerStatus::Online);
    granted(&book, 2, "a", "poll/web/s1");
    handed_over(&book, 2, "b", "poll/web/s1", 3);
    assert_eq!((moves(&book, LeftFor::Rebalanced), moves(&book, LeftFor::Shutdown)), (1, 0));
    joined(&book, 4, "b", PollerStatus::Leaving);
    handed_over(&book, 2, "k~1", "poll/web/s1", 5);
    assert_eq!((moves(&book, LeftFor::Rebalanced), moves(&book, LeftFor::Shutdown)), (1, 1));
    handed_over(&book, 2, "k~absent", "poll/web/s1", 6);
    handed_over(&book, 2, "k~2", "poll/web/s1", 7);
    assert_eq!((moves(&book, LeftFor::Rebalanced), moves(&book, LeftFor::Shutdown)), (1, 1));
    let group = book.group("web").0.expect("known");
    assert_eq!(group.targets["s1"].holder, "k~2");
}

#[test]
fn an_end_that_was_heard_first_is_not_undone_by_what_was_there_before() {
    let book = Book::default();
    silent(1, "poll/web/s1", 5).told(|end| book.end(end));
    book.restore(&lease(1, "a", "poll/web/s1"), Some(1_000), Lsn(4));
    assert_eq!(free(&book), [("s1".to_owned(), "ttl_expiry")]);
    book.restore(&lease(2, "b", "poll/web/s2"), Some(1_000), Lsn(4));
    assert!(book.group("web").0.is_some_and(|group| group.targets.contains_key("s2")));
}

#[test]
fn old_ends_count_in_their_order_and_only_where_nothing_newer_is_known() {
    let book = Book::default();
    book.restore(&lease(9, "b", "poll/web/held"), Some(1_000), Lsn(10));
    granted(&book, 11, "b", "poll/web/gone");
    released(11, "poll/web/gone", "target_removed", 12).told(|end| book.end(end));
    silent(1, "poll/web/held", 2).told(|end| book.recall(end));
    silent(3, "poll/web/gone", 4).told(|end| book.recall(end));
    silent(5, "poll/web/free", 6).told(|end| book.recall(end));
    released(7, "poll/web/free", "shutdown", 8).told(|end| book.recall(end));
    silent(5, "poll/web/removed", 6).told(|end| book.recall(end));
    released(7, "poll/web/removed", "target_removed", 8).told(|end| book.recall(end));
    book.is_complete();
    assert_eq!(free(&book), [("free".to_owned(), "shutdown")]);
    assert_eq!(moves(&book, LeftFor::TtlExpiry), 0, "what is recalled was counted when it happened");
}

#[test]
fn of_free_targets_the_oldest_are_forgotten() {
    let book = Book::default();
    for number in 0..FREE_MAX as u64 + 2 {
        let resource = format!("poll/web/s{number}");
        silent(1, &resource, number + 1).told(|end| book.end(end));
    }
    let group = book.group("web").0.expect("known");
    assert_eq!(group.free.len(), FREE_MAX);
    assert!(!group.free.contains_key("s1") && group.free.contains_key("s2"));
}

#[test]
fn what_is_no_groups_is_left_alone() {
    let book = Book::default();
    granted(&book, 1, "a", "poll/web");
    granted(&book, 2, "a", "poll/@x/y");
    silent(2, "poll/@x/y", 3).told(|end| book.end(end));
    assert_eq!(book.groups().len(), 0);
}

#[test]
fn since_when_a_holder_has_a_target_is_learned_once() {
    let book = Book::default();
    book.restore(&lease(1, "a", "poll/web/s1"), None, Lsn(4));
    book.acquired("web", "s1", Fence(99), 7_000);
    assert_eq!(book.group("web").0.expect("known").targets["s1"].acquired_wall_ms, None);
    book.acquired("web", "s1", Fence(1), 7_000);
    book.acquired("web", "s1", Fence(1), 8_000);
    assert_eq!(book.group("web").0.expect("known").targets["s1"].acquired_wall_ms, Some(7_000));
}

/// Two ttls of 30 s after 5 s.
#[test]
fn what_no_poller_asks_for_any_more_is_forgotten_and_the_group_with_its_last_target() {
    let book = Book::default();
    let facts = tenure_api::PollerFacts { report: Some(Default::default()), ..Default::default() };
    let attachment = serde_json::to_vec(&facts).expect("plain data");
    let member = LeaseSnapshot { attachment, ..lease(1, "hall", "poll/web/@poller/hall") };
    book.follow(&Followed { lease: member, changed_hands: true, lsn: Lsn(1) });
    for id in [2, 3] {
        let target = format!("poll/web/s{id}");
        granted(&book, id, "a", &target);
        silent(id, &target, id + 10).told(|end| book.end(end));
    }
    book.forget_over("web", 65_000);
    assert_eq!(free(&book).len(), 2);
    let before = book.group("web").0.map(|group| group.version);
    book.forget_all_over(65_001);
    assert_eq!(free(&book), []);
    assert_ne!(book.group("web").0.map(|group| group.version), before, "a plan is worked out anew");
    assert_eq!(book.counted().1.sum, 0, "nobody took them");
    silent(1, "poll/web/@poller/hall", 20).told(|end| book.end(end));
    assert!(book.group("web").0.is_none());
    // In a group without pollers they are remembered for a day.
    granted(&book, 30, "a", "poll/web/s1");
    silent(30, "poll/web/s1", 31).told(|end| book.end(end));
    book.forget_all_over(5_000 + 86_400_000);
    assert_eq!(free(&book).len(), 1);
    book.forget_all_over(5_001 + 86_400_000);
    assert!(book.group("web").0.is_none());
}
