//! What a history says about each lease.

use std::collections::BTreeMap;

use super::bounds::{Bound, Edge, Limit};
use super::{Anomaly, Rule};
use crate::cluster::history::{Asked, Heard, Record, State};

/// Everything that is known, and what cannot be.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    pub(crate) leases: BTreeMap<String, Known>,
    pub(crate) anomalies: Vec<Anomaly>,
}

/// One lease.
#[derive(Debug)]
pub(crate) struct Known {
    lease: String,
    pub(crate) resource: String,
    operation: String,
    holder: String,
    /// `None` where only a refusal named the lease.
    pub(crate) fence: Option<u64>,
    pub(crate) granted: Bound,
    over: Bound,
    free: Bound,
    /// The latest end of a promise that was heard.
    promised: Option<Limit>,
    /// When its holder first knew that it holds.
    known_from: Option<u64>,
    /// The first release that may have been carried out.
    release_sent: Option<Limit>,
    /// When its holder first asked to give it back, whatever came of it.
    given_up: Option<u64>,
    released: bool,
    /// What it is said to have ended of, and by which record.
    reasons: Vec<(usize, Option<String>)>,
    /// Records that tell of it.
    records: Vec<usize>,
}

/// An operation that asks for a resource.
struct Wish<'a> {
    resource: &'a str,
    holder: &'a str,
    /// The first try that may have been carried out.
    first: Option<Limit>,
}

impl Knowledge {
    pub(crate) fn of(history: &[Record]) -> Self {
        let mut knowledge = Self::default();
        let (wishes, by_holder) = wishes_of(history);
        knowledge.find_leases(history, &wishes, &by_holder);
        let asked_first = first_tries_of(history);
        for (place, record) in history.iter().enumerate() {
            knowledge.learn(place, record, asked_first[record.operation.as_str()]);
        }
        let mut misfits = Vec::new();
        for known in knowledge.leases.values_mut() {
            let found = known.conclude().into_iter();
            misfits.extend(found.map(|(place, story)| (known.resource.clone(), known.shown(), place, story)));
        }
        for (resource, shown, place, story) in misfits {
            let story = format!("{shown} {story}\n  {}", history[place]);
            knowledge.wrong(Rule::NothingIsLost, &resource, story);
        }
        knowledge.check_operations();
        knowledge
    }

    /// Leases whose place in the order is known, by resource, in order of their fences.
    pub(crate) fn chains(&self) -> BTreeMap<&str, Vec<&Known>> {
        let mut chains: BTreeMap<&str, Vec<&Known>> = BTreeMap::new();
        for known in self.leases.values().filter(|known| known.fence.is_some()) {
            chains.entry(&known.resource).or_default().push(known);
        }
        for chain in chains.values_mut() {
            chain.sort_by_key(|known| known.fence);
        }
        chains
    }

    /// Leases are known by grants that were told and by checks that saw them.
    fn find_leases<'a>(
        &mut self,
        history: &'a [Record],
        wishes: &BTreeMap<&'a str, Wish<'a>>,
        by_holder: &BTreeMap<&'a str, &'a str>,
    ) {
        for record in history {
            let (lease, fence, operation) = match &record.heard {
                Some((_, Heard::Granted { lease, fence, .. })) => (lease, *fence, record.operation.as_str()),
                Some((_, Heard::Authority(Some(authority)))) => {
                    let Some(operation) = by_holder.get(authority.holder.as_str()) else {
                        self.wrong(
                            Rule::NothingFromNowhere,
                            "",
                            format!("nobody asked for this\n  {record}"),
                        );
                        continue;
                    };
                    (&authority.lease, authority.fence, *operation)
                }
                _ => continue,
            };
            let Some(wish) = wishes.get(operation) else {
                self.wrong(Rule::NothingFromNowhere, "", format!("no acquire of that id\n  {record}"));
                continue;
            };
            let Some(first) = wish.first else {
                let story = format!("every try of {operation} was refused\n  {record}");
                self.wrong(Rule::NothingFromNowhere, wish.resource, story);
                continue;
            };
            let known =
                self.leases.entry(lease.clone()).or_insert_with(|| Known::new(lease, operation, wish));
            known.granted.not_before(first);
            let told = format!("{} has fence {:?} and fence {fence}\n  {record}", known.shown(), known.fence);
            let (is_same_fence, is_same_wish) =
                (*known.fence.get_or_insert(fence) == fence, known.operation == operation);
            let resource = known.resource.clone();
            if !is_same_fence {
                self.wrong(Rule::FencesRise, &resource, told);
            }
            if !is_same_wish {
                let story = format!("two operations were told of one lease\n  {record}");
                self.wrong(Rule::NothingFromNowhere, &resource, story);
            }
        }
    }

    /// `asked_first`: the first try of the same operation.
    fn learn(&mut self, place: usize, record: &Record, asked_first: Limit) {
        let heard = record.heard.as_ref();
        let lease = match (&record.asked, heard) {
            (_, Some((_, Heard::Granted { lease, .. }))) => lease,
            (_, Some((_, Heard::Held { by: Some(lease) }))) => lease,
            (_, Some((_, Heard::Authority(Some(authority))))) => &authority.lease,
            (Asked::Heartbeat { lease } | Asked::Release { lease } | Asked::Inspect { lease }, _) => lease,
            (Asked::Acquire { .. } | Asked::Check { .. }, _) => return,
        };
        let Some(known) = self.leases.get_mut(lease) else { return };
        known.records.push(place);
        let sent = Limit::by(place, record.sent_ns);
        if matches!(record.asked, Asked::Release { .. }) {
            let given_up = known.given_up.get_or_insert(sent.at_ns);
            *given_up = sent.at_ns.min(*given_up);
            // A refusal says that the lease was over already, not that this try ended it.
            let is_refused = matches!(heard, Some((_, Heard::Lost { .. }))) || !record.may_have_happened();
            if !is_refused && known.release_sent.is_none_or(|first| sent.at_ns < first.at_ns) {
                known.release_sent = Some(sent);
            }
        }
        let Some((heard_ns, heard)) = heard else { return };
        let heard_at = Limit::by(place, *heard_ns);
        // A refusal is told again to whoever asks again under the same id: it may be as old as the first try.
        let since = if matches!(heard, Heard::Held { .. }) { asked_first } else { sent };
        known.hear(heard, since, heard_at);
        if *heard == Heard::Missing {
            let story = format!("{} was acknowledged and is not known any more\n  {record}", known.shown());
            let resource = known.resource.clone();
            self.wrong(Rule::NothingIsLost, &resource, story);
        }
    }

    /// One operation, one lease; and reasons that fit.
    fn check_operations(&mut self) {
        let mut first_of: BTreeMap<&str, &Known> = BTreeMap::new();
        let mut found = Vec::new();
        for known in self.leases.values() {
            if let Some(first) = first_of.insert(&known.operation, known) {
                found.push((known.resource.clone(), format!("{} and {}", first.shown(), known.shown())));
            }
        }
        for (resource, story) in found {
            self.wrong(Rule::OneOperationOneLease, &resource, story);
        }
    }

    fn wrong(&mut self, rule: Rule, resource: &str, story: String) {
        self.anomalies.push(Anomaly { rule, resource: resource.to_owned(), story });
    }
}

fn first_tries_of(history: &[Record]) -> BTreeMap<&str, Limit> {
    let mut first: BTreeMap<&str, Limit> = BTreeMap::new();
    for (place, record) in history.iter().enumerate() {
        let sent = Limit::by(place, record.sent_ns);
        let known = first.entry(&record.operation).or_insert(sent);
        if sent.at_ns < known.at_ns {
            *known = sent;
        }
    }
    first
}

fn wishes_of(history: &[Record]) -> (BTreeMap<&str, Wish<'_>>, BTreeMap<&str, &str>) {
    let mut wishes: BTreeMap<&str, Wish<'_>> = BTreeMap::new();
    let mut by_holder = BTreeMap::new();
    for (place, record) in history.iter().enumerate() {
        let Asked::Acquire { resource, holder } = &record.asked else { continue };
        by_holder.insert(holder.as_str(), record.operation.as_str());
        let wish = wishes.entry(&record.operation).or_insert(Wish { resource, holder, first: None });
        if record.may_have_happened() && wish.first.is_none_or(|first| record.sent_ns < first.at_ns) {
            wish.first = Some(Limit::by(place, record.sent_ns));
        }
    }
    (wishes, by_holder)
}

impl Known {
    fn new(lease: &str, operation: &str, wish: &Wish<'_>) -> Self {
        Self {
            lease: lease.to_owned(),
            resource: wish.resource.to_owned(),
            operation: operation.to_owned(),
            holder: wish.holder.to_owned(),
            fence: None,
            granted: Bound::open(),
            over: Bound::open(),
            free: Bound::open(),
            promised: None,
            known_from: None,
            release_sent: None,
            given_up: None,
            released: false,
            reasons: Vec::new(),
            records: Vec::new(),
        }
    }

    pub(crate) fn edge(&self, edge: Edge) -> &Bound {
        match edge {
            Edge::Granted => &self.granted,
            Edge::Over => &self.over,
            Edge::Free => &self.free,
        }
    }

    /// Takes an answer in.
    fn hear(&mut self, heard: &Heard, sent: Limit, heard_at: Limit) {
        match heard {
            Heard::Granted { valid_ms, state, .. } => {
                self.granted.not_after(heard_at);
                match state {
                    State::Live => {
                        self.has_authority(sent, heard_at);
                        self.promise(*valid_ms, sent);
                        let from = self.known_from.get_or_insert(heard_at.at_ns);
                        *from = heard_at.at_ns.min(*from);
                    }
                    State::Revoking => self.over.not_after(heard_at),
                    State::Ended => self.free.not_after(heard_at),
                }
            }
            Heard::Renewed { valid_ms } => {
                self.has_authority(sent, heard_at);
                self.promise(*valid_ms, sent);
            }
            Heard::Released => {
                self.released = true;
                self.free.not_after(heard_at);
            }
            Heard::Lost { .. } => self.over.not_after(heard_at),
            Heard::Authority(_) => self.has_authority(sent, heard_at),
            Heard::Held { .. } => {
                self.granted.not_after(heard_at);
                self.free.not_before(sent);
            }
            Heard::Shown { state: State::Live, .. } => self.has_authority(sent, heard_at),
            Heard::Shown { state: State::Revoking, .. } => {
                self.over.not_after(heard_at);
                self.free.not_before(sent);
            }
            Heard::Shown { state: State::Ended, reason } => {
                self.free.not_after(heard_at);
                self.reasons.extend(heard_at.record.map(|place| (place, reason.clone())));
            }
            Heard::Missing | Heard::Declined { .. } => {}
        }
    }

    fn has_authority(&mut self, sent: Limit, heard_at: Limit) {
        self.granted.not_after(heard_at);
        self.over.not_before(sent);
    }

    fn promise(&mut self, valid_ms: u64, sent: Limit) {
        let until = Limit { at_ns: sent.at_ns + valid_ms * 1_000_000, is_promise: true, ..sent };
        if self.promised.is_none_or(|promised| until.at_ns > promised.at_ns) {
            self.promised = Some(until);
        }
    }

    /// Once everything is heard: an end comes after the promise or by a release, for a reason that fits.
    fn conclude(&mut self) -> Vec<(usize, String)> {
        let mut misfits = Vec::new();
        for (place, reason) in &self.reasons {
            let story = match (reason.as_deref(), self.release_sent) {
                (Some("explicit"), Some(_)) => continue,
                (Some("explicit"), None) => "ended by a release that nobody sent".to_owned(),
                (Some("heartbeat_expired"), _) if !self.released => continue,
                (Some("heartbeat_expired"), _) => "was released, but is said to have expired".to_owned(),
                (other, _) => format!("ended for a reason that nothing accounts for: {other:?}"),
            };
            misfits.push((*place, story));
        }
        let has_expired =
            self.reasons.iter().any(|(_, reason)| reason.as_deref() == Some("heartbeat_expired"));
        // What expired was ended by no release: its whole promise counts.
        let release = self.release_sent.filter(|_| self.released || !has_expired);
        // A release ends the authority and frees the resource in one step.
        let by_release = release.map(|release| {
            if self.free.earliest().at_ns > release.at_ns { self.free.earliest() } else { release }
        });
        match (self.promised, by_release) {
            (_, Some(release)) if self.released => self.over.not_before(release),
            (Some(promised), Some(release)) if release.at_ns < promised.at_ns => {
                self.over.not_before(release)
            }
            (Some(promised), _) => self.over.not_before(promised),
            (None, _) => {}
        }
        misfits
    }

    /// From when to when its holder believes that it may act.
    pub(crate) fn window(&self) -> Option<(u64, u64)> {
        let (from, promised) = (self.known_from?, self.promised?);
        let until = self.given_up.map_or(promised.at_ns, |given_up| given_up.min(promised.at_ns));
        (from < until).then_some((from, until))
    }

    pub(crate) fn shown(&self) -> String {
        format!("lease {} of {} (fence {:?})", self.lease, self.holder, self.fence)
    }

    /// Every record that tells of it, one line each.
    pub(crate) fn stories(&self, history: &[Record]) -> String {
        self.records.iter().map(|record| format!("\n  {}", history[*record])).collect()
    }
}
