//! The index of a sealed segment: which frames may say something about a lease, a resource or a session.
//! `docs/internals/formats/index.md` has the bytes.
//!
//! Invariant: an index only narrows. A reader of a frame it names looks at the records again, so a collision costs
//! a read; an index that is missing, damaged or of another segment costs a scan. Every byte that is used is checked.

use std::io;
use std::path::{Path, PathBuf};

use tenure_kernel::{Change, Face, LeaseId, Lsn, Note, Policy, SessionId, Subject};
use tenure_log::disk::{DiskFile, OpenMode};
use tenure_log::file::{FileReader, Position, SEGMENT_HEADER_BYTES, parse_segment_name, segment_name};
use tenure_log::{ReadError, SharedDisk};

use crate::record::{Content, LoggedRecord, each_record};

/// What a record can be looked up by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key<'a> {
    /// The lease granted at this LSN.
    Lease(Lsn),
    /// A resource or a pool.
    Resource(&'a str),
    /// A session.
    Session(SessionId),
    /// What a face calls a lease: the id of a registration, or of a stream.
    FaceId(&'a str),
    /// What concerns everybody: the breaker and stalls.
    Daemon,
}

/// The index of one segment, in memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SegmentIndex {
    /// Sorted, without duplicates.
    entries: Vec<IndexEntry>,
}

/// A shortened hash and the offset of a frame that holds a record with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct IndexEntry {
    hash: u32,
    offset: u32,
}

/// Bytes before the blocks.
pub const INDEX_HEADER_BYTES: usize = 64;
/// Entries are read and checked in blocks of this size.
pub const BLOCK_BYTES: usize = 4096;

const MAGIC: &[u8; 8] = b"TENURIDX";
const VERSION: u32 = 1;
const SUFFIX: &str = ".idx";
const TEMPORARY_SUFFIX: &str = ".idx.part";
const ENTRY_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 8;
const HEADER_CHECKSUM_AT: usize = INDEX_HEADER_BYTES - CHECKSUM_BYTES;
const BLOCK_ENTRIES: usize = (BLOCK_BYTES - CHECKSUM_BYTES) / ENTRY_BYTES;

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a, 64 bits: both the hash of keys and the checksum of blocks.
#[must_use]
pub fn fnv1a64(bytes: &[u8]) -> u64 {
    fnv_on(FNV_OFFSET, bytes)
}

fn fnv_on(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

impl Key<'_> {
    fn hash(self) -> u32 {
        let hash = match self {
            Self::Lease(lsn) => fnv_on(fnv1a64(b"l"), &lsn.0.to_le_bytes()),
            Self::Resource(name) => fnv_on(fnv1a64(b"r"), name.as_bytes()),
            Self::Session(session) => fnv_on(fnv1a64(b"s"), &session.0.to_le_bytes()),
            Self::FaceId(id) => fnv_on(fnv1a64(b"g"), id.as_bytes()),
            Self::Daemon => fnv1a64(b"d"),
        };
        (hash >> 32) as u32 ^ hash as u32
    }
}

/// Everything a record can be found by. The index and the scan both ask here, so they cannot differ.
pub(crate) fn each_key<'a>(record: &'a LoggedRecord, mut each: impl FnMut(Key<'a>)) {
    match &record.content {
        Content::Event(event) => {
            // Only the position matters: all leases of a log have its shard.
            if let Some(lease) = event.change.lease(LeaseId::new(0, record.lsn)) {
                each(Key::Lease(lease.lsn()));
            }
            if let Some(was) = event.change.epitaph() {
                was.members.iter().for_each(|name| each(Key::Resource(name)));
                was.policy.session.into_iter().for_each(|session| each(Key::Session(session)));
                face_id(&was.policy, &was.face_data).into_iter().for_each(&mut each);
            }
            match &event.change {
                Change::Granted(granted) => {
                    granted.members.iter().for_each(|name| each(Key::Resource(name)));
                    granted.policy.session.into_iter().for_each(|session| each(Key::Session(session)));
                    face_id(&granted.policy, &granted.face_data).into_iter().for_each(&mut each);
                }
                Change::Rebound(rebound) => {
                    let session = rebound.policy.as_ref().and_then(|policy| policy.session);
                    session.into_iter().for_each(|session| each(Key::Session(session)));
                }
                Change::SessionOpened(open) => each(Key::Session(open.session)),
                Change::SessionClosed { session, .. } => each(Key::Session(*session)),
                Change::PoolDefined { name, .. } | Change::PoolRemoved { name } => each(Key::Resource(name)),
                Change::Activated { .. }
                | Change::Amended(_)
                | Change::Drained(_)
                | Change::Revived(_)
                | Change::Released(_)
                | Change::Revoked(_)
                | Change::Reclaimed(_)
                | Change::Expired(_)
                | Change::Notified { .. }
                | Change::Trimmed { .. }
                | Change::Configured(_) => {}
            }
        }
        Content::Note(note) => each(match note {
            Note::Draining { subject, .. } | Note::Returned { subject } => match subject {
                Subject::Lease(lease) => Key::Lease(lease.lsn()),
                Subject::Session(session) => Key::Session(*session),
            },
            Note::GateOpened { lease } => Key::Lease(lease.lsn()),
            Note::BreakerOpened { .. } | Note::BreakerClosed | Note::Stalled { .. } | Note::Restarted => {
                Key::Daemon
            }
        }),
        Content::UnknownNote { .. } | Content::Tick | Content::Close | Content::Unreadable { .. } => {}
    }
}

/// The id of a registration or stream, with which its face data begins.
fn face_id<'a>(policy: &Policy, face_data: &'a [u8]) -> Option<Key<'a>> {
    let bytes = match policy.face {
        Face::Registrations => 8,
        Face::Streams => 36,
        Face::Leases | Face::Polling => return None,
    };
    core::str::from_utf8(face_data.get(..bytes)?).ok().map(Key::FaceId)
}

/// Why an index was not made.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The segment cannot be read.
    #[error("cannot read the segment")]
    Read(#[from] ReadError),
    /// The index cannot be stored.
    #[error("cannot {action} the index {file}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// Which file.
        file: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Why an index on disk is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IndexProblem {
    /// There is none.
    #[error("there is no index")]
    Missing,
    /// It does not decode, or a checksum does not match.
    #[error("the index is damaged")]
    Damaged,
    /// It was made by another version.
    #[error("the index has format version {0}, which is not known to this program")]
    Version(u32),
    /// It belongs to a segment with other bytes.
    #[error("the index belongs to another segment")]
    Foreign,
    /// It decodes and says something else than the segment.
    #[error("the index does not match the segment")]
    Differs,
    /// The disk refused.
    #[error("the index cannot be read")]
    Unreadable,
}

/// Reads a segment whole and notes which frame says something about what. `None`: it is too long for an index.
///
/// # Errors
/// When the segment cannot be read, or is not there any more.
pub fn build_index(
    reader: &mut FileReader,
    segment: tenure_log::Lsn,
) -> Result<Option<SegmentIndex>, ReadError> {
    let mut entries = Vec::new();
    let mut too_long = false;
    reader.seek_to(Position { segment, offset: 0 })?;
    while let Some((position, frame)) = reader.next_located()? {
        if position.segment != segment {
            break;
        }
        let Ok(offset) = u32::try_from(position.offset) else {
            too_long = true;
            break;
        };
        each_record(position, &frame, |record| {
            each_key(&record, |key| entries.push(IndexEntry { hash: key.hash(), offset }));
        });
    }
    entries.sort_unstable();
    entries.dedup();
    Ok((!too_long).then_some(SegmentIndex { entries }))
}

impl SegmentIndex {
    /// The offsets of frames that may hold a record with this key, ascending.
    pub fn find(&self, key: Key<'_>) -> impl Iterator<Item = u64> {
        let hash = key.hash();
        let from = self.entries.partition_point(|entry| entry.hash < hash);
        let found = self.entries[from..].iter().take_while(move |entry| entry.hash == hash);
        found.map(|entry| u64::from(entry.offset))
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing in the segment can be looked up.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn encode(&self, stamp: SegmentStamp) -> Vec<u8> {
        let mut out = Vec::with_capacity(file_bytes(self.entries.len()));
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&stamp.segment.0.to_le_bytes());
        out.extend_from_slice(&stamp.fingerprint.to_le_bytes());
        out.extend_from_slice(&(self.entries.len() as u64).to_le_bytes());
        out.resize(HEADER_CHECKSUM_AT, 0);
        out.extend_from_slice(&fnv1a64(&out).to_le_bytes());
        for (number, entries) in self.entries.chunks(BLOCK_ENTRIES).enumerate() {
            let from = out.len();
            for entry in entries {
                out.extend_from_slice(&entry.hash.to_le_bytes());
                out.extend_from_slice(&entry.offset.to_le_bytes());
            }
            out.resize(from + BLOCK_BYTES - CHECKSUM_BYTES, 0);
            let checksum = block_checksum(stamp, number, &out[from..]);
            out.extend_from_slice(&checksum.to_le_bytes());
        }
        out
    }
}

fn file_bytes(entries: usize) -> usize {
    INDEX_HEADER_BYTES + entries.div_ceil(BLOCK_ENTRIES) * BLOCK_BYTES
}

/// Starts from the segment and the place, so that no block can stand for another.
fn block_checksum(stamp: SegmentStamp, number: usize, entries: &[u8]) -> u64 {
    let seeded = fnv_on(FNV_OFFSET, &stamp.fingerprint.to_le_bytes());
    fnv_on(fnv_on(seeded, &(number as u64).to_le_bytes()), entries)
}

/// A sealed segment as its index knows it: a hash of its header and its seal, which name the log, the place, the end
/// and the checksum of the last frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SegmentStamp {
    segment: tenure_log::Lsn,
    fingerprint: u64,
}

/// An index file that is read a block at a time.
struct IndexFile {
    file: Box<dyn DiskFile>,
    stamp: SegmentStamp,
    entries: usize,
}

impl IndexFile {
    fn open(file: Box<dyn DiskFile>, stamp: SegmentStamp) -> Result<Self, IndexProblem> {
        let mut header = [0; INDEX_HEADER_BYTES];
        let read = file.read_at(&mut header, 0).map_err(|_| IndexProblem::Unreadable)?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| header[at + index]));
        if read < header.len()
            || !header.starts_with(MAGIC)
            || word(HEADER_CHECKSUM_AT) != fnv1a64(&header[..HEADER_CHECKSUM_AT])
        {
            return Err(IndexProblem::Damaged);
        }
        match word(8) as u32 {
            VERSION => {}
            other => return Err(IndexProblem::Version(other)),
        }
        if (word(16), word(24)) != (stamp.segment.0, stamp.fingerprint) {
            return Err(IndexProblem::Foreign);
        }
        let length = file.length().map_err(|_| IndexProblem::Unreadable)?;
        // Bounded by the length of the file before anything is allocated by it.
        let entries =
            usize::try_from(word(32)).ok().filter(|entries| *entries as u64 <= length / ENTRY_BYTES as u64);
        match entries {
            Some(entries) if file_bytes(entries) as u64 == length => Ok(Self { file, stamp, entries }),
            Some(_) | None => Err(IndexProblem::Damaged),
        }
    }

    fn blocks(&self) -> usize {
        self.entries.div_ceil(BLOCK_ENTRIES)
    }

    fn block(&self, number: usize) -> Result<Vec<IndexEntry>, IndexProblem> {
        let mut block = vec![0; BLOCK_BYTES];
        let at = INDEX_HEADER_BYTES + number * BLOCK_BYTES;
        let read = self.file.read_at(&mut block, at as u64).map_err(|_| IndexProblem::Unreadable)?;
        let (entries, checksum) = block.split_at(BLOCK_BYTES - CHECKSUM_BYTES);
        if read < BLOCK_BYTES || block_checksum(self.stamp, number, entries).to_le_bytes() != checksum {
            return Err(IndexProblem::Damaged);
        }
        let count = (self.entries - number * BLOCK_ENTRIES).min(BLOCK_ENTRIES);
        let half = |bytes: &[u8]| u32::from_le_bytes(std::array::from_fn(|index| bytes[index]));
        Ok(entries
            .chunks_exact(ENTRY_BYTES)
            .take(count)
            .map(|entry| IndexEntry { hash: half(entry), offset: half(&entry[4..]) })
            .collect())
    }

    /// Adds the offsets of frames that may hold a record with this key.
    fn find(&self, key: Key<'_>, offsets: &mut Vec<u64>) -> Result<(), IndexProblem> {
        let hash = key.hash();
        // The first block whose last entry is not below the hash.
        let (mut low, mut high) = (0, self.blocks());
        while low < high {
            let middle = (low + high) / 2;
            match self.block(middle)?.last() {
                Some(last) if last.hash < hash => low = middle + 1,
                Some(_) | None => high = middle,
            }
        }
        for number in low..self.blocks() {
            let block = self.block(number)?;
            let from = block.partition_point(|entry| entry.hash < hash);
            let found = block[from..].iter().take_while(|entry| entry.hash == hash);
            offsets.extend(found.map(|entry| u64::from(entry.offset)));
            if block.last().is_none_or(|last| last.hash > hash) {
                break;
            }
        }
        Ok(())
    }

    fn load(&self) -> Result<SegmentIndex, IndexProblem> {
        let mut entries = Vec::with_capacity(self.entries);
        for number in 0..self.blocks() {
            entries.extend(self.block(number)?);
        }
        Ok(SegmentIndex { entries })
    }
}

/// What [`IndexStore::maintain`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Maintained {
    /// Indexes that were made.
    pub built: usize,
    /// Indexes of segments that are gone, and leftovers of an interrupted store.
    pub removed: usize,
}

/// The indexes beside the segments of one log.
#[derive(Clone)]
pub struct IndexStore {
    disk: SharedDisk,
    directory: PathBuf,
}

/// The file name of the index of a segment.
#[must_use]
pub fn index_name(segment: tenure_log::Lsn) -> String {
    format!("{:020}{SUFFIX}", segment.0)
}

impl IndexStore {
    /// The indexes in `directory`, where the segments are.
    pub fn new(disk: SharedDisk, directory: &Path) -> Self {
        Self { disk, directory: directory.to_owned() }
    }

    /// The segments that are there, oldest first.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn segments(&self) -> io::Result<Vec<tenure_log::Lsn>> {
        let names = self.disk.list(&self.directory)?;
        let mut segments: Vec<_> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
        segments.sort_unstable();
        Ok(segments)
    }

    /// Offsets of frames in a segment that may hold a record with one of these keys, ascending.
    ///
    /// # Errors
    /// Why the index is of no use; then the segment has to be read whole.
    pub fn find(&self, segment: tenure_log::Lsn, keys: &[Key<'_>]) -> Result<Vec<u64>, IndexProblem> {
        let file = self.open(segment)?;
        let mut offsets = Vec::new();
        for key in keys {
            file.find(*key, &mut offsets)?;
        }
        offsets.sort_unstable();
        offsets.dedup();
        Ok(offsets)
    }

    /// The index of a segment, checked in full.
    ///
    /// # Errors
    /// Why it is of no use.
    pub fn load(&self, segment: tenure_log::Lsn) -> Result<SegmentIndex, IndexProblem> {
        self.open(segment)?.load()
    }

    /// Stores an index: under a temporary name, synced, renamed, directory synced. Does nothing for a segment that is
    /// not sealed.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn store(&self, segment: tenure_log::Lsn, index: &SegmentIndex) -> Result<(), IndexError> {
        let file = index_name(segment);
        let failed = |action| {
            let file = file.clone();
            move |source| IndexError::Io { action, file, source }
        };
        let Some(stamp) = self.stamp(segment).map_err(failed("read the segment of"))? else { return Ok(()) };
        let temporary = self.directory.join(format!("{:020}{TEMPORARY_SUFFIX}", segment.0));
        match self.disk.remove(&temporary) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(failed("replace")(source)),
            Ok(()) | Err(_) => {}
        }
        let written = self.disk.open(&temporary, OpenMode::Create).and_then(|out| {
            out.write_at(&index.encode(stamp), 0)?;
            out.sync()
        });
        if let Err(source) = written {
            // On a full disk what was written so far must not stay; an error here is the one above again.
            let _ = self.disk.remove(&temporary);
            return Err(failed("write")(source));
        }
        self.disk.rename(&temporary, &self.directory.join(&file)).map_err(failed("rename"))?;
        self.disk.sync_dir(&self.directory).map_err(failed("sync the directory of"))
    }

    /// Makes the indexes that are missing or of no use and removes those of segments that are gone. Off the hot path.
    ///
    /// # Errors
    /// When a segment cannot be read or an index not stored. What was done before stays.
    pub fn maintain(&self, reader: &mut FileReader) -> Result<Maintained, IndexError> {
        let mut done = Maintained::default();
        let list =
            |source| IndexError::Io { action: "list", file: self.directory.display().to_string(), source };
        let segments = self.segments().map_err(list)?;
        for segment in &segments {
            match self.stamp(*segment) {
                Ok(Some(_)) if self.load(*segment).is_err() => {}
                Ok(Some(_) | None) => continue,
                Err(source) if source.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(list(source)),
            }
            match build_index(reader, *segment) {
                Ok(Some(index)) => {
                    self.store(*segment, &index)?;
                    done.built += 1;
                }
                // Too long for an index, or trimmed while this ran.
                Ok(None) | Err(ReadError::Trimmed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        for name in self.disk.list(&self.directory).map_err(list)? {
            let digits = name.strip_suffix(SUFFIX).or_else(|| name.strip_suffix(TEMPORARY_SUFFIX));
            let Some(segment) = digits.and_then(|digits| digits.parse().ok().map(tenure_log::Lsn)) else {
                continue;
            };
            if name.ends_with(TEMPORARY_SUFFIX) || !segments.contains(&segment) {
                self.disk.remove(&self.directory.join(&name)).map_err(list)?;
                done.removed += 1;
            }
        }
        Ok(done)
    }

    fn open(&self, segment: tenure_log::Lsn) -> Result<IndexFile, IndexProblem> {
        let file = match self.disk.open(&self.directory.join(index_name(segment)), OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(IndexProblem::Missing),
            Err(_) => return Err(IndexProblem::Unreadable),
        };
        match self.stamp(segment) {
            Ok(Some(stamp)) => IndexFile::open(file, stamp),
            // An index was made for a seal that is not there.
            Ok(None) => Err(IndexProblem::Foreign),
            Err(_) => Err(IndexProblem::Unreadable),
        }
    }

    /// `None`: the segment is not sealed, and what it will hold is not known.
    fn stamp(&self, segment: tenure_log::Lsn) -> io::Result<Option<SegmentStamp>> {
        let file = self.disk.open(&self.directory.join(segment_name(segment)), OpenMode::Read)?;
        let mut blocks = [0; SEGMENT_HEADER_BYTES as usize];
        let read = file.read_at(&mut blocks, 0)?;
        let seal = &blocks[blocks.len() / 2..];
        let sealed = read == blocks.len() && seal.iter().any(|byte| *byte != 0);
        Ok(sealed.then(|| SegmentStamp { segment, fingerprint: fnv1a64(&blocks) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        // From the reference test vectors of FNV.
        assert_eq!(fnv1a64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a64(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn hashes_on_disk_do_not_change() {
        let hashes = [Key::Lease(Lsn(1)), Key::Resource("printer"), Key::Session(SessionId(42)), Key::Daemon]
            .map(Key::hash);
        expect_test::expect!["[7e96c613, d92cc2d5, 8e0d1e30, 29623e3f]"].assert_eq(&format!("{hashes:08x?}"));
    }

    #[test]
    fn a_block_ends_where_its_checksum_begins() {
        assert_eq!(BLOCK_ENTRIES * ENTRY_BYTES + CHECKSUM_BYTES, BLOCK_BYTES);
        assert_eq!(file_bytes(0), 64);
        assert_eq!(file_bytes(BLOCK_ENTRIES), 64 + 4096);
        assert_eq!(file_bytes(BLOCK_ENTRIES + 1), 64 + 2 * 4096);
    }
}
