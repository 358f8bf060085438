//! Who asks: established by a transport, trusted from here on.

use crate::leases::connection_grace_ms;
use crate::within::Within;
use tenure_engine::kernel::{OpenSession, SessionId, SessionKind, Text};
use tenure_engine::{Account, Asker};

/// What a caller may do. Each scope includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// Look.
    Read,
    /// Hold leases and sessions of its own.
    Hold,
    /// End what others hold; steer the daemon.
    Admin,
}

/// How a caller came in, which decides what keeps its leases unless it says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Request and answer: leases are kept by heartbeats.
    Http,
    /// A connection that is a session: leases are kept by its being open.
    Connection {
        /// The session that the connection is.
        session: SessionId,
        /// A socket or a standard input.
        kind: SessionKind,
        /// How long the word of the node lasts at which it is open; zero: it is open here, and needs none.
        word_ms: u32,
    },
}

/// How old an answer may be, on a node that follows another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Freshness {
    /// As the writer knows it.
    #[default]
    Present,
    /// As this node knows it.
    Stale,
    /// As this node knows it, once it has applied this position.
    AtLeast(u64),
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// `local`, `uid:N`, `token:NAME` or `cert:SUBJECT`.
    pub principal: Text,
    /// What it may do.
    pub scope: Scope,
    /// What it may take; `None`: everything.
    pub within: Option<Within>,
    /// How it came in.
    pub origin: Origin,
    /// How old answers may be.
    pub freshness: Freshness,
    /// What its principal has outstanding.
    pub account: Account,
}

impl Scope {
    /// Every scope, least first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Hold, Self::Admin];

    /// Its word in configuration and token files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Hold => "hold",
            Self::Admin => "admin",
        }
    }

    /// The scope of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }
}

impl Caller {
    /// A node of the cluster, about itself.
    pub(crate) fn node() -> Self {
        Self {
            principal: "node".into(),
            scope: Scope::Admin,
            within: None,
            origin: Origin::Http,
            freshness: Freshness::Present,
            account: Account::default(),
        }
    }

    /// Whether it may have the last places of what is bounded.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.scope == Scope::Admin
    }

    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker::Caller { account: &self.account, is_operator: self.is_operator() }
    }

    /// The connection it speaks on, where that is a session.
    #[must_use]
    pub fn connection(&self) -> Option<SessionId> {
        match self.origin {
            Origin::Http => None,
            Origin::Connection { session, .. } => Some(session),
        }
    }

    /// What becomes durable with the first lease of a connection that a node gives its word for.
    pub(crate) fn opening(&self) -> Option<Box<OpenSession>> {
        match self.origin {
            Origin::Http | Origin::Connection { word_ms: 0, .. } => None,
            Origin::Connection { session, kind, word_ms } => Some(Box::new(OpenSession {
                session,
                holder: self.principal.clone(),
                kind,
                ttl_ms: word_ms,
                grace_ms: connection_grace_ms(kind),
                principal: self.principal.clone(),
                accepts_handover: None,
            })),
        }
    }
}
