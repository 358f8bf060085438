//! A daemon and the ways to speak with it.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use serde_json::Value;

use super::events::Events;
use super::http::{Answer, Ask, Http, over_tcp, over_unix};
use super::lines::Lines;
use crate::daemon::Daemon;
use crate::raw_http::Answered;

/// Nothing on these machines takes this long unless it is broken.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A daemon that is spoken with in JSON.
pub(crate) struct Served {
    daemon: Daemon,
}

impl Served {
    pub(crate) fn start() -> Self {
        Self { daemon: Daemon::start() }
    }

    /// Starts one with more flags.
    pub(crate) fn start_with(flags: &[&str]) -> Self {
        Self { daemon: Daemon::start_with(flags) }
    }

    /// HTTP over TCP.
    pub(crate) fn http(&self) -> Http {
        over_tcp(self.address())
    }

    /// HTTP over the socket.
    pub(crate) fn http_over_socket(&self) -> Http {
        over_unix(&self.socket())
    }

    /// Lines over the socket.
    pub(crate) fn lines(&self) -> Lines {
        Lines::unix(&self.socket())
    }

    /// Lines over the standard input of `tenure stdio`.
    pub(crate) fn stdin(&self) -> Lines {
        Lines::stdin(&mut self.desk.command(&["stdio"]))
    }

    /// One call on a connection of its own.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, body: Value) -> Answered {
        self.http().json(method, path, body)
    }

    /// One call that has to succeed.
    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: Value) -> Value {
        self.ask("POST", path, body).good()
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        self.ask("GET", path, Value::Null).good()
    }

    /// Takes a bundle over HTTP.
    #[track_caller]
    pub(crate) fn acquire(&self, body: Value) -> Value {
        self.post("/v1/leases", body)
    }

    /// Something asked about one lease.
    #[track_caller]
    pub(crate) fn of_lease(&self, lease: &Value, call: &str, body: Value) -> Answered {
        self.ask("POST", &format!("/v1/leases/{}/{call}", id(lease)), body)
    }

    #[track_caller]
    pub(crate) fn inspect(&self, lease: &Value) -> Value {
        self.get(&format!("/v1/leases/{}", id(lease)))
    }

    /// Everything from now on.
    #[track_caller]
    pub(crate) fn watch(&self) -> Events {
        Events::open(self.http(), "/v1/events")
    }

    /// Everything after a position.
    #[track_caller]
    pub(crate) fn watch_from(&self, lsn: u64) -> Events {
        Events::open(self.http(), &format!("/v1/events?from={lsn}"))
    }
}

impl From<Daemon> for Served {
    fn from(daemon: Daemon) -> Self {
        Self { daemon }
    }
}

impl Deref for Served {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        &self.daemon
    }
}

impl DerefMut for Served {
    fn deref_mut(&mut self) -> &mut Daemon {
        &mut self.daemon
    }
}

/// The id of a lease view.
#[track_caller]
pub(crate) fn id(lease: &Value) -> &str {
    lease["lease_id"].as_str().unwrap()
}
