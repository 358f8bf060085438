//! What supervisor and guardian say to each other: one JSON object per packet over a pair of sockets, of which the
//! guardian's end is its standard input. An end that is gone shows as a closed channel. Sending never blocks: a stopped
//! peer must not stop anybody else.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::unix::AsyncFd;

use super::phase::Cause;
use super::spawn::readable;

/// From the supervisor.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// The first one; the command's standard input comes with it.
    Begin(Begin),
    /// The lease is valid until this many nanoseconds after boot.
    ValidUntil(u64),
    /// Send this signal to the command's process group.
    PassOn(i32),
    /// End the command.
    End,
}

/// How to watch the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begin {
    /// Nanoseconds after boot; null: the command may outlive its lease.
    pub(crate) valid_until: Option<u64>,
    /// Milliseconds from the polite signal to SIGKILL.
    pub(crate) kill_after_ms: u64,
    /// Milliseconds that are kept for SIGKILL to be finished.
    pub(crate) sweep_ms: u64,
    /// The polite signal.
    pub(crate) term_signal: i32,
    /// The command's standard input is a terminal that it takes over.
    pub(crate) takes_terminal: bool,
    /// A cgroup may be made for the command.
    pub(crate) makes_cgroup: bool,
}

/// From the guardian.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The command runs.
    Started {
        /// Its process, which leads its process group.
        pid: i32,
        /// The directory of its cgroup, where one could be made.
        cgroup: Option<String>,
    },
    /// The command could not be started.
    NotStarted {
        /// 126: cannot be executed, 127: not found; null: there was no time left.
        exit_code: Option<u8>,
        /// What happened.
        message: String,
    },
    /// The command stopped by this signal and waits to be continued.
    Stopped(i32),
    /// The command is over.
    Over(Over),
    /// Everything that is left is being ended.
    Ending(Cause),
    /// This process refuses to be killed.
    Stubborn {
        /// The process.
        pid: i32,
        /// What the kernel said.
        message: String,
    },
    /// Nothing is left.
    Gone,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Over {
    /// By itself, with this code.
    Code(u8),
    /// By this signal.
    Signal(i32),
}

/// A packet is far smaller.
const PACKET_BYTES_MAX: usize = 16 * 1024;

/// One end.
pub(crate) struct Channel {
    socket: AsyncFd<OwnedFd>,
}

impl Over {
    /// As shells show it.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128_u8.saturating_add(u8::try_from(signal).unwrap_or(u8::MAX)),
        }
    }
}

impl Channel {
    /// Our end, and the end that becomes the standard input of the guardian.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self::over(ours)?, theirs))
    }

    /// The end that somebody gave us.
    pub(crate) fn over(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self { socket: readable(socket)? })
    }

    /// Sends without waiting. An error means that the peer is gone or has not read for very long.
    pub(crate) fn send(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, None)
    }

    /// Sends a message and a descriptor beside it.
    pub(crate) fn send_with(&self, message: &impl Serialize, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let packet = serde_json::to_vec(message)?;
        let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            let fits = ancillary.push(SendAncillaryMessage::ScmRights(&fds));
            assert!(fits, "invariant: there is space for one descriptor");
        }
        let socket = self.socket.get_ref().as_fd();
        sendmsg(socket, &[IoSlice::new(&packet)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next message; `None` when the peer is gone. Safe to drop while waiting.
    pub(crate) async fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<T>> {
        Ok(self.receive_with().await?.map(|(message, _)| message))
    }

    /// The next message if it has arrived already; `None` if there is none, or nobody to send one.
    pub(crate) fn receive_now<T: DeserializeOwned>(&self) -> io::Result<Option<T>> {
        match take_packet(self.socket.get_ref().as_fd()) {
            Ok((bytes, _)) if bytes.is_empty() => Ok(None),
            Ok((bytes, _)) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The next message, and the descriptor that came with it.
    pub(crate) async fn receive_with<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        loop {
            let mut ready = self.socket.readable().await?;
            match ready.try_io(|socket| Ok(take_packet(socket.get_ref().as_fd())?)) {
                Ok(packet) => {
                    let (bytes, fd) = packet?;
                    if bytes.is_empty() {
                        return Ok(None);
                    }
                    return Ok(Some((serde_json::from_slice(&bytes)?, fd)));
                }
                Err(_would_block) => {}
            }
        }
    }
}

/// One packet; an empty one when the peer is gone.
fn take_packet(socket: BorrowedFd<'_>) -> Result<(Vec<u8>, Option<OwnedFd>), Errno> {
    let mut packet = vec![0; PACKET_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let iov = &mut [IoSliceMut::new(&mut packet)];
    let mut take = || recvmsg(socket, iov, &mut ancillary, RecvFlags::CMSG_CLOEXEC);
    // A peer that ends without having read everything is reported once, ahead of what it said before.
    let length = match take() {
        Err(Errno::CONNRESET) => take()?.bytes,
        outcome => outcome?.bytes,
    };
    packet.truncate(length);
    let fd = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((packet, fd))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[tokio::test]
    async fn messages_and_a_descriptor_arrive_whole_and_in_order() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::over(theirs).unwrap();
        let (mut reader, mut writer) = io::pipe().unwrap();
        ours.send_with(&Order::PassOn(15), Some(reader.as_fd())).unwrap();
        ours.send(&Order::ValidUntil(7)).unwrap();
        let (order, fd) = theirs.receive_with::<Order>().await.unwrap().unwrap();
        assert_eq!(order, Order::PassOn(15));
        assert_eq!(theirs.receive::<Order>().await.unwrap(), Some(Order::ValidUntil(7)));
        writer.write_all(b"x").unwrap();
        drop(writer);
        let mut text = String::new();
        std::fs::File::from(fd.unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        assert_eq!(reader.read_to_string(&mut text).unwrap(), 0);
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_is_noticed_after_what_it_said() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::over(theirs).unwrap();
        theirs.send(&Report::Gone).unwrap();
        ours.send(&Order::End).unwrap();
        drop(theirs);
        assert_eq!(ours.receive::<Report>().await.unwrap(), Some(Report::Gone));
        assert_eq!(ours.receive::<Report>().await.unwrap(), None);
        assert!(ours.send(&Order::End).is_err());
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_stops_nobody() {
        let (ours, _theirs) = Channel::pair().unwrap();
        let sent = (0..1_000_000).take_while(|_| ours.send(&Order::ValidUntil(1)).is_ok()).count();
        assert!(sent > 100, "{sent}");
    }

    #[test]
    fn codes_are_those_of_shells() {
        assert_eq!(Over::Code(7).exit_code(), 7);
        assert_eq!(Over::Signal(15).exit_code(), 143);
        assert_eq!(Over::Signal(64).exit_code(), 192);
    }
}
