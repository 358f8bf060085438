//! Which leases or events are meant: the filters that lists and watches share.

use clap::{Args, ValueEnum};
use tenure_api::{Application, EventsQuery, LeaseQuery, Liveness, Mode, State};

/// Filters; all that are given must fit.
#[derive(Args)]
pub(crate) struct Filter {
    /// Show only leases of this holder
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
    /// Show only leases in this state
    #[arg(long, value_name = "STATE", value_enum)]
    state: Option<StateWord>,
    /// Show only leases with this liveness
    #[arg(long, value_name = "LIVENESS", value_enum)]
    liveness: Option<LivenessWord>,
    /// Show only leases of this mode
    #[arg(long, value_name = "MODE", value_enum)]
    mode: Option<ModeWord>,
    /// Show only leases on resources with this prefix
    #[arg(long, value_name = "PREFIX")]
    resource_prefix: Option<String>,
    /// Show only leases of this application
    #[arg(long, alias = "face", value_name = "APPLICATION", value_enum)]
    application: Option<ApplicationWord>,
}

macro_rules! words {
    ($($name:ident => $wire:ident { $($(#[$attribute:meta])+ $variant:ident,)+ })+) => {
        $(
            #[derive(Clone, Copy, ValueEnum)]
            enum $name {
                $($(#[$attribute])+ $variant,)+
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
        /// Granted, not yet activated
        Reserved,
        /// Held
        Active,
        /// Revoked; the resources are not free yet
        Revoking,
        /// Released by its holder
        Released,
        /// Reserved and never activated
        Expired,
        /// Ended after a revoke
        Revoked,
    }
    LivenessWord => Liveness {
        /// Renewed in time, or permanent
        Alive,
        /// In its grace: still held, and about to end
        Draining,
    }
    ModeWord => Mode {
        /// Kept by an open connection or by the heartbeats of a session
        Session,
        /// Kept by heartbeats within its TTL
        Heartbeat,
        /// Kept until a release or an operator ends it
        Permanent,
    }
    ApplicationWord => Application {
        /// Leases of /v1/leases, the CLI and the SDK
        Leases,
        /// mDNS services
        Registrations,
        /// Slot sessions
        #[value(alias = "streams")]
        Slots,
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
            application: self.application.map(Into::into),
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
            application: self.application.map(Into::into),
        }
    }
}
