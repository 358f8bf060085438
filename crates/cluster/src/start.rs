//! Decides how a node starts with the log that the store has. Pure: `boot.rs` reads, opens and writes, the simulator runs the
//! same decision.
//!
//! Invariant: a node that starts knows of nothing that the store lacks.

use crate::trust::{Misfit, Progress, Remembered};
use crate::values::{Floor, Meta, Standing, Writer};

/// What a node starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    known: Remembered,
    has_memory: bool,
    is_new_generation: bool,
    store: Progress,
}

/// Where a node's local log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalEnd {
    /// The log that it is of.
    pub log_id: u64,
    /// The number of its last frame.
    pub frame: u64,
    /// That frame's checksum.
    pub chain: u32,
}

/// Why a node does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoStart {
    /// The node, or its local log, belongs to another log.
    AnotherLog {
        /// Which.
        known: u64,
    },
    /// The store lacks what this node knows: the node marks it.
    Forgot {
        /// What it knows.
        known: Box<Remembered>,
        /// What is missing.
        what: String,
    },
    /// Another node has marked the store.
    Marked {
        /// Which.
        by: String,
        /// What is missing.
        what: String,
    },
}

impl Start {
    /// Compares what a node remembers with the store, as it is at a moment that is not over. `new_memory` is whose memory it
    /// is from now on, where nothing is remembered.
    ///
    /// # Errors
    /// When the node cannot begin with what the store has.
    pub fn of(
        remembered: Option<&Remembered>,
        new_memory: &str,
        meta: &Meta,
        writer: &Writer,
        store: Progress,
    ) -> Result<Self, NoStart> {
        let first =
            || Remembered { log_id: meta.log_id, generation: meta.generation, ..Remembered::default() };
        let mut known = match remembered.map(|remembered| (remembered.carried_over(meta, &store), remembered))
        {
            None => first(),
            Some((Ok(known), _)) => known,
            Some((Err(Misfit::AnotherLog), remembered)) => {
                return Err(NoStart::AnotherLog { known: remembered.log_id });
            }
            Some((Err(Misfit::Forgot { what }), remembered)) => {
                return Err(NoStart::Forgot { known: Box::new(remembered.clone()), what });
            }
        };
        if let Standing::Restored { by, what } = &writer.standing {
            return Err(NoStart::Marked { by: by.clone(), what: what.clone() });
        }
        if known.memory.is_empty() {
            new_memory.clone_into(&mut known.memory);
        }
        let is_new_generation = remembered.is_some_and(|remembered| remembered.generation < meta.generation);
        Ok(Self { known, has_memory: remembered.is_some(), is_new_generation, store })
    }

    /// Why the local log is of no use whatever it has. `None`: it is looked at.
    #[must_use]
    pub fn outdates(&self) -> Option<&'static str> {
        self.is_new_generation.then_some("the log was adopted or moved since")
    }

    /// Why the node begins a new local log. `None`: it goes on with the one that it has.
    ///
    /// # Errors
    /// When that one has what the store lacks, or belongs to another log.
    pub fn replaces(&self, meta: &Meta, floor: &Floor, local: LocalEnd) -> Result<Option<String>, NoStart> {
        if ![meta.log_id, meta.parent_log_id].contains(&local.log_id) {
            return Err(NoStart::AnotherLog { known: local.log_id });
        }
        let copied = Progress { frame: local.frame, chain: local.chain, ..Progress::default() };
        let store = Progress { frame: self.store.frame, chain: self.store.chain, ..Progress::default() };
        if let Some(what) = store.lacks(&copied) {
            // Without a memory nothing says that the store ever had it.
            if !self.has_memory {
                return Ok(Some(what));
            }
            let mut known = Box::new(self.known.clone());
            known.progress.raise(&copied);
            return Err(NoStart::Forgot { known, what });
        }
        let is_behind = local.frame + 1 < floor.frame;
        Ok(is_behind
            .then(|| format!("it ends with frame {}; the log begins with {}", local.frame, floor.frame)))
    }

    /// What the node remembers from now on.
    #[must_use]
    pub fn known(self) -> Remembered {
        let mut known = self.known;
        known.progress.raise(&self.store);
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{Beat, Head};
    use tenure_log::{Genesis, Lsn};

    fn meta(generation: u64) -> Meta {
        let genesis = Genesis { random: [7; 16], unix_seconds: 1_000, shard: 0 };
        Meta { generation, ..Meta::of(&genesis.identity(), Lsn(1), 0, "secret".repeat(8)) }
    }

    fn writer(standing: Standing) -> Writer {
        Writer {
            epoch: 5,
            claim: "c".to_owned(),
            node: "a".to_owned(),
            incarnation: "1".to_owned(),
            url: String::new(),
            writer_ttl_ms: 3_000,
            tick: 0,
            wall_ms: 0,
            standing,
        }
    }

    fn store(frame: u64) -> Progress {
        let head = Head { frame, chain: frame as u32, ..Head::default() };
        Progress::of(&writer(Standing::Writes), &head, &Beat::default(), 100)
    }

    fn remembers(generation: u64, frame: u64) -> Remembered {
        Remembered {
            log_id: meta(1).log_id,
            generation,
            progress: store(frame),
            memory: "own".to_owned(),
            ..Remembered::default()
        }
    }

    fn begin(remembered: Option<&Remembered>, generation: u64, frame: u64) -> Result<Start, NoStart> {
        Start::of(remembered, "new", &meta(generation), &writer(Standing::Writes), store(frame))
    }

    fn local(frame: u64) -> LocalEnd {
        LocalEnd { log_id: meta(1).log_id, frame, chain: frame as u32 }
    }

    #[test]
    fn a_node_that_knows_more_than_the_store_marks_it_whoever_has_marked_it_before() {
        let known = remembers(1, 9);
        for standing in [Standing::Writes, Standing::Restored { by: "b".to_owned(), what: String::new() }] {
            let start = Start::of(Some(&known), "new", &meta(1), &writer(standing), store(8));
            let Err(NoStart::Forgot { known: told, .. }) = start else { panic!("{start:?}") };
            assert_eq!(*told, known);
        }
        let marked = writer(Standing::Restored { by: "b".to_owned(), what: "it".to_owned() });
        let start = Start::of(Some(&known), "new", &meta(1), &marked, store(9));
        assert_eq!(start, Err(NoStart::Marked { by: "b".to_owned(), what: "it".to_owned() }));
    }

    #[test]
    fn a_local_log_with_more_than_the_store_counts_where_the_node_has_a_memory() {
        let floor = Floor { frame: 1, ..Floor::default() };
        let start = begin(Some(&remembers(1, 7)), 1, 8).expect("the store has all of it");
        let Err(NoStart::Forgot { known, .. }) = start.replaces(&meta(1), &floor, local(9)) else {
            panic!("the store lacks frame 9")
        };
        assert_eq!((known.progress.frame, known.memory.as_str()), (9, "own"));
        let start = begin(None, 1, 8).expect("nothing is remembered");
        assert!(start.replaces(&meta(1), &floor, local(9)).is_ok_and(|why| why.is_some()));
        let foreign = LocalEnd { log_id: 1, ..local(8) };
        assert_eq!(start.replaces(&meta(1), &floor, foreign), Err(NoStart::AnotherLog { known: 1 }));
    }

    #[test]
    fn a_local_log_goes_on_unless_the_store_has_no_frame_that_continues_it() {
        let start = begin(Some(&remembers(1, 7)), 1, 8).unwrap();
        let floor = |frame| Floor { frame, ..Floor::default() };
        assert_eq!((start.outdates(), start.replaces(&meta(1), &floor(8), local(7))), (None, Ok(None)));
        assert!(start.replaces(&meta(1), &floor(9), local(7)).is_ok_and(|why| why.is_some()));
        assert_eq!(start.known().progress.frame, 8, "what the store has is remembered");
    }

    #[test]
    fn of_an_earlier_generation_whose_memory_it_is_remains() {
        let start = begin(Some(&remembers(1, 9)), 2, 3).expect("the log was adopted since");
        assert!(start.outdates().is_some());
        let known = start.known();
        assert_eq!((known.generation, known.progress.frame, known.memory.as_str()), (2, 3, "own"));
        assert!(matches!(begin(Some(&remembers(3, 9)), 2, 3), Err(NoStart::Forgot { .. })));
        assert_eq!(begin(None, 1, 0).unwrap().known().memory, "new");
    }
}
