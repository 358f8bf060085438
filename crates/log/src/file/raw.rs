//! The bytes of the log as they stand, from the beginning of a segment to where readers may look: what another machine's
//! copy is made from. Knows nothing of frames but where they end.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::reader::{Durable, Published};
use super::segment::{BLOCK, SEGMENT_HEADER_BYTES, segment_name};
use crate::damage::ReadError;
use crate::disk::{DiskFile, OpenMode, SharedDisk};
use crate::ids::Lsn;

/// A segment's header, then its frames and those of every later segment. A segment that is trimmed while it is read is
/// read to its end.
pub struct RawFrames {
    disk: SharedDisk,
    directory: PathBuf,
    published: Published,
    segment: Durable,
    file: Box<dyn DiskFile>,
    /// Bytes of the header that were not given yet.
    header_left: usize,
    offset: u64,
}

impl RawFrames {
    pub(super) fn begin(
        disk: SharedDisk,
        directory: PathBuf,
        published: Published,
        first_lsn: Lsn,
    ) -> Result<Option<Self>, ReadError> {
        let found = published.lock().iter().find(|segment| segment.first_lsn == first_lsn).copied();
        let Some(segment) = found else { return Ok(None) };
        let opened = open(&disk, &directory, &segment);
        let file = opened.map_err(ReadError::io(&segment_name(first_lsn)))?;
        let offset = SEGMENT_HEADER_BYTES;
        Ok(Some(Self { disk, directory, published, segment, file, header_left: BLOCK, offset }))
    }

    /// Learns of newer frames in this segment, or goes on in the one after it; `false`: there is no more.
    fn go_on(&mut self) -> io::Result<bool> {
        let (same, next) = {
            let segments = self.published.lock();
            let later = segments.partition_point(|segment| segment.first_lsn <= self.segment.first_lsn);
            let same = segments[..later].last().filter(|same| same.first_lsn == self.segment.first_lsn);
            (same.copied(), segments.get(later).copied())
        };
        if let Some(same) = same {
            self.segment = same;
            if self.offset < same.end {
                return Ok(true);
            }
        }
        let Some(next) = next else { return Ok(false) };
        // A reader would take a frame that does not follow for damage.
        if next.previous_lsn != self.segment.last_lsn {
            return Err(io::Error::new(io::ErrorKind::NotFound, "what follows was trimmed"));
        }
        self.file = open(&self.disk, &self.directory, &next)?;
        (self.segment, self.offset) = (next, SEGMENT_HEADER_BYTES);
        Ok(true)
    }
}

impl Read for RawFrames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.header_left > 0 {
            let wanted = self.header_left.min(buffer.len());
            let read = self.file.read_at(&mut buffer[..wanted], (BLOCK - self.header_left) as u64)?;
            self.header_left -= read;
            return Ok(read);
        }
        while self.offset >= self.segment.end {
            if !self.go_on()? {
                return Ok(0);
            }
        }
        let wanted = (self.segment.end - self.offset).min(buffer.len() as u64) as usize;
        let read = self.file.read_at(&mut buffer[..wanted], self.offset)?;
        if read == 0 && wanted > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the segment is shorter than it was"));
        }
        self.offset += read as u64;
        Ok(read)
    }
}

fn open(disk: &SharedDisk, directory: &Path, segment: &Durable) -> io::Result<Box<dyn DiskFile>> {
    disk.open(&directory.join(segment_name(segment.first_lsn)), OpenMode::Read)
}
