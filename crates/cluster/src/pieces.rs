//! A snapshot in the store, piece by piece: packing or putting one takes the memory of a piece, however large it is.
//!
//! Each piece is an LZ4 block of its own behind its length. `floor` says how many there are; with none it is of the former
//! layout, one block that was cut after packing.

use std::hash::Hasher;
use std::io::{self, Read};
use std::time::Duration;

use tenure_log::Lsn;
use twox_hash::XxHash64;

use crate::keys::{Keys, PIECES_MAX};
use crate::store::{Compare, Op, Store, StoreError, Txn};
use crate::values::Floor;

/// Bytes of a snapshot in one piece. Packed they stay below 1 MiB whatever they are: LZ4 adds less than half a percent.
pub const PIECE_BYTES: usize = 1_000_000;
/// What a block of the former layout unpacks to at most: LZ4 adds up lengths in bytes of 255.
const LZ4_RATIO_MAX: usize = 256;
/// Snapshots of the former layout were at most this large.
const FORMER_BYTES_MAX: usize = 129 << 20;
/// How long a step of this may take.
const WITHIN: Duration = Duration::from_secs(10);

/// The pieces of a snapshot, packed one after the other.
pub(crate) struct Pieces<R> {
    from: R,
    hash: XxHash64,
    buffer: Vec<u8>,
    /// Packed and not yet taken.
    next: Option<Vec<u8>>,
    /// So many were taken.
    pub(crate) count: u32,
    /// And so long they were.
    pub(crate) bytes: u64,
}

/// What stands in the store of a snapshot that was put there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// How many pieces it has.
    pub pieces: u32,
    /// How long they are together.
    pub bytes: u64,
    /// A checksum over the bytes before they were packed, the same on every machine.
    pub hash: u64,
}

/// Why a snapshot is not in the store.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The store did not answer, or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It cannot be read.
    #[error("the snapshot cannot be read")]
    Read(#[from] io::Error),
    /// The comparison does not hold any more.
    #[error("the store changed in the meantime")]
    Changed,
    /// There is no name for so many pieces.
    #[error("a snapshot of more than {PIECES_MAX} pieces of 1 MB does not fit into the store")]
    TooMany,
}

impl<R: Read> Pieces<R> {
    pub(crate) fn of(from: R) -> Self {
        let hash = XxHash64::with_seed(0);
        Self { from, hash, buffer: Vec::new(), next: None, count: 0, bytes: 0 }
    }

    /// The next piece, again and again until it is taken; `None` after the last.
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        if self.next.is_none() {
            self.buffer.clear();
            (&mut self.from).take(PIECE_BYTES as u64).read_to_end(&mut self.buffer)?;
            if self.buffer.is_empty() {
                return Ok(None);
            }
            self.hash.write(&self.buffer);
            self.next = Some(pack_piece(&self.buffer));
        }
        Ok(self.next.as_deref())
    }

    /// Goes on to the piece after it.
    pub(crate) fn taken(&mut self) {
        if let Some(piece) = self.next.take() {
            (self.count, self.bytes) = (self.count + 1, self.bytes + piece.len() as u64);
        }
    }

    /// What was taken, once there is nothing left.
    pub(crate) fn put(&self) -> Put {
        Put { pieces: self.count, bytes: self.bytes, hash: self.hash.finish() }
    }

    /// Puts the next so many into the store for as long as a comparison holds. `Some`: that was all. After an error it
    /// goes on where it was.
    pub(crate) fn put_next(
        &mut self,
        store: &dyn Store,
        keys: &Keys,
        holds: &Compare,
        lsn: Lsn,
        pieces: usize,
    ) -> Result<Option<Put>, PutError> {
        for _ in 0..pieces {
            let index = self.count;
            let op = match self.next()? {
                Some(_) if index == PIECES_MAX => return Err(PutError::TooMany),
                Some(piece) => Op::Put { key: keys.piece(lsn.0, index as usize), value: piece.to_vec() },
                // What an earlier try may have put after them belongs to no snapshot.
                None => Op::Delete { from: keys.piece(lsn.0, index as usize), to: keys.pieces(lsn.0).1 },
            };
            let is_last = matches!(op, Op::Delete { .. });
            let txn = Txn { compares: vec![holds.clone()], then: vec![op], otherwise: Vec::new() };
            if !store.step(&txn, WITHIN)?.held {
                return Err(PutError::Changed);
            }
            if is_last {
                return Ok(Some(self.put()));
            }
            self.taken();
        }
        Ok(None)
    }
}

/// Puts a whole snapshot into the store for as long as a comparison holds.
///
/// # Errors
/// When it cannot be read, the comparison does not hold any more, or the store does not take it.
pub(crate) fn put_whole(
    store: &dyn Store,
    keys: &Keys,
    holds: &Compare,
    lsn: Lsn,
    bytes: &[u8],
) -> Result<Put, PutError> {
    let mut pieces = Pieces::of(bytes);
    loop {
        if let Some(put) = pieces.put_next(store, keys, holds, lsn, usize::MAX)? {
            return Ok(put);
        }
    }
}

/// The snapshot that `floor` names, whole; `None`: it is not in the store, or not whole.
///
/// # Errors
/// When the store does not answer.
pub(crate) fn load(store: &dyn Store, keys: &Keys, floor: &Floor) -> Result<Option<Vec<u8>>, StoreError> {
    let (mut from, to) = keys.pieces(floor.snapshot_lsn);
    let (mut bytes, mut count) = (Vec::new(), 0_u32);
    loop {
        let ranged = store.range(&from, &to, 1, WITHIN)?;
        let Some(found) = ranged.found.into_iter().next() else { break };
        count += 1;
        if floor.pieces == 0 {
            bytes.extend_from_slice(&found.value);
        } else if count > floor.pieces {
            return Ok(None);
        } else {
            let Some(piece) = unpack_piece(&found.value) else { return Ok(None) };
            bytes.extend_from_slice(&piece);
        }
        if floor.pieces == 0 && bytes.len() > FORMER_BYTES_MAX {
            return Ok(None);
        }
        from = format!("{}\0", found.key);
    }
    if floor.pieces == 0 {
        return Ok(unpack_former(&bytes, floor.snapshot_hash));
    }
    Ok((count == floor.pieces && snapshot_hash(&bytes) == floor.snapshot_hash).then_some(bytes))
}

/// The checksum of a snapshot that is read part by part.
pub struct Checksum<R> {
    from: R,
    hash: XxHash64,
}

impl<R: Read> Checksum<R> {
    /// Begins.
    pub fn over(from: R) -> Self {
        Self { from, hash: XxHash64::with_seed(0) }
    }

    /// Reads so many bytes more. `Some`: that was all.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn go_on(&mut self, bytes: u64) -> io::Result<Option<u64>> {
        let mut buffer = vec![0; 1 << 18];
        let mut part = (&mut self.from).take(bytes);
        loop {
            match part.read(&mut buffer)? {
                0 if part.limit() > 0 => return Ok(Some(self.hash.finish())),
                0 => return Ok(None),
                read => self.hash.write(&buffer[..read]),
            }
        }
    }
}

/// A checksum over a snapshot's bytes, the same on every machine.
#[must_use]
pub fn snapshot_hash(bytes: &[u8]) -> u64 {
    XxHash64::oneshot(0, bytes)
}

/// A piece as it stands in the store.
#[must_use]
pub fn pack_piece(bytes: &[u8]) -> Vec<u8> {
    lz4_flex::compress_prepend_size(bytes)
}

/// The bytes of one piece; `None`: it is none.
#[must_use]
pub fn unpack_piece(packed: &[u8]) -> Option<Vec<u8>> {
    let told = u32::from_le_bytes(*packed.first_chunk()?) as usize;
    if told > PIECE_BYTES {
        return None;
    }
    lz4_flex::decompress_size_prepended(packed).ok()
}

/// The bytes of a snapshot of the former layout; `None`: they are not the ones with this checksum.
#[must_use]
pub fn unpack_former(packed: &[u8], hash: u64) -> Option<Vec<u8>> {
    let told = u32::from_le_bytes(*packed.first_chunk()?) as usize;
    // Nothing makes more of a byte than this: what claims to is not believed with memory.
    if told > packed.len().saturating_mul(LZ4_RATIO_MAX) {
        return None;
    }
    let bytes = lz4_flex::decompress_size_prepended(packed).ok()?;
    (snapshot_hash(&bytes) == hash).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_read_back_or_not_at_all_and_stays_below_a_mebibyte() {
        // Checksums do not repeat, so LZ4 finds nothing in them.
        let noise: Vec<u8> =
            (0..PIECE_BYTES as u64 / 8).flat_map(|n| snapshot_hash(&n.to_le_bytes()).to_le_bytes()).collect();
        for bytes in [&b"state"[..], &[0; PIECE_BYTES], &noise] {
            let mut pieces = Pieces::of(bytes);
            let packed = pieces.next().unwrap().unwrap().to_vec();
            assert!(packed.len() <= 1 << 20, "{}", packed.len());
            assert_eq!(unpack_piece(&packed).as_deref(), Some(bytes));
            assert_eq!(unpack_piece(&packed[..packed.len() - 1]), None);
            pieces.taken();
            assert_eq!(pieces.next().unwrap(), None);
            assert_eq!(pieces.put().hash, snapshot_hash(bytes));
        }
        assert_eq!(unpack_piece(&[]), None);
        assert_eq!(unpack_piece(&[0xff, 0xff, 0xff, 0xff, 0]), None, "four gibibytes of five bytes");
    }

    #[test]
    fn a_checksum_is_the_same_however_it_is_read() {
        for length in [0, 1, 100, 101] {
            let bytes = vec![7; length];
            let mut checksum = Checksum::over(&bytes[..]);
            let found = core::iter::repeat_with(|| checksum.go_on(10).unwrap()).find_map(|found| found);
            assert_eq!(found, Some(snapshot_hash(&bytes)), "{length}");
        }
    }

    #[test]
    fn a_snapshot_of_the_former_layout_is_read_back_or_not_at_all() {
        for bytes in [&b""[..], b"state", &[0; 1 << 20]] {
            let (packed, hash) = (lz4_flex::compress_prepend_size(bytes), snapshot_hash(bytes));
            assert_eq!(unpack_former(&packed, hash).as_deref(), Some(bytes));
            assert_eq!(unpack_former(&packed, hash + 1), None);
            assert_eq!(unpack_former(&packed[..packed.len() - 1], hash), None);
        }
        assert_eq!(unpack_former(&[], 0), None);
        assert_eq!(unpack_former(&[0xff, 0xff, 0xff, 0xff, 0], 0), None, "four gibibytes of five bytes");
    }
}
