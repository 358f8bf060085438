//! Ten thousand targets.

use std::time::Duration;

use serde_json::json;

use super::ways::{ByHand, GROUP, LONG_MS, steered, unowned, until, view};
use crate::daemon::{Daemon, LIMIT};
use crate::run_support::{boot_ms, wait_until};

const TARGETS: usize = 10_000;
const POLLERS: usize = 10;

/// Takes a poller's share of the targets, many requests under way at once.
fn take_share(daemon: &Daemon, poller: &ByHand, number: usize) {
    let mut http = daemon.http();
    let shares: Vec<usize> = (0..TARGETS).filter(|target| target % POLLERS == number).collect();
    for page in shares.chunks(50) {
        for target in page {
            let resource = format!("poll/{GROUP}/s{target:05}");
            let body = json!({"resources": [resource], "holder": poller.instance, "session": poller.session});
            http.send("POST", "/v1/leases", body.to_string().as_bytes()).unwrap();
        }
        for _ in page {
            assert_eq!(http.answer().unwrap().status, 201);
        }
    }
}

#[test]
fn ten_thousand_targets_are_shown_counted_and_missed() {
    let mut daemon = Daemon::start();
    let pollers: Vec<ByHand> =
        (0..POLLERS).map(|number| ByHand::join_drawn(&daemon, &format!("p{number}"), LONG_MS)).collect();
    std::thread::scope(|scope| {
        for (number, poller) in pollers.iter().enumerate() {
            let daemon = &daemon;
            scope.spawn(move || take_share(daemon, poller, number));
        }
    });
    let began = boot_ms();
    let seen = view(&daemon);
    let took = boot_ms() - began;
    let nodes = seen["live_nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), POLLERS);
    for node in nodes {
        assert_eq!(node["owned_targets"].as_array().unwrap().len(), TARGETS / POLLERS);
    }
    assert!(took < Duration::from_secs(5).as_millis() as u64, "{took} ms");
    steered(&daemon, "cordon", &json!({"poller": "p3"}));
    pollers[0].close(&daemon);
    let seen =
        until(&daemon, "a thousand that are nobody's", |seen| unowned(seen).len() == TARGETS / POLLERS);
    let should = seen["unowned"].as_object().unwrap().values();
    let should: Vec<&str> = should.filter_map(|told| told["preferred_owner_id"].as_str()).collect();
    assert_eq!(should.len(), TARGETS / POLLERS, "somebody should take each");
    assert!(!should.contains(&"p3") && !should.contains(&"p0"));
    daemon.kill();
    daemon.start_again();
    wait_until("what was nobody's before the restart", LIMIT, || {
        unowned(&view(&daemon)).len() == TARGETS / POLLERS
    });
}
