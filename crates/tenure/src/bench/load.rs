//! The loop that makes the load: waits for answers on all connections, counts them, and lets the next requests out
//! until time or number are used up. One thread, no wake-ups but those of the sockets.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use tenure_client::clock::BootInstant;

use super::Work;
use super::connection::{Asked, Connection, Door};
use super::control::Control;
use super::histogram::Histogram;
use super::speech::{Ask, Held, NotUnderstood, Said, Speech};

/// Connections on which so many requests are kept under way.
pub(super) struct Load<'a> {
    poll: OwnedFd,
    connections: Vec<Connection>,
    speech: Speech,
    control: &'a Control,
}

/// What the requests are about.
pub(super) struct Leases {
    pub(super) held: Vec<Held>,
    /// The number of the next fresh name.
    pub(super) next_place: u64,
    /// State of the generator that picks leases; never zero.
    pub(super) random: u64,
}

/// One kind of request for a while.
pub(super) struct Phase<'a> {
    pub(super) what: What,
    pub(super) leases: &'a mut Leases,
    /// Requests at most.
    pub(super) count_max: u64,
    /// No request is made after so long.
    pub(super) ns_max: u64,
}

/// What a phase does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Greets once on every connection.
    Greet,
    /// Is measured, or prepares what is.
    Work(Work),
    /// Gives back what is held, also when the measuring was stopped.
    CleanUp,
}

/// What came of it.
pub(crate) struct Measured {
    /// How long the answers took that were no refusals.
    pub(crate) latency: Histogram,
    /// Refusals by their code.
    pub(crate) refused: BTreeMap<String, u64>,
    /// From the first request to the last answer.
    pub(crate) took_ns: u64,
}

/// Why the load broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// A connection could not be opened.
    #[error("cannot open connection {number} of {of}: {source}")]
    Connect {
        /// Which.
        number: usize,
        /// Of how many.
        of: usize,
        /// Why.
        source: io::Error,
    },
    /// A connection broke.
    #[error("the daemon closed a connection: {0}")]
    Broken(io::Error),
    /// The system refuses something that it never should.
    #[error("cannot wait for answers: {0}")]
    Wait(#[from] Errno),
    /// An answer makes no sense.
    #[error(transparent)]
    NotUnderstood(#[from] NotUnderstood),
    /// An answer to nothing that was asked.
    #[error("the daemon sent an answer without a request")]
    Unasked,
    /// Somebody had no patience.
    #[error("interrupted before every answer arrived")]
    Abandoned,
}

/// A phase holds no more than this: half of what one principal may.
pub(crate) const LEASES_MAX: u64 = 500_000;
/// Stands for the control in what is waited for.
const CONTROL: u64 = u64::MAX;
const EVENTS_MAX: usize = 256;

impl<'a> Load<'a> {
    /// Opens connections that share what is under way as evenly as can be, and greets on each.
    pub(super) fn open(
        door: &Door,
        connections: usize,
        in_flight: usize,
        speech: Speech,
        control: &'a Control,
    ) -> Result<Self, LoadError> {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&poll, control.waiting(), EventData::new_u64(CONTROL), EventFlags::IN)?;
        let mut opened = Vec::with_capacity(connections);
        for number in 0..connections {
            let share = in_flight / connections + usize::from(number < in_flight % connections);
            let connection = Connection::open(door, share as u32).map_err(|source| LoadError::Connect {
                number: number + 1,
                of: connections,
                source,
            })?;
            epoll::add(&poll, &connection, EventData::new_u64(number as u64), EventFlags::IN)?;
            opened.push(connection);
        }
        Ok(Self { poll, connections: opened, speech, control })
    }

    /// Carries out one phase; every request of it is answered when this returns.
    pub(super) fn carry_out(&mut self, phase: &mut Phase<'_>) -> Result<Measured, LoadError> {
        let began_ns = now_ns();
        let mut run = Run {
            asked: 0,
            under_way: 0,
            began_ns,
            measured: Measured { latency: Histogram::new(), refused: BTreeMap::new(), took_ns: 0 },
        };
        for place in 0..self.connections.len() {
            self.ask_more(place, phase, &mut run, began_ns)?;
        }
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        while run.under_way > 0 {
            let (ready, _) = match epoll::wait(&self.poll, &mut events, None) {
                Err(Errno::INTR) => continue,
                ready => ready?,
            };
            for event in ready.iter() {
                let (flags, token) = (event.flags, event.data.u64());
                if token == CONTROL {
                    let _ = self.control.waiting().read(&mut [0; 64]);
                    if self.control.is_abandoned() {
                        return Err(LoadError::Abandoned);
                    }
                    continue;
                }
                let place = token as usize;
                if flags.contains(EventFlags::OUT) {
                    self.write(place)?;
                }
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    self.hear(place, phase, &mut run)?;
                }
            }
        }
        Ok(run.measured)
    }

    /// Takes the answers that have arrived on one connection and asks as much again.
    fn hear(&mut self, place: usize, phase: &mut Phase<'_>, run: &mut Run) -> Result<(), LoadError> {
        self.connections[place].read().map_err(LoadError::Broken)?;
        let now_ns = now_ns();
        let mut answered = 0;
        loop {
            let connection = &mut self.connections[place];
            let Some(taken) = self.speech.take(connection.unread())? else { break };
            let (bytes, tag) = (taken.bytes, taken.tag);
            let settled = match taken.said {
                Said::Done(object) if phase.what == What::Work(Work::Acquire) && tag.is_some() => {
                    phase.leases.held.push(Held::read(object)?);
                    Ok(())
                }
                Said::Done(_) => Ok(()),
                Said::Refused(code) => Err(code.to_owned()),
            };
            connection.take(bytes);
            // Losses are told unasked; only a lease that was ended by somebody else is lost, and its next use says so.
            let Some(tag) = tag else { continue };
            let asked = connection.settle(tag).ok_or(LoadError::Unasked)?;
            answered += 1;
            match settled {
                Ok(()) => run.measured.latency.add(now_ns.saturating_sub(asked.at_ns)),
                Err(code) => {
                    *run.measured.refused.entry(code).or_default() += 1;
                    // It may be held still, and whoever cleans up tries again.
                    phase.leases.held.extend(asked.releases.filter(|_| phase.what != What::CleanUp));
                }
            }
        }
        run.under_way -= answered;
        run.measured.took_ns = now_ns.saturating_sub(run.began_ns);
        self.control.add_answered(answered);
        self.ask_more(place, phase, run, now_ns)
    }

    /// Asks for as much as may be under way on one connection, in one write.
    fn ask_more(
        &mut self,
        place: usize,
        phase: &mut Phase<'_>,
        run: &mut Run,
        now_ns: u64,
    ) -> Result<(), LoadError> {
        let connection = &mut self.connections[place];
        let goes_on = match phase.what {
            What::CleanUp => true,
            What::Greet | What::Work(_) => !self.control.is_stopping(),
        };
        while goes_on
            && connection.has_room()
            && run.asked < phase.count_max
            && now_ns.saturating_sub(run.began_ns) < phase.ns_max
            && let Some(ask) = phase.next(run)
        {
            let releases = match &ask {
                Ask::Release(held) => Some(*held),
                Ask::Greet | Ask::Acquire(_) | Ask::Heartbeat(_) => None,
            };
            let tag = connection.ask(Asked { at_ns: now_ns, releases });
            let tag = tag.expect("invariant: a connection with room has a tag");
            self.speech.put(&ask, tag, &mut connection.leaving);
            run.asked += 1;
            run.under_way += 1;
            if phase.what == What::Greet {
                break;
            }
        }
        self.write(place)
    }

    fn write(&mut self, place: usize) -> Result<(), LoadError> {
        let connection = &mut self.connections[place];
        let waited = connection.is_waiting_to_write();
        let all_left = connection.write().map_err(LoadError::Broken)?;
        if waited == all_left {
            let flags = if all_left { EventFlags::IN } else { EventFlags::IN | EventFlags::OUT };
            connection.set_waiting_to_write(!all_left);
            epoll::modify(&self.poll, &*connection, EventData::new_u64(place as u64), flags)?;
        }
        Ok(())
    }
}

/// Where a phase is.
struct Run {
    asked: u64,
    under_way: u64,
    began_ns: u64,
    measured: Measured,
}

impl Phase<'_> {
    /// The next request; `None`: there is nothing left to ask for.
    fn next(&mut self, run: &Run) -> Option<Ask> {
        match self.what {
            What::Greet => Some(Ask::Greet),
            What::Work(Work::Acquire) => {
                if self.leases.held.len() as u64 + run.under_way >= LEASES_MAX {
                    return None;
                }
                self.leases.next_place += 1;
                Some(Ask::Acquire(self.leases.next_place))
            }
            What::Work(Work::Heartbeat) => self.leases.pick().map(Ask::Heartbeat),
            What::Work(Work::Release) | What::CleanUp => self.leases.held.pop().map(Ask::Release),
        }
    }
}

impl Leases {
    /// One of those held, by xorshift: leases that follow each other in the daemon's memory would flatter it.
    fn pick(&mut self) -> Option<Held> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let place = (u128::from(self.random) * self.held.len() as u128) >> 64;
        self.held.get(place as usize).copied()
    }
}

fn now_ns() -> u64 {
    BootInstant::now().as_ns()
}
