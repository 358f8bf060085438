//! Who is at the other end of a Unix socket, as the system saw it when the connection was made.

use std::io;
use std::os::fd::AsRawFd;
use tokio::net::UnixStream;

/// User and groups of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SocketPeer {
    /// Its user.
    pub(crate) uid: u32,
    /// Its first group.
    pub(crate) gid: u32,
    /// The other groups it is in. People are put into a daemon's group as one of these.
    pub(crate) groups: Vec<u32>,
}

/// Groups asked for at first; a peer in more is asked about again.
const GROUPS_FIRST: usize = 64;
/// The system allows no more (`NGROUPS_MAX`).
const GROUPS_MAX: usize = 65_536;

impl SocketPeer {
    /// Asks the system.
    ///
    /// # Errors
    /// When the system does not know the peer.
    pub(crate) fn of(stream: &UnixStream) -> io::Result<Self> {
        let credentials = stream.peer_cred()?;
        Ok(Self { uid: credentials.uid(), gid: credentials.gid(), groups: groups(stream)? })
    }
}

fn groups(stream: &UnixStream) -> io::Result<Vec<u32>> {
    match read_groups(stream, GROUPS_FIRST) {
        Err(error) if error.raw_os_error() == Some(libc::ERANGE) => read_groups(stream, GROUPS_MAX),
        read => read,
    }
}

#[expect(unsafe_code, reason = "no safe wrapper knows SO_PEERGROUPS")]
fn read_groups(stream: &UnixStream, room: usize) -> io::Result<Vec<u32>> {
    let mut groups: Vec<u32> = vec![0; room];
    let mut bytes = (room * size_of::<u32>()) as libc::socklen_t;
    // SAFETY: the descriptor is open while `stream` is borrowed. The system writes at most `bytes` bytes, which is
    // the length of the vector, and any bytes are valid `u32`s (`gid_t`).
    let outcome = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    groups.truncate(bytes as usize / size_of::<u32>());
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_peer_of_a_pair_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = SocketPeer::of(&one).unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let numbers = |key: &str| -> Vec<u32> {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.split_whitespace().map(|number| number.parse().unwrap()).collect()
        };
        assert_eq!(peer.uid, numbers("Uid:")[1]);
        assert_eq!(peer.gid, numbers("Gid:")[1]);
        assert_eq!(peer.groups, numbers("Groups:"));
    }

    #[tokio::test]
    async fn too_little_room_is_noticed() {
        let (one, _other) = UnixStream::pair().unwrap();
        match read_groups(&one, 0) {
            Ok(groups) => assert!(groups.is_empty()),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ERANGE)),
        }
    }
}
