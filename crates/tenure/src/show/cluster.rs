//! The nodes of a cluster, its leader, and the store below.

use tenure_api::{
    ClusterLeader, ClusterNode, ClusterStatus, ClusterStore, LeaderChange, NodeState, Role, StoreMember,
    StoreSilence,
};
use tenure_history::duration;

use super::{Now, Page, names, when};
use crate::printer::counted;
use crate::table::Table;

/// Names on one row at most.
const NAMES_MAX: usize = 12;
/// Changes of leader on a page at most, the newest.
const CHANGES_MAX: usize = 8;

/// What an operator wants to know first.
pub(crate) fn cluster_page(now: Option<Now>, status: &ClusterStatus) -> Page {
    let mut page = Page::default();
    page.row("node", format!("{}, {}", status.node, status.role));
    let leader = status.leader.as_ref().map(|leader| leader_words(now, leader));
    let has_lost = status.role != Role::Leader
        && status.leader.as_ref().is_some_and(|leader| leader.node == status.node);
    let leader = match (leader, &status.store.silent) {
        (Some(leader), None) if has_lost => format!("NONE: this node cannot lead at present; last: {leader}"),
        (Some(leader), None) => leader,
        (Some(leader), Some(_)) => format!("UNKNOWN, etcd does not answer; last: {leader}"),
        (None, _) => "NONE: this node knows of no leader".to_owned(),
    };
    page.row("leader", leader);
    page.row("leadership", status.leadership_lease_ms.map(|ms| format!("lease valid for {}", duration(ms))));
    page.row("leader ttl", duration(status.leader_ttl_ms));
    page.row("log", format!("{} ({}), generation {}", status.log_tag, status.log_id, status.generation));
    page.row("format", format_words(status));
    page.row("applied", format!("lsn {}, {}", status.applied_lsn, lag_words(status)));
    let nodes: Vec<String> = status.nodes.iter().map(node_name).collect();
    page.row("nodes", format!("{}: {}", nodes.len(), names(&nodes, NAMES_MAX)));
    page.row("store", store_words(&status.store));
    page.row("STORE DOWN", status.store.silent.as_ref().map(|silence| silence_words(now, silence)));
    for member in &status.store.members {
        page.row("member", member_words(member));
    }
    for warning in &status.store.warnings {
        page.row("WARNING", warning.clone());
    }
    let newest = status.changes.len().saturating_sub(CHANGES_MAX);
    for change in &status.changes[newest..] {
        page.row("change", change_words(now, change));
    }
    page
}

/// One row each.
pub(crate) fn node_list(now: Option<Now>, status: &ClusterStatus) -> Table {
    let mut table = Table::new(&["NODE", "ROLE", "URL", "VERSION", "SNAPSHOT", "SUBNETS", "SEEN"]);
    for node in &status.nodes {
        let snapshot = if node.snapshot_lsn == 0 { "none".to_owned() } else { node.snapshot_lsn.to_string() };
        table.row(vec![
            node.node.clone(),
            node.state.to_string(),
            node.url.clone(),
            node.version.clone(),
            snapshot,
            names(&node.subnets, NAMES_MAX),
            when(now, &node.seen),
        ]);
    }
    table
}

/// One node in one line.
pub(crate) fn cluster_node_words(now: Option<Now>, node: &ClusterNode) -> String {
    format!("node {} at {}, version {}, seen {}", node.node, node.url, node.version, when(now, &node.seen))
}

/// The leader, in one line.
pub(crate) fn leader_words(now: Option<Now>, leader: &ClusterLeader) -> String {
    let ClusterLeader { node, url, epoch, since } = leader;
    format!("{node} at {url}, epoch {epoch}, since {}", when(now, since))
}

fn node_name(node: &ClusterNode) -> String {
    match node.state {
        NodeState::Leader | NodeState::Follower => node.node.clone(),
        NodeState::Silent => format!("{} (silent)", node.node),
    }
}

/// The format that is written, and which nodes keep it from being a newer one.
fn format_words(status: &ClusterStatus) -> String {
    let oldest: Vec<String> = status
        .nodes
        .iter()
        .filter(|node| node.format <= status.format)
        .map(|node| node.node.clone())
        .collect();
    let newest = status.nodes.iter().map(|node| node.format).max().unwrap_or(status.format);
    if newest <= status.format {
        return status.format.to_string();
    }
    format!(
        "{}, and not {newest}, which these nodes do not read: {}",
        status.format,
        names(&oldest, NAMES_MAX)
    )
}

fn silence_words(now: Option<Now>, silence: &StoreSilence) -> String {
    let StoreSilence { since, for_ms, why } = silence;
    let since = when(now, since);
    format!("no usable answer for {}, last one {since}, which the rows below show: {why}", duration(*for_ms))
}

fn lag_words(status: &ClusterStatus) -> String {
    match status.lag_lsn {
        0 => "up to date".to_owned(),
        behind => format!(
            "{} behind lsn {}, for {:.1} s",
            counted(behind, "record"),
            status.head_lsn,
            status.lag_seconds
        ),
    }
}

fn store_words(store: &ClusterStore) -> String {
    let used = match store.quota_bytes {
        0 => String::new(),
        quota => {
            let percent = u128::from(store.bytes) * 100 / u128::from(quota);
            format!(" of {}, {percent} %", bytes(quota))
        }
    };
    format!("{} at {}: {}{used}", store.kind, names(&store.endpoints, NAMES_MAX), bytes(store.bytes))
}

fn member_words(member: &StoreMember) -> String {
    if member.version.is_empty() {
        return format!("{} ({}), does not answer", member.name, member.id);
    }
    let leader = if member.is_leader { ", leader" } else { "" };
    let alarms = match member.alarms.as_slice() {
        [] => String::new(),
        alarms => format!(", ALARM: {}", names(alarms, NAMES_MAX)),
    };
    format!(
        "{} ({}), version {}, {}{leader}{alarms}",
        member.name,
        member.id,
        member.version,
        bytes(member.db_bytes)
    )
}

fn change_words(now: Option<Now>, change: &LeaderChange) -> String {
    let LeaderChange { epoch, node, at, how } = change;
    format!("{node} {how}, epoch {epoch}, {}", when(now, at))
}

/// `512 B`, `3.4 MiB`.
pub(super) fn bytes(count: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut size = count as f64 / 1024.0;
    let mut unit = units[0];
    for larger in &units[1..] {
        if size < 1024.0 {
            break;
        }
        size /= 1024.0;
        unit = larger;
    }
    format!("{size:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    fn status() -> ClusterStatus {
        serde_json::from_value(json!({
            "node": "b", "role": "follower",
            "writer": {"node": "a", "url": "http://10.0.0.1:5641", "epoch": 7, "since": "2026-02-07T22:15:00.000Z"},
            "writer_ttl_ms": 3000, "generation": 1, "log_id": "0f1e", "log_tag": "k3f9",
            "applied_lsn": 120, "head_lsn": 123, "lag_lsn": 3, "lag_seconds": 0.25, "leadership_lease_ms": null,
            "nodes": [
                {"node": "a", "url": "http://10.0.0.1:5641", "incarnation": "01", "version": "0.1.0",
                 "subnets": ["10.0.0.0/24"], "snapshot_lsn": 100, "seen": "2026-02-07T22:15:09.000Z", "state": "writer"},
                {"node": "b", "url": "http://10.0.0.2:5641", "incarnation": "02", "version": "0.1.0",
                 "subnets": [], "snapshot_lsn": 0, "seen": "2026-02-07T22:15:08.000Z", "state": "follower"},
                {"node": "c", "url": "http://10.0.0.3:5641", "incarnation": "03", "version": "0.1.0",
                 "subnets": [], "snapshot_lsn": 0, "seen": "2026-02-07T22:14:08.000Z", "state": "silent"},
            ],
            "store": {
                "kind": "etcd", "endpoints": ["10.0.0.9:2379"],
                "members": [{"name": "m1", "id": "8e9e", "version": "3.4.23", "db_bytes": 20480,
                             "is_leader": true, "alarms": ["NOSPACE"]}],
                "bytes": 1_181_116_006, "quota_bytes": 2_147_483_648_u64,
                "warnings": ["the store is at 55 % of its quota: compact or defragment it"],
            },
            "changes": [{"epoch": 6, "node": "b", "at": "2026-02-07T22:14:59.000Z", "how": "resigned"}],
        }))
        .unwrap()
    }

    fn now() -> Option<Now> {
        Now::of("2026-02-07T22:15:10.000Z")
    }

    #[test]
    fn a_page_tells_who_writes_how_far_behind_it_is_and_how_the_store_is() {
        expect![[r#"
            node        b, follower
            leader      a at http://10.0.0.1:5641, epoch 7, since 10 s ago (2026-02-07T22:15:00.000Z)
            leader ttl  3 s
            log         k3f9 (0f1e), generation 1
            format      1
            applied     lsn 120, 3 records behind lsn 123, for 0.2 s
            nodes       3: a, b, c (silent)
            store       etcd at 10.0.0.9:2379: 1.1 GiB of 2.0 GiB, 54 %
            member      m1 (8e9e), version 3.4.23, 20.0 KiB, leader, ALARM: NOSPACE
            WARNING     the store is at 55 % of its quota: compact or defragment it
            change      b resigned, epoch 6, 11 s ago (2026-02-07T22:14:59.000Z)"#]]
        .assert_eq(&cluster_page(now(), &status()).lines().join("\n"));
    }

    #[test]
    fn the_writer_is_marked_among_the_nodes() {
        expect![[r#"
            NODE  ROLE      URL                   VERSION  SNAPSHOT  SUBNETS      SEEN
            a     leader    http://10.0.0.1:5641  0.1.0    100       10.0.0.0/24  1 s ago (2026-02-07T22:15:09.000Z)
            b     follower  http://10.0.0.2:5641  0.1.0    none                   2 s ago (2026-02-07T22:15:08.000Z)
            c     silent    http://10.0.0.3:5641  0.1.0    none                   62 s ago (2026-02-07T22:14:08.000Z)"#]].assert_eq(&node_list(now(), &status()).lines(None).join("\n"));
    }

    #[test]
    fn nodes_that_keep_the_format_old_are_named() {
        let mut status = status();
        (status.nodes[0].format, status.nodes[1].format) = (2, 2);
        let page = cluster_page(now(), &status).lines().join("\n");
        assert!(page.contains("format      1, and not 2, which these nodes do not read: c"), "{page}");
        (status.nodes[2].format, status.format) = (2, 2);
        assert!(cluster_page(now(), &status).lines().contains(&"format      2".to_owned()));
    }

    #[test]
    fn a_store_that_does_not_answer_is_told_with_since_when_and_why() {
        let mut status = status();
        status.store.silent = Some(StoreSilence {
            since: "2026-02-07T22:14:58.000Z".to_owned(),
            for_ms: 12_000,
            why: "the store did not answer: 10.0.0.9:2379: no answer within 1s".to_owned(),
        });
        let page = cluster_page(now(), &status).lines().join("\n");
        assert!(page.contains("UNKNOWN, etcd does not answer; last: a at"), "{page}");
        assert!(page.contains("no usable answer for 12 s, last one 12 s ago"), "{page}");
        assert!(page.contains("no answer within 1s"), "{page}");
    }

    #[test]
    fn a_cluster_without_a_writer_says_so() {
        let status = ClusterStatus { leader: None, ..status() };
        assert!(cluster_page(now(), &status).lines()[1].contains("NONE"));
    }

    #[test]
    fn sizes_have_the_unit_that_fits() {
        let shown = [0, 1023, 1024, 1_572_864, u64::MAX].map(bytes);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "16777216.0 TiB"]);
    }
}
