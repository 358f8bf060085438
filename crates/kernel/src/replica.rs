//! A state that follows a log: no rule is evaluated again, and what cannot be understood is refused, never skipped.
//! Recovery, followers, snapshots, history and the simulator apply records with [`Replica::apply`], and in no other way.

use crate::codec::{DecodeError, decode_state};
use crate::event::Event;
use crate::ids::{Lsn, Stamp, Tick};
use crate::invariants::Violation;
use crate::kernel::{Kernel, Setup};
use crate::record::RecordReader;

/// Why the bytes of a snapshot are not a state.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StateError {
    /// They cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The state breaks an invariant.
    #[error(transparent)]
    Broken(#[from] Violation),
}

/// The state after the records applied so far.
pub struct Replica {
    kernel: Kernel,
    tick: Tick,
}

/// A record that could not be applied; the ones before it were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// Its position.
    pub lsn: Lsn,
    /// Why.
    pub error: DecodeError,
}

impl Replica {
    /// The state before the first record.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        Self { kernel: Kernel::new(setup), tick: Tick(0) }
    }

    /// The state of a snapshot that was taken at this tick.
    ///
    /// # Errors
    /// When the bytes are not a state, or a broken one.
    pub fn from_snapshot(setup: Setup, tick: Tick, bytes: &[u8]) -> Result<Self, StateError> {
        let kernel = decode_state(setup, bytes)?;
        kernel.check_invariants()?;
        Ok(Self::resume(kernel, tick))
    }

    /// Continues from a state.
    #[must_use]
    pub fn resume(kernel: Kernel, tick: Tick) -> Self {
        Self { tick: tick.max(kernel.applied().tick), kernel }
    }

    /// Applies the records of one frame, except those that the state has already, and gives each event to `each` right
    /// after it was applied. `records`: position, kind and bytes.
    ///
    /// # Errors
    /// At the first record that cannot be understood.
    pub fn apply<'a>(
        &mut self,
        begun: Tick,
        records: impl IntoIterator<Item = (Lsn, u8, &'a [u8])>,
        each: impl FnMut(&Kernel, Stamp, &Event),
    ) -> Result<(), Unreadable> {
        apply_records(&mut self.kernel, &mut self.tick, begun, records, each)
    }

    /// Applies one event that was read elsewhere, unless the state has it already, if `check` finds that it fits.
    ///
    /// # Errors
    /// What `check` returns; the state is as it was.
    pub fn apply_checked<E>(
        &mut self,
        stamp: Stamp,
        event: &Event,
        check: impl FnOnce(&Kernel, Stamp, &Event) -> Result<(), E>,
    ) -> Result<(), E> {
        self.pass(stamp.tick);
        if stamp.lsn > self.kernel.applied().lsn {
            let stamp = Stamp { lsn: stamp.lsn, tick: self.tick };
            check(&self.kernel, stamp, event)?;
            self.kernel.evolve(stamp, event);
        }
        Ok(())
    }

    /// Time has come to this tick.
    pub fn pass(&mut self, tick: Tick) {
        self.tick = self.tick.max(tick);
    }

    /// The state.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The tick of the newest record.
    #[must_use]
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// The state and the tick of the newest record.
    #[must_use]
    pub fn into_parts(self) -> (Kernel, Tick) {
        (self.kernel, self.tick)
    }
}

/// [`Replica::apply`] for a state and a tick that something else owns.
///
/// # Errors
/// At the first record that cannot be understood.
pub fn apply_records<'a>(
    kernel: &mut Kernel,
    tick: &mut Tick,
    begun: Tick,
    records: impl IntoIterator<Item = (Lsn, u8, &'a [u8])>,
    mut each: impl FnMut(&Kernel, Stamp, &Event),
) -> Result<(), Unreadable> {
    let mut reader = RecordReader::new(begun);
    *tick = begun.max(*tick);
    for (lsn, kind, bytes) in records {
        let decided = reader.read_decided(kind, bytes).map_err(|error| Unreadable { lsn, error })?;
        *tick = reader.tick().max(*tick);
        if let Some(event) = decided.filter(|_| lsn > kernel.applied().lsn) {
            let stamp = Stamp { lsn, tick: *tick };
            kernel.evolve(stamp, &event);
            each(kernel, stamp, &event);
        }
    }
    Ok(())
}
