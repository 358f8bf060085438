//! Deliberate bugs, so that the simulator can prove that it would notice.
//!
//! Without the feature `plant` every question is answered by a constant `false` and the branch disappears.

/// One bug the protocol can be told to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A node claims after half of the time it should have waited.
    SuccessorServesTooSoon,
    /// A frame whose outcome is not known is sent again as a later frame.
    UnknownResentElsewhere,
    /// Authority counts from the answer of a step, not from before it was sent.
    AuthorityFromReply,
    /// A follower answers what only a writer may.
    FollowerAnswersFresh,
    /// Frames go before a snapshot is known to cover them.
    TrimBeforeSnapshot,
    /// A new writer continues from the last logged tick alone.
    TickGoesBack,
    /// A writer that resigned goes on answering until its authority ends.
    LateResign,
    /// A claim compares `writer` alone.
    ClaimComparesWriterOnly,
    /// A writer answers however long ago its last step was.
    AuthorityNotChecked,
}

impl Planted {
    /// Every bug, for a list of names and the test that each is found.
    pub const ALL: [Self; 9] = [
        Self::SuccessorServesTooSoon,
        Self::UnknownResentElsewhere,
        Self::AuthorityFromReply,
        Self::FollowerAnswersFresh,
        Self::TrimBeforeSnapshot,
        Self::TickGoesBack,
        Self::LateResign,
        Self::ClaimComparesWriterOnly,
        Self::AuthorityNotChecked,
    ];

    /// The name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SuccessorServesTooSoon => "successor-serves-too-soon",
            Self::UnknownResentElsewhere => "unknown-resent-elsewhere",
            Self::AuthorityFromReply => "authority-from-reply",
            Self::FollowerAnswersFresh => "follower-answers-fresh",
            Self::TrimBeforeSnapshot => "trim-before-snapshot",
            Self::TickGoesBack => "tick-goes-back",
            Self::LateResign => "late-resign",
            Self::ClaimComparesWriterOnly => "claim-compares-writer-only",
            Self::AuthorityNotChecked => "authority-not-checked",
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

    /// Gives the protocol on this thread one bug, or takes it away.
    pub fn plant(bug: Option<Planted>) {
        PLANTED.set(bug);
    }

    /// Whether the protocol on this thread has a bug.
    pub fn has(bug: Planted) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(not(feature = "plant"))]
mod switch {
    use super::Planted;

    /// Whether the protocol has a bug: never.
    pub const fn has(_: Planted) -> bool {
        false
    }
}

pub use switch::has;
#[cfg(feature = "plant")]
pub use switch::plant;
