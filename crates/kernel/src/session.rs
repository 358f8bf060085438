//! Sessions as the kernel keeps them: who speaks, which leases it keeps, what it lost. Whether it lives is
//! liveness' business.

use crate::command::{OpenSession, SessionKind};
use crate::ids::{LeaseId, Lsn, SessionId, Tick};
use crate::limits::SESSION_LOSSES_MAX;
use crate::names::Text;
use crate::reason::Reason;
use crate::tables::slab::NO_SLOT;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;

#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) holder: Text,
    pub(crate) kind: SessionKind,
    pub(crate) ttl_ms: u32,
    pub(crate) grace_ms: u32,
    pub(crate) principal: Text,
    pub(crate) accepts_handover: Option<Text>,
    pub(crate) opened_lsn: Lsn,
    pub(crate) opened_tick: Tick,
    /// Closed, with the reason; gone when the last lease is.
    pub(crate) closed: Option<Reason>,
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// The list is in two parts: leases with authority, then from here on revoking ones.
    pub(crate) first_revoking: u32,
    pub(crate) leases: u32,
    /// How many of its leases have each grace.
    pub(crate) graces: BTreeMap<u32, u32>,
    pub(crate) drained: BTreeSet<LeaseId>,
    pub(crate) losses: VecDeque<Loss>,
    /// Losses up to here may be missing from `losses`.
    pub(crate) losses_complete_after: Lsn,
    pub(crate) changed_lsn: Lsn,
}

/// A lease that its session lost without asking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// Which.
    pub lease: LeaseId,
    /// Why.
    pub reason: Reason,
    /// Position of the event.
    pub lsn: Lsn,
}

/// What keeps a session, and how long one renewal of it lasts. In the log it is a [`SessionKind`] and a `ttl_ms`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// A connection without keepalives: it lasts while it is open.
    Connection,
    /// A connection in a cluster: its node sends keepalives while it is open.
    NodeConnection {
        /// How long one keepalive lasts.
        ttl_ms: NonZeroU32,
    },
    /// Heartbeats of its holder.
    Heartbeat {
        /// How long one lasts.
        ttl_ms: u32,
    },
}

/// What can be read of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionView<'a> {
    pub(crate) session: &'a Session,
}

impl Session {
    pub(crate) fn lose(&mut self, loss: Loss) {
        if self.losses.len() == SESSION_LOSSES_MAX
            && let Some(forgotten) = self.losses.pop_front()
        {
            self.losses_complete_after = forgotten.lsn;
        }
        self.losses.push_back(loss);
    }

    pub(crate) fn count_grace(&mut self, grace_ms: u32) {
        *self.graces.entry(grace_ms).or_default() += 1;
    }

    pub(crate) fn uncount_grace(&mut self, grace_ms: u32) {
        let count = self.graces.get_mut(&grace_ms).expect("invariant: a lease of a session counts its grace");
        *count -= 1;
        if *count == 0 {
            self.graces.remove(&grace_ms);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == NO_SLOT
    }
}

impl Kept {
    fn of(kind: SessionKind, ttl_ms: u32) -> Self {
        match (kind, NonZeroU32::new(ttl_ms)) {
            (SessionKind::Connection | SessionKind::Stdin, None) => Self::Connection,
            (SessionKind::Connection | SessionKind::Stdin, Some(ttl_ms)) => Self::NodeConnection { ttl_ms },
            (SessionKind::ByHand, _) => Self::Heartbeat { ttl_ms },
        }
    }

    /// Whether a connection keeps it, with keepalives or without.
    #[must_use]
    pub fn is_connection(self) -> bool {
        match self {
            Self::Connection | Self::NodeConnection { .. } => true,
            Self::Heartbeat { .. } => false,
        }
    }
}

impl OpenSession {
    /// What keeps it, and how long one renewal lasts.
    #[must_use]
    pub fn kept(&self) -> Kept {
        Kept::of(self.kind, self.ttl_ms)
    }
}

impl<'a> SessionView<'a> {
    /// Its id.
    #[must_use]
    pub fn id(self) -> SessionId {
        self.session.id
    }

    /// Who speaks.
    #[must_use]
    pub fn holder(self) -> &'a str {
        &self.session.holder
    }

    /// Its kind.
    #[must_use]
    pub fn kind(self) -> SessionKind {
        self.session.kind
    }

    /// What keeps it, and how long one renewal lasts.
    #[must_use]
    pub fn kept(self) -> Kept {
        Kept::of(self.session.kind, self.session.ttl_ms)
    }

    /// As in [`OpenSession::ttl_ms`].
    #[must_use]
    pub fn ttl_ms(self) -> u32 {
        self.session.ttl_ms
    }

    /// How long silence is forgiven.
    #[must_use]
    pub fn grace_ms(self) -> u32 {
        self.session.grace_ms
    }

    /// Who asked.
    #[must_use]
    pub fn principal(self) -> &'a str {
        &self.session.principal
    }

    /// How the resources of leases begin that other principals may hand over to it.
    #[must_use]
    pub fn accepts_handover(self) -> Option<&'a str> {
        self.session.accepts_handover.as_deref()
    }

    /// Set once it is closed and its leases are being ended.
    #[must_use]
    pub fn closed(self) -> Option<Reason> {
        self.session.closed
    }

    /// Position of the event that opened it.
    #[must_use]
    pub fn opened_lsn(self) -> Lsn {
        self.session.opened_lsn
    }

    /// When it was opened.
    #[must_use]
    pub fn opened_tick(self) -> Tick {
        self.session.opened_tick
    }

    /// Leases it keeps.
    #[must_use]
    pub fn lease_count(self) -> u32 {
        self.session.leases
    }

    /// The shortest grace among its leases that is at least so long.
    #[must_use]
    pub fn lease_grace_from(self, least_ms: u32) -> Option<u32> {
        self.session.graces.range(least_ms..).next().map(|(grace_ms, _)| *grace_ms)
    }

    /// The longest grace among its leases.
    #[must_use]
    pub fn lease_grace_longest(self) -> Option<u32> {
        self.session.graces.last_key_value().map(|(grace_ms, _)| *grace_ms)
    }

    /// Position of its last change.
    #[must_use]
    pub fn changed_lsn(self) -> Lsn {
        self.session.changed_lsn
    }

    /// Its leases that an operator drained, in order of id.
    pub fn drained(self) -> impl Iterator<Item = LeaseId> + 'a {
        self.session.drained.iter().copied()
    }

    /// What it lost after `seen`, oldest first; `None` if more was lost than is remembered.
    #[must_use]
    pub fn losses_after(self, seen: Lsn) -> Option<impl Iterator<Item = Loss> + 'a> {
        (seen >= self.session.losses_complete_after).then(|| {
            let from = self.session.losses.partition_point(|loss| loss.lsn <= seen);
            self.session.losses.range(from..).copied()
        })
    }
}
