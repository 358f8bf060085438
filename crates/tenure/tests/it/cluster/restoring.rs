//! etcd is put back to a backup while holders live: nodes know more than the store and refuse to go on with it, so that
//! nothing is granted twice.

use std::time::Duration;

use serde_json::json;

use super::caller::{Caller, Journal, Outcome, Terms};
use super::checker::check;
use super::harness::{Cluster, NODES};
use super::history::Heard;
use super::store::Member;
use crate::run_support::holds_for;

/// Everything stops, `each` is done to every member, everything goes on.
fn with_members_down(cluster: &mut Cluster, each: impl Fn(&Member)) {
    cluster.members.iter_mut().for_each(Member::kill);
    cluster.members.iter().for_each(each);
    cluster.members.iter_mut().for_each(Member::start);
    cluster.members.iter().for_each(Member::wait_until_healthy);
}

#[test]
fn etcd_restored_from_a_backup_is_refused_and_nothing_is_granted_twice() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let journal = Journal::begin();
    let terms = Terms { ttl_ms: 60_000, grace_ms: 0, wait_ms: 0 };
    let mut caller = Caller::new(&cluster, &journal);
    let take = |caller: &mut Caller, node, name: &str| {
        let outcome =
            caller.acquire(node, &format!("take-{name}"), (name, &format!("holder-{name}")), &terms);
        assert!(matches!(outcome, Outcome::Heard(Heard::Granted { .. }, _)), "{name}: {outcome:?}");
    };
    take(&mut caller, 0, "before");
    with_members_down(&mut cluster, Member::back_up);
    cluster.wait_until_whole();
    // What the backup does not know: a holder, and another writer.
    take(&mut caller, 1, "after");
    cluster.nodes[0].post("/v1/cluster/step-down", &json!({}));
    cluster.wait_until_whole();
    take(&mut caller, 2, "last");
    with_members_down(&mut cluster, Member::restore);
    // Whatever is still up: nobody gets what living holders have.
    let mut asked = 0;
    holds_for(Duration::from_secs(5), || {
        for (node, name) in (0..NODES.len()).zip(["before", "after", "last"]) {
            asked += 1;
            let operation = format!("steal-{asked}");
            let outcome = caller.acquire(node, &operation, (name, &format!("thief-{asked}")), &terms);
            assert!(!matches!(outcome, Outcome::Heard(Heard::Granted { .. }, _)), "{name}: {outcome:?}");
        }
        true
    });
    // Each ends by itself, and says why when it is started again.
    for node in 0..NODES.len() {
        assert_ne!(cluster.end_of_node(node), 0, "{}", cluster.said_lately());
        assert_ne!(cluster.refused_start(node), 0, "{}", cluster.said_lately());
        let said = cluster.nodes[node].daemon.said();
        assert!(said.contains("restored from a backup") && said.contains("tenure cluster adopt"), "{said}");
    }
    let report = check(&journal.records());
    println!("{report}");
    assert!(report.anomalies.is_empty(), "{report}");
}
