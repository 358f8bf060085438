//! Changes in one short line each, for the story.

use tenure_kernel::{Change, LeaseId};

/// A change in one short line.
pub(crate) struct Brief<'a>(pub(crate) &'a Change);

impl core::fmt::Debug for Brief<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let kind = self.0.kind().as_str();
        match self.0 {
            Change::Granted(granted) => {
                let policy = &granted.policy;
                write!(
                    f,
                    "{kind} {:?} to {} {:?} ttl {} grace {} deadline {:?} session {:?}",
                    granted.members,
                    granted.holder,
                    policy.mode,
                    policy.ttl_ms,
                    policy.grace_ms,
                    granted.deadline.map(|tick| tick.0),
                    policy.session.map(|session| session.0),
                )
            }
            Change::Rebound(rebound) => {
                write!(f, "{kind} {} epoch {} to {}", rebound.lease, rebound.epoch, rebound.holder)
            }
            Change::Revoked(revoked) => write!(
                f,
                "{kind} {} epoch {} {} {:?} reclaim by {:?}",
                revoked.lease,
                revoked.epoch,
                revoked.reason.as_str(),
                revoked.evidence,
                revoked.reclaim_by
            ),
            Change::Reclaimed(reclaimed) => write!(
                f,
                "{kind} {} {} {:?} {:?}",
                reclaimed.was.lease,
                reclaimed.reason.as_str(),
                reclaimed.ground,
                reclaimed.gate
            ),
            change => match change.lease(LeaseId(0)) {
                Some(lease) => write!(f, "{kind} {lease}"),
                None => write!(f, "{change:?}"),
            },
        }
    }
}
