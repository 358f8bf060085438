//! Which leases or events are meant: the filters that lists and watches share.

use clap::{Args, ValueEnum};
use tenure_api::{EventsQuery, Face, LeaseQuery, Liveness, Mode, State};

/// Filters; all that are given must fit.
#[derive(Args)]
pub(crate) struct Filter {
    /// Only of this holder
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
    /// Only in this state
    #[arg(long, value_name = "STATE", value_enum)]
    state: Option<StateWord>,
    /// Only with this liveness
    #[arg(long, value_name = "LIVENESS", value_enum)]
    liveness: Option<LivenessWord>,
    /// Only of this mode
    #[arg(long, value_name = "MODE", value_enum)]
    mode: Option<ModeWord>,
    /// Only those that cover a resource whose name begins so
    #[arg(long, value_name = "PREFIX")]
    resource_prefix: Option<String>,
    /// Only of this surface
    #[arg(long, value_name = "FACE", value_enum)]
    face: Option<FaceWord>,
}

macro_rules! words {
    ($($name:ident => $wire:ident { $($(#[doc = $doc:literal])+ $variant:ident,)+ })+) => {
        $(
            #[derive(Clone, Copy, ValueEnum)]
            enum $name {
                $($(#[doc = $doc])+ $variant,)+
            }

            impl From<$name> for $wire {
                fn from(word: $name) -> Self {
                    match word { $($name::$variant => Self::$variant,)+ }
                }
            }
        )+
    };
}

words! {
    StateWord => State {
        /// Held, not yet in use
        Reserved,
        /// In use
        Active,
        /// Authority withdrawn, resources not yet reusable
        Revoking,
        /// Given back
        Released,
        /// Never activated
        Expired,
        /// Ended after a revoke
        Revoked,
    }
    LivenessWord => Liveness {
        /// Proof of life is current, or none is asked
        Alive,
        /// Honoured for a while yet
        Draining,
    }
    ModeWord => Mode {
        /// Its connection is open, or its session is heartbeat
        Session,
        /// Heartbeats within the ttl
        Heartbeat,
        /// No proof is asked
        Permanent,
    }
    FaceWord => Face {
        /// The native one
        Leases,
        /// mDNS services
        Registrations,
        /// Sessions of /api/v3
        Streams,
        /// Polling targets
        Polling,
    }
}

impl Filter {
    pub(crate) fn leases(&self) -> LeaseQuery {
        LeaseQuery {
            holder: self.holder.clone(),
            state: self.state.map(Into::into),
            liveness: self.liveness.map(Into::into),
            mode: self.mode.map(Into::into),
            resource_prefix: self.resource_prefix.clone(),
            face: self.face.map(Into::into),
            limit: None,
            cursor: None,
        }
    }

    pub(crate) fn events(&self, from: Option<u64>) -> EventsQuery {
        EventsQuery {
            from,
            holder: self.holder.clone(),
            state: self.state.map(Into::into),
            liveness: self.liveness.map(Into::into),
            mode: self.mode.map(Into::into),
            resource_prefix: self.resource_prefix.clone(),
            face: self.face.map(Into::into),
        }
    }
}
