//! What a history says about each lease.

use std::collections::{BTreeMap, BTreeSet};

use super::bounds::{Bound, Edge, Limit};
use super::{Anomaly, Rule};
use crate::cluster::history::{Application, Asked, Authority, Heard, Record, Restore, State};

/// Everything that is known, and what cannot be.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    pub(crate) leases: BTreeMap<String, Known>,
    pub(crate) anomalies: Vec<Anomaly>,
    restores: Vec<Restore>,
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
    /// Nothing was asked that ends the authority and frees the resource in two steps.
    ends_in_one_step: bool,
    /// When its holder first asked to give it back, whatever came of it.
    given_up: Option<u64>,
    released: bool,
    /// What it is said to have ended of, and by which record.
    reasons: Vec<(usize, Option<String>)>,
    /// Answers that it is not known, when they came, and whether they told what became of it.
    missing: Vec<(usize, u64, bool)>,
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
    pub(crate) fn of(history: &[Record], restores: &[Restore]) -> Self {
        let mut knowledge = Self { restores: restores.to_vec(), ..Self::default() };
        let (wishes, by_holder) = wishes_of(history);
        knowledge.find_granted(history, &wishes);
        knowledge.find_seen(history, &wishes, &by_holder);
        let asked_first = first_tries_of(history);
        for (place, record) in history.iter().enumerate() {
            knowledge.learn(place, record, asked_first[record.operation.as_str()]);
        }
        let mut misfits = Vec::new();
        for known in knowledge.leases.values_mut() {
            let found = known.conclude(restores).into_iter();
            misfits.extend(found.map(|(place, story)| (known.resource.clone(), known.shown(), place, story)));
        }
        for (resource, shown, place, story) in misfits {
            let story = format!("{shown} {story}\n  {}", history[place]);
            knowledge.wrong(Rule::NothingIsLost, &resource, story);
        }
        knowledge.check_operations();
        knowledge
    }

    /// The name of a lease in all its ids: a restore gives every id another beginning.
    fn key<'a>(&self, lease: &'a str) -> &'a str {
        match lease.rsplit_once('-') {
            Some((_, number)) if !self.restores.is_empty() => number,
            _ => lease,
        }
    }

    pub(crate) fn lease(&self, lease: &str) -> Option<&Known> {
        self.leases.get(self.key(lease))
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

    /// Leases whose grant was told.
    fn find_granted<'a>(&mut self, history: &'a [Record], wishes: &BTreeMap<&'a str, Wish<'a>>) {
        for record in history {
            let Some((_, Heard::Granted { lease, fence, .. })) = &record.heard else { continue };
            let Asked::Acquire { resource, .. } = &record.asked else {
                self.wrong(Rule::NothingFromNowhere, "", format!("no acquire of that id\n  {record}"));
                continue;
            };
            self.note(record, (lease, *fence), (&record.operation, resource), wishes);
        }
    }

    /// Leases that only checks saw. Whose they are, the holder tells; where several operations name that holder, one
    /// whose outcome nobody heard.
    fn find_seen<'a>(
        &mut self,
        history: &'a [Record],
        wishes: &BTreeMap<&'a str, Wish<'a>>,
        by_holder: &BTreeMap<&'a str, Vec<&'a str>>,
    ) {
        let mut taken: BTreeSet<String> = self.leases.values().map(|known| known.operation.clone()).collect();
        for record in history {
            let (Asked::Check { resource }, Some((heard_ns, Heard::Authority(Some(authority))))) =
                (&record.asked, &record.heard)
            else {
                continue;
            };
            let Authority { lease, holder, fence } = authority;
            let known = self.lease(lease).filter(|known| known.holder == *holder);
            let operation = match known {
                Some(known) => known.operation.clone(),
                None => {
                    let all = by_holder.get(holder.as_str()).into_iter().flatten();
                    let fitting = all.filter(|operation| wishes[*operation].fits(resource));
                    let is_open = |operation: &&&str| {
                        let first = wishes[**operation].first;
                        !taken.contains(**operation) && first.is_some_and(|first| first.at_ns <= *heard_ns)
                    };
                    let Some(operation) = fitting.clone().find(is_open).or_else(|| fitting.clone().next())
                    else {
                        let story = format!("nobody asked for this\n  {record}");
                        self.wrong(Rule::NothingFromNowhere, resource, story);
                        continue;
                    };
                    (*operation).to_owned()
                }
            };
            self.note(record, (lease, *fence), (&operation, resource), wishes);
            taken.insert(operation);
        }
    }

    /// A record tells that an operation got a lease over a resource.
    fn note(
        &mut self,
        record: &Record,
        (lease, fence): (&str, u64),
        (operation, resource): (&str, &str),
        wishes: &BTreeMap<&str, Wish<'_>>,
    ) {
        let wish = &wishes[operation];
        let Some(first) = wish.first else {
            let story = format!("every try of {operation} was refused\n  {record}");
            self.wrong(Rule::NothingFromNowhere, resource, story);
            return;
        };
        let key = self.key(lease).to_owned();
        let known =
            self.leases.entry(key).or_insert_with(|| Known::new(lease, operation, resource, wish.holder));
        known.granted.not_before(first);
        let told = format!("{} has fence {:?} and fence {fence}\n  {record}", known.shown(), known.fence);
        let is_same_fence = *known.fence.get_or_insert(fence) == fence;
        let is_same_wish = known.operation == operation && known.resource == resource && wish.fits(resource);
        let resource = known.resource.clone();
        if !is_same_fence {
            self.wrong(Rule::FencesRise, &resource, told);
        }
        if !is_same_wish {
            let story = format!("one lease for two operations, or for a resource not asked for\n  {record}");
            self.wrong(Rule::NothingFromNowhere, &resource, story);
        }
    }

    /// `asked_first`: the first try of the same operation.
    fn learn(&mut self, place: usize, record: &Record, asked_first: Limit) {
        let heard = record.heard.as_ref();
        let lease = match (&record.asked, heard) {
            (_, Some((_, Heard::Granted { lease, .. }))) => lease,
            (_, Some((_, Heard::Held { by: Some(lease) }))) => lease,
            (_, Some((_, Heard::Authority(Some(authority))))) => &authority.lease,
            (
                Asked::Heartbeat { lease }
                | Asked::Release { lease }
                | Asked::GiveUp { lease }
                | Asked::Inspect { lease },
                _,
            ) => lease,
            (Asked::Acquire { .. } | Asked::Check { .. }, _) => return,
        };
        let key = self.key(lease).to_owned();
        let Some(known) = self.leases.get_mut(&key) else { return };
        known.records.push(place);
        let sent = Limit::by(place, record.sent_ns);
        if matches!(record.asked, Asked::Release { .. } | Asked::GiveUp { .. }) {
            let given_up = known.given_up.get_or_insert(sent.at_ns);
            *given_up = sent.at_ns.min(*given_up);
            // A refusal says that the lease was over already, not that this try ended it.
            let is_refused = matches!(heard, Some((_, Heard::Lost { .. }))) || !record.may_have_happened();
            if !is_refused {
                let is_target = Application::of(&known.resource) == Application::Targets;
                let is_released = matches!(heard, Some((_, Heard::Released)));
                let is_release = matches!(record.asked, Asked::Release { .. });
                // Of a target a former holder may still act: then it comes free later.
                known.ends_in_one_step &= is_release && (is_released || !is_target);
                if known.release_sent.is_none_or(|first| sent.at_ns < first.at_ns) {
                    known.release_sent = Some(sent);
                }
            }
        }
        let Some((heard_ns, heard)) = heard else { return };
        let heard_at = Limit::by(place, *heard_ns);
        // A refusal is told again to whoever asks again under the same id: it may be as old as the first try.
        let since = if matches!(heard, Heard::Held { .. }) { asked_first } else { sent };
        known.hear(heard, since, heard_at);
        if *heard == Heard::Missing {
            let is_inspect = matches!(record.asked, Asked::Inspect { .. });
            known.missing.push((place, *heard_ns, is_inspect));
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

fn wishes_of(history: &[Record]) -> (BTreeMap<&str, Wish<'_>>, BTreeMap<&str, Vec<&str>>) {
    let mut wishes: BTreeMap<&str, Wish<'_>> = BTreeMap::new();
    let mut by_holder: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (place, record) in history.iter().enumerate() {
        let Asked::Acquire { resource, holder } = &record.asked else { continue };
        let wish = wishes.entry(&record.operation).or_insert_with(|| {
            by_holder.entry(holder).or_default().push(&record.operation);
            Wish { resource, holder, first: None }
        });
        // What was asked for, not what was granted of it.
        if resource.ends_with('*') {
            wish.resource = resource;
        }
        if record.may_have_happened() && wish.first.is_none_or(|first| record.sent_ns < first.at_ns) {
            wish.first = Some(Limit::by(place, record.sent_ns));
        }
    }
    (wishes, by_holder)
}

impl Wish<'_> {
    fn fits(&self, resource: &str) -> bool {
        match self.resource.strip_suffix('*') {
            Some(beginning) => resource.starts_with(beginning),
            None => resource == self.resource,
        }
    }
}

impl Known {
    fn new(lease: &str, operation: &str, resource: &str, holder: &str) -> Self {
        Self {
            lease: lease.to_owned(),
            resource: resource.to_owned(),
            operation: operation.to_owned(),
            holder: holder.to_owned(),
            fence: None,
            granted: Bound::open(),
            over: Bound::open(),
            free: Bound::open(),
            promised: None,
            known_from: None,
            release_sent: None,
            ends_in_one_step: true,
            given_up: None,
            released: false,
            reasons: Vec::new(),
            missing: Vec::new(),
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
            Heard::GivenUp => {
                self.released = true;
                self.over.not_after(heard_at);
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
            // Not known is not live. Whether it may be so is looked at in the end.
            Heard::Missing => self.over.not_after(heard_at),
            Heard::Declined { .. } => {}
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

    /// Once everything is heard: an end comes after the promise, by a release or by a restore, for a reason that fits.
    fn conclude(&mut self, restores: &[Restore]) -> Vec<(usize, String)> {
        let application = Application::of(&self.resource);
        let silence = application.reason_of_silence();
        // Restores that may have ended it, and the first of those that it certainly did not survive.
        let mut since =
            restores.iter().filter(|restore| self.granted.earliest().at_ns < restore.until_ns).peekable();
        let restored_at = since.peek().map(|restore| restore.from_ns);
        let granted_by = self.granted.latest().map(|latest| latest.at_ns);
        if let Some(ended) = since.find(|restore| granted_by.is_some_and(|granted| granted < restore.from_ns))
        {
            self.over.not_after(Limit::of_restore(ended.until_ns));
        }
        let mut misfits = self.check_missing(restores);
        for (place, reason) in &self.reasons {
            let story = match (reason.as_deref(), self.release_sent) {
                (Some("explicit"), Some(_)) => continue,
                (Some("explicit"), None) => "ended by a release that nobody sent".to_owned(),
                (Some("restored"), _) if self.released => {
                    "was released, but is said to have lived until a restore".to_owned()
                }
                (Some("restored"), _) if restored_at.is_some() => continue,
                // Granted to one who had hung up: nobody was told of it.
                (Some("abandoned"), _) if self.known_from.is_none() => continue,
                (Some(reason), _) if reason == silence && !self.released => continue,
                (Some(reason), _) if reason == silence => {
                    "was released, but is said to have expired".to_owned()
                }
                (other, _) => format!("ended for a reason that nothing accounts for: {other:?}"),
            };
            misfits.push((*place, story));
        }
        let is_said = |wanted: &str| self.reasons.iter().any(|(_, reason)| reason.as_deref() == Some(wanted));
        // A close is the silence of its connection. Everything else that expired was ended by no release.
        let is_closed = application == Application::Connections && !self.ends_in_one_step;
        let has_expired = is_said(silence) && !is_closed;
        let is_restored = is_said("restored");
        // What expired was ended by no release: its whole promise counts.
        let release = self.release_sent.filter(|_| self.released || !(has_expired || is_restored));
        // Where nobody knows what ended it, it may have been a restore.
        let may_be_restored = restored_at.is_some() && !is_said(silence) && !self.released;
        let is_one_step = self.ends_in_one_step && !may_be_restored;
        // A release ends the authority and frees the resource in one step.
        let by_release = release.map(|release| {
            let free = self.free.earliest();
            if is_one_step && free.at_ns > release.at_ns { free } else { release }
        });
        let restored_at = restored_at.filter(|_| may_be_restored);
        let promised = self.promised.map(|promised| match restored_at {
            Some(at_ns) if at_ns < promised.at_ns => Limit { at_ns, ..promised },
            _ => promised,
        });
        match (promised, by_release) {
            (_, Some(release)) if self.released => self.over.not_before(release),
            (Some(promised), Some(release)) if release.at_ns < promised.at_ns => {
                self.over.not_before(release)
            }
            (Some(promised), _) => self.over.not_before(promised),
            (None, _) => {}
        }
        misfits
    }

    /// A restore gives ids another beginning: those who renew an old one are told that it is not known. Those who ask what
    /// became of it are told if it was held when the restore came; what had ended before is in no history after it.
    fn check_missing(&self, restores: &[Restore]) -> Vec<(usize, String)> {
        let mut misfits = Vec::new();
        for (place, heard_ns, is_inspect) in &self.missing {
            let mut since = restores.iter().filter(|restore| {
                restore.from_ns < *heard_ns && self.granted.earliest().at_ns < restore.until_ns
            });
            let is_excused = since.any(|restore| {
                let promised = self.promised.is_some_and(|promised| promised.at_ns > restore.stopped_ns);
                let given_up = self.given_up.is_some_and(|at_ns| at_ns < restore.stopped_ns);
                !is_inspect || given_up || !promised
            });
            if !is_excused {
                misfits.push((*place, "was acknowledged and is not known any more".to_owned()));
            }
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
