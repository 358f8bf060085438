//! A log that comes into a store, leaves it, or is adopted after the store has forgotten part of it (`adopt.rs` decides how).
//! Done by an operator while no node runs; every step can be done again after a crash.

use std::time::Duration;

use tenure_log::{Identity, LogEnd, Lsn};

use crate::adopt::{Plan, Remains};
use crate::boot::{BootError, read_meta_of};
use crate::format::{FIRST, PIECES, safe_format};
use crate::growth::next_lot;
use crate::keys::Keys;
use crate::listing::read_list;
use crate::pieces::{PutError, put_whole};
use crate::store::{Compare, Op, Store, StoreError, Txn};
use crate::values::{Beat, Floor, Head, Meta, Standing, State, Writer, decode, encode};

const WITHIN: Duration = Duration::from_secs(10);

/// Why a log was not moved or adopted.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The store cannot be asked, or what it has cannot be understood.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// The store did not answer, or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The snapshot could not be put there.
    #[error(transparent)]
    Put(#[from] PutError),
    /// There is a log already.
    #[error("the store has a log of its own ({log_id:016x}) under this prefix")]
    NotEmpty {
        /// Which.
        log_id: u64,
    },
    /// There is no log.
    #[error("the store has no log under this prefix")]
    Empty,
    /// A node writes.
    #[error("node {node} is the leader; stop every node first")]
    Served {
        /// Which.
        node: String,
    },
    /// It went somewhere else already.
    #[error("the log was moved to {to} already")]
    Moved {
        /// Where.
        to: String,
    },
    /// It has forgotten something.
    #[error(
        "the store was restored from a backup and lacks changes that {by} has; run tenure cluster adopt first"
    )]
    Restored {
        /// Who remembers more.
        by: String,
    },
    /// Somebody was quicker.
    #[error("the store changed in the meantime; run this again")]
    Changed,
}

/// A state that a log begins with.
pub struct Beginning<'a> {
    /// Who the log is.
    pub identity: Identity,
    /// The LSN at which that identity began.
    pub identity_since: Lsn,
    /// The log it continues; 0: none.
    pub parent_log_id: u64,
    /// Where the log ended with this state.
    pub end: LogEnd,
    /// The state's bytes; empty where nothing has happened yet.
    pub snapshot: &'a [u8],
    /// What nodes show each other.
    pub secret: String,
    /// How long a step of a writer is good for until one claims.
    pub writer_ttl_ms: u64,
    /// Unix milliseconds now.
    pub wall_ms: u64,
}

/// The keys that say who the log is and who writes, as they are.
pub struct Standings {
    /// Who the log is.
    pub meta: Meta,
    /// Who writes, or did last.
    pub writer: Writer,
    /// Where it ends.
    pub head: Head,
    /// The last leader's last barrier.
    pub beat: Beat,
    /// Where it begins.
    pub floor: Floor,
    meta_bytes: Vec<u8>,
    writer_bytes: Vec<u8>,
    head_bytes: Vec<u8>,
    beat_bytes: Vec<u8>,
}

/// Puts a log into a store that has none, or that this very log was moved out of. Nobody serves it before [`activate`].
///
/// # Errors
/// When the store has another log, or does not answer.
pub fn import(store: &dyn Store, keys: &Keys, beginning: &Beginning<'_>) -> Result<(), MoveError> {
    let mut meta = Meta::of(
        &beginning.identity,
        beginning.identity_since,
        beginning.parent_log_id,
        beginning.secret.clone(),
    );
    meta.state = State::Importing;
    let mut compares = vec![Compare::Absent { key: keys.meta() }];
    if let Some((found, _)) = read_meta_of(store, keys)?
        && (found.state, found.log_id) == (State::Active, meta.log_id)
        && let stands = standings(store, keys)?
        && matches!(stands.writer.standing, Standing::Moved { .. })
    {
        // Nodes that remember it from before find a later generation.
        meta.generation = stands.meta.generation;
        compares = stands.compares(keys);
        compares.push(Compare::Value { key: keys.meta(), value: stands.meta_bytes });
    }
    let mut bytes = encode(&meta);
    let txn = Txn {
        compares,
        then: vec![Op::Put { key: keys.meta(), value: bytes.clone() }],
        otherwise: Vec::new(),
    };
    // Whatever became of it is seen next.
    let _ = store.step(&txn, WITHIN);
    match read_meta_of(store, keys)? {
        Some((found, found_bytes)) if found.state == State::Importing && found.log_id == meta.log_id => {
            bytes = found_bytes;
        }
        Some((found, _)) => return Err(MoveError::NotEmpty { log_id: found.log_id }),
        None => return Err(MoveError::Changed),
    }
    let importing = Compare::Value { key: keys.meta(), value: bytes };
    // What is left of a former stay, or of a try that crashed.
    for (from, to) in [(keys.frame(0), keys.frame(u64::MAX)), keys.snapshots(), keys.nodes()] {
        while let (Some(lot), _) = next_lot(store, keys, &from, &to)? {
            held(store, &Txn { compares: vec![importing.clone()], then: vec![lot], otherwise: Vec::new() })?;
        }
    }
    let head = Head::of(0, &beginning.end);
    let mut floor = Floor { frame: 1, end: head, ..Floor::default() };
    if head.lsn > 0 {
        let put = put_whole(store, keys, &importing, Lsn(head.lsn), beginning.snapshot, PIECES)?;
        floor = floor.with(Lsn(head.lsn), &put);
    }
    let writer = nobody(head.epoch, beginning.writer_ttl_ms, head.tick, beginning.wall_ms);
    let put = |key, value| Op::Put { key, value };
    let then = vec![
        put(keys.writer(), encode(&writer)),
        put(keys.head(), encode(&head)),
        put(keys.beat(), encode(&Beat::default())),
        put(keys.floor(), encode(&floor)),
    ];
    held(store, &Txn { compares: vec![importing], then, otherwise: Vec::new() })
}

/// Lets nodes serve what was imported. Done already: nothing happens.
///
/// # Errors
/// When there is no such log, or the store does not answer.
pub fn activate(store: &dyn Store, keys: &Keys) -> Result<Meta, MoveError> {
    let (meta, bytes) = read_meta_of(store, keys)?.ok_or(MoveError::Empty)?;
    if meta.state == State::Active {
        return Ok(meta);
    }
    let active = Meta { state: State::Active, generation: meta.generation + 1, ..meta };
    let then = vec![Op::Put { key: keys.meta(), value: encode(&active) }];
    let compares = vec![Compare::Value { key: keys.meta(), value: bytes }];
    held(store, &Txn { compares, then, otherwise: Vec::new() })?;
    Ok(active)
}

/// Reads how the log stands.
///
/// # Errors
/// When the store holds no log, or does not answer.
pub fn standings(store: &dyn Store, keys: &Keys) -> Result<Standings, MoveError> {
    let (meta, meta_bytes) = read_meta_of(store, keys)?.ok_or(MoveError::Empty)?;
    let get = |key: String| -> Result<Vec<u8>, MoveError> {
        let ranged = store.range(&key, &format!("{key}\0"), 1, WITHIN)?;
        let found = ranged.found.into_iter().next();
        Ok(found.ok_or(BootError::Missing { key })?.value)
    };
    let (writer_bytes, head_bytes) = (get(keys.writer())?, get(keys.head())?);
    let (beat_bytes, floor_bytes) = (get(keys.beat())?, get(keys.floor())?);
    let understood = |error| MoveError::Boot(BootError::Value(error));
    Ok(Standings {
        writer: decode("writer", &writer_bytes).map_err(understood)?,
        head: decode("head", &head_bytes).map_err(understood)?,
        beat: decode("beat", &beat_bytes).map_err(understood)?,
        floor: decode("floor", &floor_bytes).map_err(understood)?,
        meta,
        meta_bytes,
        writer_bytes,
        head_bytes,
        beat_bytes,
    })
}

/// Makes sure that no node writes: the last one resigned, or nothing of it is seen for longer than it may be silent. `pause`
/// lets time pass.
///
/// # Errors
/// When one does.
pub fn require_idle(
    store: &dyn Store,
    keys: &Keys,
    pause: &mut dyn FnMut(Duration),
) -> Result<Standings, MoveError> {
    let before = standings(store, keys)?;
    if before.writer.standing != Standing::Writes {
        return Ok(before);
    }
    pause(Duration::from_millis(before.writer.writer_ttl_ms * 2 + 500));
    let after = standings(store, keys)?;
    let moved = (&before.writer_bytes, &before.head_bytes, &before.beat_bytes)
        != (&after.writer_bytes, &after.head_bytes, &after.beat_bytes);
    if moved { Err(MoveError::Served { node: after.writer.node }) } else { Ok(after) }
}

/// Ends the log in the store for good: it went to `to`. Done already: nothing happens.
///
/// # Errors
/// When it went somewhere else, or somebody was quicker.
pub fn give_away(store: &dyn Store, keys: &Keys, stands: &Standings, to: &str) -> Result<(), MoveError> {
    match &stands.writer.standing {
        Standing::Moved { to: where_to } if where_to == to => return Ok(()),
        Standing::Moved { to } => return Err(MoveError::Moved { to: to.clone() }),
        Standing::Restored { by, .. } => return Err(MoveError::Restored { by: by.clone() }),
        Standing::Writes | Standing::Resigned => {}
    }
    let moved = Writer {
        epoch: stands.writer.epoch + 1,
        standing: Standing::Moved { to: to.to_owned() },
        ..stands.writer.clone()
    };
    let then = vec![Op::Put { key: keys.writer(), value: encode(&moved) }];
    held(store, &Txn { compares: stands.compares(keys), then, otherwise: Vec::new() })
}

/// Continues with what is known after the store has forgotten something, as it was decided: a new generation, which begins
/// with a snapshot. `format`: the newest one that this program reads.
///
/// # Errors
/// When the store does not answer, or somebody was quicker.
pub fn adopt(
    store: &dyn Store,
    keys: &Keys,
    stands: &Standings,
    plan: &Plan,
    snapshot: &[u8],
    format: u32,
) -> Result<(), MoveError> {
    let same = Compare::Value { key: keys.meta(), value: stands.meta_bytes.clone() };
    let lsn = Lsn(plan.head.lsn);
    let format = read_format(store, keys, format)?;
    let floor = plan.floor.with(lsn, &put_whole(store, keys, &same, lsn, snapshot, format)?);
    let put = |key, value| Op::Put { key, value };
    let mut compares = stands.compares(keys);
    compares.push(same);
    let nodes = keys.nodes();
    let then = vec![
        put(keys.meta(), encode(&plan.meta)),
        put(keys.writer(), encode(&plan.writer)),
        put(keys.head(), encode(&plan.head)),
        put(keys.floor(), encode(&floor)),
        // What nodes remember of the generation before was looked at: each joins again.
        Op::Delete { from: nodes.0, to: nodes.1 },
    ];
    held(store, &Txn { compares, then, otherwise: Vec::new() })
}

/// What the store has of a log that nobody writes, for [`crate::adopt`].
///
/// # Errors
/// When the store does not answer.
pub fn remains(store: &dyn Store, keys: &Keys, stands: &Standings) -> Result<Remains, MoveError> {
    Ok(Remains {
        meta: stands.meta.clone(),
        writer: stands.writer.clone(),
        head: stands.head,
        beat: stands.beat,
        list: read_list(store, keys, WITHIN)?,
    })
}

/// The newest format that every listed node reads.
fn read_format(store: &dyn Store, keys: &Keys, own: u32) -> Result<u32, StoreError> {
    let list = read_list(store, keys, WITHIN)?;
    Ok(safe_format(own, Some(list.iter().map(|listed| listed.node.as_ref())), FIRST))
}

impl Standings {
    fn compares(&self, keys: &Keys) -> Vec<Compare> {
        let value = |key, value: &Vec<u8>| Compare::Value { key, value: value.clone() };
        vec![
            value(keys.writer(), &self.writer_bytes),
            value(keys.head(), &self.head_bytes),
            value(keys.beat(), &self.beat_bytes),
        ]
    }
}

/// There is no leader, and every node may claim.
fn nobody(epoch: u64, writer_ttl_ms: u64, tick: u64, wall_ms: u64) -> Writer {
    Writer {
        epoch,
        claim: String::new(),
        node: String::new(),
        incarnation: String::new(),
        url: String::new(),
        writer_ttl_ms,
        tick,
        wall_ms,
        standing: Standing::Resigned,
    }
}

fn held(store: &dyn Store, txn: &Txn) -> Result<(), MoveError> {
    if store.step(txn, WITHIN)?.held { Ok(()) } else { Err(MoveError::Changed) }
}
