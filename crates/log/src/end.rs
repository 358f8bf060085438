//! Where a log ends: all that the next frame has to continue, and how it does.

use crate::batch::Batch;
use crate::frame::{self, FrameHeader};
use crate::ids::{BatchId, Lsn, Moment};
use crate::planted::{self, Planted};

/// What the next frame has to continue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// The last LSN.
    pub last_lsn: Lsn,
    /// The last frame's checksum: the chain.
    pub checksum: u32,
    /// Which incarnation wrote it.
    pub writer_epoch: u64,
    /// When it was begun.
    pub at: Moment,
    /// Its batch.
    pub last_batch: BatchId,
    /// It is the frame of a clean stop.
    pub closed: bool,
}

impl LogEnd {
    /// The end of a log whose last frame this is.
    #[must_use]
    pub fn after(header: &FrameHeader, closed: bool) -> Self {
        Self {
            last_lsn: header.last_lsn(),
            checksum: header.checksum,
            writer_epoch: header.writer_epoch,
            at: header.at,
            last_batch: header.batch,
            closed,
        }
    }

    /// Whether a frame may come next.
    #[must_use]
    pub fn is_continued_by(&self, header: &FrameHeader) -> bool {
        let epoch_fits = if header.opening {
            header.writer_epoch > self.writer_epoch
        } else {
            header.writer_epoch == self.writer_epoch && !self.closed
        };
        let chained = header.previous_checksum == self.checksum || planted::has(Planted::ChainNotChecked);
        header.previous_lsn == self.last_lsn && chained && epoch_fits
    }

    /// Appends the frame of a batch to `out`, and says where the log ends then.
    pub fn follow(&self, batch: &Batch, salt: u32, out: &mut Vec<u8>) -> Self {
        let header = FrameHeader {
            opening: false,
            gap: false,
            count: batch.count(),
            first_lsn: batch.first_lsn(),
            previous_lsn: self.last_lsn,
            at: batch.at(),
            writer_epoch: self.writer_epoch,
            batch: batch.id(),
            synced_lsn: self.last_lsn,
            payload_bytes: batch.payload().len() as u32,
            previous_checksum: self.checksum,
            checksum: 0,
        };
        let checksum = frame::encode(&header, batch.payload(), salt, out);
        Self::after(&FrameHeader { checksum, ..header }, false)
    }

    /// Appends the frame that opens an incarnation to `out`, and says where the log ends then.
    pub fn open(&self, writer_epoch: u64, at: Moment, salt: u32, out: &mut Vec<u8>) -> Self {
        self.open_at(self.last_lsn.next(), writer_epoch, at, salt, out)
    }

    /// The same, going on at `first_lsn`: the next one, or the one past a gap.
    pub(crate) fn open_at(
        &self,
        first_lsn: Lsn,
        writer_epoch: u64,
        at: Moment,
        salt: u32,
        out: &mut Vec<u8>,
    ) -> Self {
        let header = FrameHeader {
            opening: true,
            gap: first_lsn > self.last_lsn.next(),
            count: 0,
            first_lsn,
            previous_lsn: self.last_lsn,
            at: Moment { tick: at.tick.max(self.at.tick), wall_ms: at.wall_ms },
            writer_epoch,
            batch: BatchId::opening(writer_epoch),
            synced_lsn: self.last_lsn,
            payload_bytes: 0,
            previous_checksum: self.checksum,
            checksum: 0,
        };
        let checksum = frame::encode(&header, &[], salt, out);
        Self::after(&FrameHeader { checksum, ..header }, false)
    }
}
