//! What can happen next.

use crate::faults::Fault;
use crate::network::CallId;
use tenure_engine::{Answer, Control};
use tenure_kernel::{LeaseId, Lsn, SessionId};

/// Where an answer comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    /// Tag of the log that answered.
    pub(crate) tag: u32,
    /// When the question was sent, aged.
    pub(crate) sent: u64,
}

/// One thing that happens at one instant.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// A client does something.
    Act(usize),
    /// A client proves life at the last moment.
    LastBeat { client: usize, tag: u32, lease: LeaseId },
    /// The operator does something.
    OperatorActs,
    /// A request reaches the daemon.
    Arrive { call: CallId, sent: u64 },
    /// An answer reaches its caller.
    Heard { call: CallId, from: Sender, answer: Box<Answer> },
    /// A caller stops waiting.
    GiveUp(CallId),
    /// A client is told that it lost a lease.
    HeardLost { tag: u32, session: SessionId, lease: LeaseId },
    /// A client notices that its connection is gone.
    ConnectionLost { client: usize, session: SessionId },
    /// The daemon's thread wakes.
    Turn { incarnation: u64, token: u64 },
    /// The frame given out is written and synced.
    Append { incarnation: u64 },
    /// Work of the log away from the hot path.
    Chore { incarnation: u64 },
    /// A snapshot is built.
    Snapshot { incarnation: u64, upto: Lsn },
    /// The daemon stops or is killed.
    Dies { incarnation: u64 },
    /// The daemon reports a fact to its engine.
    Told { incarnation: u64, control: Control },
    /// The daemon is started.
    Start,
    /// Something goes wrong.
    Fault(Fault),
    /// Something stops being wrong.
    Relief(Fault),
}
