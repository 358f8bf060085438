//! What a resource may be called, and the words that must never change.

use crate::script::check;
use expect_test::expect;
use std::fmt::Write as _;
use tenure_kernel::names::{NameFault, check_name, normalize, pool_member, split_pool_member};
use tenure_kernel::*;

#[test]
fn every_fault_of_a_name_is_found() {
    let long = "n".repeat(255);
    let too_long = "n".repeat(256);
    let wide = "é".repeat(128);
    for (name, expected) in [
        ("a", Ok(())),
        ("a/b/c", Ok(())),
        ("...", Ok(())),
        ("a.b/.c", Ok(())),
        ("with space", Ok(())),
        ("ünïcödé/名前", Ok(())),
        ("mdns", Ok(())),
        (&long, Ok(())),
        ("", Err(NameFault::Empty)),
        (&too_long, Err(NameFault::TooLong)),
        (&wide, Err(NameFault::TooLong)),
        ("/a", Err(NameFault::EmptySegment)),
        ("a/", Err(NameFault::EmptySegment)),
        ("a//b", Err(NameFault::EmptySegment)),
        ("/", Err(NameFault::EmptySegment)),
        (".", Err(NameFault::DotSegment)),
        ("a/..", Err(NameFault::DotSegment)),
        ("./a", Err(NameFault::DotSegment)),
        ("a\nb", Err(NameFault::ControlCharacter)),
        ("a\u{7f}", Err(NameFault::ControlCharacter)),
        ("a\0", Err(NameFault::ControlCharacter)),
        ("é\u{85}", Err(NameFault::ControlCharacter)),
        ("é\n", Err(NameFault::ControlCharacter)),
        ("e\u{301}", Err(NameFault::NotNormalized)),
        ("\u{212b}", Err(NameFault::NotNormalized)),
    ] {
        assert_eq!(check_name(name), expected, "{name:?}");
    }
}

#[test]
fn a_name_can_be_mended_into_the_accepted_spelling() {
    assert_eq!(normalize("cafe\u{301}"), "café");
    assert_eq!(check_name(&normalize("cafe\u{301}")), Ok(()));
    assert_eq!(normalize("plain"), "plain");
}

#[test]
fn members_split_the_way_they_are_spelled() {
    assert_eq!(pool_member("p/q", 7), "p/q/7");
    for (name, expected) in [
        ("p/1", Some(("p", 1))),
        ("a/b/10", Some(("a/b", 10))),
        ("p/65536", Some(("p", 65_536))),
        ("p/65537", None),
        ("p/99999", None),
        ("p/100000", None),
        ("p/0", None),
        ("p/01", None),
        ("p/+1", None),
        ("p/1a", None),
        ("p/", None),
        ("p", None),
        ("7", None),
    ] {
        assert_eq!(split_pool_member(name), expected, "{name}");
    }
}

#[test]
fn the_prefix_of_registrations_is_refused_to_others() {
    check(
        " 0 grant mdns/printer holder=x
          0 grant mdns/printer holder=x face=streams
          0 grant [a,mdns/printer] holder=x face=polling
          0 grant mdns*1 holder=x
          0 grant mdns/p*1 holder=x
          0 grant mdns/printer holder=x face=registrations
          0 grant mdns holder=x
          0 grant mdnsx holder=x
          0 grant poll/target holder=x",
        expect![[r#"
              0  – grant mdns/printer holder=x                    → invalid_name 'mdns/printer' lies under a prefix reserved to registrations
              0  – grant mdns/printer holder=x face=streams       → invalid_name 'mdns/printer' lies under a prefix reserved to registrations
              0  – grant [a,mdns/printer] holder=x face=polling   → invalid_name 'mdns/printer' lies under a prefix reserved to registrations
              0  – grant mdns*1 holder=x                          → pool_not_found mdns
              0  – grant mdns/p*1 holder=x                        → invalid_name 'mdns/p' lies under a prefix reserved to registrations
              0  1 grant mdns/printer holder=x face=registrations → granted lease 1 epoch 1 fence 1
              0  2 grant mdns holder=x                            → granted lease 2 epoch 1 fence 2
              0  3 grant mdnsx holder=x                           → granted lease 3 epoch 1 fence 3
              0  4 grant poll/target holder=x                     → granted lease 4 epoch 1 fence 4
        "#]],
    );
}

#[test]
fn a_bad_name_in_a_command_says_which_and_why() {
    check(
        " 0 grant [ok,a//b] holder=x
          0 grant ok holder=x or=..
          0 grant [ok,] holder=x
          0 grant a/*1 holder=x
          0 grant ok holder=
          0 pool a/./b 3",
        expect![[r#"
              0  – grant [ok,a//b] holder=x → invalid_name 'a//b' has an empty segment
              0  – grant ok holder=x or=..  → invalid_name '..' has a segment '.' or '..'
              0  – grant [ok,] holder=x     → invalid_name '' is empty
              0  – grant a/*1 holder=x      → invalid_name 'a/' has an empty segment
              0  – grant ok holder=         → invalid_name '' is empty
              0  – pool a/./b 3             → invalid_name 'a/./b' has a segment '.' or '..'
        "#]],
    );
}

#[test]
fn words_of_the_wire_never_change() {
    let mut out = String::new();
    let mut row = |what: &str, words: Vec<&str>| writeln!(out, "{what}: {}", words.join(" ")).unwrap();
    row("state", StateName::ALL.iter().map(|word| word.as_str()).collect());
    row("live", StateName::ALL.iter().filter(|word| word.is_live()).map(|word| word.as_str()).collect());
    row("reason", Reason::ALL.iter().map(|word| word.as_str()).collect());
    row("mode", Mode::ALL.iter().map(|word| word.as_str()).collect());
    row("face", Face::ALL.iter().map(|word| word.as_str()).collect());
    row("session kind", SessionKind::ALL.iter().map(|word| word.as_str()).collect());
    row("event", ChangeKind::ALL.iter().map(|word| word.as_str()).collect());
    let notes = crate::samples::notes();
    row("note", notes.iter().map(Note::kind).collect());
    let faults = [
        NameFault::Empty,
        NameFault::TooLong,
        NameFault::EmptySegment,
        NameFault::DotSegment,
        NameFault::ControlCharacter,
        NameFault::NotNormalized,
        NameFault::ReservedPrefix,
    ];
    for fault in faults {
        row("fault", vec![fault.as_str()]);
    }
    expect![[r#"
        state: reserved active revoking released expired revoked
        live: reserved active revoking
        reason: explicit session_expired heartbeat_expired reservation_expired max_lifetime admin_force shutdown rebalanced pool_removed abandoned restored
        mode: session heartbeat permanent
        face: leases registrations streams polling
        session kind: connection stdin by_hand
        event: granted activated rebound amended draining revived released revoked reclaimed expired session_opened session_closed pool_defined pool_removed notified trimmed configured
        note: draining revived gate_opened breaker_opened breaker_closed stalled restarted
        fault: is empty
        fault: is longer than 255 bytes
        fault: has an empty segment
        fault: has a segment '.' or '..'
        fault: contains a control character
        fault: is not in Unicode normal form C
        fault: lies under a prefix reserved to registrations
    "#]].assert_eq(&out);
}

#[test]
fn identifiers_print_the_way_people_read_them() {
    let lease = LeaseId::new(3, Lsn(7));
    assert_eq!((lease.shard(), lease.lsn()), (3, Lsn(7)));
    assert_eq!(lease.0, (3 << 64) | 7);
    assert_eq!(format!("{lease} {}", LeaseId::new(0, Lsn(7))), "3/7 7");
    assert_eq!(format!("{} {} {} {}", Lsn(1), Tick(2), Epoch(3), Fence(4)), "1 2 3 4");
    assert_eq!(format!("{}", SessionId(0xab)), "000000ab");
    assert_eq!(Tick(5).ms_since(Tick(3)), 2);
    assert_eq!(Tick(3).ms_since(Tick(5)), 0);
    assert_eq!(Tick(u64::MAX).after_ms(1), Tick(u64::MAX));
    assert_eq!(Tick(1).after_ms(2), Tick(3));
}
