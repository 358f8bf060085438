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
    /// A node claims though it does not know whether the store has forgotten something.
    ClaimInDoubt,
    /// A node that asks another at its address takes its own answer.
    HearsItself,
    /// Only those are asked whom the store lists, which may have forgotten some.
    ListAloneCounts,
    /// Who asks is not remembered by those who answer.
    AskerNotRemembered,
    /// However long a node was out of touch, it goes on as if it had seen everything.
    TrustWithoutTouch,
    /// A leader's steps compare no proof of life.
    StepsIgnoreBeat,
    /// Who has heard everybody one by one does not hear them again.
    HeardOnce,
    /// A log is adopted as if the last memory given had nothing.
    AdoptForgetsMemory,
    /// An adopted log is of the generation that it was of before.
    AdoptKeepsGeneration,
    /// Where one node is forgotten, no other is waited for either.
    ForgettingEndsWait,
    /// What the list has of a node and cannot be decoded is left out.
    UnreadListCounts,
    /// What a node remembers of the store's revision goes back with it.
    MemoryFalls,
    /// A guardian resigns with a tick that its leader may not have reached.
    GuardianGuessesTick,
    /// A guardian takes a leader that is stopped for one that is dead.
    GuardianResignsForPaused,
}

impl Planted {
    /// Every bug, for a list of names and the test that each is found.
    pub const ALL: [Self; 23] = [
        Self::SuccessorServesTooSoon,
        Self::UnknownResentElsewhere,
        Self::AuthorityFromReply,
        Self::FollowerAnswersFresh,
        Self::TrimBeforeSnapshot,
        Self::TickGoesBack,
        Self::LateResign,
        Self::ClaimComparesWriterOnly,
        Self::AuthorityNotChecked,
        Self::ClaimInDoubt,
        Self::HearsItself,
        Self::ListAloneCounts,
        Self::AskerNotRemembered,
        Self::TrustWithoutTouch,
        Self::StepsIgnoreBeat,
        Self::HeardOnce,
        Self::AdoptForgetsMemory,
        Self::AdoptKeepsGeneration,
        Self::ForgettingEndsWait,
        Self::UnreadListCounts,
        Self::MemoryFalls,
        Self::GuardianGuessesTick,
        Self::GuardianResignsForPaused,
    ];

    /// Whether it shows where a store is put back to a backup only.
    #[must_use]
    pub const fn needs_restores(self) -> bool {
        matches!(
            self,
            Self::ClaimInDoubt
                | Self::HearsItself
                | Self::ListAloneCounts
                | Self::AskerNotRemembered
                | Self::TrustWithoutTouch
                | Self::StepsIgnoreBeat
                | Self::HeardOnce
                | Self::AdoptForgetsMemory
                | Self::AdoptKeepsGeneration
                | Self::ForgettingEndsWait
                | Self::UnreadListCounts
                | Self::MemoryFalls
        )
    }

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
            Self::ClaimInDoubt => "claim-in-doubt",
            Self::HearsItself => "hears-itself",
            Self::ListAloneCounts => "list-alone-counts",
            Self::AskerNotRemembered => "asker-not-remembered",
            Self::TrustWithoutTouch => "trust-without-touch",
            Self::StepsIgnoreBeat => "steps-ignore-beat",
            Self::HeardOnce => "heard-once",
            Self::AdoptForgetsMemory => "adopt-forgets-a-memory",
            Self::AdoptKeepsGeneration => "adopt-keeps-generation",
            Self::ForgettingEndsWait => "forgetting-ends-wait",
            Self::UnreadListCounts => "unread-list-counts",
            Self::MemoryFalls => "memory-falls",
            Self::GuardianGuessesTick => "guardian-guesses-tick",
            Self::GuardianResignsForPaused => "guardian-resigns-for-paused",
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
