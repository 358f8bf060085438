//! Frames and what they mean here: which leases a log's state has, and until when holders may believe in them. A log is
//! known by its fence base, which no two generations share.

use crate::violation::Violation;
use std::collections::BTreeMap;
use tenure_cluster::values::Head;

/// The leases of a state: LSN and TTL.
pub(super) type State = BTreeMap<u64, u64>;

/// A local log, by its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub(super) log: u64,
    pub(super) head: Head,
}

struct Frame {
    /// The number and the chain of the one before.
    before: (u64, u32),
    state: State,
}

/// What a holder believes.
struct Promise {
    ttl_ms: u64,
    until_ms: u64,
}

/// Every frame that was ever sent, and every grant that was ever answered.
#[derive(Default)]
pub(super) struct Grants {
    frames: BTreeMap<(u64, u64, u32), Frame>,
    promises: BTreeMap<(u64, u64), Promise>,
    /// The highest fence.
    fence: u64,
}

impl Grants {
    /// A log begins, without leases.
    pub(super) fn begins(&mut self, log: u64, head: &Head) {
        let frame = Frame { before: (head.frame, head.chain), state: State::new() };
        self.frames.insert((log, head.frame, head.chain), frame);
    }

    /// A frame is sent that continues another.
    pub(super) fn sent(&mut self, log: u64, before: &Head, head: &Head, grant: Option<u64>) {
        let mut state = self.state(log, before);
        if let Some(ttl_ms) = grant {
            state.insert(head.lsn, ttl_ms);
        }
        let frame = Frame { before: (before.frame, before.chain), state };
        self.frames.insert((log, head.frame, head.chain), frame);
    }

    pub(super) fn state(&self, log: u64, head: &Head) -> State {
        self.frames.get(&(log, head.frame, head.chain)).map(|frame| frame.state.clone()).unwrap_or_default()
    }

    pub(super) fn longest_ttl_ms(&self, log: u64, head: &Head) -> u64 {
        self.state(log, head).values().copied().max().unwrap_or(0)
    }

    /// Whether the log that ends with `head` has the frame with which another ends.
    pub(super) fn has(&self, log: u64, head: &Head, end: &Head) -> bool {
        let mut at = (head.frame, head.chain);
        while at.0 > end.frame {
            match self.frames.get(&(log, at.0, at.1)) {
                Some(frame) if frame.before.0 < at.0 => at = frame.before,
                Some(_) | None => return false,
            }
        }
        at == (end.frame, end.chain)
    }

    /// A grant is answered.
    pub(super) fn granted(
        &mut self,
        (now, name): (u64, &str),
        log: u64,
        lsn: u64,
        ttl_ms: u64,
    ) -> Result<(), Violation> {
        let fence = log + lsn;
        if fence <= self.fence {
            let text = format!("{name} grants with fence {fence}, and {} was given before", self.fence);
            return Err(Violation::new("no_fence_is_given_twice", text));
        }
        self.fence = fence;
        let believed = self.promises.iter().find(|((of, _), promise)| *of != log && promise.until_ms > now);
        if let Some(((of, lsn), promise)) = believed {
            let text = format!(
                "{name} grants in log {log} at {now}, and lease {lsn} of log {of} is valid until {}",
                promise.until_ms
            );
            return Err(Violation::new("nothing_is_granted_before_the_forgotten_ends", text));
        }
        self.promises.insert((log, lsn), Promise { ttl_ms, until_ms: now + ttl_ms });
        Ok(())
    }

    /// The leader answers heartbeats of leases of its state.
    pub(super) fn renewed(&mut self, now: u64, log: u64, head: &Head) {
        let Some(frame) = self.frames.get(&(log, head.frame, head.chain)) else { return };
        for lsn in frame.state.keys() {
            if let Some(promise) = self.promises.get_mut(&(log, *lsn)) {
                promise.until_ms = promise.until_ms.max(now + promise.ttl_ms);
            }
        }
    }
}
