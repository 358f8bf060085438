//! `why`: everything the log knows of one lease, one resource or one session, oldest first, a sentence each, and what
//! would happen next.
//!
//! A record is found by what it names. A lease's records do not repeat its resources and its session's do not name it,
//! so a story is gathered in steps: the subject, then the leases it leads to, then the sessions that kept them.

mod gather;
mod outlook;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tenure_kernel::{
    Actor, Change, Evidence, LeaseId, Lsn, Note, Reason, ReclaimBy, SessionId, Text, Tick,
    names::split_pool_member,
};
use tenure_log::file::FileReader;
use tenure_log::{Identity, OfflineLog, ReadError, SharedDisk};

use crate::index::{IndexStore, Key};
use crate::record::{Content, LoggedRecord, each_record};
use crate::sentence::{When, change_at, note_at};
use gather::{Gathered, spans};

/// Whom a story is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    /// One lease.
    Lease(LeaseId),
    /// A resource, under any holder; or a pool.
    Resource(Text),
    /// A session and the leases while it kept them.
    Session(SessionId),
    /// A registration or a stream, by the id its face gave it.
    FaceId(Text),
}

/// What is known of a subject.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Story {
    /// Whom it is about.
    pub subject: Subject,
    /// What happened, oldest first. Empty: the log knows nothing of the subject.
    pub entries: Vec<Entry>,
    /// What would happen next, as far as the log knows; `None` when nothing is left to happen.
    pub next: Option<String>,
    /// The oldest LSN that is kept: what stood before it is not in the story.
    pub oldest_lsn: Lsn,
    /// How many older records at least were left out to keep the story within its limit.
    pub left_out: u64,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its position in the log.
    pub lsn: Lsn,
    /// Its tick.
    pub tick: Tick,
    /// Unix milliseconds, for people.
    pub wall_ms: u64,
    /// Wire word of its kind.
    pub kind: &'static str,
    /// The lease it concerns, if it concerns one alone.
    pub lease: Option<LeaseId>,
    /// Who caused it; `None` where the log does not say.
    pub actor: Option<Actor>,
    /// What the daemon had seen; `None` where it acted on a command alone.
    pub evidence: Option<Evidence>,
    /// Silence was counted from a restart: no heartbeat came at the instant that the evidence has as the last one.
    pub since_restart: bool,
    /// What happened, in a sentence.
    pub text: String,
}

/// How much of a story is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WhyLimits {
    /// Entries; the newest are kept.
    pub entries_max: usize,
    /// Leases that a resource's or a session's story follows; the newest are kept.
    pub leases_max: usize,
}

impl Default for WhyLimits {
    fn default() -> Self {
        Self { entries_max: 1000, leases_max: 200 }
    }
}

/// Tells stories from a log, while it is written or at rest.
pub struct History {
    indexes: IndexStore,
    reader: FileReader,
    identity: Identity,
    archive: Option<PathBuf>,
}

impl History {
    /// The history of the log under `root` that somebody is writing; `reader` is one of its readers.
    pub fn online(disk: SharedDisk, root: &Path, reader: FileReader, identity: Identity) -> Self {
        Self { indexes: IndexStore::new(disk, &root.join("log")), reader, identity, archive: None }
    }

    /// The history of a log at rest. Nothing is written.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn offline(disk: SharedDisk, root: &Path) -> Result<Self, ReadError> {
        let log = OfflineLog::open(disk.clone(), root)?;
        let (reader, identity) = (log.reader()?, log.identity());
        Ok(Self { indexes: IndexStore::new(disk, &log.directory()), reader, identity, archive: None })
    }

    /// Another reader of the same history: readers share nothing that one could keep from another.
    #[must_use]
    pub fn another(&self) -> Self {
        let (indexes, archive) = (self.indexes.clone(), self.archive.clone());
        Self { indexes, reader: self.reader.another(), identity: self.identity, archive }
    }

    /// The same, of a log whose trimmed segments go to `archive`.
    #[must_use]
    pub fn archived_in(self, archive: Option<PathBuf>) -> Self {
        Self { archive, ..self }
    }

    /// Where what was trimmed can be read, if anything was.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn archive(&mut self) -> Result<Option<&Path>, ReadError> {
        let is_whole = self.oldest_lsn()? <= Lsn(1);
        Ok(self.archive.as_deref().filter(|_| !is_whole))
    }

    /// Who the log is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Makes missing indexes and removes those nobody needs, so that later stories read little. Off the hot path.
    ///
    /// # Errors
    /// When a segment cannot be read or an index not stored.
    pub fn maintain_indexes(&mut self) -> Result<crate::Maintained, crate::IndexError> {
        let mut reader = self.reader.another();
        self.indexes.maintain(&mut reader)
    }

    /// Tells the story of a subject.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn why(&mut self, subject: &Subject, limits: WhyLimits) -> Result<Story, ReadError> {
        let mut told = match subject {
            Subject::Lease(lease) => self.lease_records(*lease, limits)?,
            Subject::Resource(name) => self.resource_records(name, limits)?,
            Subject::Session(session) => self.session_records(*session, limits)?,
            Subject::FaceId(id) => self.records_of_face_id(id, limits)?,
        };
        drop_what_does_not_matter(&mut told.records);
        while told.records.len() > limits.entries_max {
            told.records.pop_first();
            told.left_out += 1;
        }
        let granted_in = self.identity.shard;
        let next = outlook::next(subject, told.records.values());
        let mut restarted = None;
        let entries = told.records.values().filter_map(|record| entry(record, granted_in, &mut restarted));
        let entries = entries.collect();
        Ok(Story {
            subject: subject.clone(),
            entries,
            next,
            oldest_lsn: self.oldest_lsn()?,
            left_out: told.left_out,
        })
    }

    fn lease_records(&mut self, lease: LeaseId, limits: WhyLimits) -> Result<Gathered, ReadError> {
        if lease.shard() != self.identity.shard {
            return Ok(Gathered::default());
        }
        let mut told = self.gather(&[Key::Lease(lease.lsn()), Key::Daemon], limits.entries_max)?;
        self.add_sessions(&mut told, &BTreeSet::from([lease.lsn()]), limits)?;
        Ok(told)
    }

    fn resource_records(&mut self, name: &str, limits: WhyLimits) -> Result<Gathered, ReadError> {
        let mut keys = vec![Key::Resource(name), Key::Daemon];
        keys.extend(split_pool_member(name).map(|(pool, _)| Key::Resource(pool)));
        let mut told = self.gather(&keys, limits.entries_max)?;
        // The pool's own name may be a resource too, with leases of its own.
        told.records.retain(|_, record| match record.event().map(|event| &event.change) {
            Some(Change::PoolDefined { .. } | Change::PoolRemoved { .. }) | None => true,
            Some(change) => covers(change, name),
        });
        let leases = told.newest_leases(limits.leases_max);
        self.add_leases(&mut told, &leases, limits)?;
        self.add_sessions(&mut told, &leases, limits)?;
        Ok(told)
    }

    fn session_records(&mut self, session: SessionId, limits: WhyLimits) -> Result<Gathered, ReadError> {
        let mut told = self.gather(&[Key::Session(session), Key::Daemon], limits.entries_max)?;
        let leases = told.newest_leases(limits.leases_max);
        self.add_leases(&mut told, &leases, limits)?;
        let spans = spans(told.records.values(), &leases);
        told.records.retain(|lsn, record| match record.lease_lsn() {
            None => true,
            Some(lease) => spans.iter().any(|span| {
                span.lease == lease && span.session == session && (span.from..=span.to).contains(lsn)
            }),
        });
        Ok(told)
    }

    /// An id that was given again long after is the newer one's.
    fn records_of_face_id(&mut self, id: &str, limits: WhyLimits) -> Result<Gathered, ReadError> {
        let mut told = self.gather(&[Key::FaceId(id), Key::Daemon], limits.entries_max)?;
        let leases = told.newest_leases(1);
        self.add_leases(&mut told, &leases, limits)?;
        self.add_sessions(&mut told, &leases, limits)?;
        Ok(told)
    }

    fn add_leases(
        &mut self,
        told: &mut Gathered,
        leases: &BTreeSet<Lsn>,
        limits: WhyLimits,
    ) -> Result<(), ReadError> {
        let keys: Vec<Key<'_>> = leases.iter().map(|lease| Key::Lease(*lease)).collect();
        let found = self.gather(&keys, limits.entries_max)?;
        told.join(found);
        Ok(())
    }

    /// Adds what happened to the sessions of leases while they kept them.
    fn add_sessions(
        &mut self,
        told: &mut Gathered,
        leases: &BTreeSet<Lsn>,
        limits: WhyLimits,
    ) -> Result<(), ReadError> {
        let spans = spans(told.records.values(), leases);
        let sessions: BTreeSet<SessionId> = spans.iter().map(|span| span.session).collect();
        let keys: Vec<Key<'_>> = sessions.into_iter().map(Key::Session).collect();
        let mut found = self.gather(&keys, limits.entries_max)?;
        found.records.retain(|lsn, record| {
            let session = record.session();
            record.lease_lsn().is_none()
                && spans
                    .iter()
                    .any(|span| Some(span.session) == session && (span.from..=span.to).contains(lsn))
        });
        told.join(found);
        Ok(())
    }

    /// The record at a position; `None` if there is none yet.
    ///
    /// # Errors
    /// When it is not kept any more, or the log cannot be read.
    pub fn record(&mut self, lsn: Lsn) -> Result<Option<LoggedRecord>, ReadError> {
        let mut reader = self.reader.another();
        reader.seek(tenure_log::Lsn(lsn.0))?;
        let Some((position, frame)) = reader.next_located()? else { return Ok(None) };
        let mut found = None;
        each_record(position, &frame, |record| {
            if record.lsn == lsn {
                found = Some(record);
            }
        });
        Ok(found)
    }

    /// The records at positions that rise, in one pass over the log; without those that are not kept or cannot be read.
    #[must_use]
    pub fn records(&self, positions: &[Lsn]) -> Vec<LoggedRecord> {
        let mut reader = self.reader.another();
        let mut records = Vec::with_capacity(positions.len());
        let mut wanted = positions;
        while let Some(first) = wanted.first() {
            let found = reader.seek(tenure_log::Lsn(first.0)).and_then(|()| reader.next_located());
            let read = match found {
                Ok(Some((position, frame))) => {
                    each_record(position, &frame, |record| {
                        if wanted.binary_search(&record.lsn).is_ok() {
                            records.push(record);
                        }
                    });
                    let next = frame.header.next_lsn().0;
                    wanted.partition_point(|lsn| lsn.0 < next)
                }
                Ok(None) => break,
                Err(_) => 0,
            };
            wanted = &wanted[read.max(1)..];
        }
        records
    }

    /// The oldest position that is kept.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn oldest_lsn(&mut self) -> Result<Lsn, ReadError> {
        let mut reader = self.reader.another();
        if let Some((_, frame)) = reader.next_located()? {
            return Ok(Lsn(frame.header.first_lsn.0));
        }
        // A copy that began with a snapshot may have nothing yet, and still it does not begin with the log.
        Ok(Lsn(reader.extents().first().map_or(1, |extent| extent.first_lsn.0)))
    }
}

/// A restart matters where silence was counted from it, or where it let a wait after a revoke begin again; of several in a
/// row, the last.
fn restarts_that_do_not_matter(records: &BTreeMap<Lsn, LoggedRecord>) -> Vec<Lsn> {
    let mut waiting = BTreeSet::new();
    let mut last: Option<(Lsn, Tick, bool)> = None;
    let mut dropped = Vec::new();
    for (lsn, record) in records {
        let counted_from = match &record.content {
            Content::Note(Note::Restarted) => {
                dropped.extend(last.replace((*lsn, record.tick, !waiting.is_empty())).map(|(lsn, ..)| lsn));
                continue;
            }
            Content::Note(Note::Draining { last_seen, .. }) => Some(*last_seen),
            Content::Event(event) => {
                match &event.change {
                    Change::Revoked(revoked) if revoked.reclaim_by == ReclaimBy::Daemon => {
                        waiting.insert(record.lease_lsn());
                    }
                    change if change.epitaph().is_some() => _ = waiting.remove(&record.lease_lsn()),
                    _ => {}
                }
                match evidence(&event.change) {
                    Some(Evidence::Silence { last_seen, .. }) => Some(last_seen),
                    _ => None,
                }
            }
            Content::Note(_) => None,
            Content::UnknownNote { .. } | Content::Tick | Content::Close | Content::Unreadable { .. } => {
                continue;
            }
        };
        if let (Some(last_seen), Some((lsn, at, matters))) = (counted_from, last)
            && (last_seen <= at || !matters)
        {
            last = None;
            dropped.extend((last_seen > at).then_some(lsn));
        }
    }
    dropped.extend(last.filter(|(_, _, matters)| !matters).map(|(lsn, ..)| lsn));
    dropped
}

/// What concerns everybody belongs to a story only where it matters: breaker and stalls where an end was near, restarts
/// where they explain something.
fn drop_what_does_not_matter(records: &mut BTreeMap<Lsn, LoggedRecord>) {
    let mut draining = BTreeSet::new();
    restarts_that_do_not_matter(records).iter().for_each(|lsn| {
        records.remove(lsn);
    });
    records.retain(|_, record| match &record.content {
        Content::Note(Note::BreakerOpened { .. } | Note::BreakerClosed | Note::Stalled { .. }) => {
            !draining.is_empty()
        }
        Content::Note(Note::Draining { .. }) => {
            draining.insert((record.lease_lsn(), record.session()));
            true
        }
        Content::Note(Note::Returned { .. }) => {
            draining.remove(&(record.lease_lsn(), record.session()));
            true
        }
        Content::Note(Note::GateOpened { .. } | Note::Restarted) => true,
        Content::Event(event) => {
            match &event.change {
                Change::Drained(_) => {
                    draining.insert((record.lease_lsn(), None));
                }
                Change::SessionClosed { session, .. } => {
                    draining.remove(&(None, Some(*session)));
                }
                _ => {
                    draining.remove(&(record.lease_lsn(), None));
                }
            }
            true
        }
        Content::UnknownNote { .. } | Content::Tick | Content::Close | Content::Unreadable { .. } => false,
    });
}

fn covers(change: &Change, name: &str) -> bool {
    let granted = match change {
        Change::Granted(granted) => granted.members.as_slice(),
        _ => &[],
    };
    let ended = change.epitaph().map_or(&[][..], |was| &was.members);
    granted.iter().chain(ended).any(|member| member == name)
}

/// `restarted` is the last start of a daemon before it.
fn entry(record: &LoggedRecord, shard: u64, restarted: &mut Option<Tick>) -> Option<Entry> {
    let when = When { restarted: *restarted, ..When::of(record) };
    let (kind, actor, evidence, text) = match &record.content {
        Content::Event(event) => (
            event.change.kind().as_str(),
            actor(&event.change),
            evidence(&event.change),
            change_at(&event.change, when),
        ),
        Content::Note(note) => {
            if let Note::Restarted = note {
                *restarted = Some(record.tick);
            }
            (note.kind(), Some(Actor::Daemon), None, note_at(note, when))
        }
        Content::UnknownNote { .. } | Content::Tick | Content::Close | Content::Unreadable { .. } => {
            return None;
        }
    };
    let lease = record.lease_lsn().map(|lsn| LeaseId::new(shard, lsn));
    let (lsn, tick, wall_ms) = (record.lsn, record.tick, record.wall_ms);
    let since_restart =
        matches!(evidence, Some(Evidence::Silence { last_seen, .. }) if when.is_unheard(last_seen));
    Some(Entry { lsn, tick, wall_ms, kind, lease, actor, evidence, since_restart, text })
}

fn actor(change: &Change) -> Option<Actor> {
    match change {
        Change::Granted(_)
        | Change::Activated { .. }
        | Change::Rebound(_)
        | Change::Amended(_)
        | Change::Released(_)
        | Change::SessionOpened(_) => Some(Actor::Holder),
        Change::Drained(steered) | Change::Revived(steered) => Some(steered.actor.clone()),
        Change::Revoked(revoked) => Some(revoked.actor.clone()),
        Change::Reclaimed(reclaimed) => Some(reclaimed.actor.clone()),
        Change::SessionClosed { reason: Reason::Explicit, .. } => Some(Actor::Holder),
        Change::Expired(_)
        | Change::SessionClosed { .. }
        | Change::Notified { .. }
        | Change::Trimmed { .. }
        | Change::Configured(_) => Some(Actor::Daemon),
        Change::PoolDefined { .. } | Change::PoolRemoved { .. } => None,
    }
}

fn evidence(change: &Change) -> Option<Evidence> {
    match change {
        Change::Revoked(revoked) => match revoked.evidence {
            Evidence::None => None,
            seen @ (Evidence::Silence { .. }
            | Evidence::Disconnected { .. }
            | Evidence::Lifetime { .. }
            | Evidence::Drained { .. }) => Some(seen),
        },
        _ => None,
    }
}
