//! What the numbers say of polling.

use serde_json::json;

use super::ways::{ByHand, LONG_MS, SHORT_MS, hand_over, let_go, of_lease, unowned, until};
use crate::daemon::Daemon;
use crate::streams::ways::Streams as _;

fn targets(daemon: &Daemon, state: &str) -> f64 {
    daemon.http().number("tenure_poll_targets", &["group=\"web\"", &format!("state=\"{state}\"")])
}

fn moves(daemon: &Daemon, reason: &str) -> f64 {
    daemon.http().number("tenure_poll_moves_total", &["group=\"web\"", &format!("reason=\"{reason}\"")])
}

#[test]
fn targets_are_counted_by_state() {
    let daemon = Daemon::start();
    let text = daemon.get("/metrics").text();
    for (name, kind) in
        [("poll_targets", "gauge"), ("poll_moves_total", "counter"), ("poll_unowned_seconds", "histogram")]
    {
        assert!(text.contains(&format!("# TYPE tenure_{name} {kind}\n")), "{name}");
    }
    let states = ["owned", "uncertain", "draining", "unowned", "abandoned"];
    let count = || states.map(|state| targets(&daemon, state));
    assert_eq!(count(), [0.0; 5]);
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    let den = ByHand::join(&daemon, "den", SHORT_MS);
    let leases: Vec<_> = (0..4).map(|number| kitchen.take(&daemon, &format!("s{number}"))).collect();
    den.take(&daemon, "d1");
    assert_eq!(count(), [5.0, 0.0, 0.0, 0.0, 0.0]);
    of_lease(&daemon, &leases[0], "drain", &json!({}));
    let_go(&daemon, &leases[1], "rebalanced");
    let_go(&daemon, &leases[2], "target_removed");
    assert_eq!((targets(&daemon, "draining"), targets(&daemon, "unowned") >= 1.0), (1.0, true));
    until(&daemon, "the end of one", |seen| unowned(seen).len() == 2);
    assert_eq!(count(), [1.0, 0.0, 1.0, 2.0, 0.0]);
    kitchen.close(&daemon);
    until(&daemon, "the end of the other", |seen| seen["live_nodes"] == json!([]));
    assert_eq!(count(), [0.0, 0.0, 0.0, 0.0, 4.0], "nobody asks for them any more");
}

#[test]
fn every_way_to_leave_a_poller_is_counted() {
    let daemon = Daemon::start();
    let (kitchen, hall) = (ByHand::join(&daemon, "kitchen", LONG_MS), ByHand::join(&daemon, "hall", LONG_MS));
    for reason in ["voluntary", "rebalanced", "shutdown", "target_removed"] {
        assert_eq!(moves(&daemon, reason), 0.0);
        let_go(&daemon, &kitchen.take(&daemon, "s1"), reason);
        assert_eq!(moves(&daemon, reason), 1.0, "{reason}");
    }
    let lease = hand_over(&daemon, &kitchen.take(&daemon, "s1"), &hall.session);
    assert_eq!(moves(&daemon, "rebalanced"), 2.0, "a hand-over says no word");
    hall.tell(&daemon, "leaving");
    let lease = hand_over(&daemon, &lease, &kitchen.session);
    assert_eq!(moves(&daemon, "shutdown"), 2.0, "who leaves hands over because of that");
    of_lease(&daemon, &lease, "rebind", &json!({"epoch": lease["epoch"], "attachment": {"x": 1}}));
    kitchen.go_away(&daemon, &[], LONG_MS);
    let mut all = ["voluntary", "rebalanced", "shutdown", "target_removed", "ttl_expiry", "revoked"]
        .map(|reason| moves(&daemon, reason));
    assert_eq!(all, [1.0, 2.0, 2.0, 1.0, 0.0, 0.0], "nothing else is a move");
    let den = ByHand::join(&daemon, "den", SHORT_MS);
    den.take(&daemon, "d1");
    until(&daemon, "its end", |seen| unowned(seen).contains(&"d1"));
    all[4] = moves(&daemon, "ttl_expiry");
    assert_eq!(all[4], 1.0);
}

#[test]
fn one_that_comes_back_in_time_has_moved_nothing() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    let lease = kitchen.take(&daemon, "s1");
    let before = daemon.http().number("tenure_poll_moves_total", &[]);
    kitchen.tell(&daemon, "leaving");
    kitchen.go_away(&daemon, &[lease], LONG_MS);
    let away = super::ways::lease_of(&daemon, "s1").unwrap();
    assert_eq!(away["holder"], "kitchen~absent");
    hand_over(&daemon, &away, &kitchen.session);
    assert_eq!(daemon.http().number("tenure_poll_moves_total", &[]), before);
}

#[test]
fn how_long_a_target_was_nobodys_is_counted_when_it_is_taken() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    let count = || daemon.http().number("tenure_poll_unowned_seconds_count", &[]);
    let lease = kitchen.take(&daemon, "s1");
    assert_eq!(count(), 0.0, "it never was anybody's before");
    let_go(&daemon, &lease, "voluntary");
    assert_eq!(count(), 0.0, "it still is nobody's");
    let lease = kitchen.take(&daemon, "s1");
    assert_eq!(count(), 1.0);
    let sum = daemon.http().number("tenure_poll_unowned_seconds_sum", &[]);
    assert!((0.0..30.0).contains(&sum), "{sum}");
    hand_over(&daemon, &lease, &ByHand::join(&daemon, "hall", LONG_MS).session);
    assert_eq!(count(), 1.0, "a hand-over has no moment in between");
}

#[test]
fn no_label_names_a_target_or_a_poller_and_groups_are_bounded() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    kitchen.take(&daemon, "the-target");
    let mut http = daemon.http();
    for number in 0..120 {
        let body = json!({"resources": [format!("poll/g{number:03}/x")], "holder": "h", "ttl_ms": 60_000});
        assert_eq!(http.post("/v1/leases", &body).status, 201);
    }
    let text = daemon.get("/metrics").text();
    assert!(!text.contains("the-target") && !text.contains("kitchen"));
    let of_targets = text.lines().filter(|line| line.starts_with("tenure_poll_targets{"));
    let owned: Vec<&str> = of_targets.filter(|line| line.contains("state=\"owned\"")).collect();
    assert_eq!(owned.len(), 101, "a hundred, and the others together");
    assert_eq!(daemon.http().number("tenure_poll_targets", &["group=\"other\"", "owned"]), 21.0);
}
