//! A node's copy of the log, as far as the simulator needs one: frames in order, each continuing the one before, after a
//! snapshot or from the beginning. It survives its node's death.

use tenure_cluster::values::{Floor, Head};
use tenure_engine::{RecoverError, apply_frame, load_state};
use tenure_kernel::{Lsn, Replica, Setup, Tick};
use tenure_log::{Batch, LogEnd, frame};

/// A copy.
#[derive(Clone, Debug, Default)]
pub(super) struct Mirror {
    begins: Head,
    snapshot: Vec<u8>,
    frames: Vec<(Vec<u8>, LogEnd)>,
}

impl Mirror {
    /// A copy that begins with a snapshot.
    pub(super) fn from_snapshot(floor: &Floor, bytes: Vec<u8>) -> Self {
        Self { begins: floor.end, snapshot: bytes, frames: Vec::new() }
    }

    pub(super) fn last_frame(&self) -> u64 {
        self.begins.frame + self.frames.len() as u64
    }

    pub(super) fn end(&self) -> LogEnd {
        self.frames.last().map_or_else(|| self.begins.end(), |(_, end)| *end)
    }

    /// Takes the next frame in.
    pub(super) fn copy(&mut self, bytes: &[u8], salt: u32) -> Result<Batch, String> {
        let decoded = frame::decode(bytes, salt).map_err(|error| error.to_string())?;
        let end = self.end();
        if !end.is_continued_by(&decoded.header) {
            return Err(format!("{:?} does not continue {end:?}", decoded.header));
        }
        let batch = Batch::of_frame(&decoded);
        self.frames.push((bytes.to_vec(), LogEnd::after(&decoded.header, false)));
        Ok(batch)
    }

    /// The machine died while it wrote: the last frames are not whole.
    pub(super) fn tear(&mut self, frames: usize) {
        self.frames.truncate(self.frames.len().saturating_sub(frames));
    }

    /// The state it comes to.
    pub(super) fn replay(&self, setup: Setup, salt: u32) -> Result<Replica, RecoverError> {
        let mut replica = if self.begins.frame == 0 {
            Replica::new(setup)
        } else {
            load_state(setup, Lsn(self.begins.lsn), Tick(self.begins.tick), &self.snapshot)?
        };
        for (bytes, _) in &self.frames {
            let decoded = frame::decode(bytes, salt).expect("invariant: what was copied is a frame");
            apply_frame(&mut replica, &decoded)?;
        }
        Ok(replica)
    }
}
