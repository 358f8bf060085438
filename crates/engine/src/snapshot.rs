//! Snapshots, built beside the writer: the previous one, the durable frames after it, and the state they
//! come to. The writer never pauses; the price is a second copy of the state while this runs.

use crate::recovery::{RecoverError, load_state, record_parts};
use std::io::Read;
use tenure_kernel::codec::encode_state;
use tenure_kernel::planted::{Planted, planted};
use tenure_kernel::{Lsn, Replica, Setup, Tick};
use tenure_log::snapshot::{LoadError, SnapshotHeader, StoreError};
use tenure_log::{FileReader, Moment, ReadError, SnapshotStore};

/// Why no snapshot was made. The log is unharmed.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The records could not be replayed.
    #[error("cannot replay the log")]
    Replay(#[from] RecoverError),
    /// The log cannot be read.
    #[error("cannot read the log")]
    Read(#[from] ReadError),
    /// The previous snapshot cannot be read.
    #[error("cannot read the previous snapshot")]
    Load(#[from] LoadError),
    /// The previous snapshot cannot be read to its end.
    #[error("cannot read the previous snapshot")]
    Bytes(#[from] std::io::Error),
    /// The new one cannot be stored.
    #[error("cannot store the snapshot")]
    Store(#[from] StoreError),
}

/// Builds and stores the state at the last whole frame up to `upto`. `None`: nothing new. `look` is called where this takes
/// the most memory.
///
/// # Errors
/// When something cannot be read or stored.
pub fn build_snapshot(
    setup: Setup,
    store: &SnapshotStore,
    reader: &mut FileReader,
    upto: Lsn,
    look: &mut dyn FnMut(),
) -> Result<Option<SnapshotHeader>, SnapshotError> {
    let (mut replica, mut covered) = match store.newest() {
        None => (Replica::new(setup), Lsn(0)),
        Some(header) => {
            let mut bytes = Vec::new();
            store.open(header.lsn)?.read_to_end(&mut bytes)?;
            let lsn = Lsn(header.lsn.0);
            let replica = load_state(setup, lsn, Tick(header.at.tick), &bytes)?;
            look();
            (replica, lsn)
        }
    };
    let from = covered;
    let mut wall_ms = 0;
    reader.seek(tenure_log::Lsn(covered.0 + 1))?;
    while let Some(frame) = reader.next_frame()? {
        let last = Lsn(frame.header.last_lsn().0);
        if last > upto {
            break;
        }
        let skip_last = planted(Planted::SnapshotMissesOneEvent);
        let records = frame.header.count as usize - usize::from(skip_last);
        let applied = replica.apply(
            Tick(frame.header.at.tick),
            record_parts(frame.records().take(records)),
            |_, _, _| {},
        );
        applied.map_err(RecoverError::from)?;
        wall_ms = frame.header.at.wall_ms;
        covered = last;
    }
    if covered == from {
        return Ok(None);
    }
    let at = Moment { tick: replica.tick().0, wall_ms };
    let mut writer = store.begin(tenure_log::Lsn(covered.0), at)?;
    let mut failed = None;
    encode_state(replica.kernel(), &mut |bytes| {
        if failed.is_none() {
            failed = writer.put(bytes).err();
        }
    });
    look();
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(Some(writer.finish()?)),
    }
}
