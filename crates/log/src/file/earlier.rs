//! What came before a copy began, brought from another machine's copy: taken in frame by frame, checked against what it has to
//! lead up to, and put before the oldest segment here only if it does. Segments end elsewhere on every machine; frames are
//! the same everywhere, so a segment here may be part of one there.
//!
//! Invariant: what is put before joins what is here by lsn, chain and number of frames, and is durable before it has a name.

use std::io;
use std::path::{Path, PathBuf};

use super::catalog::{Segment, read_segment};
use super::mirror::Mirror;
use super::repair::write_seal;
use super::segment::{BLOCK, SEGMENT_HEADER_BYTES, Seal, SealFound, SegmentHeader, segment_name};
use super::{FileLog, durable_part};
use crate::damage::{DamageCause, ReadError};
use crate::disk::{DiskFile, OpenMode, SharedDisk};
use crate::end::LogEnd;
use crate::frame::{self, FRAME_HEADER_BYTES, FrameError};
use crate::ids::Lsn;
use crate::ordered::Extent;

/// Where a copy begins: what an earlier segment has to lead up to.
#[derive(Clone)]
pub struct Junction {
    disk: SharedDisk,
    directory: PathBuf,
    /// Of the oldest segment here.
    header: SegmentHeader,
}

/// The oldest segment of a copy.
pub struct Beginning {
    disk: SharedDisk,
    directory: PathBuf,
    first_lsn: Lsn,
}

/// An earlier segment that is being taken in.
pub struct Earlier {
    junction: Junction,
    file: Box<dyn DiskFile>,
    /// Goes with this value, unless it has got its name.
    unfinished: Unfinished,
    /// As the other machine has it; `None` before it came.
    header: Option<SegmentHeader>,
    /// Bytes that are no whole frame yet.
    gathered: Vec<u8>,
    end: LogEnd,
    frames: u64,
    offset: u64,
    synced: u64,
}

/// Whether more is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It does not lead up to what is here yet.
    More,
    /// It does; whatever comes after is here already.
    Whole,
}

/// Why an earlier segment was not taken in. What is here is as it was.
#[derive(Debug, thiserror::Error)]
pub enum EarlierError {
    /// It does not begin with a segment's header.
    #[error(transparent)]
    Header(DamageCause),
    /// The log was another one then: history ends here.
    #[error("the history is from another log")]
    AnotherLog,
    /// The bytes are no frame.
    #[error("the bytes after lsn {after} are not a frame")]
    Frame {
        /// Where the valid ones end.
        after: Lsn,
        /// What is wrong.
        #[source]
        source: FrameError,
    },
    /// A frame does not continue the one before it.
    #[error("the frame after lsn {after} does not continue the one before it")]
    Chain {
        /// Where the valid ones end.
        after: Lsn,
    },
    /// It does not lead up to what is here.
    #[error("the history does not join the local log, which begins after lsn {at}")]
    Unjoined {
        /// Where it should have.
        at: Lsn,
    },
    /// It ended too soon.
    #[error("the history ends at lsn {after}, before the local log begins")]
    Incomplete {
        /// Where it ended.
        after: Lsn,
    },
    /// Something else was put before, or what it leads up to was let go.
    #[error("the local log was trimmed in the meantime")]
    Outdated,
    /// The disk refused.
    #[error("cannot {action}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A file that goes when nobody wants it any more.
struct Unfinished {
    disk: SharedDisk,
    path: PathBuf,
}

/// One earlier segment is taken in at a time; the next start removes what is left of it.
const UNFINISHED_NAME: &str = "earlier.part";
/// Bytes that are synced together: frames are synced to the same disk meanwhile, and must not wait for a whole segment.
const PIECE_BYTES: u64 = 1 << 20;

impl EarlierError {
    /// Whether the other machine's bytes are wrong, which people should know.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Header(_) | Self::Frame { .. } | Self::Chain { .. } | Self::Unjoined { .. } => true,
            Self::AnotherLog | Self::Incomplete { .. } | Self::Outdated | Self::Io { .. } => false,
        }
    }
}

impl Junction {
    fn read(disk: &SharedDisk, directory: &Path, oldest: Lsn) -> Result<Option<Self>, ReadError> {
        let Segment { header, .. } = read_segment(&**disk, directory, oldest)?;
        let junction = Self { disk: disk.clone(), directory: directory.to_owned(), header };
        Ok((header.previous_lsn > Lsn::ZERO).then_some(junction))
    }

    /// The last LSN before what is here.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.header.previous_lsn
    }

    fn is_met_by(&self, end: &LogEnd) -> bool {
        (end.last_lsn, end.checksum) == (self.header.previous_lsn, self.header.previous_checksum)
    }
}

impl Earlier {
    /// Begins to take in what leads up to `junction`.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn begin(junction: Junction) -> Result<Self, EarlierError> {
        let path = junction.directory.join(UNFINISHED_NAME);
        match junction.disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove the rest of an earlier segment")(error));
            }
            Ok(()) | Err(_) => {}
        }
        // The segment that this one leads up to may have got its name just now.
        junction.disk.sync_dir(&junction.directory).map_err(failed("name an earlier segment"))?;
        let file = junction.disk.open(&path, OpenMode::Create).map_err(failed("begin an earlier segment"))?;
        let unfinished = Unfinished { disk: junction.disk.clone(), path };
        Ok(Self {
            junction,
            file,
            unfinished,
            header: None,
            gathered: Vec::new(),
            end: LogEnd::default(),
            frames: 0,
            offset: SEGMENT_HEADER_BYTES,
            synced: SEGMENT_HEADER_BYTES,
        })
    }

    /// Takes in the next bytes of what [`super::FileReader::from_segment`] gives: a header, then frames.
    ///
    /// # Errors
    /// When they are not what leads up to the log here, or the disk refuses.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Taken, EarlierError> {
        self.gathered.extend_from_slice(bytes);
        let header = match self.header {
            Some(header) => header,
            None if self.gathered.len() < BLOCK => return Ok(Taken::More),
            None => self.take_header()?,
        };
        let mut checked = 0;
        let mut taken = self.state(&header)?;
        while taken == Taken::More
            && let Some(bytes) = self.check_frame(header.identity.salt, checked)?
        {
            checked += bytes;
            taken = self.state(&header)?;
        }
        self.write(checked)?;
        Ok(taken)
    }

    fn take_header(&mut self) -> Result<SegmentHeader, EarlierError> {
        let header = SegmentHeader::decode(&self.gathered).map_err(EarlierError::Header)?;
        let here = &self.junction.header;
        if (header.identity, header.identity_since) != (here.identity, here.identity_since) {
            return Err(EarlierError::AnotherLog);
        }
        // A segment of the same name is here already.
        if header.first_lsn >= here.first_lsn {
            return Err(EarlierError::Unjoined { at: self.junction.lsn() });
        }
        self.gathered.drain(..BLOCK);
        self.end = header.end();
        Ok(*self.header.insert(header))
    }

    /// Checks the frame at `at` in what was gathered and says how long it is. `None`: it is not whole yet.
    fn check_frame(&mut self, salt: u32, at: usize) -> Result<Option<usize>, EarlierError> {
        let bytes = &self.gathered[at..];
        let after = self.end.last_lsn;
        let no_frame = |source| EarlierError::Frame { after, source };
        if bytes.len() < FRAME_HEADER_BYTES {
            return Ok(None);
        }
        let length = frame::decode_header(bytes, salt).map_err(no_frame)?.frame_bytes();
        if bytes.len() < length {
            return Ok(None);
        }
        let frame = frame::decode(bytes, salt).map_err(no_frame)?;
        if !self.end.is_continued_by(&frame.header) {
            return Err(EarlierError::Chain { after });
        }
        self.end = LogEnd::after(&frame.header, frame.is_close());
        self.frames += 1;
        Ok(Some(length))
    }

    fn state(&self, header: &SegmentHeader) -> Result<Taken, EarlierError> {
        let (at, here) = (self.junction.lsn(), &self.junction.header);
        let is_met = self.junction.is_met_by(&self.end);
        if self.end.last_lsn > at || (is_met && header.first_frame + self.frames != here.first_frame) {
            return Err(EarlierError::Unjoined { at });
        }
        Ok(if is_met { Taken::Whole } else { Taken::More })
    }

    /// Writes the first bytes of what was gathered, which are whole frames.
    fn write(&mut self, bytes: usize) -> Result<(), EarlierError> {
        let action = "write an earlier segment";
        self.file.write_at(&self.gathered[..bytes], self.offset).map_err(failed(action))?;
        self.gathered.drain(..bytes);
        self.offset += bytes as u64;
        if self.offset >= self.synced + PIECE_BYTES {
            self.file.sync().map_err(failed(action))?;
            self.synced = self.offset;
        }
        Ok(())
    }

    /// Gives it the header and the seal that it has here, durably. Nothing of it is seen before [`Mirror::put_before`].
    ///
    /// # Errors
    /// When it does not lead up to what is here, or the disk refuses.
    pub fn finish(self) -> Result<EarlierSegment, EarlierError> {
        let whole = self.header.filter(|_| self.junction.is_met_by(&self.end));
        let Some(header) = whole else { return Err(EarlierError::Incomplete { after: self.end.last_lsn }) };
        let header = SegmentHeader { file_bytes: self.offset, ..header };
        let seal = Seal {
            last_lsn: self.end.last_lsn,
            next_segment: self.junction.header.first_lsn,
            end: self.offset,
            checksum: self.end.checksum,
        };
        let action = "finish an earlier segment";
        self.file.write_at(&header.encode(), 0).map_err(failed(action))?;
        write_seal(&*self.file, header.identity.salt, &seal).map_err(failed(action))?;
        let segment = Segment { header, seal: SealFound::Sealed(seal), file_bytes: self.offset };
        Ok(EarlierSegment {
            segment,
            seal,
            leads_up_to: self.junction.header.first_lsn,
            unfinished: self.unfinished,
        })
    }
}

/// An earlier segment that is whole and durable, and has no name yet.
pub struct EarlierSegment {
    segment: Segment,
    seal: Seal,
    leads_up_to: Lsn,
    unfinished: Unfinished,
}

impl Mirror {
    /// Where the copy begins, for a thread that reads it without keeping others from this copy.
    #[must_use]
    pub fn beginning(&self) -> Beginning {
        let (log, first_lsn) = (&self.log, self.log.published.oldest().first_lsn);
        Beginning { disk: log.disk.clone(), directory: log.directories.log.clone(), first_lsn }
    }

    /// Puts a segment before the oldest one. Readers see it at once. Syncs nothing: [`Earlier::begin`] makes the name
    /// durable before another segment is put before this one, and a name that is lost is brought again.
    ///
    /// # Errors
    /// When the copy begins elsewhere by now, or the disk refuses.
    pub fn put_before(&mut self, earlier: EarlierSegment) -> Result<Extent, EarlierError> {
        put_before(&mut self.log, earlier)
    }
}

impl Beginning {
    /// What an earlier segment has to lead up to; `None`: the copy begins with the log's first record.
    ///
    /// # Errors
    /// When the oldest segment cannot be read.
    pub fn junction(&self) -> Result<Option<Junction>, ReadError> {
        Junction::read(&self.disk, &self.directory, self.first_lsn)
    }
}

fn put_before(log: &mut FileLog, earlier: EarlierSegment) -> Result<Extent, EarlierError> {
    let EarlierSegment { segment, seal, leads_up_to, unfinished } = earlier;
    let directory = &log.directories.log;
    let path = directory.join(segment_name(segment.header.first_lsn));
    let is_oldest = log.published.oldest().first_lsn == leads_up_to;
    let is_same_log = log.header.identity == segment.header.identity;
    // What was let go may still have its name.
    if !is_oldest || !is_same_log || log.to_remove.contains(&path) {
        return Err(EarlierError::Outdated);
    }
    log.disk.rename(&unfinished.path, &path).map_err(failed("name an earlier segment"))?;
    let durable = durable_part(&segment, seal.end, seal.last_lsn);
    log.published.lock().insert(0, durable);
    Ok(durable.extent())
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Renamed, it is not there; otherwise the next one or the next start removes it.
        let _ = self.disk.remove(&self.path);
    }
}

fn failed(action: &'static str) -> impl FnOnce(io::Error) -> EarlierError {
    move |source| EarlierError::Io { action, source }
}
