//! Ordered bytes: batches of records, durable when acknowledged, recovered exactly or refused.
//!
//! This crate knows nothing of leases. [`OrderedLog`] is the contract; [`FileLog`] keeps it in files, over a [`Disk`] that
//! tests and the simulator replace. Start reading at `ordered.rs`, then `file.rs`; `docs/internals/formats/` has the bytes.

#![forbid(unsafe_code)]

mod batch;
mod bytes;
mod checksum;
mod damage;
pub mod disk;
#[cfg(feature = "contract")]
pub mod disk_contract;
mod end;
pub mod file;
pub mod frame;
mod identity;
mod ids;
mod ordered;
pub mod planted;
pub mod snapshot;

pub use batch::{
    Batch, BatchBuilder, CLOSE_RECORD, FRAME_BYTES_MAX, PAYLOAD_BYTES_MAX, PushError, RECORD_BYTES_MAX,
    RECORD_HEADER_BYTES, RECORDS_PER_FRAME_MAX, Record, Records,
};
pub use damage::{Damage, DamageCause, ReadError};
pub use disk::{Disk, RealDisk, SharedDisk};
pub use end::LogEnd;
pub use file::{
    ARRIVING_MARKER, CopyError, CopyOf, Earlier, EarlierError, FileLog, FileLogOptions, FileReader, Junction,
    MOVED_MARKER, Mirror, OfflineFrames, OfflineLog, OpenError, RawFrames, Recovery, Taken, restore,
};
pub use frame::{Frame, FrameHeader};
pub use identity::{Genesis, Identity};
pub use ids::{BatchId, Lsn, Moment};
pub use ordered::{
    AppendError, AppendOutcome, Authority, BatchRefusal, Chore, ChoreDone, ChoreKind, Extent, HistoryWindow,
    OrderedLog, Proof, Resolution, Space, Trimmed, bytes_above,
};
pub use snapshot::SnapshotStore;
