//! How the members of an etcd are, as the store tells it.

use crate::etcd::{LONG, put_now};
use crate::members::Members;

#[test]
fn a_survey_finds_every_member_through_one_endpoint() {
    let mut members = Members::start(3);
    let leader = members.leader();
    let store = members.store_at(vec![members.endpoint(leader)]);
    put_now(&store, "a", "1");
    let mut survey = store.survey(LONG).unwrap();
    survey.sort_by(|one, other| one.member.name.cmp(&other.member.name));
    assert_eq!(survey.iter().map(|one| one.member.name.as_str()).collect::<Vec<_>>(), ["m1", "m2", "m3"]);
    for (at, one) in survey.iter().enumerate() {
        let status = one.status.as_ref().unwrap();
        assert_eq!(status.member_id, one.member.id);
        assert_eq!(one.member.addresses, [members.endpoint(at)]);
        assert_eq!(status.is_leader, at == leader);
        assert_eq!(status.leader_id, Some(survey[leader].member.id));
        assert!(status.version.starts_with("3."), "{}", status.version);
        assert!(status.db_bytes >= status.db_bytes_in_use && status.db_bytes_in_use > 0);
        assert!(status.raft_term > 0 && status.errors.is_empty() && one.alarms.is_empty());
        assert_eq!(one.metrics.unwrap().quota_bytes, Some(2 << 30));
    }
    let follower = (leader + 1) % 3;
    members.kill(follower);
    let mut survey = store.survey(LONG).unwrap();
    survey.sort_by(|one, other| one.member.name.cmp(&other.member.name));
    assert_eq!(survey[follower].status, None);
    assert_eq!(survey[follower].metrics, None);
    assert!(survey[leader].status.is_some());
}

#[test]
fn every_write_is_synced_before_it_is_answered() {
    let members = Members::start(1);
    let store = members.store();
    let synced = || store.metrics(&members.endpoint(0), LONG).unwrap().wal_fsyncs.unwrap();
    let before = synced();
    for value in ["1", "2", "3"] {
        put_now(&store, "a", value);
    }
    assert!(synced() >= before + 3);
}
