//! Whether nodes have come to the same state. With each trim the leader names a position, its format and the checksum of the
//! state there (`floor`); every node makes a snapshot at that position from its snapshot before and its local log, not from
//! the state that its engine has in memory, and publishes the checksum. A node that differs does not lead, and while one is
//! listed nothing more is trimmed. The frames below `floor` are gone from the store by then: local logs have them.

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
    /// The newest snapshot that was here when this process began: an older program may have made it.
    begun_at: Option<u64>,
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

    /// Only snapshots above this position are surely of this program.
    pub(super) fn begun_at(&self) -> tenure_log::Lsn {
        tenure_log::Lsn(self.begun_at.unwrap_or(u64::MAX))
    }

    /// Goes on with what was told before this process began: it may not be able to find it out again. What a program of
    /// another format told is not for comparing.
    pub(super) fn recall(&mut self, told: &Node) {
        if self.found.is_none() && told.snapshot_hash != 0 && told.format == FORMAT {
            self.found = Some(Found { lsn: told.snapshot_lsn, hash: told.snapshot_hash });
        }
    }

    /// Does the next part of finding out. `take` asks for a snapshot at a position.
    pub(super) fn look(&mut self, floor: &Floor, snapshots: &SnapshotStore, take: impl FnOnce(Lsn)) {
        let wanted = floor.snapshot_lsn;
        let begun_at =
            *self.begun_at.get_or_insert_with(|| snapshots.newest().map_or(0, |newest| newest.lsn.0));
        if wanted <= begun_at || self.found.is_some_and(|found| found.lsn == wanted) {
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

/// Nodes whose state differs from the leader's where `floor` names it. Those of another format than the one that put
/// `floor` are not compared, whichever format this node has.
pub(super) fn differing(floor: &Floor, nodes: &[(String, Node)]) -> Vec<String> {
    let differs = |node: &Node| {
        node.format == floor.format
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
    use tenure_cluster::values::{decode, encode};
    use tenure_log::{CopyOf, FileLogOptions, Genesis, LogEnd, Mirror, Moment, RealDisk};

    use super::*;

    /// The copy of a node, without a snapshot.
    fn copy() -> (TempDir, Mirror) {
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
        (root, mirror)
    }

    fn store(mirror: &Mirror, state: &[u8]) {
        mirror.snapshots().store(tenure_log::Lsn(7), Moment::default(), state).unwrap();
    }

    /// As the leader puts it when it trims at lsn 7.
    fn floor_of(state: &[u8]) -> Floor {
        floor_at(7, snapshot_hash(state))
    }

    fn floor_at(snapshot_lsn: u64, snapshot_hash: u64) -> Floor {
        Floor { snapshot_lsn, snapshot_hash, format: FORMAT, ..Floor::default() }
    }

    /// What a node with this state lists, after it has looked where `floor` points.
    fn listed(name: &str, floor: &Floor, state: &[u8]) -> (String, Node) {
        let (_root, mirror) = copy();
        let mut agreement = Agreement::default();
        agreement.look(floor, &mirror.snapshots(), |_| store(&mirror, state));
        agreement.look(floor, &mirror.snapshots(), |_| panic!("it has a snapshot there"));
        let Found { lsn, hash } = agreement.found().unwrap();
        let node = Node { snapshot_lsn: lsn, snapshot_hash: hash, format: FORMAT, ..Node::default() };
        (name.to_owned(), node)
    }

    #[test]
    fn equal_states_have_the_leaders_checksum_and_a_differing_one_has_another_and_is_named() {
        let (one, two) = (vec![1; 300_000], [vec![1; 299_999], vec![2]].concat());
        let floor = floor_of(&one);
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
        let (_root, mirror) = copy();
        let look = |agreement: &mut Agreement, lsn| {
            let mut taken = None;
            agreement.look(&floor_at(lsn, 1), &mirror.snapshots(), |lsn| taken = Some(lsn.0));
            (taken, agreement.found().map(|found| found.lsn))
        };
        let mut agreement = Agreement::default();
        assert_eq!(look(&mut agreement, 0), (None, None), "nothing was trimmed yet");
        store(&mirror, b"state");
        assert_eq!(look(&mut agreement, 8), (Some(8), None));
        assert_eq!(look(&mut agreement, 6), (None, None));
        assert_eq!(look(&mut agreement, 7), (None, Some(7)));
    }

    // A program before the upgrade may have made it, and would make other bytes of the same state.
    #[test]
    fn a_snapshot_from_before_this_process_is_compared_with_none() {
        let (_root, mirror) = copy();
        store(&mirror, b"state");
        let mut agreement = Agreement::default();
        agreement.look(&floor_at(7, 1), &mirror.snapshots(), |_| panic!("it has a snapshot there"));
        assert_eq!((agreement.found(), agreement.begun_at().0), (None, 7));
        let told = |format| Node { snapshot_lsn: 7, snapshot_hash: 2, format, ..Node::default() };
        agreement.recall(&told(FORMAT - 1));
        assert_eq!(agreement.found(), None);
        agreement.recall(&told(FORMAT));
        assert_eq!(agreement.found(), Some(Found { lsn: 7, hash: 2 }));
    }

    #[test]
    fn a_node_differs_where_it_told_another_checksum_of_the_same_position_in_the_same_format() {
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
        assert_eq!(differing(&floor_at(7, 1), &nodes), ["other"]);
        assert!(differing(&floor_at(0, 1), &nodes).is_empty());
        assert_eq!(warning(&[], 7), None);
        assert!(
            warning(&["b".to_owned(), "c".to_owned()], 7).unwrap().contains("position 7 differs on b, c")
        );
    }

    // It compared nodes of its own format, whichever program had put the checksum into the store.
    #[test]
    fn the_format_of_the_program_that_trimmed_decides_who_is_compared() {
        let floor = |format: u32| -> Floor {
            let mut value: serde_json::Value = serde_json::from_slice(&encode(&floor_at(7, 1))).unwrap();
            value["format"] = format.into();
            decode("floor", value.to_string().as_bytes()).unwrap()
        };
        let nodes =
            [("older", FORMAT - 1), ("equal", FORMAT), ("newer", FORMAT + 1)].map(|(name, format)| {
                (name.to_owned(), Node { snapshot_lsn: 7, snapshot_hash: 2, format, ..Node::default() })
            });
        let differing = |format| differing(&floor(format), &nodes);
        assert_eq!(differing(FORMAT), ["equal"]);
        assert_eq!(differing(FORMAT - 1), ["older"]);
        assert_eq!(differing(FORMAT + 1), ["newer"]);
        assert!(differing(0).is_empty(), "the program is not known");
    }
}
