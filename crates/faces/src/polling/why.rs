//! Why a target left its poller: the words of logs, metrics and the shown group. Says nothing about who gets it.

use tenure_engine::kernel::Reason;

/// Why a target left its poller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeftFor {
    /// Its poller let go of it.
    Voluntary,
    /// Another is to have it.
    Rebalanced,
    /// Its poller stopped.
    Shutdown,
    /// Its poller fell silent.
    TtlExpiry,
    /// It is no target any more, or paused.
    TargetRemoved,
    /// It was taken from its poller: by an operator, or because its lease was over whoever held it.
    Revoked,
}

/// What the engine says where a session was closed with leases in it.
const SESSION_CLOSED: &str = "session closed";

impl LeftFor {
    /// Every one, in the order in which they are counted.
    pub const ALL: [Self; 6] = [
        Self::Voluntary,
        Self::Rebalanced,
        Self::Shutdown,
        Self::TtlExpiry,
        Self::TargetRemoved,
        Self::Revoked,
    ];

    /// Its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Voluntary => "voluntary",
            Self::Rebalanced => "rebalanced",
            Self::Shutdown => "shutdown",
            Self::TtlExpiry => "ttl_expiry",
            Self::TargetRemoved => "target_removed",
            Self::Revoked => "revoked",
        }
    }

    /// Why a lease on a target ended. A poller that releases says why in words; where it says nothing it let go
    /// because it is going, if it is.
    pub(crate) fn of_end(reason: Reason, text: &str, is_leaving: bool) -> Self {
        match reason {
            Reason::Explicit => match text {
                "rebalanced" => Self::Rebalanced,
                "shutdown" | SESSION_CLOSED => Self::Shutdown,
                "target_removed" => Self::TargetRemoved,
                "voluntary" => Self::Voluntary,
                _ if is_leaving => Self::Shutdown,
                _ => Self::Voluntary,
            },
            Reason::SessionExpired | Reason::HeartbeatExpired | Reason::ReservationExpired => Self::TtlExpiry,
            Reason::Rebalanced => Self::Rebalanced,
            Reason::Shutdown => Self::Shutdown,
            Reason::MaxLifetime
            | Reason::AdminForce
            | Reason::PoolRemoved
            | Reason::Abandoned
            | Reason::Restored => Self::Revoked,
        }
    }

    /// Why a target was handed over, which carries no words.
    pub(crate) fn of_handover(is_leaving: bool) -> Self {
        if is_leaving { Self::Shutdown } else { Self::Rebalanced }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_told_in_its_own_words() {
        let of = |text, is_leaving| LeftFor::of_end(Reason::Explicit, text, is_leaving);
        for left in LeftFor::ALL {
            let is_said = !matches!(left, LeftFor::TtlExpiry | LeftFor::Revoked);
            assert_eq!(of(left.as_str(), true) == left, is_said, "{left:?}");
        }
        assert_eq!((of("", false), of("", true)), (LeftFor::Voluntary, LeftFor::Shutdown));
        assert_eq!(of("session closed", false), LeftFor::Shutdown);
        assert_eq!(of("lunch", false), LeftFor::Voluntary);
    }
}
