//! What happens to files at rest: a bit flips, or a frame of another history takes the place of ours.

use crate::disk::image::{self, Inode};
use crate::disk::{Damage, SimDisk};
use crate::random::Random;
use core::ops::Range;
use std::path::PathBuf;
use tenure_log::file::{SEGMENT_HEADER_BYTES, SegmentHeader};
use tenure_log::frame::{FRAME_HEADER_BYTES, FRAME_MAGIC};

const HEADER_CHECKSUM_AT: usize = 72;
const FRAME_CHECKSUM_AT: usize = 76;

impl SimDisk {
    /// Flips one bit of a file at rest; says where. `None` when there is no byte to flip.
    pub fn rot(&self, random: &mut Random) -> Option<String> {
        let mut state = self.state();
        let files = state.image.files();
        let candidates: Vec<(PathBuf, usize)> =
            files.into_iter().filter(|(_, inode)| state.image.inodes[*inode].used() > 0).collect();
        // Repair works at the end of the log: that is where damage has most to spoil.
        let newest = candidates.iter().max_by_key(|(_, inode)| state.image.inodes[*inode].durable_lsn);
        let anywhere = candidates.get(random.index(candidates.len())?);
        let (path, inode) = if random.chance(400) { newest } else { anywhere }?.clone();
        let bytes = &state.image.inodes[inode];
        let whole = 0..bytes.used();
        // Zeros ahead of the log are most of the bytes and the least interesting ones; the last frame is the most.
        let range = match frames(bytes).last() {
            Some(last) if random.chance(500) => last.clone(),
            Some(_) | None => whole,
        };
        let offset = range.start + random.below(range.len() as u64) as usize;
        let byte = bytes.now[offset];
        let rotten = byte ^ (1 << random.below(8));
        state.damage.push(Damage { inode, offset, was: vec![byte] });
        state.image.inodes[inode].set(offset, &[rotten]);
        Some(format!("{} byte {offset}", path.display()))
    }

    /// Puts a whole, valid frame with other records in the place of one that others follow: only the chain tells.
    pub fn forge(&self, random: &mut Random) -> Option<String> {
        let mut state = self.state();
        let files = state.image.files();
        let newest = files.into_iter().max_by_key(|(_, inode)| state.image.inodes[*inode].durable_lsn)?;
        let (path, inode) = newest;
        let bytes = &state.image.inodes[inode];
        let salt = SegmentHeader::decode(bytes.now.get(..512)?).ok()?.identity.salt;
        let all = frames(bytes);
        // Nothing can tell that the last whole frame is another one.
        let frames: Vec<Range<usize>> = all
            .windows(2)
            .filter(|pair| pair[0].len() > FRAME_HEADER_BYTES && is_whole(salt, &bytes.now[pair[1].clone()]))
            .map(|pair| pair[0].clone())
            .collect();
        let frame = frames.get(random.index(frames.len())?)?.clone();
        let was = bytes.now[frame.clone()].to_vec();
        let mut forged = was.clone();
        let payload = forged.len() - FRAME_HEADER_BYTES;
        let at = FRAME_HEADER_BYTES + random.below(payload as u64) as usize;
        forged[at] ^= 1 << random.below(3);
        let header = crc32c(salt, &[&forged[..HEADER_CHECKSUM_AT]]);
        forged[HEADER_CHECKSUM_AT..FRAME_CHECKSUM_AT].copy_from_slice(&header.to_le_bytes());
        let whole = frame_checksum(salt, &forged);
        forged[FRAME_CHECKSUM_AT..FRAME_HEADER_BYTES].copy_from_slice(&whole.to_le_bytes());
        state.damage.push(Damage { inode, offset: frame.start, was });
        state.image.inodes[inode].set(frame.start, &forged);
        Some(format!("{} frame at {}", path.display(), frame.start))
    }
}

impl Inode {
    /// Changes bytes behind the log's back, durably.
    pub(super) fn set(&mut self, offset: usize, bytes: &[u8]) {
        image::write(&mut self.now, offset, bytes);
        image::write(&mut self.durable, offset, bytes);
    }
}

/// Where the frames of a segment stand, as their lengths tell.
fn frames(inode: &Inode) -> Vec<Range<usize>> {
    let mut frames = Vec::new();
    let mut at = SEGMENT_HEADER_BYTES as usize;
    while let Some(header) = inode.now.get(at..at + FRAME_HEADER_BYTES)
        && header[..4] == FRAME_MAGIC
    {
        let mut payload = [0; 4];
        payload.copy_from_slice(&header[64..68]);
        let end = at + FRAME_HEADER_BYTES + u32::from_le_bytes(payload) as usize;
        if end > inode.now.len() {
            break;
        }
        frames.push(at..end);
        at = end;
    }
    frames
}

fn frame_checksum(salt: u32, frame: &[u8]) -> u32 {
    crc32c(salt, &[&frame[..FRAME_CHECKSUM_AT], &frame[FRAME_HEADER_BYTES..]])
}

fn is_whole(salt: u32, frame: &[u8]) -> bool {
    frame[FRAME_CHECKSUM_AT..FRAME_HEADER_BYTES] == frame_checksum(salt, frame).to_le_bytes()
}

/// CRC-32C, started from a seed, as the log computes it.
fn crc32c(seed: u32, parts: &[&[u8]]) -> u32 {
    let mut crc = !seed;
    for byte in parts.iter().copied().flatten() {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_zero_is_the_standard_crc32c() {
        assert_eq!(crc32c(0, &[b"1234", b"56789"]), 0xe306_9283);
    }
}
