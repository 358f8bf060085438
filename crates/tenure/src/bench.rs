//! A load on a daemon: requests that are always so many under way, how long their answers took, and what they cost.
//!
//! Closed loop: an answer lets the next request out. One thread makes the load, so that it takes little from a daemon on
//! the same machine; how little is measured beside it. Nothing here prints.

mod connection;
mod control;
mod course;
mod histogram;
mod load;
mod private_daemon;
mod processor_time;
mod report;
mod speech;
mod watch;

pub(crate) use connection::Door;
pub(crate) use course::{Course, Until};
pub(crate) use load::LEASES_MAX;
pub(crate) use private_daemon::PrivateDaemon;
pub(crate) use processor_time::listener_pid;
pub(crate) use report::Report;
pub(crate) use watch::{Ending, SILENCE_MAX, Watched, watch};

use clap::ValueEnum;
use serde::Serialize;

/// What a row measures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    /// Grants over fresh names
    Acquire,
    /// Heartbeats of leases at random
    Heartbeat,
    /// Releases until nothing is held
    Release,
}

/// How the daemon is spoken to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Transport {
    /// Lines over the socket.
    Socket,
    /// HTTP over TCP.
    Http,
}

impl Work {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Heartbeat => "heartbeat",
            Self::Release => "release",
        }
    }
}

impl Transport {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Http => "http",
        }
    }
}
