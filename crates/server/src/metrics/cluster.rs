//! Metrics of a cluster node: whether it leads, how far it is behind, and how its store behaves. A standalone daemon has
//! none of them.

use super::page::{Kind, Page};
use crate::node::{APPEND_BUCKETS, NodeNumbers};

pub(super) fn write(page: &mut Page, numbers: &NodeNumbers) {
    page.family("cluster_leader", Kind::Gauge, "1 while this node is the leader.");
    page.sample(&[], u8::from(numbers.writes));
    page.family("cluster_lag_lsn", Kind::Gauge, "Log positions that this node has not applied yet.");
    page.sample(&[], numbers.lag_lsn);
    page.family("cluster_lag_seconds", Kind::Gauge, "Time for which this node has been behind.");
    page.sample(&[], numbers.lag_seconds);
    page.family("cluster_elections_total", Kind::Counter, "Elections that this node stood in, by outcome.");
    for (outcome, count) in ["won", "lost", "unknown"].into_iter().zip(numbers.claims) {
        page.sample(&[("outcome", outcome)], count);
    }
    page.family(
        "cluster_append_seconds",
        Kind::Histogram,
        "Time that the store took to commit a frame of this node.",
    );
    let bounds = APPEND_BUCKETS.into_iter().zip(numbers.append_buckets);
    page.histogram_by_bounds(bounds, numbers.append_seconds, numbers.appends);
    page.family(
        "cluster_appends_unanswered_total",
        Kind::Counter,
        "Appends without an answer from the store, by their outcome as read back.",
    );
    for (resolved, count) in ["committed", "absent", "fenced"].into_iter().zip(numbers.unknown) {
        page.sample(&[("resolved", resolved)], count);
    }
    page.family("cluster_store_bytes", Kind::Gauge, "Database size of the largest member of the store.");
    page.sample(&[], numbers.store_bytes);
    page.family(
        "cluster_store_silent_seconds",
        Kind::Gauge,
        "Time for which the store has not answered this node; 0 while it answers.",
    );
    page.sample(&[], numbers.store_silent_seconds);
    page.family("cluster_nodes_silent", Kind::Gauge, "Nodes that have not written their entry for too long.");
    page.sample(&[], numbers.silent_nodes);
    page.family("cluster_nodes_differing", Kind::Gauge, "Nodes whose state differs from the leader's.");
    page.sample(&[], numbers.differing_nodes);
    page.family(
        "cluster_format",
        Kind::Gauge,
        "The newest format that every listed node reads: a leader writes no newer one.",
    );
    page.sample(&[], numbers.format);
}
