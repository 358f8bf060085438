//! A snapshot in the store, piece by piece: packing or putting one takes the memory of a piece, however large it is.
//!
//! Each piece is an LZ4 block of its own behind its length. `floor` says how many there are; with none it is of the former
//! layout, one block that was cut after packing. That one is still written while a listed node reads no other.

use std::hash::Hasher;
use std::io::{self, Read};
use std::time::Duration;

use tenure_log::Lsn;
use twox_hash::XxHash64;

use crate::format::PIECES;
use crate::keys::{Keys, PIECES_MAX};
use crate::store::{Compare, Op, Store, StoreError, Txn};
use crate::values::Floor;

/// Bytes of a snapshot in one piece. Packed they stay below 1 MiB whatever they are: LZ4 adds less than half a percent.
pub const PIECE_BYTES: usize = 1_000_000;
/// What a block of the former layout unpacks to at most: LZ4 adds up lengths in bytes of 255.
const LZ4_RATIO_MAX: usize = 256;
/// What nodes load of the former layout at most.
const FORMER_LOAD_BYTES_MAX: usize = 129 << 20;
/// A packed snapshot of the former layout is at most this long, and its pieces so long each.
pub const FORMER_BYTES_MAX: u64 = 128 << 20;
const FORMER_PIECE_BYTES: usize = 1 << 20;
/// What it has at most before it is packed: its length stands in four bytes.
pub const FORMER_UNPACKED_BYTES_MAX: u64 = u32::MAX as u64;
/// How long a step of this may take.
const WITHIN: Duration = Duration::from_secs(10);

/// How a snapshot is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Each piece is packed by itself.
    ByPiece,
    /// Packed whole, then cut: what programs of the first format read. It is packed in memory.
    Former,
}

/// The pieces of a snapshot, packed one after the other.
pub(crate) struct Pieces<R> {
    from: R,
    layout: Layout,
    hash: XxHash64,
    buffer: Vec<u8>,
    /// The block of the former layout, once it is packed.
    block: Option<Vec<u8>>,
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
    pub(crate) fn of(from: R, layout: Layout) -> Self {
        let hash = XxHash64::with_seed(0);
        Self { from, layout, hash, buffer: Vec::new(), block: None, next: None, count: 0, bytes: 0 }
    }

    /// The next piece, again and again until it is taken; `None` after the last.
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        if self.next.is_none() {
            self.next = match self.layout {
                Layout::ByPiece => self.pack_next()?,
                Layout::Former => self.cut_next()?,
            };
        }
        Ok(self.next.as_deref())
    }

    fn pack_next(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.buffer.clear();
        (&mut self.from).take(PIECE_BYTES as u64).read_to_end(&mut self.buffer)?;
        if self.buffer.is_empty() {
            return Ok(None);
        }
        self.hash.write(&self.buffer);
        Ok(Some(pack_piece(&self.buffer)))
    }

    fn cut_next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let index = self.count as usize;
        let piece = self.pack_whole()?.chunks(FORMER_PIECE_BYTES).nth(index);
        Ok(piece.map(<[u8]>::to_vec))
    }

    /// The block of the former layout.
    fn pack_whole(&mut self) -> io::Result<&[u8]> {
        if self.block.is_none() {
            let mut whole = Vec::new();
            self.from.read_to_end(&mut whole)?;
            self.hash.write(&whole);
            self.block = Some(lz4_flex::compress_prepend_size(&whole));
        }
        Ok(self.block.as_deref().expect("invariant: just packed"))
    }

    /// Goes on to the piece after it.
    pub(crate) fn taken(&mut self) {
        if let Some(piece) = self.next.take() {
            (self.count, self.bytes) = (self.count + 1, self.bytes + piece.len() as u64);
        }
    }

    /// What was taken, once there is nothing left. `floor` names no pieces of the former layout.
    pub(crate) fn put(&self) -> Put {
        let (pieces, bytes) = match self.layout {
            Layout::ByPiece => (self.count, self.bytes),
            Layout::Former => (0, 0),
        };
        Put { pieces, bytes, hash: self.hash.finish() }
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

impl Layout {
    /// Whether a snapshot of so many bytes, before it is packed, has a form in this layout.
    pub(crate) fn takes(self, bytes: u64) -> bool {
        match self {
            Self::ByPiece => true,
            Self::Former => bytes <= FORMER_UNPACKED_BYTES_MAX,
        }
    }

    /// The one that every program reads which reads this format.
    pub(crate) fn of(format: u32) -> Self {
        if format < PIECES { Self::Former } else { Self::ByPiece }
    }
}

/// Puts a whole snapshot into the store for as long as a comparison holds, in a layout that programs of this format read.
/// One that is too large for the former layout is put piece by piece: the nodes that cannot load it have to be upgraded.
///
/// # Errors
/// When it cannot be read, the comparison does not hold any more, or the store does not take it.
pub(crate) fn put_whole(
    store: &dyn Store,
    keys: &Keys,
    holds: &Compare,
    lsn: Lsn,
    bytes: &[u8],
    format: u32,
) -> Result<Put, PutError> {
    let layout = Some(Layout::of(format)).filter(|layout| layout.takes(bytes.len() as u64));
    let mut pieces = Pieces::of(bytes, layout.unwrap_or(Layout::ByPiece));
    if pieces.layout == Layout::Former && pieces.pack_whole()?.len() as u64 > FORMER_BYTES_MAX {
        pieces = Pieces::of(bytes, Layout::ByPiece);
    }
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
        if floor.pieces == 0 && bytes.len() > FORMER_LOAD_BYTES_MAX {
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
            let mut pieces = Pieces::of(bytes, Layout::ByPiece);
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

    // The length of a longer one was cut to four bytes: no node could have read it, and the frames that it covers were gone.
    #[test]
    fn the_former_layout_takes_nothing_whose_length_it_cannot_tell() {
        for (bytes, is_taken) in [(0, true), (u64::from(u32::MAX), true), (1 << 32, false), (u64::MAX, false)]
        {
            assert_eq!(Layout::Former.takes(bytes), is_taken, "{bytes}");
            assert!(Layout::ByPiece.takes(bytes));
        }
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
        let noise: Vec<u8> =
            (0..300_000_u64).flat_map(|n| snapshot_hash(&n.to_le_bytes()).to_le_bytes()).collect();
        for bytes in [&b""[..], b"state", &[0; 1 << 20], &noise] {
            let mut pieces = Pieces::of(bytes, Layout::Former);
            let mut packed = Vec::new();
            while let Some(piece) = pieces.next().unwrap() {
                assert!(piece.len() <= 1 << 20, "{}", piece.len());
                packed.extend_from_slice(piece);
                pieces.taken();
            }
            let hash = snapshot_hash(bytes);
            assert_eq!(pieces.put(), Put { pieces: 0, bytes: 0, hash });
            assert_eq!(
                packed,
                lz4_flex::compress_prepend_size(bytes),
                "as programs of the first format put it"
            );
            assert_eq!(unpack_former(&packed, hash).as_deref(), Some(bytes));
            assert_eq!(unpack_former(&packed, hash + 1), None);
            assert_eq!(unpack_former(&packed[..packed.len() - 1], hash), None);
        }
        assert_eq!(unpack_former(&[], 0), None);
        assert_eq!(unpack_former(&[0xff, 0xff, 0xff, 0xff, 0], 0), None, "four gibibytes of five bytes");
    }
}
