//! The load for protocols of bytes: one thread, non-blocking sockets, `connections × depth` requests under way. As
//! answers come, as much is asked again, and what is asked at one wake-up leaves in one write. Knows no system.

mod connection;
pub(crate) mod http;
pub(crate) mod lines;
pub(crate) mod resp;
pub(crate) mod text;

pub(crate) use connection::Door;

use super::latencies::Latencies;
use super::peer::{Contention, Load, Paced, Sample, Shape, Until, Work};
use anyhow::{Context, Result, ensure};
use connection::Connection;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tenure_client::clock::BootInstant;

/// How requests become bytes, and bytes answers.
pub(crate) trait Protocol {
    /// What it takes to renew and release what was granted.
    type Hold: Copy + PartialEq;

    /// Adds one request to what leaves next.
    fn put(&mut self, ask: &Ask<Self::Hold>, tag: u32, out: &mut Vec<u8>);

    /// What a request is about before it is answered; `None`: the answer says what was granted.
    fn about(&self, ask: &Ask<Self::Hold>) -> Option<Self::Hold>;

    /// The first whole answer of what arrived; `None`: there is none yet.
    fn take(&self, arrived: &[u8]) -> Result<Option<Taken<Self::Hold>>>;
}

/// What is asked.
#[derive(Clone, Copy)]
pub(crate) enum Ask<H> {
    /// A fresh name with this number.
    Acquire(u64),
    Renew(H),
    Release(H),
    /// Eight fresh names.
    AcquireBundle(u64),
    ReleaseBundle(H),
    /// A name that others want too; waits for it where the system can.
    AcquireContended,
}

/// One answer, cut out of what arrived.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Taken<H> {
    /// So many bytes were its.
    pub(crate) bytes: usize,
    pub(crate) of: Of,
    pub(crate) said: Said<H>,
}

/// Which request an answer belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    /// The oldest that is under way.
    Oldest,
    Tag(u32),
    /// None: it was said unasked.
    Nothing,
}

/// What an answer says.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Said<H> {
    /// Done, and this is what the answer names, if it names something.
    Done(Option<H>),
    Refused,
}

/// Names are told apart by the load that made them.
#[derive(Clone, Copy)]
pub(crate) struct Names {
    load: u16,
}

/// Connections on which so many requests are kept under way.
pub(crate) struct Wire<P: Protocol> {
    poll: OwnedFd,
    connections: Vec<Connection<P::Hold>>,
    protocol: P,
    held: Vec<P::Hold>,
    bundles: Vec<P::Hold>,
    next_place: u64,
    /// State of the generator that picks leases; never zero.
    random: u64,
    /// Leases are renewed one after the other from here, each once.
    walk: Option<usize>,
}

/// Where a run is.
struct Run {
    work: Work,
    asked: u64,
    under_way: u64,
    count_max: u64,
    began_ns: u64,
    ends_ns: u64,
    sample: Sample,
}

/// A load holds no more than this.
const HELD_MAX: usize = 4_000_000;
const EVENTS_MAX: usize = 256;
/// Nothing takes longer; a peer that says nothing for so long will not.
const SILENT_MAX: Duration = Duration::from_secs(60);

impl Names {
    /// Names that no other load of this process makes.
    pub(crate) fn fresh() -> Self {
        static NEXT: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(1);
        Self { load: NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) }
    }

    /// Adds a name, always of 16 bytes.
    pub(crate) fn put(self, place: u64, out: &mut Vec<u8>) {
        text::put_hex(u64::from(self.load), 4, out);
        text::put_hex(place, 12, out);
    }
}

impl<P: Protocol> Wire<P> {
    /// Connects.
    pub(crate) fn open(door: &Door, shape: Shape, protocol: P) -> Result<Self> {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(shape.connections);
        for number in 0..shape.connections {
            let connection = Connection::open(door, shape.depth as u32)
                .with_context(|| format!("cannot open connection {} of {}", number + 1, shape.connections))?;
            epoll::add(&poll, &connection, EventData::new_u64(number as u64), EventFlags::IN)?;
            connections.push(connection);
        }
        Ok(Self {
            poll,
            connections,
            protocol,
            held: Vec::new(),
            bundles: Vec::new(),
            next_place: 0,
            random: 0x5eed_0000_0000_0001,
            walk: None,
        })
    }

    /// What it holds.
    pub(crate) fn held(&self) -> &[P::Hold] {
        &self.held
    }

    pub(crate) fn protocol_mut(&mut self) -> &mut P {
        &mut self.protocol
    }

    /// Renews all that is held, each once.
    pub(crate) fn renew_each(&mut self) -> Result<()> {
        self.walk = Some(0);
        let sample = self.run(Work::Renew, Until::Count(u64::MAX));
        self.walk = None;
        let sample = sample?;
        ensure!(sample.done == self.held.len() as u64, "{} of {} were renewed", sample.done, self.held.len());
        Ok(())
    }

    /// Waits for the sockets and gives each that has something to `heard`, until it says that it is enough.
    fn wait(&mut self, mut heard: impl FnMut(&mut Self, usize) -> Result<bool>) -> Result<()> {
        loop {
            let mut is_enough = false;
            let count = self.wait_once(SILENT_MAX, |wire, place| {
                // Of those that are ready together, all are heard.
                is_enough |= !heard(wire, place)?;
                Ok(())
            })?;
            if is_enough {
                return Ok(());
            }
            ensure!(count > 0, "no answer for {} s", SILENT_MAX.as_secs());
        }
    }

    /// Waits for the sockets at most so long; says how many had something.
    fn wait_once(
        &mut self,
        limit: Duration,
        mut heard: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<usize> {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let limit = rustix::event::Timespec::try_from(limit)?;
        let (ready, _) = loop {
            match epoll::wait(&self.poll, &mut events, Some(&limit)) {
                Err(Errno::INTR) => {}
                ready => break ready?,
            }
        };
        for event in ready.iter() {
            let (flags, place) = (event.flags, event.data.u64() as usize);
            if flags.contains(EventFlags::OUT) {
                self.write(place)?;
            }
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                heard(self, place)?;
            }
        }
        Ok(ready.len())
    }

    /// Takes the answers that have arrived on one connection and asks as much again.
    fn hear(&mut self, place: usize, run: &mut Run) -> Result<()> {
        self.connections[place].read()?;
        let now_ns = now_ns();
        loop {
            let connection = &mut self.connections[place];
            let Some(taken) = self.protocol.take(connection.unread())? else { break };
            connection.take(taken.bytes);
            let Some(asked) = connection.settle(taken.of)? else { continue };
            run.under_way -= 1;
            match taken.said {
                Said::Done(names) => {
                    run.sample.done += 1;
                    run.sample.latencies.add_ns(now_ns.saturating_sub(asked.at_ns));
                    let granted = || names.or(asked.about);
                    match run.work {
                        Work::Acquire => self.held.extend(granted()),
                        Work::AcquireBundle => self.bundles.extend(granted()),
                        Work::Renew | Work::Release | Work::ReleaseBundle => {}
                    }
                }
                Said::Refused => run.sample.refused += 1,
            }
        }
        run.sample.took = Duration::from_nanos(now_ns.saturating_sub(run.began_ns));
        self.ask_more(place, run, now_ns)
    }

    /// Asks for as much as may be under way on one connection, in one write.
    fn ask_more(&mut self, place: usize, run: &mut Run, now_ns: u64) -> Result<()> {
        while self.connections[place].has_room()
            && run.asked < run.count_max
            && now_ns < run.ends_ns
            && let Some(ask) = self.next(run.work)
        {
            self.ask(place, &ask, now_ns);
            run.asked += 1;
            run.under_way += 1;
        }
        self.write(place)
    }

    fn ask(&mut self, place: usize, ask: &Ask<P::Hold>, now_ns: u64) {
        let about = self.protocol.about(ask);
        let connection = &mut self.connections[place];
        let tag = connection.ask(now_ns, about);
        self.protocol.put(ask, tag, &mut connection.leaving);
    }

    /// The next request; `None`: there is nothing left to ask for.
    fn next(&mut self, work: Work) -> Option<Ask<P::Hold>> {
        match work {
            Work::Acquire if self.held.len() >= HELD_MAX => None,
            Work::Acquire => {
                self.next_place += 1;
                Some(Ask::Acquire(self.next_place))
            }
            Work::AcquireBundle => {
                self.next_place += super::peer::BUNDLE as u64;
                Some(Ask::AcquireBundle(self.next_place))
            }
            Work::Renew => match &mut self.walk {
                Some(place) => {
                    *place += 1;
                    self.held.get(*place - 1).copied().map(Ask::Renew)
                }
                None => self.pick().map(Ask::Renew),
            },
            Work::Release => self.held.pop().map(Ask::Release),
            Work::ReleaseBundle => self.bundles.pop().map(Ask::ReleaseBundle),
        }
    }

    /// One of those held, by xorshift: leases that follow each other in memory would flatter the peer.
    fn pick(&mut self) -> Option<P::Hold> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let place = (u128::from(self.random) * self.held.len() as u128) >> 64;
        self.held.get(place as usize).copied()
    }

    fn write(&mut self, place: usize) -> Result<()> {
        let connection = &mut self.connections[place];
        let waited = connection.waits_to_write;
        let all_left = connection.write()?;
        if waited == all_left {
            let flags = if all_left { EventFlags::IN } else { EventFlags::IN | EventFlags::OUT };
            connection.waits_to_write = !all_left;
            epoll::modify(&self.poll, &*connection, EventData::new_u64(place as u64), flags)?;
        }
        Ok(())
    }

    /// Every connection fights for one name: takes it, gives it back, tries again. One request at a time on each.
    pub(crate) fn contend(mut self, time: Duration) -> Result<Contention> {
        let began_ns = now_ns();
        let ends_ns = began_ns.saturating_add(time.as_nanos() as u64);
        let mut grants = vec![0_u64; self.connections.len()];
        for place in 0..self.connections.len() {
            self.ask(place, &Ask::AcquireContended, began_ns);
            self.write(place)?;
        }
        let mut is_holding = vec![false; self.connections.len()];
        let mut now = began_ns;
        self.wait(|wire, place| {
            wire.connections[place].read()?;
            now = now_ns();
            while let Some(taken) = wire.protocol.take(wire.connections[place].unread())? {
                wire.connections[place].take(taken.bytes);
                let Some(asked) = wire.connections[place].settle(taken.of)? else { continue };
                let ask = match taken.said {
                    Said::Done(names) if !is_holding[place] => {
                        grants[place] += 1;
                        Ask::Release(names.or(asked.about).context("a grant that names nothing")?)
                    }
                    // Given back, or somebody else has it.
                    Said::Done(_) | Said::Refused => Ask::AcquireContended,
                };
                is_holding[place] = matches!(ask, Ask::Release(_));
                wire.ask(place, &ask, now);
            }
            wire.write(place)?;
            Ok(now < ends_ns)
        })?;
        let all: u64 = grants.iter().sum();
        let part = |grants: Option<&u64>| *grants.unwrap_or(&0) as f64 / all.max(1) as f64;
        Ok(Contention {
            grants: all,
            took: Duration::from_nanos(now - began_ns),
            luckiest: part(grants.iter().max()),
            unluckiest: part(grants.iter().min()),
        })
    }
}

impl<P: Protocol> Load for Wire<P> {
    fn run(&mut self, work: Work, until: Until) -> Result<Sample> {
        let began_ns = now_ns();
        let (count_max, ends_ns) = match until {
            Until::Time(time) => (u64::MAX, began_ns.saturating_add(time.as_nanos() as u64)),
            Until::Count(count) => (count, u64::MAX),
        };
        let sample = Sample { done: 0, refused: 0, took: Duration::ZERO, latencies: Latencies::new() };
        let mut run = Run { work, asked: 0, under_way: 0, count_max, began_ns, ends_ns, sample };
        for place in 0..self.connections.len() {
            self.ask_more(place, &mut run, began_ns)?;
        }
        if run.under_way > 0 {
            self.wait(|wire, place| {
                wire.hear(place, &mut run)?;
                Ok(run.under_way > 0)
            })?;
        }
        Ok(run.sample)
    }

    /// On the first connection.
    fn run_paced(&mut self, work: Work, every: Duration, goes_on: &dyn Fn() -> bool) -> Result<Vec<Paced>> {
        let mut all = Vec::new();
        let mut due = BootInstant::now();
        let mut under_way = 0_u64;
        while goes_on() || under_way > 0 {
            let now = BootInstant::now();
            while due <= now && goes_on() && self.connections[0].has_room() {
                let ask = self.next(work).context("there is nothing left to ask for")?;
                self.ask(0, &ask, due.as_ns());
                under_way += 1;
                due = due.after(every);
            }
            self.write(0)?;
            // Where there is no room, or nothing more is asked, only an answer helps.
            let can_ask = self.connections[0].has_room() && goes_on();
            let limit = if can_ask { due.since(now) } else { SILENT_MAX };
            let count = self.wait_once(limit, |wire, place| {
                wire.connections[place].read()?;
                let now = BootInstant::now();
                while let Some(taken) = wire.protocol.take(wire.connections[place].unread())? {
                    wire.connections[place].take(taken.bytes);
                    let Some(asked) = wire.connections[place].settle(taken.of)? else { continue };
                    ensure!(taken.said != Said::Refused, "{} was refused", work.as_str());
                    under_way -= 1;
                    let at = BootInstant::from_ns(asked.at_ns);
                    all.push(Paced { at, took: now.since(at) });
                }
                Ok(())
            })?;
            ensure!(count > 0 || can_ask, "no answer for {} s", SILENT_MAX.as_secs());
        }
        Ok(all)
    }
}

fn now_ns() -> u64 {
    BootInstant::now().as_ns()
}
