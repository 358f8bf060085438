//! Whose a TCP socket of this machine is: one question to the system over `NETLINK_SOCK_DIAG`, which finds the socket by
//! its addresses as a packet would.
//!
//! Invariant: an owner is named only for a socket that some process has open. The system gives uid 0 to all others: those
//! that closed, and those that nobody has accepted yet.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, sendto, socket_with,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::net::TcpStream;

/// A socket as the system shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    state: u8,
    uid: u32,
    inode: u32,
}

const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;
/// `struct nlmsghdr`, and with it `struct inet_diag_req_v2`.
const HEAD_BYTES: usize = 16;
const QUESTION_BYTES: usize = HEAD_BYTES + 56;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
/// Room for `struct inet_diag_msg` and its attributes.
const ANSWER_BYTES_MAX: usize = 1 << 10;
/// Where the fields of `struct inet_diag_msg` are in an answer.
const STATE_AT: usize = HEAD_BYTES + 1;
const UID_AT: usize = HEAD_BYTES + 64;
const INODE_AT: usize = HEAD_BYTES + 68;

/// The user at the other end of a connection that comes from this machine. `None`: it comes from elsewhere, has closed its
/// end or its sending half, is of another network namespace, or the system does not say.
pub(crate) fn peer_uid(stream: &TcpStream) -> Option<u32> {
    let peer = stream.peer_addr().ok().filter(|peer| peer.ip().to_canonical().is_loopback())?;
    let seen = look(peer, stream.local_addr().ok()?).ok().flatten()?;
    // A connection that its peer reset leaves its addresses to the next one, of anybody; while ours has a peer they are its.
    let is_ours = stream.peer_addr().is_ok();
    (is_ours && seen.is_open_in(ESTABLISHED)).then_some(seen.uid)
}

/// The user at the other end of a connection to an address of this machine, whether it was accepted yet or not. `None`: the
/// address is another machine's, or the system does not say.
#[must_use]
pub fn server_uid(own: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let accepted = look(remote, own).ok().flatten().filter(|seen| seen.is_open_in(ESTABLISHED));
    accepted.map(|seen| seen.uid).or_else(|| listener_uid(remote))
}

/// The user whose program accepts connections at an address of this machine.
fn listener_uid(address: SocketAddr) -> Option<u32> {
    let nobody = match address.ip().to_canonical() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let seen = look(address, SocketAddr::new(nobody, 0)).ok().flatten()?;
    seen.is_open_in(LISTEN).then_some(seen.uid)
}

impl Seen {
    fn is_open_in(self, state: u8) -> bool {
        self.state == state && self.inode != 0
    }
}

/// The socket with these addresses, its own first; a listener where no connection has them.
fn look(own: SocketAddr, remote: SocketAddr) -> io::Result<Option<Seen>> {
    let question = question(own, remote);
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(netlink::SOCK_DIAG),
    )?;
    sendto(&socket, &question, SendFlags::empty(), &netlink::SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; ANSWER_BYTES_MAX];
    // The system answers before it returns from the question.
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    read_answer(&answer[..length])
}

fn question(own: SocketAddr, remote: SocketAddr) -> [u8; QUESTION_BYTES] {
    let family = match own.ip().to_canonical() {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let mut question = [0; QUESTION_BYTES];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        question[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&(QUESTION_BYTES as u32).to_ne_bytes());
    put(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(&NLM_F_REQUEST.to_ne_bytes());
    put(&[0; 8]);
    put(&[family.as_raw() as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    put(&u32::MAX.to_ne_bytes());
    put(&own.port().to_be_bytes());
    put(&remote.port().to_be_bytes());
    put(&address_bytes(own.ip()));
    put(&address_bytes(remote.ip()));
    // Any interface, and no cookie.
    put(&0_u32.to_ne_bytes());
    put(&[0xff; 8]);
    question
}

fn address_bytes(address: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match address.to_canonical() {
        IpAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => bytes = v6.octets(),
    }
    bytes
}

fn read_answer(answer: &[u8]) -> io::Result<Option<Seen>> {
    let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let word = |at: usize| -> io::Result<u32> {
        let bytes = answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_ne_bytes).ok_or_else(short)
    };
    // Length, then kind in the first half of the next word.
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    match kind.ok_or_else(short)? {
        SOCK_DIAG_BY_FAMILY => {
            let state = *answer.get(STATE_AT).ok_or_else(short)?;
            Ok(Some(Seen { state, uid: word(UID_AT)?, inode: word(INODE_AT)? }))
        }
        NLMSG_ERROR => match (word(HEAD_BYTES)? as i32).wrapping_neg() {
            libc::ENOENT => Ok(None),
            code => Err(io::Error::from_raw_os_error(code)),
        },
        _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream as StdStream;
    use tokio::net::TcpListener;

    fn own_uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    async fn listener(address: &str) -> TcpListener {
        TcpListener::bind(address).await.unwrap()
    }

    #[tokio::test]
    async fn a_peer_is_the_user_whose_program_has_its_end_open() {
        for bound in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"] {
            let listener = listener(bound).await;
            let port = listener.local_addr().unwrap().port();
            let dialled = if bound == "[::1]:0" { "::1" } else { "127.0.0.1" };
            let client = StdStream::connect((dialled, port)).unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            assert_eq!(peer_uid(&accepted), Some(own_uid()), "{bound}");
            drop(client);
        }
    }

    #[tokio::test]
    async fn a_peer_that_closed_at_once_is_nobody_and_never_root() {
        let listener = listener("127.0.0.1:0").await;
        let here = listener.local_addr().unwrap();
        let closed = StdStream::connect(here).unwrap();
        drop(closed);
        let (accepted, from) = listener.accept().await.unwrap();
        // What the system shows of it: root, and nothing open.
        let seen = look(from, here).unwrap().unwrap();
        assert_eq!((seen.uid, seen.inode), (0, 0), "{seen:?}");
        assert_eq!(peer_uid(&accepted), None);

        let half = StdStream::connect(here).unwrap();
        half.shutdown(std::net::Shutdown::Write).unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        assert_eq!(peer_uid(&accepted), None, "what is left open is no connection any more");
    }

    #[tokio::test]
    async fn a_peer_that_reset_is_not_taken_for_the_next_one_with_its_addresses() {
        let listener = listener("127.0.0.1:0").await;
        let here = listener.local_addr().unwrap();
        let first = tokio::net::TcpSocket::new_v4().unwrap();
        first.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = first.local_addr().unwrap();
        first.set_zero_linger().unwrap();
        drop(first.connect(here).await.unwrap());
        let (reset, _) = listener.accept().await.unwrap();
        let second = tokio::net::TcpSocket::new_v4().unwrap();
        second.set_reuseaddr(true).unwrap();
        second.bind(port).unwrap();
        let second = second.connect(here).await.unwrap();
        let (open, _) = listener.accept().await.unwrap();
        assert_eq!(peer_uid(&open), Some(own_uid()));
        assert_eq!(peer_uid(&reset), None, "its addresses are those of {second:?} now");
    }

    #[tokio::test]
    async fn a_listener_is_its_user_s_and_a_connection_is_not_one() {
        for bound in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"] {
            let listener = listener(bound).await;
            let port = listener.local_addr().unwrap().port();
            let dialled = if bound == "[::1]:0" { "::1" } else { "127.0.0.1" };
            let address = SocketAddr::new(dialled.parse().unwrap(), port);
            assert_eq!(listener_uid(address), Some(own_uid()), "{bound}");
            let client = StdStream::connect(address).unwrap();
            let own = client.local_addr().unwrap();
            assert_eq!(listener_uid(own), None, "{bound}");
            assert_eq!(server_uid(own, address), Some(own_uid()), "{bound}: nobody has accepted it yet");
            let _accepted = listener.accept().await.unwrap();
            drop(listener);
            assert_eq!(listener_uid(address), None, "{bound}");
            assert_eq!(server_uid(own, address), Some(own_uid()), "{bound}");
        }
    }

    #[test]
    fn an_answer_that_is_cut_off_names_nobody() {
        let mut answer = vec![0; INODE_AT + 4];
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        assert!(read_answer(&answer).is_ok());
        for length in 0..answer.len() {
            assert!(read_answer(&answer[..length]).is_err(), "{length}");
        }
    }
}
