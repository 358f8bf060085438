//! The numbers of a cluster as Markdown tables for people.

use super::fail_over::Fault;
use super::work::{IDLE, Who};
use crate::peers::figures::{Figure, Figures, Quantity};
use crate::peers::peer::Work;
use crate::peers::plan::{SHAPES, named};
use crate::peers::table::{self, grouped, shown};
use std::fmt::Write as _;

/// All tables that have something in them, each with its heading.
pub(crate) fn tables(figures: &Figures, leases: &[u64]) -> String {
    let mut text = table::tables(figures);
    for (heading, table) in
        [("The leader is lost", lost(figures, leases)), ("What it costs etcd", costs(figures))]
    {
        if table.lines().count() > 2 {
            let _ = writeln!(text, "## {heading}\n\n{table}");
        }
    }
    text
}

fn lost(figures: &Figures, leases: &[u64]) -> String {
    let mut text = String::from(
        "| the leader is | live leases | p50 ms | longest ms | times |\n|---|---|---|---|---|\n",
    );
    for &count in leases {
        for fault in Fault::ALL {
            let what = fault.named(count);
            let of = |quantity| figures.spread(&Figure::new(Who::ThreeNodes.as_str(), &what, quantity));
            if of(Quantity::Count).is_none() {
                continue;
            }
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                fault.as_str(),
                grouped(count as f64),
                shown(of(Quantity::P50), 1e3, 0),
                shown(of(Quantity::Longest), 1e3, 0),
                shown(of(Quantity::Count), 1.0, 0),
            );
        }
    }
    text
}

fn costs(figures: &Figures) -> String {
    let mut text = String::from(
        "| work | in flight | through | etcd wrote, bytes/op | nodes wrote, bytes/op | changes of etcd per 3 s |\n\
         |---|---|---|---|---|---|\n",
    );
    for work in [Work::Acquire, Work::Renew, Work::Release] {
        for shape in SHAPES {
            let what = named(work, *shape);
            for peer in figures.peers_with(&what, Quantity::Revisions) {
                let of = |quantity| figures.spread(&Figure::new(peer, &what, quantity));
                let _ = writeln!(
                    text,
                    "| {} | {}×{} | {peer} | {} | {} | {} |",
                    work.as_str(),
                    shape.connections,
                    shape.depth,
                    shown(of(Quantity::WrittenEach), 1.0, 1),
                    shown(of(Quantity::BytesEach), 1.0, 1),
                    shown(of(Quantity::Revisions), 1.0, 2),
                );
            }
        }
    }
    for peer in figures.peers_with(IDLE, Quantity::Revisions) {
        let of = |quantity| figures.spread(&Figure::new(peer, IDLE, quantity));
        let _ = writeln!(
            text,
            "| idle | – | {peer} | {} each second | – | {} |",
            shown(of(Quantity::WrittenEach), 1.0, 0),
            shown(of(Quantity::Revisions), 1.0, 2),
        );
    }
    text
}
