//! Reading durable frames while the writer goes on.
//!
//! Invariant: bytes at or above the published end of a segment are never looked at, so a reader can meet neither half a
//! frame nor one that a crash may still take back.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::damage::{Damage, DamageCause, ReadError};
use crate::disk::{OpenMode, SharedDisk};
use crate::file::raw::RawFrames;
use crate::file::segment::{SEGMENT_HEADER_BYTES, segment_name};
use crate::file::window::Window;
use crate::frame::{Frame, FrameHeader};
use crate::ids::Lsn;
use crate::ordered::Extent;
use crate::planted::{self, Planted};

/// The durable part of one segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Durable {
    pub(crate) first_lsn: Lsn,
    pub(crate) previous_lsn: Lsn,
    pub(crate) last_lsn: Lsn,
    pub(crate) end: u64,
    pub(crate) file_bytes: u64,
    pub(crate) salt: u32,
    pub(crate) began_tick: u64,
}

impl Durable {
    pub(crate) fn extent(&self) -> Extent {
        Extent {
            first_lsn: self.first_lsn,
            last_lsn: self.last_lsn,
            bytes: self.file_bytes,
            used_bytes: self.end.saturating_sub(SEGMENT_HEADER_BYTES),
            began_tick: self.began_tick,
        }
    }
}

/// What the writer has made durable, oldest segment first. Shared with every reader.
#[derive(Clone, Default)]
pub(crate) struct Published(Arc<Mutex<Vec<Durable>>>);

impl Published {
    pub(crate) fn new(segments: Vec<Durable>) -> Self {
        Self(Arc::new(Mutex::new(segments)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Durable>> {
        self.0.lock().expect("invariant: nobody panics while holding the list of segments")
    }

    pub(crate) fn oldest(&self) -> Durable {
        *self.lock().first().expect("invariant: a log has a segment")
    }

    /// Lets readers see the last segment up to `end`.
    pub(crate) fn advance(&self, end: u64, last_lsn: Lsn) {
        let mut segments = self.lock();
        let last = segments.last_mut().expect("invariant: a log has a segment");
        (last.end, last.last_lsn) = (end, last_lsn);
    }
}

/// Where a frame stands. Remember it to come back without searching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The segment's first LSN, which names its file.
    pub segment: Lsn,
    /// The offset in that file.
    pub offset: u64,
}

/// Reads durable frames in order, from a log that is being written or at rest.
pub struct FileReader {
    disk: SharedDisk,
    directory: PathBuf,
    published: Published,
    place: Option<Place>,
    /// The frame read last, which the next one must follow; `None` after a jump.
    last: Option<FrameHeader>,
}

/// An open segment and how far it is known to be durable.
struct Place {
    segment: Durable,
    window: Window,
    offset: u64,
}

impl FileReader {
    pub(crate) fn new(disk: SharedDisk, directory: PathBuf, published: Published) -> Self {
        Self { disk, directory, published, place: None, last: None }
    }

    /// Another reader of the same log, at its beginning. A caller with one reader opens more without access to the log.
    pub fn another(&self) -> Self {
        Self::new(self.disk.clone(), self.directory.clone(), self.published.clone())
    }

    /// What is kept, oldest first.
    #[must_use]
    pub fn extents(&self) -> Vec<Extent> {
        self.published.lock().iter().map(Durable::extent).collect()
    }

    /// A segment's header and every frame from there on, as they stand, for another machine; see [`super::Earlier`].
    /// `None`: it is not kept.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn from_segment(&self, first_lsn: Lsn) -> Result<Option<RawFrames>, ReadError> {
        RawFrames::begin(self.disk.clone(), self.directory.clone(), self.published.clone(), first_lsn)
    }

    /// Goes to the frame that holds `from`, or to the next one after it if `from` lies in a gap or ahead of the log.
    ///
    /// # Errors
    /// When `from` is not kept any more, or a segment cannot be read.
    pub fn seek(&mut self, from: Lsn) -> Result<(), ReadError> {
        // LSN 0 and 1 both mean the very beginning.
        let from = from.max(Lsn(1));
        let segment = self.find(|segments| {
            // The last segment that begins at or before `from`; an LSN in the gap before one belongs to that one.
            let index = segments.partition_point(|segment| segment.previous_lsn < from);
            segments[..index].last()
        })?;
        // Ahead of what was read last: on from there, so that positions that rise cost one pass over a segment.
        let ahead =
            self.place.as_ref().zip(self.last).filter(|(place, last)| {
                place.segment.first_lsn == segment.first_lsn && last.next_lsn() <= from
            });
        let ahead = ahead.map(|(place, last)| (place.offset, last));
        let place = self.enter(segment)?;
        if let Some((offset, _)) = ahead {
            place.offset = offset;
        }
        self.last = place.hop_to(from, ahead.map(|(_, last)| last))?;
        Ok(())
    }

    /// The next frame with records; the first after a `seek` may begin before the LSN that was asked for.
    /// `None`: the reader has caught up; ask again after the next append.
    ///
    /// # Errors
    /// When a frame cannot be read, is damaged, or was trimmed meanwhile.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, ReadError> {
        let Some((position, header)) = self.advance(true)? else { return Ok(None) };
        let place = self.place.as_ref().expect("invariant: advancing found a place");
        Ok(Some(place.window.lend(position.offset, header)))
    }

    /// Goes to a frame whose position is known, for instance from an index.
    pub fn seek_to(&mut self, position: Position) -> Result<(), ReadError> {
        let segment =
            self.find(|segments| segments.iter().find(|segment| segment.first_lsn == position.segment))?;
        self.enter(segment)?.offset = position.offset.max(SEGMENT_HEADER_BYTES).min(segment.end);
        self.last = None;
        Ok(())
    }

    /// The next frame of any kind, the opening frames of writers included, and where it stands.
    pub fn next_located(&mut self) -> Result<Option<(Position, Frame<'_>)>, ReadError> {
        let Some((position, header)) = self.advance(false)? else { return Ok(None) };
        let place = self.place.as_ref().expect("invariant: advancing found a place");
        Ok(Some((position, place.window.lend(position.offset, header))))
    }

    /// Checks the next frame and steps over it.
    fn advance(&mut self, skip_empty: bool) -> Result<Option<(Position, FrameHeader)>, ReadError> {
        if self.place.is_none() {
            let oldest = self.find(|segments| segments.first())?;
            self.enter(oldest)?;
        }
        loop {
            let place = self.place.as_mut().expect("invariant: a place was entered");
            if place.offset == place.segment.end && !self.go_on()? {
                return Ok(None);
            }
            let place = self.place.as_mut().expect("invariant: a place was entered");
            if place.offset >= place.segment.end {
                continue;
            }
            let header = place.check()?;
            place.check_chain(self.last.as_ref(), &header)?;
            self.last = Some(header);
            let position = Position { segment: place.segment.first_lsn, offset: place.offset };
            place.offset += header.frame_bytes() as u64;
            if header.count > 0 || !skip_empty {
                return Ok(Some((position, header)));
            }
        }
    }

    /// At the known end of a segment: learns of newer frames or enters the next segment. `false`: there is nothing yet.
    fn go_on(&mut self) -> Result<bool, ReadError> {
        let place = self.place.as_mut().expect("invariant: only called at a place");
        let segments = self.published.lock();
        let first_lsn = place.segment.first_lsn;
        let index = segments.partition_point(|segment| segment.first_lsn < first_lsn);
        let (same, next) = match segments.get(index) {
            Some(same) if same.first_lsn == first_lsn => (Some(*same), segments.get(index + 1).copied()),
            // This segment was trimmed meanwhile; it can only have been followed by the oldest that is left.
            other => (None, other.copied()),
        };
        drop(segments);
        if let Some(same) = same
            && same.end > place.offset
        {
            place.segment = same;
            return Ok(true);
        }
        let Some(next) = next else { return Ok(false) };
        if next.previous_lsn != place.segment.last_lsn.max(same.map_or(Lsn::ZERO, |same| same.last_lsn)) {
            return Err(ReadError::Trimmed { oldest: next.first_lsn });
        }
        self.enter(next)?;
        Ok(true)
    }

    fn find(&self, choose: impl FnOnce(&[Durable]) -> Option<&Durable>) -> Result<Durable, ReadError> {
        let segments = self.published.lock();
        let oldest = segments.first().expect("invariant: a log has a segment").first_lsn;
        choose(&segments).copied().ok_or(ReadError::Trimmed { oldest })
    }

    fn enter(&mut self, segment: Durable) -> Result<&mut Place, ReadError> {
        let same = self.place.take().filter(|place| place.segment.first_lsn == segment.first_lsn);
        let window = match same {
            // What is buffered was durable when it was read and has not changed since.
            Some(place) => place.window,
            None => self.open_window(&segment)?,
        };
        Ok(self.place.insert(Place { segment, window, offset: SEGMENT_HEADER_BYTES }))
    }

    fn open_window(&self, segment: &Durable) -> Result<Window, ReadError> {
        let name = segment_name(segment.first_lsn);
        self.disk.open(&self.directory.join(&name), OpenMode::Read).map(Window::new).map_err(|source| {
            let oldest = self.published.lock().first().map_or(Lsn::ZERO, |oldest| oldest.first_lsn);
            if oldest > segment.first_lsn {
                // It was trimmed between looking it up and opening it.
                ReadError::Trimmed { oldest }
            } else {
                ReadError::Io { file: name, source }
            }
        })
    }
}

impl Place {
    fn check(&mut self) -> Result<FrameHeader, ReadError> {
        let Durable { end, salt, .. } = self.segment;
        self.window.check_frame(self.offset, end, salt).map_err(ReadError::io(&self.name()))?.map_err(
            |error| {
                let cause = DamageCause::Content(error);
                Damage { file: self.name(), offset: self.offset, cause }.into()
            },
        )
    }

    /// A whole frame in the wrong place is damage too: it must follow the one read before it.
    fn check_chain(&self, last: Option<&FrameHeader>, header: &FrameHeader) -> Result<(), ReadError> {
        let Some(last) = last else { return Ok(()) };
        let follows = header.previous_lsn == last.last_lsn() && header.previous_checksum == last.checksum;
        if follows || planted::has(Planted::ChainNotChecked) {
            return Ok(());
        }
        let cause = DamageCause::Chain(last.last_lsn());
        Err(Damage { file: self.name(), offset: self.offset, cause }.into())
    }

    /// Steps over frames that end before `from`, looking at headers only. `last` is the frame before this place; returns the
    /// one before the new place.
    fn hop_to(&mut self, from: Lsn, mut last: Option<FrameHeader>) -> Result<Option<FrameHeader>, ReadError> {
        let Durable { end, salt, .. } = self.segment;
        while self.offset < end {
            let checked =
                self.window.check_header(self.offset, end, salt).map_err(ReadError::io(&self.name()))?;
            match checked {
                Ok(header) if header.next_lsn() > from && header.count > 0 => break,
                Ok(header) => {
                    self.check_chain(last.as_ref(), &header)?;
                    last = Some(header);
                    self.offset += header.frame_bytes() as u64;
                }
                // Reading on from here names the damage exactly.
                Err(_) => break,
            }
        }
        Ok(last)
    }

    fn name(&self) -> String {
        segment_name(self.segment.first_lsn)
    }
}
