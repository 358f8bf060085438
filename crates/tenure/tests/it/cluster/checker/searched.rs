//! The checker against a plain search (Wing and Gong): every order in which the operations of a small history could
//! have happened is tried on a model of the register. Both must agree, on good histories and on spoilt ones.

use std::collections::BTreeMap;

use super::{Rule, check};
use crate::cluster::history::{Asked, Authority, Heard, Record, State};
use crate::faults::random::Random;

const HISTORIES: u64 = 40_000;

/// The register as the search has it.
#[derive(Clone)]
struct Model {
    /// The lease that covers the resource, and the instant from which it may end by itself; `None`: its authority has
    /// ended, the resource is not free yet.
    held: Option<(String, Option<u64>)>,
    /// Every lease that was granted, with its fence.
    granted: Vec<(String, u64)>,
    now: u64,
}

/// What is known of a lease before the search begins.
#[derive(Clone, Default)]
struct Facts {
    fence: Option<u64>,
    /// The last promise that was heard.
    promised: u64,
}

struct Search<'a> {
    records: Vec<&'a Record>,
    facts: BTreeMap<String, Facts>,
    /// The lease that an operation gives, where anybody ever saw it.
    lease_of: BTreeMap<String, String>,
}

impl<'a> Search<'a> {
    fn new(history: &'a [Record]) -> Self {
        let mut facts: BTreeMap<String, Facts> = BTreeMap::new();
        let mut lease_of = BTreeMap::new();
        for record in history {
            match (&record.asked, &record.heard) {
                (_, Some((_, Heard::Granted { lease, fence, valid_ms, .. }))) => {
                    lease_of.insert(record.operation.clone(), lease.clone());
                    let facts = facts.entry(lease.clone()).or_default();
                    facts.fence = Some(*fence);
                    facts.promised = facts.promised.max(record.sent_ns + valid_ms * 1_000_000);
                }
                (_, Some((_, Heard::Authority(Some(seen))))) => {
                    lease_of.insert(seen.holder.clone(), seen.lease.clone());
                    facts.entry(seen.lease.clone()).or_default().fence = Some(seen.fence);
                }
                (Asked::Heartbeat { lease }, Some((_, Heard::Renewed { valid_ms }))) => {
                    let facts = facts.entry(lease.clone()).or_default();
                    facts.promised = facts.promised.max(record.sent_ns + valid_ms * 1_000_000);
                }
                _ => {}
            }
        }
        Self { records: history.iter().collect(), facts, lease_of }
    }

    /// Whether every lease that is spoken of was told to somebody. Nobody renews what he never heard of.
    fn knows_every_lease(&self) -> bool {
        self.records.iter().all(|record| {
            let lease = match (&record.asked, &record.heard) {
                (_, Some((_, Heard::Held { by }))) => by.as_ref(),
                (Asked::Heartbeat { lease } | Asked::Release { lease }, _) => Some(lease),
                _ => None,
            };
            lease.is_none_or(|lease| self.facts.get(lease).is_some_and(|facts| facts.fence.is_some()))
        })
    }

    fn finds_an_order(&self) -> bool {
        let model = Model { held: None, granted: Vec::new(), now: 0 };
        self.go_on(&model, (1 << self.records.len()) - 1)
    }

    /// Tries everything that may happen next; `left` are the records that did not happen yet.
    fn go_on(&self, model: &Model, left: u32) -> bool {
        let waiting = (0..self.records.len()).filter(|place| left & (1 << place) != 0);
        if waiting.clone().all(|place| self.records[place].heard.is_none()) {
            return true;
        }
        // Whoever heard an answer before another one asked comes first.
        let soonest =
            waiting.clone().filter_map(|place| self.records[place].heard.as_ref()).map(|(at, _)| *at);
        let soonest = soonest.min().unwrap_or(u64::MAX);
        for place in waiting {
            let record = self.records[place];
            let now = model.now.max(record.sent_ns);
            let is_late = record.heard.as_ref().is_some_and(|(heard_ns, _)| now > *heard_ns);
            if now > soonest || is_late {
                continue;
            }
            let next = Model { now, ..model.clone() };
            if self.step(&next, record).is_some_and(|next| self.go_on(&next, left & !(1 << place))) {
                return true;
            }
        }
        // The lease ends by itself, as early as it may, in two steps.
        let ended = match &model.held {
            None => return false,
            Some((lease, Some(until))) => {
                Model { held: Some((lease.clone(), None)), now: model.now.max(*until), ..model.clone() }
            }
            Some((_, None)) => Model { held: None, ..model.clone() },
        };
        ended.now <= soonest && self.go_on(&ended, left)
    }

    /// The register after one operation; `None` if its answer does not fit.
    fn step(&self, model: &Model, record: &Record) -> Option<Model> {
        let covering = model.held.as_ref().map(|(lease, _)| lease);
        let held = model.held.as_ref().filter(|(_, until)| until.is_some()).map(|(lease, _)| lease);
        let unchanged = || Some(model.clone());
        match (&record.asked, record.heard.as_ref().map(|(_, heard)| heard)) {
            (Asked::Acquire { .. }, Some(Heard::Held { by })) => {
                (covering.is_some() && by.as_ref() == covering).then(unchanged)?
            }
            (Asked::Acquire { .. }, _) => {
                // Nobody ever saw the lease of this operation: that it never happened is as good as anything.
                let lease = self.lease_of.get(&record.operation)?;
                let facts = &self.facts[lease];
                let is_next = model.granted.iter().all(|(_, fence)| Some(*fence) < facts.fence);
                let mut next = model.clone();
                next.granted.push((lease.clone(), facts.fence?));
                next.held = Some((lease.clone(), Some(facts.promised)));
                (covering.is_none() && is_next).then_some(next)
            }
            (Asked::Heartbeat { lease }, Some(Heard::Renewed { .. })) => {
                (held == Some(lease)).then(unchanged)?
            }
            (Asked::Heartbeat { lease }, Some(_)) => (held != Some(lease)).then(unchanged)?,
            (Asked::Release { lease }, Some(Heard::Lost { .. })) => (held != Some(lease)).then(unchanged)?,
            (Asked::Release { lease }, _) => {
                (held == Some(lease)).then(|| Model { held: None, ..model.clone() })
            }
            (Asked::Check { .. }, Some(Heard::Authority(seen))) => {
                (seen.as_ref().map(|seen| &seen.lease) == held).then(unchanged)?
            }
            (
                Asked::Heartbeat { .. } | Asked::GiveUp { .. } | Asked::Check { .. } | Asked::Inspect { .. },
                _,
            ) => unchanged(),
        }
    }
}

/// A small history: mostly one of a register that is right, then spoilt here and there.
fn small_history(random: &mut Random) -> Vec<Record> {
    let mut history: Vec<Record> = Vec::new();
    let (mut now, mut fence) = (100, 0);
    let mut held: Option<(String, String, u64, u64)> = None;
    while history.len() < 8 {
        now += 1 + random.below(20);
        if held.as_ref().is_some_and(|held| held.3 < now) && random.below(2) == 0 {
            held = None;
        }
        let operation = format!("o{}", history.len());
        let sent = now - random.below(15);
        let (asked, heard) = match (random.below(5), held.clone()) {
            (0 | 1, None) => {
                fence += 1;
                let (lease, valid_ms) = (format!("L{fence}"), random.below(60));
                held = Some((lease.clone(), operation.clone(), fence, now + valid_ms));
                let heard = Heard::Granted { lease, fence, valid_ms, state: State::Live };
                (Asked::Acquire { resource: "r".to_owned(), holder: operation.clone() }, heard)
            }
            (0, Some((lease, ..))) => {
                let asked = Asked::Acquire { resource: "r".to_owned(), holder: operation.clone() };
                (asked, Heard::Held { by: Some(lease) })
            }
            (1, Some((lease, holder, fence, until))) => {
                let valid_ms = random.below(40);
                held = Some((lease.clone(), holder, fence, until.max(now + valid_ms)));
                (Asked::Heartbeat { lease }, Heard::Renewed { valid_ms })
            }
            (2, Some((lease, ..))) => {
                held = None;
                (Asked::Release { lease }, Heard::Released)
            }
            (_, held) => {
                let authority = held.map(|(lease, holder, fence, _)| Authority { lease, holder, fence });
                (Asked::Check { resource: "r".to_owned() }, Heard::Authority(authority))
            }
        };
        let heard = (random.below(7) > 0).then(|| ((now + random.below(15)) * 1_000_000, heard));
        history.push(Record { operation, node: "a".to_owned(), asked, sent_ns: sent * 1_000_000, heard });
    }
    if random.below(2) == 0 {
        spoil(&mut history, random);
    }
    history
}

/// Moves one record in time.
fn spoil(history: &mut [Record], random: &mut Random) {
    let record = &mut history[random.below(8) as usize];
    let moved = |ns: u64, by: i64| ns.saturating_add_signed(by * 1_000_000);
    let by = random.below(120) as i64 - 60;
    record.sent_ns = moved(record.sent_ns, by);
    if let Some((heard_ns, _)) = &mut record.heard {
        *heard_ns = moved(*heard_ns, by);
    }
}

#[test]
fn a_search_through_every_order_comes_to_the_same_judgement() {
    let mut random = Random::new(3);
    let (mut good, mut bad) = (0, 0);
    for number in 0..HISTORIES {
        let history = small_history(&mut random);
        let search = Search::new(&history);
        if !search.knows_every_lease() {
            continue;
        }
        let report = check(&history);
        let is_ordered = search.finds_an_order();
        let shown = || history.iter().map(|record| format!("{record}\n")).collect::<String>();
        // What overlaps or goes back cannot be ordered either: these rules only say it in other words.
        let is_blamed = report.broken().iter().any(|rule| *rule != Rule::PromisesNeverOverlap);
        assert_eq!(is_ordered, !is_blamed, "history {number}: {report}\n{}", shown());
        if report.broken().contains(&Rule::PromisesNeverOverlap) {
            assert!(!is_ordered, "history {number}: {report}\n{}", shown());
        }
        good += u64::from(is_ordered);
        bad += u64::from(!is_ordered);
    }
    assert!(good > HISTORIES / 4 && bad > HISTORIES / 20, "{good} good, {bad} bad");
}
