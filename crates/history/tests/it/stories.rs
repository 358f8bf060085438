//! Stories of leases, resources and sessions, as people read them.

use expect_test::{Expect, expect};
use std::path::Path;
use tenure_history::{History, Story, Subject, WhyLimits, actor_word, rfc3339};
use tenure_kernel::{
    Change, Evidence, Granted, LeaseId, Lsn, Note, OpenSession, Policy, Reason, ReclaimBy, ReclaimRule,
    Released, Revoked, SessionId, SessionKind, Text, Tick,
};
use tenure_log::{Moment, OrderedLog};

use crate::support::{SESSION, START_MS, Tale, disk, granted, revoked, steered, tale};

pub(crate) fn told(story: &Story) -> String {
    let mut out = String::new();
    for entry in &story.entries {
        let lease = entry.lease.map_or(String::new(), |lease| format!(" #{lease}"));
        let actor = entry.actor.as_ref().map_or("-".to_owned(), actor_word);
        let seen = if entry.evidence.is_some() { " *" } else { "" };
        let at = rfc3339(entry.wall_ms);
        out.push_str(&format!(
            "{} {}{lease} {actor}{seen} | {} | {}\n",
            entry.lsn,
            &at[11..19],
            entry.kind,
            entry.text
        ));
    }
    out.push_str(&format!("next: {}\n", story.next.as_deref().unwrap_or("-")));
    if story.left_out > 0 {
        out.push_str(&format!("left out: {}\n", story.left_out));
    }
    out
}

fn check(history: &mut History, subject: Subject, expected: Expect) {
    let story = history.why(&subject, WhyLimits::default()).unwrap();
    assert_eq!((&story.subject, story.oldest_lsn), (&subject, Lsn(1)));
    expected.assert_eq(&told(&story));
}

#[test]
fn a_lease_tells_its_life() {
    let (tale, leases) = tale();
    check(
        &mut tale.history(),
        Subject::Lease(leases.alice),
        expect![[r#"
            4 22:13:22 #4 holder | granted | granted to alice: r1, r2; ttl 90 s (renew every 30 s), grace 30 s
            8 22:14:52 #4 daemon | draining | fell silent: last heartbeat at 2023-11-14T22:13:22.000Z; grace runs until 2023-11-14T22:15:22.000Z
            9 22:15:00 #4 daemon | revived | alive again: a heartbeat came within the grace
            10 22:15:01 #4 holder | amended | attachment replaced
            11 22:15:02 #4 holder | rebound | moved to dave: the epoch is now 2
            12 22:15:03 #4 operator:carol | draining | drained by carol, saying "maintenance": still held until its grace ends or an operator revives it
            13 22:15:04 #4 operator:carol | revived | revived by carol: the drain was withdrawn
            27 22:16:40 #4 daemon | draining | fell silent: last heartbeat at 2023-11-14T22:15:10.000Z; grace runs until 2023-11-14T22:17:10.000Z
            28 22:17:10 #4 daemon * | revoked | revoked: no heartbeat for 2m 0s (heartbeat_expired); valid for its holder until 2023-11-14T22:17:11.000Z
            29 22:17:11 #4 daemon | reclaimed | reclaimed: r1, r2 free again; its validity had ended
            next: -
        "#]],
    );
}

#[test]
fn a_lease_tells_who_revived_it_after_it_fell_silent_and_why() {
    let mut tale = Tale::begin([6; 16]);
    let lease =
        tale.event(1_000, Change::Granted(granted("alice", &["a"], Policy::heartbeat(5_000, 60_000))));
    let subject = tenure_kernel::Subject::Lease(lease);
    tale.note(6_000, Note::Draining { subject, last_seen: Tick(1_000), until: Tick(66_000) });
    tale.event(7_000, Change::Revived(steered(lease, "its network is back")));
    let story = tale.history().why(&Subject::Lease(lease), WhyLimits::default()).unwrap();
    let revived = story.entries.iter().find(|entry| entry.kind == "revived").unwrap();
    assert_eq!(revived.actor.as_ref().map(actor_word).as_deref(), Some("operator:carol"));
    assert_eq!(revived.text, "revived by carol, saying \"its network is back\": the drain was withdrawn");
}

#[test]
fn a_lease_tells_what_happened_to_its_session() {
    let (tale, leases) = tale();
    check(
        &mut tale.history(),
        Subject::Lease(leases.carol),
        expect![[r#"
            7 22:13:24 #7 holder | granted | granted to carol: mdns/x; kept by standard input cli:0000002a, grace 5 s; application registrations
            15 22:15:10 daemon | draining | standard input cli:0000002a closed; its leases end when their grace ends
            16 22:15:11 daemon | breaker_opened | mass-expiry protection: 20 of 30 holders fell silent at once, so the daemon postpones ends
            17 22:15:12 daemon | breaker_closed | mass-expiry protection ended: leases end on time again
            18 22:15:13 daemon | stalled | the daemon was stalled for 4.2 s; no lease lost more than 1 s of its ttl
            19 22:15:15 daemon | session_closed | standard input cli:0000002a ended: it closed, and its holder did not come back (session_expired); its leases end with it
            20 22:15:15 #7 daemon * | revoked | revoked: its holder disconnected 5 s earlier and did not come back (session_expired)
            21 22:15:15 #7 daemon | gate_opened | finalizer started: its resources stay taken until the finalizer is done or times out
            22 22:15:15 #7 daemon | reclaimed | reclaimed: the goodbye packet was sent, mdns/x free again
            23 22:15:16 #7 daemon | notified | the notification of its end was delivered or dropped
            next: -
        "#]],
    );
}

#[test]
fn a_reservation_tells_its_deadline() {
    let (tale, leases) = tale();
    check(
        &mut tale.history(),
        Subject::Lease(leases.bob),
        expect![[r#"
            5 22:13:22 #5 holder | granted | reserved for bob: gpu/1; expires at 2023-11-14T22:14:22.000Z unless activated; ttl 30 s (renew every 10 s), no grace
            6 22:13:23 #5 holder | activated | activated: in use from now on
            14 22:15:05 #5 holder | released | released by bob, saying "done": gpu/1 free again
            next: -
        "#]],
    );
}

#[test]
fn a_resource_tells_of_all_its_holders() {
    let (tale, _) = tale();
    check(
        &mut tale.history(),
        Subject::Resource("r1".into()),
        expect![[r#"
            4 22:13:22 #4 holder | granted | granted to alice: r1, r2; ttl 90 s (renew every 30 s), grace 30 s
            8 22:14:52 #4 daemon | draining | fell silent: last heartbeat at 2023-11-14T22:13:22.000Z; grace runs until 2023-11-14T22:15:22.000Z
            9 22:15:00 #4 daemon | revived | alive again: a heartbeat came within the grace
            10 22:15:01 #4 holder | amended | attachment replaced
            11 22:15:02 #4 holder | rebound | moved to dave: the epoch is now 2
            12 22:15:03 #4 operator:carol | draining | drained by carol, saying "maintenance": still held until its grace ends or an operator revives it
            13 22:15:04 #4 operator:carol | revived | revived by carol: the drain was withdrawn
            27 22:16:40 #4 daemon | draining | fell silent: last heartbeat at 2023-11-14T22:15:10.000Z; grace runs until 2023-11-14T22:17:10.000Z
            28 22:17:10 #4 daemon * | revoked | revoked: no heartbeat for 2m 0s (heartbeat_expired); valid for its holder until 2023-11-14T22:17:11.000Z
            29 22:17:11 #4 daemon | reclaimed | reclaimed: r1, r2 free again; its validity had ended
            31 22:17:11 #31 holder | granted | granted to frank: r1; permanent, no heartbeat needed
            next: held by frank: ends only when its holder releases it or an operator ends it
        "#]],
    );
}

#[test]
fn a_pool_member_tells_of_its_pool() {
    let (tale, _) = tale();
    check(
        &mut tale.history(),
        Subject::Resource("gpu/1".into()),
        expect![[r#"
            3 22:13:21 - | pool_defined | pool gpu now has 2 members
            5 22:13:22 #5 holder | granted | reserved for bob: gpu/1; expires at 2023-11-14T22:14:22.000Z unless activated; ttl 30 s (renew every 10 s), no grace
            6 22:13:23 #5 holder | activated | activated: in use from now on
            14 22:15:05 #5 holder | released | released by bob, saying "done": gpu/1 free again
            26 22:15:19 - | pool_removed | pool gpu was removed; leases on its members end with it
            next: gpu/1 is free: the next grant takes it
        "#]],
    );
}

#[test]
fn a_session_tells_of_the_leases_it_kept() {
    let (tale, _) = tale();
    check(
        &mut tale.history(),
        Subject::Session(SESSION),
        expect![[r#"
            2 22:13:21 holder | session_opened | session cli:0000002a opened by host: lasts while its connection is open, grace 5 s
            7 22:13:24 #7 holder | granted | granted to carol: mdns/x; kept by standard input cli:0000002a, grace 5 s; application registrations
            15 22:15:10 daemon | draining | standard input cli:0000002a closed; its leases end when their grace ends
            16 22:15:11 daemon | breaker_opened | mass-expiry protection: 20 of 30 holders fell silent at once, so the daemon postpones ends
            17 22:15:12 daemon | breaker_closed | mass-expiry protection ended: leases end on time again
            18 22:15:13 daemon | stalled | the daemon was stalled for 4.2 s; no lease lost more than 1 s of its ttl
            19 22:15:15 daemon | session_closed | standard input cli:0000002a ended: it closed, and its holder did not come back (session_expired); its leases end with it
            20 22:15:15 #7 daemon * | revoked | revoked: its holder disconnected 5 s earlier and did not come back (session_expired)
            21 22:15:15 #7 daemon | gate_opened | finalizer started: its resources stay taken until the finalizer is done or times out
            22 22:15:15 #7 daemon | reclaimed | reclaimed: the goodbye packet was sent, mdns/x free again
            next: -
        "#]],
    );
}

#[test]
fn a_live_lease_tells_what_would_end_it() {
    let (tale, leases) = tale();
    check(
        &mut tale.history(),
        Subject::Lease(leases.frank),
        expect![[r#"
            31 22:17:11 #31 holder | granted | granted to frank: r1; permanent, no heartbeat needed
            next: ends only when its holder releases it or an operator ends it
        "#]],
    );
    check(
        &mut tale.history(),
        Subject::Lease(leases.grace),
        expect![[r#"
            33 22:17:13 #33 holder | granted | granted to grace: r2; ttl 90 s (renew every 30 s), grace 30 s; ends after 1h 0m at the latest
            next: ends when its holder releases it or stays silent for 2m 0s, at 2023-11-14T23:17:13.000Z at the latest
        "#]],
    );
}

#[test]
fn what_never_was_has_no_story() {
    let (tale, _) = tale();
    let mut history = tale.history();
    for subject in [
        Subject::Lease(LeaseId::new(0, Lsn(999))),
        Subject::Lease(LeaseId::new(1, Lsn(4))),
        Subject::Resource("nothing".into()),
        Subject::Session(SessionId(7)),
    ] {
        let story = history.why(&subject, WhyLimits::default()).unwrap();
        assert_eq!((story.entries.len(), story.next), (0, None), "{subject:?}");
    }
}

#[test]
fn a_log_at_rest_tells_the_same() {
    let (tale, leases) = tale();
    let subject = Subject::Lease(leases.alice);
    let online = tale.history().why(&subject, WhyLimits::default()).unwrap();
    let (directory, _) = tale.stop();
    let mut history = History::offline(disk(), directory.path()).unwrap();
    assert_eq!(history.why(&subject, WhyLimits::default()).unwrap(), online);

    // Trimming moves segments to a directory that holds nothing else.
    let archive = directory.path().join("archive");
    std::fs::rename(directory.path().join("log"), &archive).unwrap();
    let mut history = History::offline(disk(), &archive).unwrap();
    assert_eq!(history.why(&subject, WhyLimits::default()).unwrap(), online);
}

#[test]
fn a_story_grows_while_the_log_is_written() {
    let (mut tale, leases) = tale();
    let mut history = tale.history();
    let subject = Subject::Lease(leases.frank);
    let before = history.why(&subject, WhyLimits::default()).unwrap();
    let was = tale.was(leases.frank);
    tale.event(300_000, Change::Released(Released { was, text: Text::default() }));
    let after = history.why(&subject, WhyLimits::default()).unwrap();
    assert_eq!(after.entries.len(), before.entries.len() + 1);
    assert_eq!(after.next, None);
}

#[test]
fn a_long_story_keeps_its_end() {
    let (mut tale, _) = tale();
    for round in 0..40 {
        let tick = 400_000 + round;
        let lease = tale.event(tick, Change::Granted(granted("x", &["busy"], Policy::permanent())));
        let was = tale.was(lease);
        tale.event(tick, Change::Released(Released { was, text: Text::default() }));
    }
    let limits = WhyLimits { entries_max: 3, leases_max: 2 };
    let subject = Subject::Resource("busy".into());
    let short = tale.history().why(&subject, limits).unwrap();
    let whole = tale.history().why(&subject, WhyLimits::default()).unwrap();
    assert_eq!(whole.entries.len(), 80);
    assert_eq!(whole.left_out, 0);
    assert_eq!(short.entries, whole.entries[77..]);
    assert!(short.left_out >= 77, "{}", short.left_out);
    assert_eq!(short.next.as_deref(), Some("busy is free: the next grant takes it"));
}

#[test]
fn every_phase_of_a_lease_has_an_outlook() {
    let mut out = String::new();
    let mut say = |what: &str, tale: &Tale, lease: LeaseId| {
        let story = tale.history().why(&Subject::Lease(lease), WhyLimits::default()).unwrap();
        out.push_str(&format!("{what}: {}\n", story.next.as_deref().unwrap_or("-")));
    };
    let (mut tale, leases) = tale();
    let mut tick = 300_000;
    let by_hand = |session, kind, ttl_ms| {
        let (holder, principal) = ("host".into(), "uid:1000".into());
        Change::SessionOpened(OpenSession {
            session,
            holder,
            kind,
            ttl_ms,
            grace_ms: 5_000,
            principal,
            accepts_handover: None,
        })
    };
    tale.event(tick, by_hand(SessionId(1), SessionKind::ByHand, 30_000));
    tale.event(tick, by_hand(SessionId(2), SessionKind::Connection, 0));

    let deadline = Some(Tick(tick + 60_000));
    let reserved = Granted { deadline, ..granted("x", &["p0"], Policy::heartbeat(90_000, 30_000)) };
    let reserved = tale.event(tick, Change::Granted(reserved));
    say("reserved", &tale, reserved);
    tale.event(tick, Change::Activated { lease: reserved });
    say("activated", &tale, reserved);

    let lease = leases.grace;
    let subject = tenure_kernel::Subject::Lease(lease);
    say("alive", &tale, lease);
    tale.note(tick, Note::Draining { subject, last_seen: Tick(233_000), until: Tick(tick + 30_000) });
    say("silent", &tale, lease);
    tale.note(tick + 1_000, Note::Returned { subject });
    say("returned", &tale, lease);
    tick += 2_000;
    tale.event(tick, Change::Drained(steered(lease, "")));
    tale.note(tick, Note::Draining { subject, last_seen: Tick(tick), until: Tick(tick + 30_000) });
    say("drained", &tale, lease);
    tale.event(tick, Change::Revived(steered(lease, "")));
    tale.event(tick, Change::Revoked(revoked(lease, Reason::AdminForce, Evidence::None)));
    say("revoking", &tale, lease);

    for (name, session, ttl_ms) in [("p1", SessionId(1), 30_000), ("p2", SessionId(2), 0)] {
        let kept =
            tale.event(tick, Change::Granted(granted("y", &[name], Policy::session(session, ttl_ms, 5_000))));
        say("kept by a session", &tale, kept);
        let subject = tenure_kernel::Subject::Session(session);
        tale.note(tick, Note::Draining { subject, last_seen: Tick(tick), until: Tick(tick + 5_000) });
        say("its session is silent", &tale, kept);
    }
    for (gate, reclaim_rule) in
        [(true, ReclaimRule::AtOnce), (true, ReclaimRule::AfterPromise), (false, ReclaimRule::AtOnce)]
    {
        let policy = Policy { gate, reclaim_rule, ..Policy::permanent() };
        let name = format!("gate/{gate}/{reclaim_rule:?}");
        let lease = tale.event(tick, Change::Granted(granted("z", &[&name], policy)));
        tale.event(tick, Change::Revoked(revoked(lease, Reason::AdminForce, Evidence::None)));
        say("revoking", &tale, lease);
    }
    let lease = leases.frank;
    let by_hand =
        Revoked { reclaim_by: ReclaimBy::Operator, ..revoked(lease, Reason::AdminForce, Evidence::None) };
    tale.event(tick, Change::Revoked(by_hand));
    say("revoking by hand", &tale, lease);
    expect![[r#"
        reserved: expires at 2023-11-14T22:19:20.000Z unless its holder activates it
        activated: ends when its holder releases it or stays silent for 2m 0s
        alive: ends when its holder releases it or stays silent for 2m 0s, at 2023-11-14T23:17:13.000Z at the latest
        silent: ends at 2023-11-14T22:18:50.000Z unless a heartbeat comes
        returned: ends when its holder releases it or stays silent for 2m 0s, at 2023-11-14T23:17:13.000Z at the latest
        drained: ends when its grace of 30 s ends, unless its holder releases it or an operator revives it before
        revoking: its resources come free once its validity has ended or its holder acknowledges the loss
        kept by a session: ends when its holder releases it or its session stays silent for 35 s
        its session is silent: ends at 2023-11-14T22:18:27.000Z unless its session is alive again
        kept by a session: ends when its holder releases it or its connection is gone for 5 s
        its session is silent: ends at 2023-11-14T22:18:27.000Z unless its session is alive again
        revoking: its resources come free once its finalizer is done or has timed out
        revoking: its resources come free once its finalizer is done or has timed out, and its validity has ended or its holder acknowledged the loss
        revoking: its resources come free at once
        revoking by hand: its resources stay taken until an operator reclaims it
    "#]].assert_eq(&out);
}

#[test]
fn a_session_tells_what_would_end_it() {
    let (mut tale, _) = tale();
    let mut out = String::new();
    for (session, kind, ttl_ms) in
        [(1, SessionKind::ByHand, 30_000), (2, SessionKind::Connection, 0), (3, SessionKind::Stdin, 0)]
    {
        let session = SessionId(session);
        let (holder, principal) = ("host".into(), "uid:1000".into());
        let open =
            OpenSession { session, holder, kind, ttl_ms, grace_ms: 5_000, principal, accepts_handover: None };
        tale.event(300_000, Change::SessionOpened(open));
        let mut say = |tale: &Tale| {
            let story = tale.history().why(&Subject::Session(session), WhyLimits::default()).unwrap();
            out.push_str(&format!("{}\n", story.next.as_deref().unwrap_or("-")));
        };
        let subject = tenure_kernel::Subject::Session(session);
        say(&tale);
        tale.note(300_000, Note::Draining { subject, last_seen: Tick(300_000), until: Tick(305_000) });
        say(&tale);
        tale.note(300_000, Note::Returned { subject });
        say(&tale);
        tale.event(300_000, Change::SessionClosed { session, reason: Reason::Explicit });
        say(&tale);
    }
    expect![[r#"
        ends when its holder closes it or it stays silent for 35 s
        ends at 2023-11-14T22:18:25.000Z unless it is alive again
        ends when its holder closes it or it stays silent for 35 s
        -
        ends when its holder closes it or its connection is gone for 5 s
        ends at 2023-11-14T22:18:25.000Z unless it is alive again
        ends when its holder closes it or its connection is gone for 5 s
        -
        ends when its holder closes it or its standard input is closed for 5 s
        ends at 2023-11-14T22:18:25.000Z unless it is alive again
        ends when its holder closes it or its standard input is closed for 5 s
        -
    "#]]
    .assert_eq(&out);
}

#[test]
fn a_story_begins_where_the_log_begins() {
    let (mut tale, leases) = tale();
    for lsn in [11, 25] {
        let at = Moment { tick: 0, wall_ms: START_MS };
        tale.log.snapshots().store(tenure_log::Lsn(lsn), at, &tale.states[lsn as usize]).unwrap();
    }
    assert!(tale.log.trim(tenure_log::Lsn(11)).extents > 0);
    let mut history = tale.history();
    let story = history.why(&Subject::Lease(leases.carol), WhyLimits::default()).unwrap();
    assert_eq!(story.oldest_lsn, Lsn(11));
    // Her grant is gone, and her end still leads to her session and her resource to her.
    let kinds: Vec<&str> = story.entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds[..2], ["draining", "breaker_opened"]);
    assert_eq!(kinds[4..], ["session_closed", "revoked", "gate_opened", "reclaimed", "notified"]);
    let of_resource = history.why(&Subject::Resource("mdns/x".into()), WhyLimits::default()).unwrap();
    assert_eq!(of_resource.entries, story.entries);
}

#[test]
fn an_archive_is_named_once_something_is_in_it() {
    let (mut tale, _) = tale();
    let archive = Path::new("/somewhere/archive");
    let archived = |tale: &Tale| tale.history().archived_in(Some(archive.to_owned()));
    assert_eq!(archived(&tale).archive().unwrap(), None, "the log is whole");
    for lsn in [11, 25] {
        let at = Moment { tick: 0, wall_ms: START_MS };
        tale.log.snapshots().store(tenure_log::Lsn(lsn), at, &tale.states[lsn as usize]).unwrap();
    }
    assert!(tale.log.trim(tenure_log::Lsn(11)).extents > 0);
    assert_eq!(archived(&tale).archive().unwrap(), Some(archive));
    assert_eq!(archived(&tale).another().archive().unwrap(), Some(archive));
    assert_eq!(tale.history().archive().unwrap(), None, "there is none");
}

#[test]
fn a_restart_is_told_as_a_restart() {
    let mut tale = Tale::begin([8; 16]);
    let policy = Policy::heartbeat(30_000, 5_000);
    let before = tale.event(1_000, Change::Granted(granted("carol", &["q"], policy.clone())));
    let was = tale.was(before);
    tale.event(1_000, Change::Released(Released { was, text: "".into() }));
    // Nothing was there to keep.
    tale.note(1_500, Note::Restarted);
    let lease = tale.event(2_000, Change::Granted(granted("alice", &["r"], policy)));
    // Of several in a row the last one counts.
    tale.note(10_000, Note::Restarted);
    tale.note(20_000, Note::Restarted);
    let subject = tenure_kernel::Subject::Lease(lease);
    tale.note(50_000, Note::Draining { subject, last_seen: Tick(20_000), until: Tick(55_000) });
    tale.note(51_000, Note::Returned { subject });
    tale.note(82_000, Note::Draining { subject, last_seen: Tick(51_000), until: Tick(87_000) });
    tale.note(83_000, Note::Restarted);
    let seen = Evidence::Silence { last_seen: Tick(83_000), promised_until: Tick(113_000) };
    tale.event(118_000, Change::Revoked(revoked(lease, Reason::HeartbeatExpired, seen)));
    tale.note(119_000, Note::Restarted);
    check(
        &mut tale.history(),
        Subject::Lease(lease),
        expect![[r#"
            4 22:13:22 #4 holder | granted | granted to alice: r; ttl 30 s (renew every 10 s), grace 5 s
            6 22:13:40 daemon | restarted | the daemon restarted, or another node was elected: every holder has a full ttl from now on, and every reclaim delay starts again
            7 22:14:10 #4 daemon | draining | fell silent: no heartbeat since the restart; grace runs until 2023-11-14T22:14:15.000Z
            8 22:14:11 #4 daemon | revived | alive again: a heartbeat came within the grace
            9 22:14:42 #4 daemon | draining | fell silent: last heartbeat at 2023-11-14T22:14:11.000Z; grace runs until 2023-11-14T22:14:47.000Z
            10 22:14:43 daemon | restarted | the daemon restarted, or another node was elected: every holder has a full ttl from now on, and every reclaim delay starts again
            11 22:15:18 #4 daemon * | revoked | revoked: no heartbeat in the 35 s since the restart (heartbeat_expired)
            12 22:15:19 daemon | restarted | the daemon restarted, or another node was elected: every holder has a full ttl from now on, and every reclaim delay starts again
            next: its resources come free once its validity has ended or its holder acknowledges the loss; the restart started that wait again
        "#]],
    );
    check(
        &mut tale.history(),
        Subject::Resource("q".into()),
        expect![[r#"
            1 22:13:21 #1 holder | granted | granted to carol: q; ttl 30 s (renew every 10 s), grace 5 s
            2 22:13:21 #1 holder | released | released by carol: q free again
            next: q is free: the next grant takes it
        "#]],
    );
}
