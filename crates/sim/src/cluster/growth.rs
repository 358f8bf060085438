//! The store stays small: a writer puts a snapshot's pieces, then `floor`, then deletes what lies below, in the order and
//! with the comparisons of the product's `Growth`.

use super::following::misread;
use super::network::{AskId, Question, Reply, stepped};
use super::node::{Life, Part};
use super::world::World;
use crate::ledger::state_bytes;
use crate::violation::Violation;
use tenure_cluster::planted::{Planted, has};
use tenure_cluster::store::{Compare, Op};
use tenure_cluster::values::{Floor, Head, decode, encode};
use tenure_engine::setup;

/// How long a step of this may take.
const WITHIN_MS: u64 = 5_000;

/// How far a trim has come.
#[derive(Default)]
pub(super) struct Trimming {
    stage: Stage,
    waits: Option<AskId>,
}

#[derive(Default)]
enum Stage {
    /// The floor is not known yet.
    #[default]
    Unknown,
    Quiet(Floor),
    /// The pieces are on their way.
    Piece {
        before: Floor,
        floor: Floor,
    },
    Floor(Floor),
    Sweep(Floor),
}

impl Trimming {
    pub(super) fn waits_for(&self, id: AskId) -> bool {
        self.waits == Some(id)
    }
}

impl World {
    pub(super) fn drive_trimming(&mut self, node: usize, life: &mut Life) -> Result<(), Violation> {
        let Part::Writing(writing) = &life.part else { return Ok(()) };
        if life.trimming.waits.is_some() || writing.term.over().is_some() {
            return Ok(());
        }
        let question = match &life.trimming.stage {
            Stage::Unknown => {
                let key = self.keys.floor();
                Question::Range { to: format!("{key}\0"), from: key, limit: 1 }
            }
            Stage::Quiet(before) => {
                let mirror = &self.nodes[node].mirror;
                if mirror.last_frame() < before.frame + self.profile.trim_frames {
                    return Ok(());
                }
                let replay = mirror
                    .replay(setup(&self.identity, &self.profile.engine), self.identity.salt)
                    .map_err(|error| Violation::new("copies_continue", error.to_string()))?;
                let bytes = state_bytes(replay.kernel());
                let end = Head::of(mirror.last_frame(), &mirror.end());
                let floor = Floor {
                    frame: mirror.last_frame() + 1,
                    end: Head { tick: end.tick.max(replay.tick().0), ..end },
                    snapshot_lsn: end.lsn,
                    snapshot_hash: tenure_cluster::pieces::snapshot_hash(&bytes),
                    ..Floor::default()
                };
                let put = Op::Put { key: self.keys.piece(floor.snapshot_lsn, 0), value: bytes };
                let before = *before;
                let then = if has(Planted::TrimBeforeSnapshot) { Vec::new() } else { vec![put] };
                life.trimming.stage = Stage::Piece { before, floor };
                Question::Step(writing.term.while_mine(then))
            }
            // What is sent next follows from the answer.
            Stage::Piece { .. } | Stage::Floor(_) | Stage::Sweep(_) => return Ok(()),
        };
        life.trimming.waits = Some(self.ask_within(node, WITHIN_MS, question));
        Ok(())
    }

    /// What became of a part of it. Whatever failed is tried again from the beginning.
    pub(super) fn trimmed(
        &mut self,
        node: usize,
        life: &mut Life,
        reply: Option<Reply>,
    ) -> Result<(), Violation> {
        life.trimming.waits = None;
        let stage = core::mem::take(&mut life.trimming.stage);
        let Part::Writing(writing) = &life.part else { return Ok(()) };
        let (next, txn) = match (stage, reply) {
            (Stage::Unknown, Some(Reply::Ranged(ranged))) => {
                let Some(found) = ranged.found.first() else {
                    return Err(Violation::new("store_is_whole", "`floor` is missing"));
                };
                life.trimming.stage = Stage::Quiet(decode("floor", &found.value).map_err(misread)?);
                return Ok(());
            }
            (Stage::Piece { before, floor }, reply)
                if stepped(reply.clone()).is_ok_and(|stepped| stepped.held) =>
            {
                let put = Op::Put { key: self.keys.floor(), value: encode(&floor) };
                let mut txn = writing.term.while_mine(vec![put]);
                txn.compares.push(Compare::Value { key: self.keys.floor(), value: encode(&before) });
                (Stage::Floor(floor), txn)
            }
            (Stage::Floor(floor), reply) if stepped(reply.clone()).is_ok_and(|stepped| stepped.held) => {
                let frames = Op::Delete { from: self.keys.frame(0), to: self.keys.frame(floor.frame) };
                let (first, _) = self.keys.snapshots();
                let (kept, _) = self.keys.pieces(floor.snapshot_lsn);
                let then = vec![frames, Op::Delete { from: first, to: kept }];
                (Stage::Sweep(floor), writing.term.while_mine(then))
            }
            (Stage::Sweep(floor), reply) if stepped(reply.clone()).is_ok_and(|stepped| stepped.held) => {
                self.tally.trimmed += 1;
                life.trimming.stage = Stage::Quiet(floor);
                return Ok(());
            }
            _ => return Ok(()),
        };
        life.trimming.stage = next;
        life.trimming.waits = Some(self.ask_within(node, WITHIN_MS, Question::Step(txn)));
        Ok(())
    }
}
