//! Targets that are held resources of the daemon: every resource under a prefix is a target, by its full name.
//! Listed once, followed by events, and listed again when the stream of events ends.

use super::{SourceError, TargetSource};
use crate::store::TargetName;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use tenure_client::api::{ErrorCode, Event, EventKind, EventsQuery, LeaseQuery, State};
use tenure_client::clock::{BootInstant, wait_until};
use tenure_client::{Backoff, CallError, Client, Events};

/// After the last event; what happens together is told together.
const QUIET: Duration = Duration::from_millis(100);
/// Where events never pause, what has come so far is told.
const QUIET_MAX: Duration = Duration::from_secs(1);
/// Leases on one page of a list.
const PAGE: u64 = 1000;
/// More leases than a daemon can have in one list.
const PAGES_MAX: usize = 10_000;
/// Where polling itself keeps what it holds: a poll of that would be the reason for the next one.
const OURS: &str = "poll/";

/// Targets that are held resources of the daemon with a common prefix.
pub struct PrefixSource {
    client: Client,
    prefix: String,
    /// What live leases cover, by their id.
    held: BTreeMap<String, Vec<TargetName>>,
    /// `None`: the list has to be read first.
    events: Option<Events>,
    told: Option<BTreeSet<TargetName>>,
    /// Since when and until when something has been happening.
    changing: Option<(BootInstant, BootInstant)>,
    /// The fault that was logged last, so that each is logged once.
    fault: Option<String>,
    /// When the daemon may be asked again.
    ask_at: Option<BootInstant>,
    backoff: Backoff,
}

impl PrefixSource {
    /// Creates a source of all held resources with this prefix.
    ///
    /// # Errors
    /// [`SourceError::Permanent`] for the prefix of polling itself.
    pub fn new(client: Client, prefix: impl Into<String>) -> Result<Self, SourceError> {
        let prefix = prefix.into();
        if prefix.starts_with(OURS) {
            let line = format!("{OURS} is where polling keeps its own leases: they cannot be targets");
            return Err(SourceError::Permanent(line));
        }
        Ok(Self {
            client,
            prefix,
            held: BTreeMap::new(),
            events: None,
            told: None,
            changing: None,
            fault: None,
            ask_at: None,
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(5)),
        })
    }

    /// Reads the whole list and begins to follow it from where it stood.
    async fn list(&mut self) -> Result<(), CallError> {
        let prefix = Some(self.prefix.clone()).filter(|prefix| !prefix.is_empty());
        let mut query =
            LeaseQuery { resource_prefix: prefix.clone(), limit: Some(PAGE), ..LeaseQuery::default() };
        let mut held = BTreeMap::new();
        let mut from = None;
        for _ in 0..PAGES_MAX {
            let page = self.client.leases(&query).await?;
            // What changes while pages are read comes again as an event.
            from.get_or_insert(page.lsn);
            for lease in page.leases {
                if is_live(lease.state) {
                    held.insert(lease.lease_id, self.ours(&lease.resources));
                }
            }
            match page.next_cursor {
                Some(cursor) => query.cursor = Some(cursor),
                None => break,
            }
        }
        let follow = EventsQuery { from, resource_prefix: prefix, ..EventsQuery::default() };
        self.events = Some(self.client.events(follow).await?);
        self.held = held;
        Ok(())
    }

    fn ours(&self, resources: &[String]) -> Vec<TargetName> {
        let is_ours = |name: &&String| name.starts_with(&self.prefix) && !name.starts_with(OURS);
        resources.iter().filter(is_ours).map(|name| name.as_str().into()).collect()
    }

    fn apply(&mut self, event: Event) {
        let Some(lease) = event.lease else { return };
        let ends = matches!(event.kind, EventKind::Released | EventKind::Reclaimed | EventKind::Expired);
        if ends || lease.state.is_some_and(|state| !is_live(state)) {
            self.held.remove(&lease.lease_id);
        } else if let Some(resources) = &lease.resources {
            let resources = self.ours(resources);
            self.held.insert(lease.lease_id, resources);
        }
        let now = BootInstant::now();
        let since = self.changing.map_or(now, |(since, _)| since);
        self.changing = Some((since, now));
    }

    /// What is held now, if it is news.
    fn news(&mut self) -> Option<Vec<TargetName>> {
        self.changing = None;
        let held: BTreeSet<TargetName> = self.held.values().flatten().cloned().collect();
        if self.told.as_ref() == Some(&held) {
            return None;
        }
        let targets = held.iter().cloned().collect();
        self.told = Some(held);
        Some(targets)
    }

    /// The fault, if it is news; the next try is put off.
    fn trouble(&mut self, error: &CallError) -> Option<SourceError> {
        self.events = None;
        let pause = self.backoff.next_pause().max(error.retry_after().unwrap_or_default());
        self.ask_at = Some(BootInstant::now().after(pause));
        let line = format!("cannot list what is held under {:?}: {error}", self.prefix);
        if is_final(error) {
            return Some(SourceError::Permanent(line));
        }
        let is_news = self.fault.as_ref() != Some(&line);
        self.fault = Some(line.clone());
        is_news.then_some(SourceError::Temporary(line))
    }
}

impl TargetSource for PrefixSource {
    async fn next(&mut self) -> Result<Vec<TargetName>, SourceError> {
        loop {
            let Some(events) = &mut self.events else {
                if let Some(at) = self.ask_at {
                    wait_until(at).await;
                }
                match self.list().await {
                    Ok(()) => {
                        self.backoff.reset();
                        self.fault = None;
                        if let Some(targets) = self.news() {
                            return Ok(targets);
                        }
                    }
                    Err(error) => {
                        if let Some(fault) = self.trouble(&error) {
                            return Err(fault);
                        }
                    }
                }
                continue;
            };
            let settled = self.changing.map(|(since, last)| last.after(QUIET).min(since.after(QUIET_MAX)));
            let quiet = async {
                match settled {
                    Some(at) => wait_until(at).await,
                    None => core::future::pending().await,
                }
            };
            tokio::select! {
                // First, or events that never pause would put it off for ever.
                biased;
                () = quiet => {
                    if let Some(targets) = self.news() {
                        return Ok(targets);
                    }
                }
                event = events.next() => match event {
                    Ok(Some(event)) if !matches!(event.kind, EventKind::Lagged | EventKind::Closing) => {
                        self.apply(event);
                    }
                    // The daemon stops, or we were too slow: the list is read again.
                    Ok(_) => {
                        self.events = None;
                        self.ask_at = Some(BootInstant::now().after(self.backoff.next_pause()));
                    }
                    Err(error) => {
                        if let Some(fault) = self.trouble(&error) {
                            return Err(fault);
                        }
                    }
                }
            }
        }
    }
}

/// Whether a lease in this state still covers its resources.
fn is_live(state: State) -> bool {
    match state {
        State::Reserved | State::Active | State::Revoking => true,
        State::Released | State::Expired | State::Revoked => false,
    }
}

/// Whether asking again gives the same answer.
fn is_final(error: &CallError) -> bool {
    match error {
        CallError::Rejected(refused) => matches!(
            refused.code,
            ErrorCode::Unauthorized
                | ErrorCode::Forbidden
                | ErrorCode::InvalidRequest
                | ErrorCode::InvalidName
        ),
        CallError::Unsendable(_) => true,
        CallError::Unreachable { .. }
        | CallError::Broken { .. }
        | CallError::Unexpected { .. }
        | CallError::TimedOut { .. } => false,
    }
}
