//! A node of a cluster in numbers: whether it writes, how far it is behind, and what its store does to it. A daemon
//! that is no node has none of them.

use super::page::{Kind, Page};
use crate::node::{APPEND_BUCKETS, NodeNumbers};

pub(super) fn write(page: &mut Page, numbers: &NodeNumbers) {
    page.family("cluster_writer", Kind::Gauge, "1 while this node writes.");
    page.sample(&[], u8::from(numbers.writes));
    page.family("cluster_lag_lsn", Kind::Gauge, "Positions of the log that this node has not applied yet.");
    page.sample(&[], numbers.lag_lsn);
    page.family("cluster_lag_seconds", Kind::Gauge, "For how long this node has been behind.");
    page.sample(&[], numbers.lag_seconds);
    page.family("cluster_claims_total", Kind::Counter, "Claims of the log by this node, by outcome.");
    for (outcome, count) in ["won", "lost", "unknown"].into_iter().zip(numbers.claims) {
        page.sample(&[("outcome", outcome)], count);
    }
    page.family(
        "cluster_append_seconds",
        Kind::Histogram,
        "How long the store took to commit a frame of this node.",
    );
    let bounds = APPEND_BUCKETS.into_iter().zip(numbers.append_buckets);
    page.histogram_by_bounds(bounds, numbers.append_seconds, numbers.appends);
    page.family(
        "cluster_unknown_total",
        Kind::Counter,
        "Frames whose outcome the store did not tell, by what was found out.",
    );
    for (resolved, count) in ["committed", "absent", "fenced"].into_iter().zip(numbers.unknown) {
        page.sample(&[("resolved", resolved)], count);
    }
    page.family("cluster_store_bytes", Kind::Gauge, "Size of the store's largest member.");
    page.sample(&[], numbers.store_bytes);
    page.family(
        "cluster_store_silent_seconds",
        Kind::Gauge,
        "For how long the store has not answered this node; 0 while it answers.",
    );
    page.sample(&[], numbers.store_silent_seconds);
    page.family("cluster_nodes_silent", Kind::Gauge, "Nodes that have not told of themselves for long.");
    page.sample(&[], numbers.silent_nodes);
}
