//! The order of a run: for every transport and every number under way the same leases are taken, renewed and given back.
//! Whatever happens, what is held at the end is released.

use super::connection::Door;
use super::control::Control;
use super::load::{LEASES_MAX, Leases, Load, LoadError, Measured, Phase, What};
use super::processor_time::processor_ns;
use super::speech::Speech;
use super::{Transport, Work};

/// Everything that is going to be measured.
#[derive(Clone)]
pub(crate) struct Course {
    pub(crate) doors: Vec<Door>,
    /// Requests under way, one round each.
    pub(crate) in_flight: Vec<usize>,
    /// Connections to the socket that share them. Over HTTP each request has a connection of its own, as nobody sends
    /// several requests at once there.
    pub(crate) connections_max: usize,
    /// In the order of a lease's life, each once.
    pub(crate) work: Vec<Work>,
    pub(crate) until: Until,
    /// The daemon's process, where it is on this machine.
    pub(crate) pid: Option<u32>,
    /// Not used by anybody else; names and holder begin with it.
    pub(crate) name: String,
    /// Where the picking of leases begins.
    pub(crate) seed: u64,
}

/// When a row is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// After so many milliseconds.
    Ms(u64),
    /// After so many requests.
    Count(u64),
}

/// One row that is going to be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) transport: Transport,
    pub(crate) in_flight: usize,
    pub(crate) work: Work,
}

/// One row that was measured.
pub(crate) struct Row {
    pub(crate) step: Step,
    pub(crate) connections: usize,
    pub(crate) measured: Measured,
    /// What the daemon's processors did meanwhile; `None`: it is not on this machine.
    pub(crate) daemon_ns: Option<u64>,
    /// What this process did.
    pub(crate) load_ns: Option<u64>,
}

/// What came of a run.
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    /// Leases that may still be held, until their ttl has passed.
    pub(crate) left_behind: u64,
    pub(crate) broke_off: Option<LoadError>,
}

/// Leases that are taken where taking them is not measured.
const PREPARED: u64 = 20_000;
/// Rounds last three rows; leases must outlive them without a heartbeat, and the releases after them.
const TTL_MS_MIN: u64 = 60_000;

impl Course {
    /// What is measured, in order.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for door in &self.doors {
            for in_flight in &self.in_flight {
                let step =
                    |work: &Work| Step { transport: door.transport(), in_flight: *in_flight, work: *work };
                steps.extend(self.work.iter().map(step));
            }
        }
        steps
    }

    /// How long a lease lives that nobody renews.
    pub(crate) fn ttl_ms(&self) -> u64 {
        match self.until {
            Until::Ms(ms) => ms.saturating_mul(6).saturating_add(TTL_MS_MIN),
            // A daemon that does not manage this many in that time is not measured well by them.
            Until::Count(_) => 10 * TTL_MS_MIN,
        }
    }

    /// Runs all of it. Blocks; `control` tells how far it is and ends it early.
    pub(crate) fn run(&self, control: &Control) -> Outcome {
        let mut outcome = Outcome { rows: Vec::new(), left_behind: 0, broke_off: None };
        let mut leases = Leases { held: Vec::new(), next_place: 0, random: self.seed | 1 };
        for door in &self.doors {
            for in_flight in &self.in_flight {
                if control.is_stopping() {
                    return outcome;
                }
                if let Err(error) = self.round(door, *in_flight, &mut leases, control, &mut outcome) {
                    // Requests that were under way may have been granted.
                    outcome.left_behind += leases.held.len() as u64 + *in_flight as u64;
                    outcome.broke_off = Some(error);
                    return outcome;
                }
            }
        }
        outcome
    }

    fn round(
        &self,
        door: &Door,
        in_flight: usize,
        leases: &mut Leases,
        control: &Control,
        outcome: &mut Outcome,
    ) -> Result<(), LoadError> {
        let connections = match door {
            Door::Socket(_) => in_flight.min(self.connections_max),
            Door::Http { .. } => in_flight,
        };
        let mut load = Load::open(door, connections, in_flight, self.speech(door), control)?;
        let greeting = Phase { what: What::Greet, leases, count_max: connections as u64, ns_max: u64::MAX };
        load.carry_out(&mut { greeting })?;
        if !self.work.contains(&Work::Acquire) {
            self.prepare(&mut load, in_flight, leases)?;
        }
        for work in &self.work {
            control.begin_step(outcome.rows.len());
            let step = Step { transport: door.transport(), in_flight, work: *work };
            let row = self.row(&mut load, step, connections, leases)?;
            if control.is_stopping() {
                break;
            }
            outcome.rows.push(row);
        }
        let cleaning = Phase { what: What::CleanUp, leases, count_max: u64::MAX, ns_max: u64::MAX };
        let cleaned = load.carry_out(&mut { cleaning })?;
        outcome.left_behind += cleaned.refused.values().sum::<u64>();
        Ok(())
    }

    fn row(
        &self,
        load: &mut Load<'_>,
        step: Step,
        connections: usize,
        leases: &mut Leases,
    ) -> Result<Row, LoadError> {
        let (count_max, ns_max) = match self.until {
            Until::Ms(ms) => (u64::MAX, ms.saturating_mul(1_000_000)),
            Until::Count(count) => (count, u64::MAX),
        };
        let worked = || (self.pid.and_then(processor_ns), processor_ns(std::process::id()));
        let before = worked();
        let measured =
            load.carry_out(&mut Phase { what: What::Work(step.work), leases, count_max, ns_max })?;
        let after = worked();
        let since = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        Ok(Row {
            step,
            connections,
            measured,
            daemon_ns: since(before.0, after.0),
            load_ns: since(before.1, after.1),
        })
    }

    /// Takes what the measured work needs.
    fn prepare(&self, load: &mut Load<'_>, in_flight: usize, leases: &mut Leases) -> Result<(), LoadError> {
        let (wanted, ns_max) = match self.until {
            Until::Ms(ms) => (PREPARED, ms.saturating_mul(1_000_000)),
            Until::Count(count) => (count, u64::MAX),
        };
        let count_max = wanted.max(in_flight as u64).min(LEASES_MAX);
        load.carry_out(&mut Phase { what: What::Work(Work::Acquire), leases, count_max, ns_max })?;
        Ok(())
    }

    fn speech(&self, door: &Door) -> Speech {
        match door {
            Door::Socket(_) => Speech::lines(&self.name, self.ttl_ms()),
            Door::Http { host, token, .. } => Speech::http(&self.name, self.ttl_ms(), host, token.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_by_transport_then_by_number_under_way_then_in_the_order_of_a_life() {
        let course = Course {
            doors: vec![
                Door::Socket("/s".into()),
                Door::Http { addresses: Vec::new(), host: "h".into(), token: None },
            ],
            in_flight: vec![1, 16],
            connections_max: 8,
            work: vec![Work::Acquire, Work::Release],
            until: Until::Ms(3_000),
            pid: None,
            name: "bench-1".into(),
            seed: 1,
        };
        let steps = course.steps();
        let shown: Vec<String> = steps
            .iter()
            .map(|step| format!("{} {} {}", step.transport.as_str(), step.in_flight, step.work.as_str()))
            .collect();
        assert_eq!(shown[..3], ["socket 1 acquire", "socket 1 release", "socket 16 acquire"]);
        assert_eq!((shown.len(), shown[7].as_str()), (8, "http 16 release"));
        assert_eq!(course.ttl_ms(), 78_000);
    }
}
