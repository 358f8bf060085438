//! Operation × lost answer × state afterwards. Whatever became of the lease since, the same request under the same
//! operation id is answered by its first outcome, marked as replayed (`kernel.md` §4): its caller only lost an answer.

use crate::desk::{Desk, tell};
use expect_test::expect;
use tenure_engine::Answer;

/// Two leases, sessions of two principals and a pool, for every operation alike.
const BEFORE: &str = "
    s4: open 4
    s8: open 8
    s9: open 9 principal=token:other accepts=a
    conn: connect 5 grace=600000
    spare: pool spare size=1
    other: grant o
    settle";

/// What is asked, and what has to be there first.
const OPERATIONS: [(&str, &str, &str); 21] = [
    ("grant", "", "alice: grant a asker=local op=x"),
    ("grant for a connection", "", "alice: grant a session=5 via=5 asker=local op=x"),
    ("reserve", "", "alice: grant a reserve=60000 asker=local op=x"),
    ("activate", "alice: grant a reserve=60000", "on: activate alice epoch=1 asker=local op=x"),
    ("release", "alice: grant a", "off: release alice epoch=1 asker=local op=x"),
    ("release behind a gate", "alice: grant a gate", "off: release alice epoch=1 asker=local op=x"),
    ("amend", "alice: grant a", "new: amend alice epoch=1 pad=3 asker=local op=x"),
    ("rebind", "alice: grant a", "bob: rebind alice epoch=1 asker=local op=x"),
    ("rebind to a session", "alice: grant a", "bob: rebind alice epoch=1 to=4 asker=local op=x"),
    ("hand over", "alice: grant a", "bob: handover alice epoch=1 to=4 asker=local op=x"),
    ("hand over to another", "alice: grant a", "bob: handover alice epoch=1 to=9 asker=local op=x"),
    (
        "resume",
        "conn: connect 6\nalice: grant a session=6\nsettle\ngone: disconnect 6",
        "back: resume alice epoch=1 via=5 asker=local op=x",
    ),
    ("revoke", "alice: grant a", "root: revoke alice op=x"),
    ("reclaim", "alice: grant a at_once\nsettle\nroot: revoke alice keep", "root: reclaim alice op=x"),
    ("drain", "alice: grant a", "root: drain alice op=x"),
    ("revive", "alice: grant a\nsettle\nroot: drain alice", "root: revive alice op=x"),
    ("revive a silent one", "alice: grant a ttl=5000\nuntil 6000", "root: revive alice op=x"),
    ("define a pool", "alice: grant a", "root: pool p size=3 op=x"),
    ("remove a pool", "alice: grant a", "root: remove spare op=x"),
    ("open a session", "alice: grant a", "open: open 7 op=x"),
    ("close a session", "alice: grant a session=4", "shut: close 4 asker=local op=x"),
];

/// What happens after the answer is lost and before the retry. Some of it is refused, where the operation ended the lease.
const AFTERWARDS: [(&str, &str); 9] = [
    ("nothing", ""),
    ("released", "later: release alice"),
    ("revoked", "later: revoke alice"),
    ("ended", "later: revoke alice\nuntil 200000\nlater: reclaim alice force"),
    ("sessions closed", "later: close 4\nlater: close 7\nlater: close 8\nlater: close 9"),
    ("connections closed", "later: disconnect 5\nuntil 100000"),
    ("handed on", "later: handover alice to=8"),
    ("of another principal", "later: handover alice to=9"),
    ("restarted", "restart"),
];

#[test]
fn a_retry_after_success_is_answered_by_the_first_outcome_whatever_happened_since() {
    let mut wrong = Vec::new();
    for (operation, before, asked) in OPERATIONS {
        let name = asked.split(':').next().unwrap();
        for (since, afterwards) in AFTERWARDS {
            let mut desk = Desk::new();
            desk.play(BEFORE);
            desk.play(before);
            desk.play("settle");
            desk.play(asked);
            desk.play("settle");
            let first = desk.answers.remove(name).unwrap();
            assert!(!is_replayed(&first), "{operation}: {}", desk.answer_words(&first));
            desk.play(afterwards);
            desk.play("settle");
            desk.answers.remove(name);
            desk.play(asked);
            desk.play("settle");
            let again = desk.answers.remove(name).unwrap();
            if !is_replayed(&again) {
                wrong.push(format!("{operation}, then {since}: {}", desk.answer_words(&again)));
            }
        }
    }
    assert!(wrong.is_empty(), "answered by the present state:\n{}", wrong.join("\n"));
}

/// An acknowledge is not an event and its id leads nowhere: lease and epoch say which revoke is meant.
#[test]
fn a_retried_acknowledge_is_answered_like_the_first_whatever_happened_since() {
    for reclaim in ["", "keep"] {
        for (since, afterwards) in AFTERWARDS {
            let mut desk = Desk::new();
            desk.play(BEFORE);
            desk.play(&format!("alice: grant a delay=1000\n settle\n root: revoke alice {reclaim}\n settle"));
            desk.play("ok: acknowledge alice epoch=1 asker=local\n settle");
            let first = desk.answers.remove("ok").unwrap();
            assert!(matches!(first, Answer::Lease(_)), "{}", desk.answer_words(&first));
            desk.play("until 2000");
            desk.play(afterwards);
            desk.play("settle\n ok: acknowledge alice epoch=1 asker=local\n settle");
            let again = desk.answers.remove("ok").unwrap();
            assert!(matches!(again, Answer::Lease(_)), "{reclaim} {since}: {}", desk.answer_words(&again));
        }
    }
    // One that names another revoke was never right.
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      frame 1.2 at 2: revoked
        0      root <- lease 1 revoking (admin_force) [a] alice epoch 2 fence 1
        0      ok <- lease 1 revoking (admin_force) [a] alice epoch 2 fence 1
        0      frame 1.3 at 3: reclaimed
        0      old <- invalid_state: revoked
        0      next <- invalid_state: revoked
        0      frame 1.4 at 4: granted
        0      bob <- lease 4 active [b] bob epoch 1 fence 4 valid 89549
        0      frame 1.5 at 5: released
        0      bob <- lease 4 released (explicit) epoch 2
        0      off <- invalid_state: released
    "#]]
    .assert_eq(&tell(
        "alice: grant a\n settle\n root: revoke alice\n settle\n ok: acknowledge alice\n settle
         old: acknowledge alice epoch=0\n next: acknowledge alice epoch=3\n settle
         bob: grant b\n settle\n bob: release bob\n settle\n off: acknowledge bob epoch=1\n settle",
    ));
}

/// Whether it is a success that was remembered.
fn is_replayed(answer: &Answer) -> bool {
    match answer {
        Answer::Lease(given) => given.replayed,
        Answer::Done { replayed, .. } => *replayed,
        other => {
            assert!(matches!(other, Answer::Refused(_)), "{other:?}");
            false
        }
    }
}

#[test]
fn a_refusal_is_remembered_like_a_success() {
    expect![[r#"
        0      frame 1.1 at 1: granted, session_opened
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      s9 <- done
        0      bob <- session_not_found
        0      frame 1.2 at 3: session_opened
        0      s4 <- done
        0      bob <- session_not_found
        0      frame 1.3 at 4: rebound
        0      bob <- lease 1 active [a] bob epoch 2 fence 4 valid 89549
        0      other <- operation_conflict
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         s9: open 9 principal=token:other
         settle
         bob: rebind alice to=4 epoch=1 asker=local op=x
         settle
         s4: open 4
         settle
         bob: rebind alice to=4 epoch=1 asker=local op=x
         settle
         bob: rebind alice to=4 epoch=1 asker=local op=y
         settle
         other: handover alice to=4 epoch=1 asker=local op=y
         settle",
    ));
}

#[test]
fn a_retry_at_another_node_is_the_same_request() {
    // The word of a node is not part of what was asked: the first try went through a follower, the second came to the
    // leader itself.
    let mut desk = Desk::new();
    desk.play(
        "conn: connect 5
         alice: grant a session=7 via=7 word=10000 asker=local op=x
         settle
         alice: grant a session=5 via=5 asker=local op=x
         settle",
    );
    assert!(is_replayed(&desk.answers["alice"]), "{}", desk.take_story());
}
