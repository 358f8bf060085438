//! Files and names: as they are now, and as they would be found after a power cut.

use crate::disk::Loss;
use crate::random::Random;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tenure_log::frame::{FRAME_HEADER_BYTES, FRAME_MAGIC};

const SECTOR: usize = 512;

#[derive(Clone, Default)]
pub(crate) struct Image {
    pub(super) inodes: Vec<Inode>,
    pub(super) directories: BTreeMap<PathBuf, Directory>,
}

#[derive(Clone, Default)]
pub(super) struct Inode {
    pub(super) now: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) unsynced: Vec<(usize, Vec<u8>)>,
    /// Last position of the frames that are durable in it.
    pub(super) durable_lsn: u64,
}

#[derive(Clone, Default)]
pub(super) struct Directory {
    pub(super) now: BTreeMap<String, usize>,
    pub(super) durable: BTreeMap<String, usize>,
    pub(super) unsynced: Vec<Change>,
}

#[derive(Clone)]
pub(super) enum Change {
    Link(String, usize),
    Unlink(String),
    Rename(String, String, usize),
}

impl Image {
    pub(super) fn find(&self, path: &Path) -> Option<usize> {
        let directory = self.directories.get(path.parent()?)?;
        directory.now.get(path.file_name()?.to_str()?).copied()
    }

    pub(super) fn files(&self) -> Vec<(PathBuf, usize)> {
        let named = |(path, directory): (&PathBuf, &Directory)| {
            directory.now.iter().map(|(name, inode)| (path.join(name), *inode)).collect::<Vec<_>>()
        };
        self.directories.iter().flat_map(named).collect()
    }

    pub(super) fn used(&self) -> u64 {
        let lengths = |directory: &Directory| -> u64 {
            directory.now.values().map(|inode| self.inodes[*inode].now.len() as u64).sum()
        };
        self.directories.values().map(lengths).sum()
    }

    pub(super) fn durable_lsn(&self) -> u64 {
        let segments = self.directories.iter().filter(|(path, _)| path.ends_with("log"));
        let named = segments.flat_map(|(_, directory)| directory.durable.iter());
        let lsns = named.filter(|(name, _)| name.ends_with(".seg")).map(|(_, inode)| &self.inodes[*inode]);
        lsns.map(|inode| inode.durable_lsn).max().unwrap_or(0)
    }

    /// Everything as it is now, made durable.
    pub(super) fn settled(&self) -> Self {
        let mut settled = self.clone();
        for inode in &mut settled.inodes {
            for (_, written) in core::mem::take(&mut inode.unsynced) {
                inode.durable_lsn = inode.durable_lsn.max(frame_lsn(&written));
            }
            inode.durable.clone_from(&inode.now);
        }
        for directory in settled.directories.values_mut() {
            directory.unsynced.clear();
            directory.durable.clone_from(&directory.now);
        }
        settled
    }

    pub(super) fn power_cut(&mut self, loss: Loss, last_written: Option<usize>, random: &mut Random) {
        for (index, inode) in self.inodes.iter_mut().enumerate() {
            inode.power_cut(loss, last_written == Some(index), random);
        }
        for directory in self.directories.values_mut() {
            directory.power_cut(loss, random);
        }
    }
}

impl Inode {
    /// Bytes up to the last that is not zero.
    pub(super) fn used(&self) -> usize {
        self.now.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
    }

    fn power_cut(&mut self, loss: Loss, last_written: bool, random: &mut Random) {
        let unsynced = core::mem::take(&mut self.unsynced);
        let last = unsynced.len().saturating_sub(1);
        for (index, (offset, written)) in unsynced.iter().enumerate() {
            match loss {
                Loss::Lost => {}
                Loss::Torn if last_written && index == last => {
                    let kept = random.below(written.len() as u64 + 1) as usize;
                    self.keep(*offset, &written[..kept], kept == written.len());
                }
                Loss::Kept | Loss::Torn => self.keep(*offset, written, true),
                Loss::Subset => self.keep_sectors(*offset, written, random),
            }
        }
        self.now.clone_from(&self.durable);
    }

    fn keep(&mut self, offset: usize, written: &[u8], whole: bool) {
        write(&mut self.durable, offset, written);
        if whole {
            self.durable_lsn = self.durable_lsn.max(frame_lsn(written));
        }
    }

    fn keep_sectors(&mut self, offset: usize, written: &[u8], random: &mut Random) {
        let mut at = 0;
        let mut whole = true;
        while at < written.len() {
            let until = (SECTOR - (offset + at) % SECTOR + at).min(written.len());
            if random.chance(500) {
                write(&mut self.durable, offset + at, &written[at..until]);
            } else {
                whole = false;
            }
            at = until;
        }
        if whole {
            self.durable_lsn = self.durable_lsn.max(frame_lsn(written));
        }
    }
}

impl Directory {
    fn power_cut(&mut self, loss: Loss, random: &mut Random) {
        match loss {
            Loss::Lost => {}
            Loss::Kept | Loss::Torn => self.durable.clone_from(&self.now),
            Loss::Subset => {
                let kept: Vec<Change> =
                    self.unsynced.iter().filter(|_| random.chance(500)).cloned().collect();
                kept.iter().for_each(|change| apply(&mut self.durable, change));
            }
        }
        self.unsynced.clear();
        self.now.clone_from(&self.durable);
    }
}

/// Last position of the log once this frame is in it; 0 for a write that is no frame.
pub(super) fn frame_lsn(written: &[u8]) -> u64 {
    if written.len() < FRAME_HEADER_BYTES || written[..4] != FRAME_MAGIC {
        return 0;
    }
    let count = u16::from_le_bytes([written[6], written[7]]);
    let mut first = [0; 8];
    first.copy_from_slice(&written[8..16]);
    u64::from_le_bytes(first) + u64::from(count) - 1
}

pub(super) fn apply(names: &mut BTreeMap<String, usize>, change: &Change) {
    match change {
        Change::Link(name, inode) => {
            names.insert(name.clone(), *inode);
        }
        Change::Unlink(name) => {
            names.remove(name);
        }
        Change::Rename(from, to, inode) => {
            names.remove(from);
            names.insert(to.clone(), *inode);
        }
    }
}

pub(super) fn write(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    let end = offset + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(written);
}
