//! A node that follows, and one that has just won: what the product's follower does with a thread, as it happens.

use super::mirror::Mirror;
use super::network::{Question, Reply, stepped};
use super::node::{Errand, Life, Part, Resigning, Winning, Writing, authority};
use super::world::World;
use crate::violation::Violation;
use tenure_cluster::store::{Changed, Op, Ranged, Stepped, Txn};
use tenure_cluster::values::{Floor, Head, decode};
use tenure_cluster::{Beaten, Claimed, Next, Term, Written};
use tenure_engine::{Completion, Engine, GoingOn};
use tenure_kernel::{Lsn, Tick};
use tenure_log::{Batch, Moment};

/// Pause after the store did not answer.
const PAUSE_MS: u64 = 100;
/// Pause before what may be in the log is looked for.
const SHORT_PAUSE_MS: u64 = 50;
/// Frames read at once.
const FRAMES_PER_READ: usize = 16;

impl World {
    pub(super) fn drive_following(&mut self, node: usize, life: &mut Life) -> Result<(), Violation> {
        let now_ms = self.boot_ms(node);
        if now_ms < life.nap_until_ms {
            self.wake_at_boot(node, life, life.nap_until_ms);
            return Ok(());
        }
        match &mut life.part {
            Part::Beginning => {
                let keys = [self.keys.floor(), self.keys.writer(), self.keys.head(), self.keys.beat()];
                // It writes nothing, but must not be old: a comparison that holds makes it fresh.
                let txn =
                    Txn { otherwise: gets(&keys), compares: vec![never(&self.keys.meta())], then: vec![] };
                self.ask(node, life, Errand::Begin, Question::Step(txn));
            }
            Part::Following if life.upto > self.nodes[node].mirror.last_frame() => {
                self.read_frames(node, life, life.upto);
            }
            Part::Following => match life.lookout.next(now_ms) {
                Next::Wait { until_ms } => self.wake_at_boot(node, life, until_ms),
                Next::Look => {
                    let txn = Txn { then: gets(&life.lookout.look()), ..Txn::default() };
                    self.ask(node, life, Errand::Look, Question::Step(txn));
                }
                Next::Claim => {
                    let claim = format!("{:016x}{:016x}", self.random.next_u64(), self.random.next_u64());
                    let wall_ms = self.nodes[node].clock.read(self.now).wall_ms;
                    let txn = life.lookout.claim(claim, wall_ms);
                    self.tell(node, format_args!("claims"));
                    self.ask(node, life, Errand::Claim, Question::Step(txn));
                }
                Next::FindOut => {
                    let txn = life.lookout.find_out();
                    self.ask(node, life, Errand::FindOut, Question::Step(txn));
                }
            },
            Part::Winning(winning) => {
                let last = self.nodes[node].mirror.last_frame();
                let head = *winning.term.head();
                if now_ms > winning.proved_ms + winning.term.ttl_ms() / 3 && !winning.term.is_in_flight() {
                    let txn = winning.term.beat(winning.tick);
                    self.ask(node, life, Errand::EarlyBeat, Question::Step(txn));
                } else if last < head.frame {
                    self.read_frames(node, life, head.frame);
                } else if winning.is_unsure {
                    let txn = winning.term.look(winning.tick);
                    self.ask(node, life, Errand::LookForOpening, Question::Step(txn));
                } else {
                    self.open(node, life, head)?;
                }
            }
            Part::Writing(_) => {}
        }
        Ok(())
    }

    fn read_frames(&mut self, node: usize, life: &mut Life, upto: u64) {
        let first = self.nodes[node].mirror.last_frame() + 1;
        let (from, to) = (self.keys.frame(first), self.keys.frame(upto + 1));
        self.ask(node, life, Errand::Frames, Question::Range { from, to, limit: FRAMES_PER_READ });
    }

    fn open(&mut self, node: usize, life: &mut Life, head: Head) -> Result<(), Violation> {
        let Part::Winning(winning) = &mut life.part else { return Ok(()) };
        let mirror = &self.nodes[node].mirror;
        if mirror.last_frame() != head.frame || mirror.end().checksum != head.chain {
            let text =
                format!("{} copied {}, its claim found {head:?}", self.nodes[node].name, mirror.last_frame());
            return Err(Violation::new("copies_continue", text));
        }
        let tick = winning.tick.max(life.engine.tick().0);
        winning.tick = tick;
        let at = Moment { tick, wall_ms: self.nodes[node].clock.read(self.now).wall_ms };
        let txn = winning.term.open(at);
        self.ask(node, life, Errand::Open, Question::Step(txn));
        Ok(())
    }

    fn nap(&mut self, node: usize, life: &mut Life, ms: u64) {
        life.nap_until_ms = self.boot_ms(node) + ms;
    }

    /// What became of a question of one who follows.
    pub(super) fn followed(
        &mut self,
        node: usize,
        life: &mut Life,
        errand: Errand,
        sent_ms: u64,
        reply: Option<Reply>,
    ) -> Result<(), Violation> {
        let now_ms = self.boot_ms(node);
        match errand {
            Errand::Begin => match stepped(reply) {
                Ok(stepped) => self.began(node, life, &stepped)?,
                Err(_) => self.nap(node, life, PAUSE_MS),
            },
            Errand::Snapshot(floor) => match reply {
                Some(Reply::Ranged(ranged)) => self.load(node, life, &floor, &ranged)?,
                Some(Reply::Stepped(_)) | None => self.nap(node, life, PAUSE_MS),
            },
            Errand::Look => match stepped(reply) {
                Ok(Stepped { found, .. }) => {
                    let [writer, head, beat] = three(&found)?;
                    life.lookout.read(now_ms, writer, head, beat).map_err(misread)?;
                    life.upto = life.upto.max(life.lookout.head().map_or(0, |head| head.frame));
                }
                Err(_) => self.nap(node, life, PAUSE_MS),
            },
            Errand::Frames => match reply {
                Some(Reply::Ranged(ranged)) => self.take_frames(node, life, &ranged)?,
                Some(Reply::Stepped(_)) | None => self.nap(node, life, PAUSE_MS),
            },
            Errand::Claim | Errand::FindOut => {
                let is_question = matches!(errand, Errand::FindOut);
                let claimed = life.lookout.claimed(sent_ms, now_ms, stepped(reply)).map_err(misread)?;
                match claimed {
                    Claimed::Won(won) => {
                        self.tell(node, format_args!("won epoch {}", won.writer.epoch));
                        let tick = won.tick;
                        let term =
                            Term::begin(self.keys.clone(), self.identity.salt, *won).map_err(misread)?;
                        let winning = Winning { term, tick, proved_ms: sent_ms, is_unsure: false };
                        life.part = Part::Winning(Box::new(winning));
                    }
                    Claimed::Lost => self.tally.claims_lost += 1,
                    Claimed::Unknown => {
                        self.tally.claims_unknown += 1;
                        if is_question {
                            self.nap(node, life, PAUSE_MS);
                        }
                    }
                }
            }
            Errand::EarlyBeat => {
                let Part::Winning(winning) = &mut life.part else { return Ok(()) };
                match winning.term.beaten(sent_ms, now_ms, stepped(reply)) {
                    Beaten::Held => winning.proved_ms = sent_ms,
                    Beaten::Fenced => life.part = Part::Following,
                    Beaten::Unknown => self.nap(node, life, SHORT_PAUSE_MS),
                }
            }
            Errand::Open | Errand::LookForOpening => {
                let Part::Winning(winning) = &mut life.part else { return Ok(()) };
                let written = match errand {
                    Errand::Open => winning.term.appended(sent_ms, now_ms, stepped(reply)),
                    _ => winning.term.looked(sent_ms, stepped(reply)),
                };
                self.opened(node, life, written, sent_ms)?;
            }
            Errand::Append(_) | Errand::Resolve(_) | Errand::Beat | Errand::Resign => {}
        }
        Ok(())
    }

    fn began(&mut self, node: usize, life: &mut Life, stepped: &Stepped) -> Result<(), Violation> {
        let [Some(floor), _, Some(head), _] = &stepped.found[..] else {
            return Err(Violation::new("store_is_whole", "a key is missing"));
        };
        let floor: Floor = decode("floor", floor).map_err(misread)?;
        let head: Head = decode("head", head).map_err(misread)?;
        let mirror = &self.nodes[node].mirror;
        let last = mirror.last_frame();
        if head.frame < last || (head.frame == last && head.chain != mirror.end().checksum) {
            let text = format!("{} has frame {last}, the store ends with {head:?}", self.nodes[node].name);
            return Err(Violation::new("acked_survives_crash", text));
        }
        if last + 1 < floor.frame {
            let (from, to) = self.keys.pieces(floor.snapshot_lsn);
            self.ask(node, life, Errand::Snapshot(floor), Question::Range { from, to, limit: 64 });
            return Ok(());
        }
        life.watch = Some(self.watch(node, stepped.revision + 1));
        life.part = Part::Following;
        Ok(())
    }

    /// A copy that lacks what is trimmed begins again with the snapshot.
    fn load(
        &mut self,
        node: usize,
        life: &mut Life,
        floor: &Floor,
        ranged: &Ranged,
    ) -> Result<(), Violation> {
        let bytes: Vec<u8> = ranged.found.iter().flat_map(|found| found.value.clone()).collect();
        if tenure_cluster::pieces::snapshot_hash(&bytes) != floor.snapshot_hash {
            // Trimmed again meanwhile, or never there: the floor tells.
            if self.floor()? == *floor {
                let text = format!("{} needs the snapshot at {}", self.nodes[node].name, floor.snapshot_lsn);
                return Err(Violation::new("trimmed_is_covered", text));
            }
            self.nap(node, life, PAUSE_MS);
            return Ok(());
        }
        self.tally.snapshots += 1;
        self.tell(node, format_args!("begins at frame {}", floor.frame));
        self.nodes[node].mirror = Mirror::from_snapshot(floor, bytes);
        life.engine = self.rebuilt(node)?;
        Ok(())
    }

    fn take_frames(&mut self, node: usize, life: &mut Life, ranged: &Ranged) -> Result<(), Violation> {
        for found in &ranged.found {
            let number = self.keys.frame_number(&found.key);
            let last = self.nodes[node].mirror.last_frame();
            match number {
                // A watch was quicker.
                Some(number) if number <= last => {}
                Some(number) if number == last + 1 => self.copy(node, life, &found.value)?,
                // What is missing is trimmed: looking around again tells.
                Some(_) | None => return self.follow_again(node, life),
            }
        }
        if ranged.found.is_empty() {
            self.nap(node, life, PAUSE_MS);
            return self.follow_again(node, life);
        }
        Ok(())
    }

    fn copy(&mut self, node: usize, life: &mut Life, bytes: &[u8]) -> Result<(), Violation> {
        let batch = self.copy_only(node, bytes)?;
        life.completions.push(Completion::Copied(batch));
        Ok(())
    }

    pub(super) fn copy_only(&mut self, node: usize, bytes: &[u8]) -> Result<Batch, Violation> {
        let copied = self.nodes[node].mirror.copy(bytes, self.identity.salt);
        copied.map_err(|why| Violation::new("copies_continue", format!("{}: {why}", self.nodes[node].name)))
    }

    /// One who watches hears of a change.
    pub(super) fn watched(
        &mut self,
        node: usize,
        life: &mut Life,
        watch: u64,
        changed: Changed,
    ) -> Result<(), Violation> {
        if life.watch != Some(watch) || !matches!(life.part, Part::Following) {
            return Ok(());
        }
        let Some(value) = changed.value else { return Ok(()) };
        if let Some(number) = self.keys.frame_number(&changed.key) {
            let last = self.nodes[node].mirror.last_frame();
            if number == last + 1 {
                self.copy(node, life, &value)?;
            } else if number > last {
                life.upto = life.upto.max(number);
            }
            return Ok(());
        }
        let now_ms = self.boot_ms(node);
        life.lookout.saw(now_ms, &changed.key, &value).map_err(misread)
    }

    fn opened(
        &mut self,
        node: usize,
        life: &mut Life,
        written: Written,
        sent_ms: u64,
    ) -> Result<(), Violation> {
        let Part::Winning(winning) = &mut life.part else { return Ok(()) };
        match written {
            Written::Committed { frame } => {
                winning.proved_ms = sent_ms;
                if self.nodes[node].mirror.last_frame() < winning.term.head().frame {
                    self.copy(node, life, &frame)?;
                }
                self.begin_writing(node, life)
            }
            Written::Absent => {
                winning.proved_ms = sent_ms;
                winning.is_unsure = false;
                Ok(())
            }
            Written::Unknown => {
                winning.is_unsure = true;
                self.nap(node, life, SHORT_PAUSE_MS);
                Ok(())
            }
            Written::Fenced => {
                life.part = Part::Following;
                Ok(())
            }
            Written::Corrupt { why } => Err(Violation::new("store_is_whole", why)),
        }
    }

    /// From here on this node decides.
    fn begin_writing(&mut self, node: usize, life: &mut Life) -> Result<(), Violation> {
        // What was copied last is applied before anything is decided on it.
        let now = self.nodes[node].clock.read(self.now);
        let completions = core::mem::take(&mut life.completions);
        let outputs = life.engine.turn(now, core::mem::take(&mut life.inputs), completions);
        for out in outputs.outs {
            self.out(node, life, &out)?;
        }
        let following = core::mem::replace(&mut life.part, Part::Beginning);
        let Part::Winning(winning) = following else { return Ok(()) };
        let Winning { term, tick, proved_ms, .. } = *winning;
        let engine = core::mem::replace(&mut life.engine, self.no_engine());
        let (kernel, applied) = engine.into_state();
        let tick = Tick(tick).max(applied);
        let from = GoingOn {
            next_lsn: Lsn(term.head().lsn + 1),
            writer_epoch: term.writer().epoch,
            authority: authority(&term),
            identity_since: Lsn(1),
        };
        self.checks.begins(&from, tick)?;
        self.tally.changes += 1;
        self.tell(node, format_args!("writes: epoch {}, tick {tick}", from.writer_epoch));
        life.engine = Engine::go_on(from, kernel, tick, self.profile.engine.clone(), now);
        life.part = Part::Writing(Box::new(Writing {
            authority: from.authority,
            term,
            proved_ms,
            work: None,
            resigning: Resigning::No,
            has_lapsed: false,
        }));
        life.watch = None;
        life.engine_wake = Some(self.now);
        Ok(())
    }
}

fn gets(keys: &[String]) -> Vec<Op> {
    keys.iter().map(|key| Op::Get { key: key.clone() }).collect()
}

/// A comparison that fails, so that the answer to it is not old.
fn never(key: &str) -> tenure_cluster::store::Compare {
    tenure_cluster::store::Compare::Value { key: key.to_owned(), value: Vec::new() }
}

fn three(found: &[Option<Vec<u8>>]) -> Result<[&[u8]; 3], Violation> {
    match found {
        [Some(writer), Some(head), Some(beat)] => Ok([writer, head, beat]),
        _ => Err(Violation::new("store_is_whole", "a key is missing")),
    }
}

pub(super) fn misread(error: tenure_cluster::values::ValueError) -> Violation {
    Violation::new("store_is_whole", error.to_string())
}
