//! What the supervisor of many polls and their guardian say to each other, one JSON object per packet.

use serde::{Deserialize, Serialize};

use crate::run::Over;

/// From the supervisor.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// The first one.
    Begin {
        /// Milliseconds from SIGTERM to SIGKILL.
        kill_after_ms: u64,
        /// Milliseconds before the end of validity that are kept for SIGKILL to take effect.
        sweep_ms: u64,
    },
    /// Run the command once.
    Start(Start),
    /// The target of this poll is ours until this many nanoseconds after boot.
    ValidUntil {
        /// The poll.
        id: u64,
        /// Nanoseconds after boot.
        valid_until: u64,
    },
    /// End this poll.
    End {
        /// The poll.
        id: u64,
    },
}

/// One poll.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Start {
    /// Given by the supervisor, never twice.
    pub(crate) id: u64,
    /// What is polled.
    pub(crate) target: String,
    /// What its writes carry.
    pub(crate) fence: u64,
    /// Nanoseconds after boot until which the target is ours.
    pub(crate) valid_until: u64,
    /// The same for the command, RFC 3339.
    pub(crate) valid_until_shown: String,
    /// Nanoseconds after boot at which it has taken too long.
    pub(crate) timeout_at: u64,
}

/// From the guardian.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The command of this poll runs.
    Started {
        /// The poll.
        id: u64,
    },
    /// It could not be started.
    NotStarted {
        /// The poll.
        id: u64,
        /// 126: cannot be executed, 127: not found; null: there was no time left.
        exit_code: Option<u8>,
        /// What happened.
        message: String,
    },
    /// It is over, and nothing of its process group is left.
    Over {
        /// The poll.
        id: u64,
        /// How it ended.
        over: Over,
        /// Why it was ended; null if it ended by itself.
        ended: Option<Ended>,
    },
    /// The kernel gives no timer that ends polls while the guardian is stopped.
    NoKillTimer {
        /// What the kernel said.
        message: String,
    },
    /// This process refuses to be killed.
    Stubborn {
        /// The process.
        pid: i32,
        /// What the kernel said.
        message: String,
    },
}

/// Why a command was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ended {
    /// It took too long.
    TimedOut,
    /// Its target was not ours for much longer.
    Deadline,
    /// The supervisor said so.
    Ordered,
}
