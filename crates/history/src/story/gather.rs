//! Finding the records of a story: through the index where there is one, else by reading the segment whole.

use std::collections::{BTreeMap, BTreeSet};

use tenure_kernel::{Change, LeaseId, Lsn, Note, SessionId, Subject};
use tenure_log::ReadError;
use tenure_log::file::Position;

use super::History;
use crate::index::{Key, each_key};
use crate::record::{Content, LoggedRecord, each_record};

/// Records by position, the newest ones, and how many older ones there were.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) records: BTreeMap<Lsn, LoggedRecord>,
    pub(super) left_out: u64,
}

/// A stretch of the log during which a session kept a lease; both ends belong to it.
pub(super) struct Span {
    pub(super) lease: Lsn,
    pub(super) session: SessionId,
    pub(super) from: Lsn,
    pub(super) to: Lsn,
}

impl History {
    /// The newest `records_max` records that have one of these keys.
    pub(super) fn gather(&mut self, keys: &[Key<'_>], records_max: usize) -> Result<Gathered, ReadError> {
        let mut gathered = Gathered::default();
        if keys.is_empty() {
            return Ok(gathered);
        }
        let wanted: BTreeSet<Key<'_>> = keys.iter().copied().collect();
        let segments = self.indexes.segments().map_err(|source| {
            let file = "the log directory".to_owned();
            ReadError::Io { file, source }
        })?;
        for segment in segments {
            let narrowed = self.indexes.find(segment, keys).ok();
            let read = narrowed.and_then(|offsets| self.read_frames(segment, &offsets, &wanted).ok());
            let found = match read {
                Some(found) => found,
                // No index, or one that leads astray: only the records decide.
                None => match self.read_segment(segment, &wanted) {
                    Ok(found) => found,
                    // Trimmed, or so new that nothing in it is durable yet.
                    Err(ReadError::Trimmed { .. }) => continue,
                    Err(error) => return Err(error),
                },
            };
            for record in found {
                gathered.records.insert(record.lsn, record);
            }
            gathered.keep_newest(records_max);
        }
        Ok(gathered)
    }

    fn read_frames(
        &mut self,
        segment: tenure_log::Lsn,
        offsets: &[u64],
        wanted: &BTreeSet<Key<'_>>,
    ) -> Result<Vec<LoggedRecord>, ReadError> {
        let mut found = Vec::new();
        for offset in offsets {
            self.reader.seek_to(Position { segment, offset: *offset })?;
            if let Some((position, frame)) = self.reader.next_located()? {
                each_record(position, &frame, |record| take_if_wanted(record, wanted, &mut found));
            }
        }
        Ok(found)
    }

    fn read_segment(
        &mut self,
        segment: tenure_log::Lsn,
        wanted: &BTreeSet<Key<'_>>,
    ) -> Result<Vec<LoggedRecord>, ReadError> {
        let mut found = Vec::new();
        self.reader.seek_to(Position { segment, offset: 0 })?;
        while let Some((position, frame)) = self.reader.next_located()? {
            if position.segment != segment {
                break;
            }
            each_record(position, &frame, |record| take_if_wanted(record, wanted, &mut found));
        }
        Ok(found)
    }
}

fn take_if_wanted(record: LoggedRecord, wanted: &BTreeSet<Key<'_>>, found: &mut Vec<LoggedRecord>) {
    let mut matches = false;
    each_key(&record, |key| matches |= wanted.contains(&key));
    if matches {
        found.push(record);
    }
}

impl Gathered {
    /// Keeps the newest; notes that concern everybody do not push out what concerns the subject.
    fn keep_newest(&mut self, records_max: usize) {
        for everybody in [true, false] {
            let count = self.records.values().filter(|record| record.is_for_everybody() == everybody).count();
            let mut surplus = count.saturating_sub(records_max);
            if surplus == 0 {
                continue;
            }
            self.left_out += if everybody { 0 } else { surplus as u64 };
            self.records.retain(|_, record| {
                let drop = surplus > 0 && record.is_for_everybody() == everybody;
                surplus -= usize::from(drop);
                !drop
            });
        }
    }

    pub(super) fn join(&mut self, other: Self) {
        self.records.extend(other.records);
        self.left_out += other.left_out;
    }

    pub(super) fn newest_leases(&mut self, leases_max: usize) -> BTreeSet<Lsn> {
        let mut leases: BTreeSet<Lsn> = self.records.values().filter_map(LoggedRecord::lease_lsn).collect();
        while leases.len() > leases_max {
            leases.pop_first();
            self.left_out += 1;
        }
        let told = |record: &LoggedRecord| record.lease_lsn().is_none_or(|lease| leases.contains(&lease));
        self.records.retain(|_, record| told(record));
        leases
    }
}

impl LoggedRecord {
    /// The grant of the lease it concerns.
    pub(super) fn lease_lsn(&self) -> Option<Lsn> {
        match &self.content {
            Content::Event(event) => event.change.lease(LeaseId::new(0, self.lsn)).map(LeaseId::lsn),
            Content::Note(
                Note::Draining { subject: Subject::Lease(lease), .. }
                | Note::Returned { subject: Subject::Lease(lease) }
                | Note::GateOpened { lease },
            ) => Some(lease.lsn()),
            Content::Note(_)
            | Content::UnknownNote { .. }
            | Content::Tick
            | Content::Close
            | Content::Unreadable { .. } => None,
        }
    }

    /// The session it is about.
    pub(super) fn session(&self) -> Option<SessionId> {
        match &self.content {
            Content::Note(
                Note::Draining { subject: Subject::Session(session), .. }
                | Note::Returned { subject: Subject::Session(session) },
            ) => Some(*session),
            Content::Event(event) => match &event.change {
                Change::SessionOpened(open) => Some(open.session),
                Change::SessionClosed { session, .. } => Some(*session),
                _ => None,
            },
            Content::Note(_)
            | Content::UnknownNote { .. }
            | Content::Tick
            | Content::Close
            | Content::Unreadable { .. } => None,
        }
    }

    fn is_for_everybody(&self) -> bool {
        matches!(
            self.content,
            Content::Note(Note::BreakerOpened { .. } | Note::BreakerClosed | Note::Stalled { .. })
        )
    }
}

/// Which session kept which of these leases from where to where.
pub(super) fn spans<'a>(
    records: impl Iterator<Item = &'a LoggedRecord> + Clone,
    leases: &BTreeSet<Lsn>,
) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut open: BTreeMap<Lsn, Option<(SessionId, Lsn)>> = BTreeMap::new();
    for record in records {
        let (Some(event), Some(lease)) = (record.event(), record.lease_lsn()) else { continue };
        if !leases.contains(&lease) {
            continue;
        }
        let policy = match &event.change {
            Change::Granted(granted) => Some(&granted.policy),
            Change::Rebound(rebound) => rebound.policy.as_ref(),
            _ => None,
        };
        let mut close = |span: Option<(SessionId, Lsn)>| {
            spans.extend(span.map(|(session, from)| Span { lease, session, from, to: record.lsn }));
        };
        if let Some(policy) = policy {
            close(open.remove(&lease).flatten());
            open.insert(lease, policy.session.map(|session| (session, record.lsn)));
        }
        if let Some(was) = event.change.epitaph() {
            // Where the grant has been trimmed, its end still tells who kept it.
            close(match open.remove(&lease) {
                Some(known) => known,
                None => was.policy.session.map(|session| (session, Lsn(0))),
            });
        }
    }
    for (lease, span) in open {
        spans.extend(span.map(|(session, from)| Span { lease, session, from, to: Lsn(u64::MAX) }));
    }
    spans
}
