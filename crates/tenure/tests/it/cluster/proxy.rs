//! Stands between one node and the members of the store, so that replies can come late or not at all while requests
//! arrive. Knows nothing of what it carries.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use crate::run_support::let_time_pass;

/// How often a listener looks whether the test is over.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// What becomes of replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Replies {
    /// They arrive.
    Pass,
    /// They arrive this much later.
    Late(Duration),
    /// The connection breaks when one comes: the request was carried out, nobody tells.
    Lost,
}

/// One listener per member.
pub(crate) struct Proxy {
    pub(crate) addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
}

struct Shared {
    replies: Mutex<Replies>,
    is_over: AtomicBool,
}

impl Proxy {
    /// Begins to listen at an address of this thread's network.
    pub(crate) fn start(at: Ipv4Addr, members: &[SocketAddr]) -> Self {
        let shared = Arc::new(Shared { replies: Mutex::new(Replies::Pass), is_over: AtomicBool::new(false) });
        let mut addresses = Vec::new();
        for member in members.iter().copied() {
            let listener = TcpListener::bind((at, 0)).unwrap();
            addresses.push(listener.local_addr().unwrap());
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || accept(&listener, member, &shared));
        }
        Self { addresses, shared }
    }

    pub(crate) fn set(&self, replies: Replies) {
        *self.shared.replies.lock().unwrap() = replies;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

fn accept(listener: &TcpListener, member: SocketAddr, shared: &Arc<Shared>) {
    listener.set_nonblocking(true).unwrap();
    while !shared.is_over.load(Ordering::Relaxed) {
        let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&LOOK));
        let Ok((node, _)) = listener.accept() else { continue };
        let shared = Arc::clone(shared);
        std::thread::spawn(move || carry(node, member, shared));
    }
}

fn carry(node: TcpStream, member: SocketAddr, shared: Arc<Shared>) {
    // A member that cannot be reached is a connection that breaks.
    let Ok(store) = TcpStream::connect_timeout(&member, CONNECT_LIMIT) else { return };
    let _ = (node.set_nonblocking(false), node.set_nodelay(true), store.set_nodelay(true));
    let (Ok(from_node), Ok(to_store)) = (node.try_clone(), store.try_clone()) else { return };
    std::thread::spawn(move || copy(from_node, to_store, || Some(Duration::ZERO)));
    copy(store, node, || match *shared.replies.lock().unwrap() {
        Replies::Pass => Some(Duration::ZERO),
        Replies::Late(time) => Some(time),
        Replies::Lost => None,
    });
}

/// Copies until one side ends or `after` says that nothing more arrives.
fn copy(mut from: TcpStream, mut to: TcpStream, after: impl Fn() -> Option<Duration>) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut bytes).unwrap_or(0);
        let Some(time) = after().filter(|_| count > 0) else { break };
        if !time.is_zero() {
            let_time_pass(time, "the store answers late");
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
