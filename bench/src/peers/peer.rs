//! What every system under comparison can do, in words that fit all of them. Knows no system.

use super::latencies::Latencies;
use anyhow::Result;
use std::time::Duration;
use tenure_client::clock::BootInstant;

/// How a load is shaped: what is in flight is the product.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Shape {
    pub(crate) connections: usize,
    /// Requests under way on each of them.
    pub(crate) depth: usize,
}

impl Shape {
    pub(crate) fn in_flight(self) -> u64 {
        (self.connections * self.depth) as u64
    }
}

/// What is asked again and again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Work {
    Acquire,
    Renew,
    Release,
    /// Eight resources, all or nothing.
    AcquireBundle,
    ReleaseBundle,
}

/// When a run is over; what is under way by then is waited for and counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Time(Duration),
    Count(u64),
}

/// What one run gave.
pub(crate) struct Sample {
    /// Requests that were done as asked.
    pub(crate) done: u64,
    /// Requests that were answered with a refusal or an error.
    pub(crate) refused: u64,
    /// From the first request to the last answer.
    pub(crate) took: Duration,
    /// Of those that were done.
    pub(crate) latencies: Latencies,
}

/// One request of a load that keeps to a pace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Paced {
    /// When it was due.
    pub(crate) at: BootInstant,
    pub(crate) took: Duration,
}

/// What came of a fight for one name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contention {
    pub(crate) grants: u64,
    pub(crate) took: Duration,
    /// Part of all grants that the luckiest contender had; with 64 contenders a fair one is 1/64.
    pub(crate) luckiest: f64,
    pub(crate) unluckiest: f64,
}

/// What a tool of the peer's own says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct OwnTool {
    pub(crate) tool: &'static str,
    /// Per second.
    pub(crate) rate: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) requests: u64,
}

/// Resources of a bundle.
pub(crate) const BUNDLE: usize = 8;

/// A system that runs for this bench alone, in a directory of its own, stopped on drop.
pub(crate) trait Peer {
    /// As it is called in the tables: "etcd", "Redis always".
    fn name(&self) -> &'static str;

    /// As it says itself.
    fn version(&self) -> String;

    /// What makes it durable or not, one phrase, for the document.
    fn settings(&self) -> &'static str;

    /// Its server processes: what they cost is read from `/proc` by the suite.
    fn pids(&self) -> Vec<u32>;

    /// Connects.
    fn load(&self, shape: Shape) -> Result<Box<dyn Load>>;

    /// The same work by the tool that people measure it with, for about `time`; `None`: there is none.
    fn own_tool(&self, _work: Work, _shape: Shape, _time: Duration) -> Result<Option<OwnTool>> {
        Ok(None)
    }

    /// Takes `count` holds over fresh 16-byte names with `ttl`, as cheaply as it can: pipelined, and one session for
    /// all where that is its cheapest honest form, which [`Self::settings`] tells.
    fn hold(&self, count: u64, ttl: Duration) -> Result<Box<dyn Held>>;

    /// `contenders` connections fight for one name for `time`: each takes it, gives it back at once, tries again.
    /// `None`: it has no way to do that.
    fn contend(&self, contenders: usize, time: Duration) -> Result<Option<Contention>>;

    /// A holder is killed, not closed politely; how long until the next waiter has the name. One sample.
    fn fail_over(&self) -> Result<Option<Duration>>;

    /// Killed without a word and started again on the same data; how long until the first hold is answered as still
    /// there.
    fn restart(&mut self) -> Result<Duration>;
}

/// Fresh names for every acquire; renew goes round the leases that this load acquired; release gives back what it
/// acquired.
pub(crate) trait Load {
    /// Does the same thing until it is over.
    fn run(&mut self, work: Work, until: Until) -> Result<Sample>;

    /// Does the same thing once in every interval for as long as `goes_on` says: sent when it is due, whether or not
    /// what came before is answered, and counted from then.
    fn run_paced(&mut self, work: Work, every: Duration, goes_on: &dyn Fn() -> bool) -> Result<Vec<Paced>>;
}

/// Many holds. Dropping it stops renewing them, if it did.
pub(crate) trait Held: Send {
    /// All of them get one deadline about `from_now` ahead, and nobody renews any more. Returns when the last has
    /// physically gone from the server, with the lag behind the deadline.
    fn storm(self: Box<Self>, from_now: Duration) -> Result<Duration>;
}
