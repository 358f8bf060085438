//! A node finds its log: the one in the store, the copy on this machine, and what this machine remembers of the store. What
//! does not fit together is refused: a store that was put back to an earlier state has forgotten promises.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use tenure_log::{CopyOf, FileLogOptions, Lsn, Mirror, Moment, OpenError, Recovery, SharedDisk};

use crate::follow::FRAMES_PER_READ;
use crate::keys::Keys;
use crate::listing::removal;
use crate::memory::Memory;
use crate::remote::lock;
use crate::start::{LocalEnd, NoStart, Start};
use crate::store::{Compare, Op, Store, StoreError, Txn};
use crate::trust::{Forgot, Progress, Remembered, Trust};
use crate::values::{
    Beat, FORMAT, Floor, Head, Meta, Node, Standing, State, ValueError, Writer, decode, encode,
};

/// How long a step of this may take.
const WITHIN: Duration = Duration::from_secs(5);
/// Tries to mark a store that changes meanwhile.
const MARK_TRIES: usize = 3;

/// A node's log, found.
pub struct Booted {
    /// Who it is.
    pub meta: Meta,
    /// The copy.
    pub mirror: Mirror,
    /// What opening it found.
    pub recovery: Recovery,
    /// What this machine remembers of it, this start included.
    pub known: Remembered,
    /// Whether a damaged or outdated copy was put aside, and why.
    pub put_aside: Option<String>,
}

/// Why a node does not follow the log in the store.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The store does not answer, or refuses.
    #[error("cannot read from the store")]
    Store(#[from] StoreError),
    /// Something in it cannot be understood.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// There is no log in the store, though this machine has followed one there.
    #[error("the store has no log, but this machine has a local log of it; was the store restored or wiped?")]
    MetaMissing,
    /// It is another log.
    #[error("the store has log {found:016x}, this machine has a local log of {known:016x}")]
    AnotherLog {
        /// In the store.
        found: u64,
        /// Followed here.
        known: u64,
    },
    /// The store has forgotten something.
    #[error("the store was restored from a backup")]
    Restored(#[from] Forgot),
    /// A migration into the store was not finished.
    #[error("the log in the store is being copied there; finish that with `tenure cluster migrate`")]
    Importing,
    /// The log went elsewhere.
    #[error("the log was moved to {to}")]
    Moved {
        /// Where.
        to: String,
    },
    /// Written by another version.
    #[error(
        "layout {found} of the store is not known to this program, which knows layout {FORMAT}: upgrade this node"
    )]
    Format {
        /// What was found.
        found: u32,
    },
    /// A key that must be there is not.
    #[error("`{key}` is missing from the store")]
    Missing {
        /// Which.
        key: String,
    },
    /// What is gone from the store is covered by no snapshot there.
    #[error("the log begins with frame {floor}, and the snapshot before it is not in the store")]
    NoSnapshot {
        /// The first frame.
        floor: u64,
    },
    /// A frame does not continue the ones before it.
    #[error("the log in the store is damaged")]
    Copy(#[from] tenure_log::CopyError),
    /// The copy cannot be opened.
    #[error("cannot open the local log")]
    Open(#[from] OpenError),
    /// The disk refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What a node boots with.
pub struct BootOptions<'a> {
    /// The store.
    pub store: &'a dyn Store,
    /// Where in it.
    pub keys: &'a Keys,
    /// The disk of the copy.
    pub disk: SharedDisk,
    /// Its directory.
    pub root: &'a Path,
    /// How segments are made; its genesis is what a new log is made from.
    pub options: FileLogOptions,
    /// What nodes show each other, if the log is new.
    pub secret: String,
    /// How long a step is good for, if the log is new.
    pub writer_ttl_ms: u64,
    /// The node's name.
    pub node: &'a str,
    /// 128 random bits: whose memory this is, if the machine has none.
    pub memory: String,
}

/// Finds the log, begins one if there has never been any, and opens the copy. `memory` is that of the same directory. A store that has forgotten what this
/// machine knows is marked, so that nobody goes on with it.
///
/// # Errors
/// When what is found does not fit together.
pub fn boot(with: &BootOptions<'_>, memory: &Memory) -> Result<Booted, BootError> {
    let remembered = memory.recall()?;
    let meta = match read_meta(with)? {
        Some(meta) => meta,
        None if remembered.is_some() => return Err(BootError::MetaMissing),
        None => create(with)?,
    };
    if meta.format != FORMAT {
        return Err(BootError::Format { found: meta.format });
    }
    if meta.state == State::Importing {
        return Err(BootError::Importing);
    }
    let fresh = look_fresh(with.store, with.keys)?;
    if let Standing::Moved { to } = &fresh.writer.standing {
        return Err(BootError::Moved { to: to.clone() });
    }
    let start = Start::of(remembered.as_ref(), &with.memory, &meta, &fresh.writer, fresh.progress());
    let start = start.or_else(|why| does_not_start(with, &meta, why))?;
    let floor: Floor = read(with, with.keys.floor(), "floor")?;
    let opened = match start.outdates() {
        Some(why) => Err(why.to_owned()),
        None => open(with, &meta, &floor)?,
    };
    let opened = match opened {
        Ok((mirror, recovery)) => {
            let (log_id, frame) = (mirror.identity().log_id, mirror.last_frame());
            let local = LocalEnd { log_id, frame, chain: mirror.end().checksum };
            let replaced = start.replaces(&meta, &floor, local);
            let replaced = replaced.or_else(|why| does_not_start(with, &meta, why))?;
            replaced.map_or(Ok((mirror, recovery)), Err)
        }
        Err(why) => Err(why),
    };
    let (mirror, recovery, put_aside) = match opened {
        Ok((mirror, recovery)) => (mirror, recovery, None),
        Err(why) => {
            set_aside(with)?;
            let (mirror, recovery) = begin(with, &meta, &floor)?;
            (mirror, recovery, Some(why))
        }
    };
    let known = start.known();
    memory.write_down(|| known.clone())?;
    Ok(Booted { meta, mirror, recovery, known, put_aside })
}

/// The error of a node that cannot start. The node marks a store that has forgotten something.
fn does_not_start<T>(with: &BootOptions<'_>, meta: &Meta, why: NoStart) -> Result<T, BootError> {
    Err(match why {
        NoStart::AnotherLog { known } => BootError::AnotherLog { found: meta.log_id, known },
        NoStart::Marked { by, what } => Forgot { who: by, what }.into(),
        NoStart::Forgot { known, what } => {
            mark(with.store, with.keys, with.node, &known, &what)?;
            Forgot { who: with.node.to_owned(), what }.into()
        }
    })
}

/// The store as it is at one moment, which is not over.
struct Fresh {
    writer: Writer,
    head: Head,
    beat: Beat,
    /// `writer`, `head` and `beat`, as bytes.
    bytes: [Vec<u8>; 3],
    revision: u64,
}

impl Fresh {
    fn progress(&self) -> Progress {
        Progress::of(&self.writer, &self.head, &self.beat, self.revision)
    }
}

fn look_fresh(store: &dyn Store, keys: &Keys) -> Result<Fresh, BootError> {
    let names = [keys.writer(), keys.head(), keys.beat()];
    let stepped = store.step(&Txn::fresh(&names), WITHIN)?;
    let mut found =
        names.into_iter().zip(stepped.found).map(|(key, found)| found.ok_or(BootError::Missing { key }));
    let mut next = || found.next().unwrap_or_else(|| Err(BootError::Missing { key: keys.writer() }));
    let bytes = [next()?, next()?, next()?];
    Ok(Fresh {
        writer: decode("writer", &bytes[0])?,
        head: decode("head", &bytes[1])?,
        beat: decode("beat", &bytes[2])?,
        bytes,
        revision: stepped.revision,
    })
}

/// How far the store has come at a moment that is not over: an answer to it is not old.
///
/// # Errors
/// When the store does not answer, or what it has cannot be understood.
pub fn fresh_progress(store: &dyn Store, keys: &Keys) -> Result<Progress, BootError> {
    Ok(look_fresh(store, keys)?.progress())
}

/// Marks a store that has forgotten what a node knows: no claim and no append holds there until it is adopted. Only a node
/// of that very log may, which is listed there with its memory, and only while the store lacks what it knows. Whether it
/// is marked now.
///
/// # Errors
/// When the store does not answer, or what it has cannot be understood.
pub fn mark(
    store: &dyn Store,
    keys: &Keys,
    node: &str,
    known: &Remembered,
    what: &str,
) -> Result<bool, BootError> {
    for _ in 0..MARK_TRIES {
        let Some((meta, meta_bytes)) = read_meta_of(store, keys)? else { return Ok(false) };
        let key = keys.node(node);
        let ranged = store.range(&key, &format!("{key}\0"), 1, WITHIN)?;
        let listed = ranged.found.first().and_then(|found| decode::<Node>("nodes", &found.value).ok());
        let is_listed = listed.is_some_and(|listed| listed.memory == known.memory && !listed.is_forgotten);
        let fresh = look_fresh(store, keys)?;
        if matches!(fresh.writer.standing, Standing::Restored { .. }) {
            return Ok(true);
        }
        let is_same = (meta.log_id, meta.generation) == (known.log_id, known.generation);
        if !is_same || !is_listed || fresh.progress().lacks(&known.progress).is_none() {
            return Ok(false);
        }
        let standing = Standing::Restored { by: node.to_owned(), what: what.to_owned() };
        let value = encode(&Writer { standing, ..fresh.writer.clone() });
        let [writer, head, beat] = fresh.bytes;
        let same = |key, value| Compare::Value { key, value };
        let txn = Txn {
            compares: vec![
                same(keys.meta(), meta_bytes),
                same(keys.writer(), writer),
                same(keys.head(), head),
                same(keys.beat(), beat),
            ],
            then: vec![Op::Put { key: keys.writer(), value }],
            otherwise: Vec::new(),
        };
        if store.step(&txn, WITHIN)?.held {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What came of removing a node from the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// No node waits for it any more.
    Done,
    /// Neither the list nor this node knows it.
    Unknown,
    /// Its entry was changed meanwhile: it reported, so it is not lost, or another operator removed it.
    Changed,
}

/// Removes a node that is lost for good from the list, as an operator wants it. Nobody waits for this with `trust`.
///
/// # Errors
/// When the store does not answer. It may have been done.
pub fn forget(
    store: &dyn Store,
    keys: &Keys,
    name: &str,
    trust: &Mutex<Trust>,
) -> Result<Removed, StoreError> {
    let key = keys.node(name);
    let found = store.range(&key, &format!("{key}\0"), 1, WITHIN)?.found;
    let before = found.first().map(|found| &*found.value);
    // An entry that cannot be decoded is removed by its name alone.
    let listed = before.map(|before| decode("nodes", before).unwrap_or_default());
    let Some(entry) = lock(trust).forget(name, listed.as_ref()) else { return Ok(Removed::Unknown) };
    let stepped = store.step(&removal(keys, name, before, &entry), WITHIN)?;
    Ok(if stepped.held { Removed::Done } else { Removed::Changed })
}

/// Copies a whole log that nobody writes any more, as far as the store has it.
///
/// # Errors
/// When the store does not answer, or what it has does not fit together.
pub fn copy_whole(with: &BootOptions<'_>) -> Result<(Meta, Mirror), BootError> {
    let meta = read_meta(with)?.ok_or_else(|| BootError::Missing { key: with.keys.meta() })?;
    let head: Head = read(with, with.keys.head(), "head")?;
    let floor: Floor = read(with, with.keys.floor(), "floor")?;
    set_aside(with)?;
    let (mut mirror, _) = begin(with, &meta, &floor)?;
    while mirror.last_frame() < head.frame {
        let first = mirror.last_frame() + 1;
        let end = (head.frame + 1).min(first + FRAMES_PER_READ as u64);
        let from = with.keys.frame(first);
        let ranged = with.store.range(&from, &with.keys.frame(end), FRAMES_PER_READ, WITHIN)?;
        if ranged.found.is_empty() {
            return Err(BootError::Missing { key: from });
        }
        for found in ranged.found {
            mirror.copy(&found.value)?;
        }
    }
    if mirror.end().checksum != head.chain {
        let what = "its last frame is not the one that `head` names".to_owned();
        return Err(Forgot { who: "its own head".to_owned(), what }.into());
    }
    Ok((meta, mirror))
}

fn copy_of(meta: &Meta, floor: &Floor) -> CopyOf {
    CopyOf {
        identity: meta.identity(),
        identity_since: Lsn(meta.identity_since),
        parent_log_id: meta.parent_log_id,
        first_frame: floor.frame.max(1),
        end: floor.end.end(),
    }
}

/// Opens the local log, or begins one. The inner error: why it can only be had again from the store.
fn open(
    with: &BootOptions<'_>,
    meta: &Meta,
    floor: &Floor,
) -> Result<Result<(Mirror, Recovery), String>, BootError> {
    if !with.root.join("log").exists() {
        return begin(with, meta, floor).map(Ok);
    }
    match Mirror::open(with.disk.clone(), with.root, with.options.clone(), &copy_of(meta, floor)) {
        Ok(opened) => Ok(Ok(opened)),
        Err(
            error @ (OpenError::Read(_) | OpenError::BeginningMissing { .. } | OpenError::EndMissing { .. }),
        ) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Begins a copy with what the store has. A snapshot that is trimmed while it is loaded is looked for again, where the
/// log begins by then.
fn begin(with: &BootOptions<'_>, meta: &Meta, floor: &Floor) -> Result<(Mirror, Recovery), BootError> {
    let mut floor = *floor;
    let bytes = loop {
        if floor.snapshot_lsn == 0 {
            break None;
        }
        if let Some(bytes) = crate::pieces::load(with.store, with.keys, &floor)? {
            break Some(bytes);
        }
        let now: Floor = read(with, with.keys.floor(), "floor")?;
        if now.snapshot_lsn == floor.snapshot_lsn {
            return Err(BootError::NoSnapshot { floor: floor.frame });
        }
        floor = now;
    };
    if let Some(bytes) = bytes {
        // The snapshot is there before the log that begins after it.
        let at = Moment { tick: floor.end.tick, wall_ms: floor.end.wall_ms };
        tenure_log::snapshot::place(&with.disk, with.root, meta.log_id, Lsn(floor.snapshot_lsn), at, &bytes)
            .map_err(|source| BootError::Io {
                action: "store a snapshot under",
                path: with.root.to_owned(),
                source: io::Error::other(source),
            })?;
    }
    Ok(Mirror::open(with.disk.clone(), with.root, with.options.clone(), &copy_of(meta, &floor))?)
}

/// A copy that is of no use any more is kept for people, once.
fn set_aside(with: &BootOptions<'_>) -> Result<(), BootError> {
    for name in ["log", "snapshots"] {
        let (from, to) = (with.root.join(name), with.root.join(format!("{name}.aside")));
        let failed = |action| move |source| BootError::Io { action, path: from.clone(), source };
        if to.exists() {
            std::fs::remove_dir_all(&to).map_err(failed("remove"))?;
        }
        let from = with.root.join(name);
        if from.exists() {
            std::fs::rename(&from, &to).map_err(|source| BootError::Io {
                action: "move away",
                path: from.clone(),
                source,
            })?;
        }
    }
    Ok(())
}

pub(crate) fn read_meta_of(store: &dyn Store, keys: &Keys) -> Result<Option<(Meta, Vec<u8>)>, BootError> {
    let key = keys.meta();
    let ranged = store.range(&key, &format!("{key}\0"), 1, WITHIN)?;
    let Some(found) = ranged.found.into_iter().next() else { return Ok(None) };
    Ok(Some((decode("meta", &found.value)?, found.value)))
}

fn read_meta(with: &BootOptions<'_>) -> Result<Option<Meta>, BootError> {
    let key = with.keys.meta();
    let ranged = with.store.range(&key, &format!("{key}\0"), 1, WITHIN)?;
    let found = ranged.found.first().map(|found| decode("meta", &found.value)).transpose();
    Ok(found?)
}

fn read<T: serde::de::DeserializeOwned>(
    with: &BootOptions<'_>,
    key: String,
    name: &'static str,
) -> Result<T, BootError> {
    let ranged = with.store.range(&key, &format!("{key}\0"), 1, WITHIN)?;
    let found = ranged.found.first().ok_or(BootError::Missing { key })?;
    Ok(decode(name, &found.value)?)
}

/// Begins a log. The second node finds the log of the first.
fn create(with: &BootOptions<'_>) -> Result<Meta, BootError> {
    let identity = with.options.genesis.identity();
    let meta = Meta::of(&identity, Lsn(1), 0, with.secret.clone());
    let txn = first_keys(with.keys, &meta, &Head::default(), with.writer_ttl_ms, with.options.wall_ms);
    // Whatever became of it, the log is what is there now.
    let stepped = with.store.step(&txn, WITHIN);
    match read_meta(with)? {
        Some(meta) => Ok(meta),
        None => Err(stepped.err().map_or(BootError::MetaMissing, BootError::Store)),
    }
}

/// The step that begins a log nobody writes yet.
pub(crate) fn first_keys(keys: &Keys, meta: &Meta, head: &Head, writer_ttl_ms: u64, wall_ms: u64) -> Txn {
    let writer = Writer {
        epoch: head.epoch,
        claim: String::new(),
        node: String::new(),
        incarnation: String::new(),
        url: String::new(),
        writer_ttl_ms,
        tick: head.tick,
        wall_ms,
        standing: Standing::Resigned,
    };
    let floor = Floor { frame: 1, ..Floor::default() };
    let put = |key, value| Op::Put { key, value };
    Txn {
        compares: vec![Compare::Absent { key: keys.meta() }],
        then: vec![
            put(keys.meta(), encode(meta)),
            put(keys.writer(), encode(&writer)),
            put(keys.head(), encode(head)),
            put(keys.beat(), encode(&Beat::default())),
            put(keys.floor(), encode(&floor)),
        ],
        otherwise: Vec::new(),
    }
}
