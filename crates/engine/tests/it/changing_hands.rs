//! Ways to change hands × how the former holder is kept (`leases.md` §1, §3): what the former holder hears, and when the
//! next one may act. The table is written from the contract; `docs/guides/fencing.md` prints the same one.

use crate::desk::Desk;

/// How the former holder `alice` is kept: connection 5, session by hand 4, heartbeats, or nothing.
const KEPT: [(&str, &str); 4] = [
    ("connection", "alice: grant a session=5 via=5 asker=local"),
    ("session", "alice: grant a session=4 asker=local"),
    ("heartbeat", "alice: grant a asker=local"),
    ("permanent", "alice: grant a permanent asker=local"),
];

/// What is asked by somebody else of the same principal, or by an operator.
const WAYS: [(&str, &str); 8] = [
    ("resume", "next: resume alice via=6 asker=local"),
    ("rebind", "next: rebind alice asker=local"),
    ("rebind to a session", "next: rebind alice to=8 asker=local"),
    ("hand over", "next: handover alice to=8 asker=local"),
    ("take over", "next: grant a over=alice asker=local"),
    ("release", "next: release alice asker=local\nnext: grant a asker=local"),
    ("delete the session", "next: close 5 asker=local\nturn\nnext: grant a asker=local"),
    ("revoke", "op: revoke alice\nturn\nnext: grant a asker=local"),
];

/// `at once`: the next holder has authority in the same turn, and its fence is higher. `refused`: it has none. `lost`: the
/// connection was pushed the loss.
const TABLE: [(&str, [&str; 4]); 8] = [
    // Only a lease of a connection is resumed, and only after that connection.
    ("resume", ["refused not_draining", "refused no_liveness", "refused no_liveness", "refused no_liveness"]),
    // Who has the token is the holder, except where an open connection believes in it.
    ("rebind", ["refused not_draining", "at once", "at once", "at once"]),
    ("rebind to a session", ["refused not_draining", "at once", "at once", "at once"]),
    // The giver has stopped; a connection that did not ask itself is pushed the loss.
    ("hand over", ["at once, lost", "at once", "at once", "at once"]),
    // Only what drains, and is promised nothing any more, is taken over.
    (
        "take over",
        ["refused resource_held", "refused resource_held", "refused resource_held", "refused resource_held"],
    ),
    ("release", ["at once, lost", "at once", "at once", "at once"]),
    (
        "delete the session",
        ["refused resource_held", "refused resource_held", "refused resource_held", "refused resource_held"],
    ),
    // Reclaim waits: for the connection, the promise, or `revoke_timeout`.
    (
        "revoke",
        [
            "refused resource_held, lost",
            "refused resource_held",
            "refused resource_held",
            "refused resource_held",
        ],
    ),
];

const BEFORE: &str = "
    one: connect 5
    two: connect 6
    s4: open 4
    s8: open 8
    settle";

fn desk(kept: &str) -> Desk {
    let mut desk = Desk::new();
    desk.play(BEFORE);
    desk.play(kept);
    desk.play("settle");
    desk
}

/// What the former holder heard, and what the next one was answered.
fn outcome(desk: &mut Desk, way: &str) -> String {
    desk.take_story();
    desk.play(way);
    desk.play("settle");
    let story = desk.take_story();
    let answer = desk.answer_words(&desk.answers["next"]);
    let next = match answer.split(':').next() {
        Some(code) if !answer.starts_with("lease") => format!("refused {code}"),
        _ => "at once".to_owned(),
    };
    if story.contains("push to 5: lost") { format!("{next}, lost") } else { next }
}

#[test]
fn a_lease_changes_hands_as_the_contract_says() {
    for ((way, words), (named, expected)) in WAYS.into_iter().zip(TABLE) {
        assert_eq!(way, named);
        for ((kept, grant), expected) in KEPT.into_iter().zip(expected) {
            assert_eq!(outcome(&mut desk(grant), words), expected, "{way} × {kept}");
        }
    }
}

#[test]
fn a_connection_moves_its_own_lease_and_hears_nothing() {
    for way in ["next: rebind alice via=5 asker=local", "next: rebind alice to=8 via=5 asker=local"] {
        assert_eq!(outcome(&mut desk(KEPT[0].1), way), "at once", "{way}");
    }
    for way in ["next: handover alice to=8 via=5 asker=local", "next: release alice via=5 asker=local"] {
        assert_eq!(outcome(&mut desk(KEPT[0].1), way), "at once", "{way}");
    }
}

#[test]
fn a_closed_connection_gives_its_leases_to_the_next_one() {
    let closed = "gone: disconnect 5\nsettle\n";
    for (way, words) in &WAYS[..3] {
        let mut desk = desk(KEPT[0].1);
        assert_eq!(outcome(&mut desk, &format!("{closed}{words}")), "at once", "{way}");
    }
    let deleted = format!("{closed}next: close 5 asker=local");
    let mut desk = desk(KEPT[0].1);
    desk.play(&deleted);
    desk.play("settle");
    assert_eq!(desk.answer_words(&desk.answers["next"]), "done");
}

#[test]
fn a_connection_drained_by_an_operator_still_believes() {
    let mut desk = desk(KEPT[0].1);
    let drained = format!("op: drain alice\nsettle\n{}", WAYS[0].1);
    assert_eq!(outcome(&mut desk, &drained), "refused not_draining");
}

#[test]
fn a_connection_at_another_node_keeps_its_leases_as_long_as_its_word_lasts() {
    let kept = "alice: grant a session=7 via=7 word=10000 asker=local";
    let resume = "next: resume alice via=6 asker=local";
    assert_eq!(outcome(&mut desk(kept), resume), "refused not_draining");
    let silent = format!("until 10000\n{resume}");
    assert_eq!(outcome(&mut desk(kept), &silent), "at once");
    let closed = format!("gone: disconnect 7\nsettle\n{resume}");
    assert_eq!(outcome(&mut desk(kept), &closed), "at once");
}

/// The former holder's promise binds whatever ends the lease in the next holder's hands (`leases.md` §1: reclaim comes no
/// sooner than the promise has run out), except after a hand-over.
#[test]
fn a_former_holder_is_waited_for_however_the_next_one_gives_the_lease_back() {
    let endings = [
        ("release", "end: release alice asker=local"),
        ("acknowledge", "root: revoke alice\nsettle\nend: acknowledge alice asker=local"),
        ("close", "end: close 8 asker=local"),
    ];
    for (end, words) in endings {
        let mut desk = desk(KEPT[2].1);
        desk.play("bob: rebind alice to=8 asker=local\nsettle");
        desk.play(words);
        desk.play("settle\nnext: grant a asker=local\nsettle");
        assert_eq!(desk.answer_words(&desk.answers["next"]), "resource_held: a by lease 3 of bob", "{end}");
        desk.play("until 90000\nnext: grant a asker=local\nsettle");
        assert!(desk.answer_words(&desk.answers["next"]).contains("active"), "{end}");
    }
    for way in ["bob: handover alice to=8 asker=local", "alice: rebind alice asker=local"] {
        let mut desk = desk(KEPT[2].1);
        desk.play(way);
        desk.play("settle\nend: release alice asker=local\nsettle\nnext: grant a asker=local\nsettle");
        assert!(desk.answer_words(&desk.answers["next"]).contains("active"), "{way}");
    }
}
