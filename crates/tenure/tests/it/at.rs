//! `tenure log at`.

use expect_test::{Expect, expect};
use tempfile::TempDir;
use tenure_kernel::RecordKind;

use crate::fixture::{Fixture, START_MS, tenure};

fn check(directory: &TempDir, arguments: &[&str], expected: Expect) {
    expected.assert_eq(&tenure(Some(directory.path()), &[&["log", "at"], arguments].concat()).all());
}

#[test]
fn the_state_at_the_end() {
    let directory = Fixture::stopped();
    check(
        &directory,
        &["10", "DIR"],
        expect![[r#"
            exit 0
            --- out
            log as33 after lsn 10, 2023-11-14T22:13:32.000Z

            3 leases
            ID      HOLDER  STATE                      MODE       EPOCH  RESOURCES  AGE  GRANTED
            as33-4  alice   active, drained            heartbeat  1      r1, r2     9 s  2023-11-14T22:13:20.000Z
            as33-5  bob     reserved, 52 s left        heartbeat  1      gpu/1      8 s  2023-11-14T22:13:20.000Z
            as33-6  carol   revoking, session_expired  session    2      mdns/x     7 s  2023-11-14T22:13:20.000Z

            1 pool
            NAME  SIZE  FREE
            gpu   2     1

            1 session
            ID             HOLDER  KEPT BY     GRACE  LEASES  AGE
            pipe:0000002d  host    connection  5 s    1       11 s
            --- err
        "#]],
    );
    check(
        &directory,
        &["10", "DIR", "--json"],
        expect![[r#"
            exit 0
            --- out
            {"tag":"as33","lsn":10,"tick":12000,"at":"2023-11-14T22:13:32.000Z","built_on":null,"ended":0,"operations":3,"notices":0,"leases":[{"lease_id":"as33-4","holder":"alice","state":"active","drain_cause":"operator","mode":"heartbeat","epoch":1,"fence":1782579200000004,"resources":["r1","r2"],"ttl_ms":90000,"grace_ms":30000,"max_lifetime_ms":0,"granted_at":"2023-11-14T22:13:20.000Z","deadline":null,"reason":null,"reason_text":null,"actor":null,"evidence":null,"reclaim_by":null,"session":null,"principal":"local","face":"leases","changed_lsn":9,"attachment":{"job":7}},{"lease_id":"as33-5","holder":"bob","state":"reserved","drain_cause":null,"mode":"heartbeat","epoch":1,"fence":1782579200000005,"resources":["gpu/1"],"ttl_ms":30000,"grace_ms":0,"max_lifetime_ms":0,"granted_at":"2023-11-14T22:13:20.000Z","deadline":"2023-11-14T22:14:24.000Z","reason":null,"reason_text":null,"actor":null,"evidence":null,"reclaim_by":null,"session":null,"principal":"local","face":"leases","changed_lsn":5},{"lease_id":"as33-6","holder":"carol","state":"revoking","drain_cause":null,"mode":"session","epoch":2,"fence":1782579200000006,"resources":["mdns/x"],"ttl_ms":0,"grace_ms":5000,"max_lifetime_ms":0,"granted_at":"2023-11-14T22:13:20.000Z","deadline":null,"reason":"session_expired","reason_text":null,"actor":"daemon","evidence":{"kind":"disconnected","at_tick":6000},"reclaim_by":"daemon","session":"pipe:0000002d","principal":"local","face":"leases","changed_lsn":8,"face_data_hex":"ff00"}],"pools":[{"name":"gpu","size":2,"free":1,"removed":false}],"sessions":[{"session":"pipe:0000002d","holder":"host","kind":"connection","ttl_ms":0,"grace_ms":5000,"principal":"uid:1000","opened_at":"2023-11-14T22:13:21.000Z","closed":null,"leases":1}]}
            --- err
        "#]],
    );
}

#[test]
fn the_state_at_the_beginning() {
    let directory = Fixture::stopped();
    check(
        &directory,
        &["0", "DIR"],
        expect![[r#"
        exit 0
        --- out
        log as33 before its first record

        0 leases

        0 pools

        0 sessions
        --- err
    "#]],
    );
    check(
        &directory,
        &["0", "DIR", "--json"],
        expect![[r#"
        exit 0
        --- out
        {"tag":"as33","lsn":0,"tick":0,"at":null,"built_on":null,"ended":0,"operations":0,"notices":0,"leases":[],"pools":[],"sessions":[]}
        --- err
    "#]],
    );
}

#[test]
fn a_time_is_rfc_3339_or_unix_milliseconds() {
    let directory = Fixture::stopped();
    let at = |point: &str| tenure(Some(directory.path()), &["log", "at", point, "DIR"]).all();
    let expected = at("4");
    assert!(expected.contains("after lsn 4, 2023-11-14T22:13:23.000Z"), "{expected}");
    assert_eq!(at(&(START_MS + 3_999).to_string()), expected);
    assert_eq!(at("2023-11-14T22:13:23.999Z"), expected);
    assert_eq!(at("2023-11-14T23:13:23+01:00"), expected);
}

#[test]
fn points_that_cannot_be_told() {
    let directory = Fixture::stopped();
    check(
        &directory,
        &["11", "DIR"],
        expect![[r#"
        exit 1
        --- out
        --- err
        error: the log ends at lsn 10
        hint: tenure log at 10 DIR
    "#]],
    );
    check(
        &directory,
        &["2020-01-01T00:00:00Z", "DIR"],
        expect![[r#"
        exit 1
        --- out
        --- err
        error: the oldest record that is kept was written at 2023-11-14T22:13:21.000Z
        hint: tenure log at 2023-11-14T22:13:21.000Z DIR
    "#]],
    );
}

#[test]
fn a_record_in_the_way_that_cannot_be_understood() {
    let mut fixture = Fixture::begin();
    fixture.write_a_story();
    fixture.raw(20_000, RecordKind::Event, b"\xffgarbage");
    let directory = fixture.directory;
    drop(fixture.log);
    assert_eq!(tenure(Some(directory.path()), &["log", "at", "9", "DIR"]).code, 0);
    check(
        &directory,
        &["10", "DIR"],
        expect![[r#"
        exit 3
        --- out
        --- err
        error: the log is damaged: record 10 cannot be decoded: unknown event code 255
        hint: tenure log verify DIR
    "#]],
    );
}
