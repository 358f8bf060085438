//! An operator takes a lease away under the hands of a poller, on a daemon where nothing else happens.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::scene::{Kind, SLACK_MS, Scene, TTL_MS, WINDOW_MS};
use crate::run_support::boot_ms;

/// Revokes the lease of a name in the group; gives its fence.
#[track_caller]
fn revoke(scene: &Scene, name: &str) -> u64 {
    let resource = format!("poll/default/{name}");
    let mut http = scene.http();
    let listed = http.get(&format!("/v1/leases?resource_prefix={resource}")).json();
    let leases: Vec<&Value> = listed["leases"].as_array().unwrap().iter().collect();
    let lease = leases.iter().find(|lease| lease["resources"][0] == resource.as_str()).unwrap();
    let id = lease["lease_id"].as_str().unwrap();
    let answered = http.post(&format!("/v1/leases/{id}/revoke"), &json!({"reason": "a test"}));
    assert_eq!(answered.status, 200, "{answered:?}");
    lease["fence"].as_u64().unwrap()
}

fn a_target_that_is_revoked(scene: &Scene) {
    scene.wait_for_all_since(0);
    let before = scene.wait_until_settled(WINDOW_MS);
    let owner = before.owners()["t1"].to_owned();
    let fence = revoke(scene, "t1");
    let revoked_ms = boot_ms();
    assert_eq!(before.begins().rfind(|line| line.target == "t1").unwrap().fence, fence);
    let end = scene.wait_for("polls of it again", |witness| {
        let again = witness.begins().filter(|line| line.target == "t1" && line.fence > fence);
        again.count() > 3
    });
    let of_it = |line: &&super::witness::Line| line.target == "t1" && line.fence == fence;
    let last_ms = end.0.iter().rfind(of_it).unwrap().at_ms;
    assert!(last_ms <= revoked_ms + TTL_MS, "{owner} polled it for {} ms", last_ms - revoked_ms);
    let mut again = end.begins().filter(|line| line.target == "t1" && line.fence > fence);
    let after_ms = again.next().unwrap().at_ms - revoked_ms;
    assert!(after_ms <= TTL_MS + 1_000 + SLACK_MS, "taken again after {after_ms} ms");
    end.assert_never_two();
    // Nobody polls without a lease: what is polled is what the daemon knows, under the same fences.
    let settled = scene.wait_until_settled(WINDOW_MS);
    let listed = scene.http().get("/v1/leases?resource_prefix=poll/default/t").json();
    let leases = listed["leases"].as_array().unwrap();
    let fences: BTreeMap<&str, u64> = leases
        .iter()
        .map(|lease| (lease["resources"][0].as_str().unwrap(), lease["fence"].as_u64().unwrap()))
        .collect();
    for target in settled.owners().into_keys() {
        let polled = settled.begins().rfind(|line| line.target == target).unwrap();
        assert_eq!(fences.get(&*format!("poll/default/{target}")), Some(&polled.fence), "{listed}");
    }
}

#[test]
fn a_target_that_is_revoked_is_polled_again_under_a_new_lease() {
    let scene = Scene::of(Kind::Daemon, 4);
    let _pollers = [scene.named("one"), scene.named("two")];
    a_target_that_is_revoked(&scene);
}

#[test]
fn a_lone_poller_whose_target_is_revoked_takes_it_again() {
    let scene = Scene::of(Kind::Daemon, 2);
    let _poller = scene.named("one");
    a_target_that_is_revoked(&scene);
}

#[test]
fn a_poller_whose_membership_is_revoked_comes_back_by_itself() {
    let scene = Scene::of(Kind::Daemon, 6);
    let (mut one, two) = (scene.named("one"), scene.named("two"));
    scene.wait_for_shares(&[&one, &two], &[3, 3]);
    revoke(&scene, "@poller/one");
    let revoked_ms = boot_ms();
    one.wait_for_words("joining again");
    let joined_ms = boot_ms();
    scene.wait_for("its polls", |witness| {
        witness.since(joined_ms.max(revoked_ms + TTL_MS)).by(&one.instance).count() > 3
    });
    let end = scene.wait_for_shares(&[&one, &two], &[3, 3]);
    end.assert_never_two();
    assert!(!one.running.is_over());
    let nodes = scene.tenure(&["nodes"]);
    assert!(nodes.out.contains("one") && nodes.out.contains("two"), "{}", nodes.all());
}
