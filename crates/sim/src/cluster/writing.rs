//! A node that writes: one frame in flight, proofs of life between frames, and the way out.

use super::network::{Question, Reply, stepped};
use super::node::{Errand, Life, Part, Resigning, Work, authority};
use super::world::World;
use crate::violation::Violation;
use tenure_cluster::{Beaten, Written};
use tenure_engine::{Appended, Completion};
use tenure_log::{Batch, Lsn, Resolution};

/// Pause after a step that nobody answered.
const PAUSE_MS: u64 = 50;

impl World {
    pub(super) fn drive_writing(&mut self, node: usize, life: &mut Life) -> Result<(), Violation> {
        let now_ms = self.boot_ms(node);
        let is_settled = life.engine.is_settled();
        let Part::Writing(writing) = &mut life.part else { return Ok(()) };
        let due_ms = (writing.proved_ms + writing.term.ttl_ms() / 3).max(life.nap_until_ms);
        if writing.resigning == Resigning::Sent {
            return Ok(());
        }
        if writing.work.is_some() && now_ms < life.nap_until_ms {
            self.wake_at_boot(node, life, life.nap_until_ms);
            return Ok(());
        }
        let (errand, txn) = match writing.work.take() {
            Some(Work::Append(batch)) => {
                let txn = writing.term.append(&batch);
                (Errand::Append(batch), txn)
            }
            Some(Work::Resolve(batch)) => {
                let txn = writing.term.look(life.engine.tick().0);
                (Errand::Resolve(batch), txn)
            }
            None if writing.resigning == Resigning::Wanted && is_settled => {
                writing.resigning = Resigning::Sent;
                let txn = writing.term.resign(life.engine.tick().0, self.now);
                life.completions.push(Completion::Authority(authority(&writing.term)));
                self.tell(node, format_args!("resigns"));
                (Errand::Resign, txn)
            }
            None if now_ms >= due_ms => (Errand::Beat, writing.term.beat(life.engine.tick().0)),
            None => {
                self.wake_at_boot(node, life, due_ms);
                return Ok(());
            }
        };
        self.ask(node, life, errand, Question::Step(txn));
        Ok(())
    }

    /// What became of a step of one who writes.
    pub(super) fn wrote(
        &mut self,
        node: usize,
        life: &mut Life,
        errand: Errand,
        sent_ms: u64,
        reply: Option<Reply>,
    ) -> Result<(), Violation> {
        let now_ms = self.boot_ms(node);
        let Part::Writing(writing) = &mut life.part else { return Ok(()) };
        let completion = match errand {
            Errand::Append(batch) => {
                let written = writing.term.appended(sent_ms, now_ms, stepped(reply));
                self.appended(node, life, batch, written, sent_ms)?
            }
            Errand::Resolve(batch) => {
                let written = writing.term.looked(sent_ms, stepped(reply));
                self.resolved(node, life, batch, written, sent_ms)?
            }
            Errand::Beat => match writing.term.beaten(sent_ms, now_ms, stepped(reply)) {
                Beaten::Held => {
                    writing.proved_ms = sent_ms;
                    None
                }
                Beaten::Fenced => Some(Completion::Fenced),
                Beaten::Unknown => {
                    life.nap_until_ms = now_ms + PAUSE_MS;
                    None
                }
            },
            // Whatever became of it, this claim answers nothing any more.
            Errand::Resign => return self.follow_again(node, life),
            _ => None,
        };
        let Part::Writing(writing) = &life.part else { return Ok(()) };
        let until = authority(&writing.term);
        life.completions.extend(completion);
        life.completions.push(Completion::Authority(until));
        Ok(())
    }

    fn appended(
        &mut self,
        node: usize,
        life: &mut Life,
        batch: Batch,
        written: Written,
        sent_ms: u64,
    ) -> Result<Option<Completion>, Violation> {
        let outcome = match self.taken_in(node, life, written, sent_ms)? {
            Resolution::Committed { .. } => Appended::Committed,
            Resolution::Fenced => Appended::Fenced,
            Resolution::Absent | Resolution::Unknown | Resolution::Corrupt => Appended::Unknown,
        };
        Ok(Some(Completion::Appended { batch, outcome, took_us: 0 }))
    }

    fn resolved(
        &mut self,
        node: usize,
        life: &mut Life,
        batch: Batch,
        written: Written,
        sent_ms: u64,
    ) -> Result<Option<Completion>, Violation> {
        let resolution = self.taken_in(node, life, written, sent_ms)?;
        self.tally.unknown += 1;
        Ok(Some(Completion::Resolved { batch, resolution }))
    }

    fn taken_in(
        &mut self,
        node: usize,
        life: &mut Life,
        written: Written,
        sent_ms: u64,
    ) -> Result<Resolution, Violation> {
        let now_ms = self.boot_ms(node);
        let Part::Writing(writing) = &mut life.part else { return Ok(Resolution::Fenced) };
        Ok(match written {
            Written::Committed { frame } => {
                writing.proved_ms = sent_ms;
                self.copy_only(node, &frame)?;
                Resolution::Committed { synced: Lsn(self.nodes[node].mirror.end().last_lsn.0) }
            }
            Written::Absent => {
                writing.proved_ms = sent_ms;
                Resolution::Absent
            }
            Written::Fenced => Resolution::Fenced,
            Written::Unknown => {
                life.nap_until_ms = now_ms + PAUSE_MS;
                Resolution::Unknown
            }
            Written::Corrupt { why } => return Err(Violation::new("store_is_whole", why)),
        })
    }
}
