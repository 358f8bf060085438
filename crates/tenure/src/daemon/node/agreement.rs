//! Whether nodes have come to the same state. With each trim the leader names a position and the checksum of the state
//! there (`floor`); every node computes the same of its own state and tells it. A node that differs does not lead, and
//! while one is listed nothing is trimmed: what shows who is wrong is kept.

use tenure_cluster::pieces::Checksum;
use tenure_cluster::values::{Floor, Node};
use tenure_kernel::Lsn;
use tenure_kernel::codec::FORMAT;
use tenure_log::SnapshotStore;
use tenure_log::snapshot::SnapshotReader;

/// Bytes of a snapshot that are read in one look.
const BYTES_PER_LOOK: u64 = 64 << 20;

/// What this node has found out about its own state.
#[derive(Default)]
pub(super) struct Agreement {
    found: Option<Found>,
    /// The snapshot that is being read.
    reading: Option<(u64, Checksum<SnapshotReader>)>,
}

/// A position, and the checksum of this node's state there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) lsn: u64,
    pub(super) hash: u64,
}

impl Agreement {
    pub(super) fn found(&self) -> Option<Found> {
        self.found
    }

    /// Goes on with what was told before this process began: it may not be able to find it out again.
    pub(super) fn recall(&mut self, told: &Node) {
        if self.found.is_none() && told.snapshot_hash != 0 {
            self.found = Some(Found { lsn: told.snapshot_lsn, hash: told.snapshot_hash });
        }
    }

    /// Does the next part of finding out. `take` asks for a snapshot at a position.
    pub(super) fn look(&mut self, floor: &Floor, snapshots: &SnapshotStore, take: impl FnOnce(Lsn)) {
        let wanted = floor.snapshot_lsn;
        if wanted == 0 || self.found.is_some_and(|found| found.lsn == wanted) {
            return;
        }
        if self.reading.as_ref().is_none_or(|(lsn, _)| *lsn != wanted) {
            self.reading = None;
            let kept = snapshots.generations();
            if kept.iter().any(|header| header.lsn.0 == wanted) {
                let opened = snapshots.open(tenure_log::Lsn(wanted)).ok();
                self.reading = opened.map(|reader| (wanted, Checksum::over(reader)));
            } else if kept.last().is_none_or(|newest| newest.lsn.0 < wanted) {
                take(Lsn(wanted));
            }
            // With a newer one alone the state there cannot be had any more; the next trim names another position.
        }
        let Some((lsn, checksum)) = &mut self.reading else { return };
        match checksum.go_on(BYTES_PER_LOOK) {
            Ok(None) => {}
            Ok(Some(hash)) => {
                self.found = Some(Found { lsn: *lsn, hash });
                self.reading = None;
            }
            Err(_) => self.reading = None,
        }
    }
}

/// Nodes whose state differs from the leader's where `floor` names it. Those of another format are not compared.
pub(super) fn differing(floor: &Floor, nodes: &[(String, Node)]) -> Vec<String> {
    let differs = |node: &Node| {
        node.format == FORMAT
            && floor.snapshot_lsn != 0
            && node.snapshot_lsn == floor.snapshot_lsn
            && node.snapshot_hash != 0
            && node.snapshot_hash != floor.snapshot_hash
    };
    nodes.iter().filter(|(_, node)| differs(node)).map(|(name, _)| name.clone()).collect()
}

/// What people are told of nodes that differ.
pub(super) fn warning(names: &[String], lsn: u64) -> Option<String> {
    let (first, more) = names.split_first()?;
    let nodes = more.iter().fold(first.clone(), |all, name| format!("{all}, {name}"));
    Some(format!(
        "the state at position {lsn} differs on {nodes}: it does not lead, and nothing is trimmed; stop it, move its data directory away, start it again"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tempfile::TempDir;
    use tenure_cluster::pieces::snapshot_hash;
    use tenure_log::{CopyOf, FileLogOptions, Genesis, LogEnd, Mirror, Moment, RealDisk};

    use super::*;

    /// The copy of a node that has this state at lsn 7.
    fn copy_with(state: &[u8]) -> (TempDir, Mirror) {
        let root = TempDir::new().unwrap();
        let genesis = Genesis { random: [1; 16], unix_seconds: 1, shard: 0 };
        let of = CopyOf {
            identity: genesis.identity(),
            identity_since: tenure_log::Lsn(1),
            parent_log_id: 0,
            first_frame: 1,
            end: LogEnd::default(),
        };
        let options = FileLogOptions::new(genesis, 0);
        let (mirror, _) = Mirror::open(Arc::new(RealDisk), root.path(), options, &of).unwrap();
        mirror.snapshots().store(tenure_log::Lsn(7), Moment::default(), state).unwrap();
        (root, mirror)
    }

    /// What a node with this state lists, after it has looked where `floor` points.
    fn listed(name: &str, floor: &Floor, state: &[u8]) -> (String, Node) {
        let (_root, mirror) = copy_with(state);
        let mut agreement = Agreement::default();
        agreement.look(floor, &mirror.snapshots(), |_| panic!("it has a snapshot there"));
        let Found { lsn, hash } = agreement.found().unwrap();
        let node = Node { snapshot_lsn: lsn, snapshot_hash: hash, format: FORMAT, ..Node::default() };
        (name.to_owned(), node)
    }

    #[test]
    fn equal_states_have_the_leaders_checksum_and_a_differing_one_has_another_and_is_named() {
        let (one, two) = (vec![1; 300_000], [vec![1; 299_999], vec![2]].concat());
        // As the leader puts it when it trims.
        let floor = Floor { snapshot_lsn: 7, snapshot_hash: snapshot_hash(&one), ..Floor::default() };
        let equal = [listed("a", &floor, &one), listed("b", &floor, &one)];
        assert!(equal.iter().all(|(_, node)| node.snapshot_hash == floor.snapshot_hash));
        assert_eq!(warning(&differing(&floor, &equal), 7), None);
        let nodes = [listed("a", &floor, &one), listed("b", &floor, &two)];
        assert_ne!(nodes[0].1.snapshot_hash, nodes[1].1.snapshot_hash);
        assert_eq!(differing(&floor, &nodes), ["b"]);
        assert!(warning(&differing(&floor, &nodes), 7).unwrap().contains("position 7 differs on b"));
    }

    #[test]
    fn a_node_asks_for_a_snapshot_where_it_has_none_and_finds_nothing_with_a_newer_one_alone() {
        let (_root, mirror) = copy_with(b"state");
        let look = |agreement: &mut Agreement, lsn| {
            let mut taken = None;
            let floor = Floor { snapshot_lsn: lsn, snapshot_hash: 1, ..Floor::default() };
            agreement.look(&floor, &mirror.snapshots(), |lsn| taken = Some(lsn.0));
            (taken, agreement.found().map(|found| found.lsn))
        };
        let mut agreement = Agreement::default();
        assert_eq!(look(&mut agreement, 0), (None, None), "nothing was trimmed yet");
        assert_eq!(look(&mut agreement, 8), (Some(8), None));
        assert_eq!(look(&mut agreement, 6), (None, None));
        assert_eq!(look(&mut agreement, 7), (None, Some(7)));
    }

    #[test]
    fn a_node_differs_where_it_told_another_checksum_of_the_same_position_in_the_same_format() {
        let floor = Floor { snapshot_lsn: 7, snapshot_hash: 1, ..Floor::default() };
        let node =
            |lsn, hash, format| Node { snapshot_lsn: lsn, snapshot_hash: hash, format, ..Node::default() };
        let nodes = [
            ("same", node(7, 1, FORMAT)),
            ("other", node(7, 2, FORMAT)),
            ("untold", node(7, 0, FORMAT)),
            ("elsewhere", node(6, 2, FORMAT)),
            ("newer", node(7, 2, FORMAT + 1)),
        ]
        .map(|(name, node)| (name.to_owned(), node));
        assert_eq!(differing(&floor, &nodes), ["other"]);
        assert!(differing(&Floor { snapshot_hash: 1, ..Floor::default() }, &nodes).is_empty());
        assert_eq!(warning(&[], 7), None);
        assert!(
            warning(&["b".to_owned(), "c".to_owned()], 7).unwrap().contains("position 7 differs on b, c")
        );
    }
}
