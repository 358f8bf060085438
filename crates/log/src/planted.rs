//! Deliberate bugs, so that the simulator and the crash tests can prove that they would notice.
//!
//! Without the feature `plant` every question is answered by a constant `false` and the branch disappears.

/// One bug the log can be told to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// `append` answers committed without having synced.
    SyncSkipped,
    /// Recovery takes the last valid frame for a torn one and cuts it.
    TornTailCutsValidFrame,
    /// Recovery does not compare a frame's chain with the frame before it.
    ChainNotChecked,
    /// After a cut the LSNs of the lost frame are given again.
    GapNotTaken,
    /// Cutting erases the torn bytes before the gap is durable, so that a second crash forgets it.
    CutBeforeGap,
    /// Recovery builds on the last frame it can read without making sure that it is on the disk.
    LastFrameNotConfirmed,
}

impl Planted {
    /// Every bug, for a list of names and the test that each is found.
    pub const ALL: [Self; 6] = [
        Self::SyncSkipped,
        Self::TornTailCutsValidFrame,
        Self::ChainNotChecked,
        Self::GapNotTaken,
        Self::CutBeforeGap,
        Self::LastFrameNotConfirmed,
    ];

    /// The name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SyncSkipped => "sync-skipped",
            Self::TornTailCutsValidFrame => "torn-tail-cuts-valid-frame",
            Self::ChainNotChecked => "chain-not-checked",
            Self::GapNotTaken => "gap-not-taken",
            Self::CutBeforeGap => "cut-before-gap",
            Self::LastFrameNotConfirmed => "last-frame-not-confirmed",
        }
    }
}

#[cfg(feature = "plant")]
mod switch {
    use std::cell::Cell;

    use super::Planted;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// Gives the log on this thread one bug, or takes it away.
    pub fn plant(bug: Option<Planted>) {
        PLANTED.set(bug);
    }

    pub(crate) fn has(bug: Planted) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(not(feature = "plant"))]
mod switch {
    use super::Planted;

    pub(crate) const fn has(_: Planted) -> bool {
        false
    }
}

pub(crate) use switch::has;
#[cfg(feature = "plant")]
pub use switch::plant;
