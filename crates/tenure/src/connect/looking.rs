//! Looking for a daemon that the caller did not name: by breadcrumbs, then where daemons usually listen.
//!
//! Invariant: such a daemon is used, and sent a token, only if its end of each connection belongs to a trusted user. A
//! daemon that is there and slow is never passed over for another way or another daemon: only what is refused or denied is.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_client::{CallError, Cause, Client, Endpoint, Peer};
use tenure_server::server_uid;

use super::refusal::{call_failure, is_absent, is_kind, is_without_network};
use super::{Daemon, How, Reach, USUAL_ADDRESS};
use crate::breadcrumb::{self, Trail};
use crate::config::usual_sockets;
use crate::daemon::RECALL_WITHIN;
use crate::failure::{Failure, Words, chain};
use crate::trusted::Trusted;

/// How long a daemon may take to say that it is well.
const PROBE_LIMIT: Duration = Duration::from_secs(4);
const _: () =
    assert!(PROBE_LIMIT.as_millis() > RECALL_WITHIN.as_millis(), "a daemon can be found before it serves");

/// The other end belongs to none of the trusted users.
#[derive(Debug, thiserror::Error)]
#[error("{}", described(*uid))]
struct Foreign {
    /// `None`: the system does not say.
    uid: Option<u32>,
}

/// An endpoint without a daemon that can be used.
struct Missed {
    endpoint: Endpoint,
    why: Why,
}

enum Why {
    /// Nothing listens there.
    Absent,
    /// The system does not let the caller in.
    Denied(CallError),
    Foreign(Option<u32>),
    /// Something listens and does not answer.
    Mute(String),
}

impl Reach {
    /// Finds a daemon, the caller's own first.
    pub(super) async fn look(&self) -> Result<Daemon, Failure> {
        let trusted = Trusted::of_process();
        let mut trails = breadcrumb::find(&trusted);
        trails.sort_by_key(|trail| !trusted.is_caller(trail.uid));
        let mut passed = Vec::new();
        for trail in trails {
            match self.first_of(ways(&trail), trusted).await {
                Ok((client, _)) => return Ok(Daemon { client, how: How::Trail(trail) }),
                Err(missed) => passed.push((missed.or_over()?, Some(trail))),
            }
        }
        for endpoint in usual_places() {
            match self.first_of(vec![endpoint], trusted).await {
                Ok((client, is_own)) => return Ok(Daemon { client, how: How::Looked { is_own } }),
                Err(missed) => passed.push((missed.or_over()?, None)),
            }
        }
        Err(none(passed))
    }

    /// The first of several ways to one daemon that leads to it, and whether the daemon is the caller's own.
    async fn first_of(&self, ways: Vec<Endpoint>, trusted: Trusted) -> Result<(Client, bool), Missed> {
        let mut first = None;
        for endpoint in ways {
            let why = match self.probe(&endpoint, trusted).await {
                Ok(found) => return Ok(found),
                Err(why) => why,
            };
            let goes_on = matches!(why, Why::Absent | Why::Denied(_));
            let missed = Missed { endpoint, why };
            if !goes_on {
                return Err(missed);
            }
            // A socket that is not for the caller says more than a port at which nothing listens.
            first = match first {
                Some(Missed { why: Why::Absent, .. }) | None => Some(missed),
                denied => denied,
            };
        }
        Err(first.expect("invariant: a daemon is reached somewhere"))
    }

    async fn probe(&self, endpoint: &Endpoint, trusted: Trusted) -> Result<(Client, bool), Why> {
        let is_own = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&is_own);
        let check = move |peer| {
            admit(peer, trusted).map(|uid| noted.store(trusted.is_caller(uid), Ordering::Relaxed))
        };
        let client = self
            .builder(endpoint.clone().into())
            .and_then(|builder| Ok(builder.check_peer(check).build()?))
            // A breadcrumb names no authority to trust; without one `https` is out of reach.
            .map_err(|error| Why::Mute(chain(error.as_ref())))?;
        client.health_within(PROBE_LIMIT).await.map_err(why)?;
        Ok((client, is_own.load(Ordering::Relaxed)))
    }
}

impl Missed {
    /// A daemon that is there and does not answer ends the search.
    fn or_over(self) -> Result<Self, Failure> {
        match self.why {
            Why::Mute(cause) => {
                Err(Failure::NoDaemon { address: self.endpoint.to_string(), cause: Some(cause) })
            }
            Why::Absent | Why::Denied(_) | Why::Foreign(_) => Ok(self),
        }
    }
}

/// The socket first, because it needs no port and lets in fewer.
fn ways(trail: &Trail) -> Vec<Endpoint> {
    let socket = trail.breadcrumb.socket.as_ref().map(|socket| Endpoint::Unix(PathBuf::from(socket)));
    let address = trail.breadcrumb.endpoint.parse().ok();
    socket.into_iter().chain(address).collect()
}

fn usual_places() -> impl Iterator<Item = Endpoint> {
    let address = USUAL_ADDRESS.parse().expect("invariant: the usual address is one");
    usual_sockets()
        .into_iter()
        .filter(|socket| Path::new(socket).exists())
        .map(Endpoint::Unix)
        .chain([address])
}

/// Lets only daemons of trusted users see what is sent; gives the user.
fn admit(peer: Peer, trusted: Trusted) -> Result<u32, Cause> {
    let uid = match peer {
        Peer::Socket { uid } => Some(uid),
        Peer::Tcp { own, remote } => server_uid(own, remote),
    };
    match uid {
        Some(uid) if trusted.includes(uid) => Ok(uid),
        uid => Err(Foreign { uid }.into()),
    }
}

fn why(error: CallError) -> Why {
    let CallError::Unreachable { source, .. } = &error else { return Why::Mute(error.to_string()) };
    if let Some(Foreign { uid }) = source.downcast_ref() {
        return Why::Foreign(*uid);
    }
    // Loopback may be down, where a machine has no network at all.
    if is_kind(source.as_ref(), io::ErrorKind::PermissionDenied) {
        Why::Denied(error)
    } else if is_absent(source.as_ref()) || is_without_network(source.as_ref()) {
        Why::Absent
    } else {
        Why::Mute(chain(source.as_ref()))
    }
}

fn described(uid: Option<u32>) -> String {
    match uid {
        Some(uid) => format!("the daemon belongs to uid {uid}, which is neither you nor root"),
        None => "the system does not report which user runs the daemon".to_owned(),
    }
}

/// No daemon can be used: why the one that comes nearest cannot.
fn none(mut passed: Vec<(Missed, Option<Trail>)>) -> Failure {
    let nearness = |(missed, trail): &(Missed, Option<Trail>)| match (&missed.why, trail) {
        (Why::Denied(_), _) => 0,
        (Why::Foreign(_), _) => 1,
        (Why::Mute(_) | Why::Absent, Some(_)) => 2,
        (Why::Mute(_) | Why::Absent, None) => 3,
    };
    passed.sort_by_key(nearness);
    let usual = || Failure::NoDaemon { address: USUAL_ADDRESS.to_owned(), cause: None };
    let Some((Missed { endpoint, why }, trail)) = passed.into_iter().next() else { return usual() };
    match (why, trail) {
        (Why::Denied(error), _) => call_failure(error),
        (Why::Foreign(uid), _) => {
            let line = format!("the daemon at {endpoint} is not used by default: {}", described(uid));
            Failure::Unexpected(Words::new(line).hint(format_args!("use it with: --endpoint {endpoint}")))
        }
        (Why::Mute(_) | Why::Absent, Some(trail)) => {
            let cause =
                format!("nothing listens there, although {} names a running process", trail.file.display());
            Failure::NoDaemon { address: trail.breadcrumb.endpoint, cause: Some(cause) }
        }
        (Why::Mute(_) | Why::Absent, None) => usual(),
    }
}
