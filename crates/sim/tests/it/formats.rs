//! A rolling upgrade: a leader that can write a newer format, and followers that read it or do not. The newer program is
//! planted: there is no event yet that the first format cannot spell.

use tenure_engine::{
    Answer, Appended, Completion, Engine, EngineConfig, GoingOn, Input, Now, Out, Outputs, Request, Stop,
    Submit, Ticket,
};
use tenure_kernel::codec::{FORMAT, encode_state};
use tenure_kernel::planted::plant_newer_format;
use tenure_kernel::{Action, Kernel, Lsn, RecordKind, Setup, Tick};
use tenure_log::{Authority, Batch};

const NEWER: u32 = FORMAT + 1;
const NOW: Now = Now { boot_ms: 1_000, wall_ms: 1_000 };

struct Leader {
    engine: Engine,
    asked: u64,
}

impl Leader {
    /// Of a later version, among nodes that read up to a format.
    fn among(format: u32) -> Self {
        plant_newer_format(Some(NEWER));
        let from = GoingOn {
            next_lsn: Lsn(1),
            writer_epoch: 1,
            authority: Authority::Forever,
            identity_since: Lsn(1),
        };
        let config = EngineConfig { format, ..EngineConfig::default() };
        let engine = Engine::go_on(from, Kernel::new(Setup::plain()), Tick(0), config, NOW);
        Self { engine, asked: 0 }
    }

    /// Every node reads up to this format from now on.
    fn hears_of(&mut self, format: u32) {
        let outputs = self.engine.turn(NOW, [], [Completion::Format(format)]);
        assert!(outputs.append.is_none() && outputs.stop.is_none(), "it writes nothing for that");
    }

    /// Defines a pool; the frame, once it is durable.
    fn define(&mut self, name: &str) -> Batch {
        plant_newer_format(Some(NEWER));
        self.asked += 1;
        let ticket = Ticket(self.asked);
        let define = Action::DefinePool { name: name.into(), size: 2 };
        let input = Input::new(ticket, Request::Submit(Submit::now(define)));
        let Outputs { append: Some(batch), .. } = self.engine.turn(NOW, [input], []) else {
            panic!("{name} writes nothing")
        };
        let done = Completion::Appended { batch: batch.clone(), outcome: Appended::Committed, took_us: 1 };
        let outputs = self.engine.turn(NOW, [], [done]);
        let is_done = |out: &Out| matches!(out, Out::Answer(of, answer) if *of == ticket && !matches!(answer, Answer::Refused(_)));
        assert!(outputs.outs.iter().any(is_done), "{name} is answered: {:?}", outputs.outs);
        batch
    }
}

/// A node that follows, and which program it runs.
struct Follower {
    engine: Engine,
    reads: Option<u32>,
}

impl Follower {
    fn that_reads(reads: Option<u32>) -> Self {
        let (config, kernel) = (EngineConfig::default(), Kernel::new(Setup::plain()));
        Self { engine: Engine::following(config, kernel, Tick(0), Lsn(1), NOW), reads }
    }

    fn copies(&mut self, batch: &Batch) -> Option<Stop> {
        plant_newer_format(self.reads);
        self.engine.turn(NOW, [], [Completion::Copied(batch.clone())]).stop
    }
}

fn state(engine: &Engine) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_state(engine.kernel(), &mut |piece| bytes.extend_from_slice(piece));
    bytes
}

/// Whether any of its events is spelled in a newer format than the first.
fn names_format(batch: &Batch) -> bool {
    batch.records().any(|record| record.kind == RecordKind::Event.code() && record.bytes.first() == Some(&0))
}

#[test]
fn a_leader_writes_a_newer_format_once_every_node_reads_it_and_not_before() {
    let mut leader = Leader::among(FORMAT);
    let (mut older, mut newer) = (Follower::that_reads(None), Follower::that_reads(Some(NEWER)));
    assert!(leader.engine.may_write(FORMAT) && !leader.engine.may_write(NEWER));
    let first = leader.define("one");
    assert!(!names_format(&first), "an older node reads it");
    assert_eq!((older.copies(&first), newer.copies(&first)), (None, None));
    assert_eq!(state(&older.engine), state(&leader.engine));

    leader.hears_of(NEWER);
    assert!(leader.engine.may_write(NEWER));
    let second = leader.define("two");
    assert!(names_format(&second));
    assert_eq!(newer.copies(&second), None);
    assert_eq!(state(&newer.engine), state(&leader.engine), "both spellings say the same");

    // An older node is listed again: what is decided from now on it reads.
    leader.hears_of(FORMAT);
    assert!(!names_format(&leader.define("three")));
}

#[test]
fn a_follower_stops_at_a_record_that_it_cannot_read_and_says_which_format_it_needs() {
    let mut leader = Leader::among(NEWER);
    let mut older = Follower::that_reads(None);
    let batch = leader.define("one");
    let lsn = batch
        .records()
        .find(|record| record.kind == RecordKind::Event.code())
        .map(|record| Lsn(record.lsn.0));
    let stop = Stop::Newer { lsn: lsn.expect("an event"), found: NEWER, reads: FORMAT };
    let said = stop.to_string();
    assert!(said.contains("format 3 at lsn") && said.contains("up to format 2: upgrade"), "{said}");
    let applied = older.engine.applied_lsn();
    assert_eq!(older.copies(&batch), Some(stop.clone()));
    // Who has not applied everything that was copied never claims; and it takes nothing more.
    assert_eq!(older.engine.applied_lsn(), applied);
    assert_eq!(older.copies(&leader.define("two")), Some(stop));
}
