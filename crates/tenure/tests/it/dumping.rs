//! `tenure log dump`.

use std::io::Read;
use std::process::{Command, Stdio};

use expect_test::expect;
use tenure_kernel::{Change, Note, Policy, RecordKind};

use crate::fixture::{Fixture, flip, granted, segments, tenure};

#[test]
fn every_record_is_one_line() {
    let mut fixture = Fixture::begin();
    fixture.write_a_story();
    fixture.note(13_000, Note::BreakerOpened { silent: 20, alive: 30 });
    fixture.raw(13_000, RecordKind::Note, &[99, 1, 2]);
    fixture.raw(13_000, RecordKind::Event, &[0xff]);
    fixture.raw(14_000, RecordKind::Tick, &14_500_u64.to_le_bytes());
    fixture.close();
    let directory = fixture.directory;
    drop(fixture.log);
    let answer = tenure(Some(directory.path()), &["log", "dump", "DIR"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
    expect![[r#"
        {"lsn":1,"tick":1000,"at":"2023-11-14T22:13:21.000Z","record":"config","kind":"configured","lease_id":null,"window_ms":86400000,"leases_max":1000000,"leases_per_face_max":1000000,"operations_per_principal_max":1000000,"frame":{"segment":"00000000000000000001.seg","offset":1104}}
        {"lsn":2,"tick":1000,"at":"2023-11-14T22:13:21.000Z","record":"event","kind":"session_opened","lease_id":null,"session":"0000002d","holder":"host","session_kind":"connection","ttl_ms":0,"grace_ms":5000,"principal":"uid:1000","frame":{"segment":"00000000000000000001.seg","offset":1204}}
        {"lsn":3,"tick":2000,"at":"2023-11-14T22:13:22.000Z","record":"event","kind":"pool_defined","lease_id":null,"pool":"gpu","size":2,"frame":{"segment":"00000000000000000001.seg","offset":1310}}
        {"lsn":4,"tick":3000,"at":"2023-11-14T22:13:23.000Z","record":"event","kind":"granted","lease_id":"as33-4","holder":"alice","resources":["r1","r2"],"deadline_tick":null,"policy":{"mode":"heartbeat","ttl_ms":90000,"grace_ms":30000,"max_lifetime_ms":0,"reclaim_delay_ms":0,"reclaim_rule":"after_promise","face":"leases","gate":false,"notice":false,"session":null,"principal":"local"},"attachment":{"job":7},"granted_at":"2023-11-14T22:13:20.000Z","operation":{"key":"00000000000000000000000000000004","fingerprint":"0000000000000009","keep_ms":600000,"principal":"local"},"frame":{"segment":"00000000000000000001.seg","offset":1402}}
        {"lsn":5,"tick":4000,"at":"2023-11-14T22:13:24.000Z","record":"event","kind":"granted","lease_id":"as33-5","holder":"bob","resources":["gpu/1"],"deadline_tick":64000,"policy":{"mode":"heartbeat","ttl_ms":30000,"grace_ms":0,"max_lifetime_ms":0,"reclaim_delay_ms":0,"reclaim_rule":"after_promise","face":"leases","gate":false,"notice":false,"session":null,"principal":"local"},"granted_at":"2023-11-14T22:13:20.000Z","operation":{"key":"00000000000000000000000000000005","fingerprint":"0000000000000009","keep_ms":600000,"principal":"local"},"frame":{"segment":"00000000000000000001.seg","offset":1573}}
        {"lsn":6,"tick":5000,"at":"2023-11-14T22:13:25.000Z","record":"event","kind":"granted","lease_id":"as33-6","holder":"carol","resources":["mdns/x"],"deadline_tick":null,"policy":{"mode":"session","ttl_ms":0,"grace_ms":5000,"max_lifetime_ms":0,"reclaim_delay_ms":0,"reclaim_rule":"after_promise","face":"leases","gate":false,"notice":false,"session":"0000002d","principal":"local"},"face_data_hex":"ff00","granted_at":"2023-11-14T22:13:20.000Z","operation":{"key":"00000000000000000000000000000006","fingerprint":"0000000000000009","keep_ms":600000,"principal":"local"},"frame":{"segment":"00000000000000000001.seg","offset":1734}}
        {"lsn":7,"tick":6000,"at":"2023-11-14T22:13:26.000Z","record":"note","kind":"draining","session":"0000002d","last_seen_tick":6000,"until_tick":11000,"frame":{"segment":"00000000000000000001.seg","offset":1897}}
        {"lsn":8,"tick":11000,"at":"2023-11-14T22:13:31.000Z","record":"event","kind":"revoked","lease_id":"as33-6","epoch":2,"reason":"session_expired","reason_text":null,"actor":"daemon","evidence":{"kind":"disconnected","at_tick":6000},"reclaim_by":"daemon","frame":{"segment":"00000000000000000008.seg","offset":1024}}
        {"lsn":9,"tick":12000,"at":"2023-11-14T22:13:32.000Z","record":"event","kind":"draining","lease_id":"as33-4","actor":"operator:dora","reason_text":"maintenance","frame":{"segment":"00000000000000000008.seg","offset":1121}}
        {"lsn":10,"tick":13000,"at":"2023-11-14T22:13:33.000Z","record":"note","kind":"breaker_opened","silent":20,"alive":30,"frame":{"segment":"00000000000000000008.seg","offset":1228}}
        {"lsn":11,"tick":13000,"at":"2023-11-14T22:13:33.000Z","record":"note","kind":null,"unreadable":"a note of a kind that this version does not know","bytes_hex":"630102","frame":{"segment":"00000000000000000008.seg","offset":1316}}
        {"lsn":12,"tick":13000,"at":"2023-11-14T22:13:33.000Z","record":"event","kind":null,"unreadable":"unknown event code 255","bytes_hex":"ff","frame":{"segment":"00000000000000000008.seg","offset":1404}}
        {"lsn":13,"tick":14500,"at":"2023-11-14T22:13:34.500Z","record":"tick","frame":{"segment":"00000000000000000008.seg","offset":1490}}
        {"lsn":14,"tick":14000,"at":"2023-11-14T22:13:34.000Z","record":"close","frame":{"segment":"00000000000000000008.seg","offset":1583}}
    "#]].assert_eq(&answer.out);
    for line in answer.out.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(object["lsn"].is_u64() && object["record"].is_string());
    }
}

fn lsns(arguments: &[&str]) -> Vec<u64> {
    let directory = Fixture::stopped();
    let answer = tenure(Some(directory.path()), &[&["log", "dump", "DIR"], arguments].concat());
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
    let lsn = |line| serde_json::from_str::<serde_json::Value>(line).unwrap()["lsn"].as_u64().unwrap();
    answer.out.lines().map(lsn).collect()
}

#[test]
fn records_are_chosen_by_lsn_and_kind() {
    assert_eq!(lsns(&[]), (1..=10).collect::<Vec<_>>());
    assert_eq!(lsns(&["--from", "4", "--to", "6"]), [4, 5, 6]);
    assert_eq!(lsns(&["--from", "9"]), [9, 10]);
    assert!(lsns(&["--from", "99"]).is_empty());
    assert_eq!(lsns(&["--kind", "note"]), [7]);
    assert_eq!(lsns(&["--kind", "config,close"]), [1, 10]);
    assert_eq!(lsns(&["--kind", "config", "--kind", "note", "--from", "2", "--json"]), [7]);
}

#[test]
fn what_comes_before_damage_is_printed() {
    let directory = Fixture::stopped();
    flip(&segments(&directory)[1], 1024 + 90);
    let answer = tenure(Some(directory.path()), &["log", "dump", "DIR"]);
    assert_eq!(answer.code, 3);
    assert!(answer.out.lines().count() > 3);
    expect![[r#"
        error: the log is damaged: 00000000000000000008.seg at offset 1024: the frame's checksum does not match; not a torn tail, since a frame written later begins at offset 1121
        hint: tenure log verify DIR
    "#]].assert_eq(&answer.err);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut fixture = Fixture::begin();
    for round in 0..2_000 {
        let name = format!("resource/number/{round}");
        fixture.event(1_000 + round, Change::Granted(granted("somebody", &[&name], Policy::permanent())));
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(["log", "dump", "--quiet"])
        .arg(fixture.directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Far more than a pipe holds is still to come when the reader leaves.
    let mut first = [0; 100];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}
