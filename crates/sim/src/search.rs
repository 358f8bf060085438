//! Many seeds, on several threads, with or without a planted bug.

use crate::plants::Plant;
use crate::violation::Violation;
use crate::world::{Options, Report, Tally, run};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A seed that found something.
#[derive(Clone, Debug)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// What.
    pub violation: Violation,
    /// The run, with the last lines before it.
    pub report: Report,
}

/// Which seeds to run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// First seed.
    pub start: u64,
    /// How many.
    pub seeds: u64,
    /// Threads.
    pub threads: usize,
    /// A bug to plant in each.
    pub plant: Option<Plant>,
    /// How each is run.
    pub options: Options,
}

/// Runs one seed in this thread with a bug planted.
///
/// # Errors
/// What the seed found.
pub fn run_planted(seed: u64, options: Options, plant: Option<Plant>) -> Result<Report, Box<Found>> {
    Plant::plant(plant);
    let report = if options.restores {
        crate::cluster::restores::run(seed, options)
    } else if options.cluster {
        crate::cluster::run(seed, options)
    } else {
        run(seed, options)
    };
    Plant::plant(None);
    match report.violation.clone() {
        None => Ok(report),
        Some(violation) => Err(Box::new(Found { seed, violation, report })),
    }
}

impl Search {
    /// The lowest seed that finds something, and what was exercised. Seeds above a finding one are not begun.
    #[must_use]
    pub fn run(&self) -> (Option<Found>, Tally) {
        let next = AtomicU64::new(self.start);
        let end = AtomicU64::new(self.start + self.seeds);
        let found: Mutex<Option<Found>> = Mutex::new(None);
        let total: Mutex<Tally> = Mutex::new(Tally::default());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| self.work(&next, &end, &found, &total));
            }
        });
        let found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let total = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        (found, total)
    }

    fn work(&self, next: &AtomicU64, end: &AtomicU64, found: &Mutex<Option<Found>>, total: &Mutex<Tally>) {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end.load(Ordering::Relaxed) {
                return;
            }
            match run_planted(seed, self.options, self.plant) {
                Ok(report) => {
                    if let Ok(mut total) = total.lock() {
                        total.add(&report.tally);
                    }
                }
                Err(this) => {
                    end.fetch_min(seed, Ordering::Relaxed);
                    if let Ok(mut found) = found.lock()
                        && found.as_ref().is_none_or(|other| other.seed > seed)
                    {
                        *found = Some(*this);
                    }
                }
            }
        }
    }
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.answers += other.answers;
        self.starts += other.starts;
        self.snapshots += other.snapshots;
        self.trimmed += other.trimmed;
        self.bursts += other.bursts;
        self.overloads += other.overloads;
        self.resumes_of_living += other.resumes_of_living;
        self.waits_for_pools += other.waits_for_pools;
        self.waits_for_members += other.waits_for_members;
        self.long_grants += other.long_grants;
        self.cuts += other.cuts;
        self.refusals += other.refusals;
        self.changes += other.changes;
        self.resigned_for += other.resigned_for;
        self.claims_lost += other.claims_lost;
        self.claims_unknown += other.claims_unknown;
        self.unknown += other.unknown;
        self.lapses += other.lapses;
        self.connections += other.connections;
        self.words += other.words;
        self.connections_gone += other.connections_gone;
        self.resumed += other.resumed;
        self.silent += other.silent;
        self.hung_up += other.hung_up;
        self.adopted += other.adopted;
        self.granted_after += other.granted_after;
        self.removed += other.removed;
    }
}
