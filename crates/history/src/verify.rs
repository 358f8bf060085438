//! Whether a log at rest is sound: every checksum, the chain, every record, replay, the invariants, the snapshots, and
//! that the indexes say what the segments say. Damage is a finding; an error is a disk that refuses.

use std::io::Read;
use std::path::Path;

use tenure_kernel::codec::{DecodeError, encode_state};
use tenure_kernel::{Lsn, RecordKind, Tick, Violation};
use tenure_log::file::{Cut, Position, Verification, segment_name};
use tenure_log::snapshot::{LoadError, RejectedSnapshot, SnapshotHeader, file_name};
use tenure_log::{Damage, Identity, Moment, OfflineLog, ReadError, SharedDisk, SnapshotStore};

use crate::index::{IndexProblem, IndexStore, build_index, index_name};
use crate::record::{Content, LoggedRecord, dump};
use crate::replay::{Replay, ReplayError};
use crate::state_at::{begins_at_the_beginning, identity_at, snapshots};

/// Where something is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The file's name.
    pub file: String,
    /// The byte offset in it; of the frame, where it is about a record.
    pub offset: u64,
}

/// Something that makes the log unsound.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Finding {
    /// A segment or a frame is not what was written.
    #[error("{}", .0.cause)]
    Bytes(Damage),
    /// A record whose checksum is right and that cannot be applied.
    #[error("{error}")]
    Record {
        /// Where its frame stands.
        place: Place,
        /// What is wrong with it.
        error: ReplayError,
    },
    /// The state that the records come to breaks an invariant.
    #[error("the state after lsn {lsn} is broken: {violation}")]
    Broken {
        /// The last frame before it.
        place: Place,
        /// The last record applied.
        lsn: Lsn,
        /// What is broken.
        violation: Violation,
    },
    /// A snapshot cannot be read.
    #[error("{error}")]
    Snapshot {
        /// Which file.
        place: Place,
        /// Why.
        error: String,
    },
    /// A snapshot is not the state that the records come to.
    #[error("the snapshot differs from the state of the log at lsn {lsn}")]
    SnapshotDiffers {
        /// The first byte that differs, counted from the start of the file.
        place: Place,
        /// Where.
        lsn: Lsn,
    },
    /// Replay from a snapshot and replay from the start come to different states.
    #[error("replay from the snapshot gives another state at lsn {lsn} than replay from the start")]
    ReplaysDiffer {
        /// The snapshot.
        place: Place,
        /// Where they were compared.
        lsn: Lsn,
    },
    /// The log begins after its first record and no snapshot replaces what is gone.
    #[error("records before lsn {oldest} are gone and no snapshot replaces them")]
    NoBeginning {
        /// The oldest segment.
        place: Place,
        /// The oldest LSN that is kept.
        oldest: Lsn,
    },
}

/// Something to know about that makes nothing unsound.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Warning {
    /// The log ends in a torn frame, which the next start cuts off.
    #[error("torn tail; at the next start: {0}")]
    TornTail(Cut),
    /// The log ends without a close frame: a crash, or a daemon that is running.
    #[error("the log does not end with a clean stop")]
    NoCleanStop,
    /// Notes of a known kind that cannot be read. They decide nothing.
    #[error(
        "notes that cannot be read: {count}, the first at lsn {first}; notes are advisory, and the state is complete without them"
    )]
    NotesUnreadable {
        /// How many.
        count: u64,
        /// The first.
        first: Lsn,
    },
    /// A snapshot of another log lies here; it is not used.
    #[error("{file} belongs to another log and is not used")]
    ForeignSnapshot {
        /// Which file.
        file: String,
    },
    /// An index is of no use; it is made again, and until then a segment is read whole.
    #[error("{file}: {problem}; the daemon rebuilds it")]
    Index {
        /// Which file.
        file: String,
        /// Why.
        problem: IndexProblem,
    },
}

/// A snapshot that was compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotCheck {
    /// Which state it is.
    pub lsn: Lsn,
    /// Whether a replay that had begun before it came to the same bytes. `false`: nothing before it is kept.
    pub compared: bool,
}

/// What was checked and what was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Who the log is; `None` if not one segment could be read.
    pub identity: Option<Identity>,
    /// Segments whose frames were read.
    pub segments: u64,
    /// Valid frames.
    pub frames: u64,
    /// Valid records.
    pub records: u64,
    /// Records that were decoded, by kind, in the order of [`RecordKind::ALL`].
    pub by_kind: [u64; RecordKind::ALL.len()],
    /// Notes of kinds this version does not know; skipped by design.
    pub notes_unknown: u64,
    /// The oldest LSN that is kept.
    pub first_lsn: Lsn,
    /// The last LSN.
    pub last_lsn: Lsn,
    /// The moment of the last frame.
    pub last: Moment,
    /// Whether the log ends with a clean stop.
    pub ended_cleanly: bool,
    /// Whether every record from the first one on was replayed.
    pub replayed_from_start: bool,
    /// The snapshot from which replay ran as well.
    pub replayed_from_snapshot: Option<Lsn>,
    /// The last LSN that replay applied.
    pub replayed_to: Lsn,
    /// Snapshots that are whole.
    pub snapshots: Vec<SnapshotCheck>,
    /// How often the full scan of the invariants ran.
    pub invariant_scans: u64,
    /// Indexes that say what their segments say.
    pub indexes: u64,
    /// What makes the log unsound, the first in the log first. What follows damage in the log was not looked at.
    pub damage: Vec<Finding>,
    /// What is good to know.
    pub warnings: Vec<Warning>,
}

impl Finding {
    /// Where it is.
    #[must_use]
    pub fn place(&self) -> Place {
        match self {
            Self::Bytes(damage) => Place { file: damage.file.clone(), offset: damage.offset },
            Self::Record { place, .. }
            | Self::Broken { place, .. }
            | Self::Snapshot { place, .. }
            | Self::SnapshotDiffers { place, .. }
            | Self::ReplaysDiffer { place, .. }
            | Self::NoBeginning { place, .. } => place.clone(),
        }
    }
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Checks the log under `root`. Reads everything, writes nothing.
///
/// # Errors
/// When there is no log or the disk refuses.
pub fn verify(disk: SharedDisk, root: &Path) -> Result<Report, ReadError> {
    let mut report = Report::default();
    report.take(OfflineLog::verify(disk.clone(), root)?);
    let log = match OfflineLog::open(disk.clone(), root) {
        Ok(log) => log,
        // Reported a moment ago.
        Err(ReadError::Damaged(_)) => return Ok(report),
        Err(error) => return Err(error),
    };
    report.identity = Some(log.identity());
    report.first_lsn = log.segments().next().map_or(Lsn(0), |segment| Lsn(segment.first_lsn.0));
    let (store, rejected) = match snapshots(&log)? {
        Some((store, rejected)) => (Some(store), rejected),
        None => (None, Vec::new()),
    };
    Check::new(&log, store, &mut report).run()?;
    report.rejected(rejected);
    if report.is_sound() {
        report.check_indexes(disk, &log)?;
    }
    Ok(report)
}

impl Report {
    fn take(&mut self, found: Verification) {
        self.segments = found.segments as u64;
        self.frames = found.frames;
        self.records = found.records;
        self.last_lsn = Lsn(found.last_lsn.0);
        self.last = found.last;
        self.ended_cleanly = found.ended_cleanly;
        match (found.damage, found.cut) {
            (Some(damage), _) => self.damage.push(Finding::Bytes(damage)),
            (None, Some(cut)) => self.warnings.push(Warning::TornTail(cut)),
            (None, None) if !found.ended_cleanly => self.warnings.push(Warning::NoCleanStop),
            (None, None) => {}
        }
    }

    fn rejected(&mut self, rejected: Vec<RejectedSnapshot>) {
        for RejectedSnapshot { file, error } in rejected {
            match error {
                LoadError::OtherLog => self.warnings.push(Warning::ForeignSnapshot { file }),
                LoadError::Damaged(_) | LoadError::NotKept(_) | LoadError::Io(_) => {
                    self.snapshot_unusable(file, &error);
                }
            }
        }
    }

    fn snapshot_unusable(&mut self, file: String, error: &dyn std::error::Error) {
        let place = Place { file, offset: 0 };
        self.damage.push(Finding::Snapshot { place, error: error.to_string() });
    }

    fn check_indexes(&mut self, disk: SharedDisk, log: &OfflineLog) -> Result<(), ReadError> {
        let store = IndexStore::new(disk, &log.directory());
        let mut reader = log.reader()?;
        for segment in log.segments().map(|segment| segment.first_lsn) {
            let problem = match store.load(segment) {
                Err(IndexProblem::Missing) => continue,
                Err(problem) => problem,
                Ok(index) if build_index(&mut reader, segment)?.as_ref() == Some(&index) => {
                    self.indexes += 1;
                    continue;
                }
                Ok(_) => IndexProblem::Differs,
            };
            self.warnings.push(Warning::Index { file: index_name(segment), problem });
        }
        Ok(())
    }
}

/// One walk over all records, with up to two replays beside each other.
struct Check<'a> {
    log: &'a OfflineLog,
    store: Option<SnapshotStore>,
    /// Not reached yet, oldest first.
    ahead: Vec<SnapshotHeader>,
    from_start: Option<Replay>,
    from_snapshot: Option<(SnapshotHeader, Replay)>,
    /// The last LSN before the oldest record that is kept.
    kept_after: Lsn,
    last: Position,
    report: &'a mut Report,
}

impl<'a> Check<'a> {
    fn new(log: &'a OfflineLog, store: Option<SnapshotStore>, report: &'a mut Report) -> Self {
        let ahead = store.as_ref().map(SnapshotStore::generations).unwrap_or_default();
        let identity = log.identity();
        let from_start = begins_at_the_beginning(log).then(|| Replay::new(&identity));
        report.replayed_from_start = from_start.is_some();
        let last = Position { segment: tenure_log::Lsn(report.first_lsn.0), offset: 0 };
        let kept_after = Lsn(log.segments().next().map_or(0, |segment| segment.previous_lsn.0));
        Self { log, store, ahead, from_start, from_snapshot: None, kept_after, last, report }
    }

    fn run(mut self) -> Result<(), ReadError> {
        let bytes_end = self.report.last_lsn;
        self.pass_snapshots(self.kept_after);
        if self.from_start.is_none() && self.from_snapshot.is_none() && self.ahead.is_empty() {
            let (place, oldest) = (self.place(), self.kept_after.next());
            self.report.damage.push(Finding::NoBeginning { place, oldest });
        }
        for record in dump(self.log, Lsn(0))? {
            let record = match record {
                Ok(record) if record.lsn <= bytes_end => record,
                // A daemon that is running wrote it meanwhile.
                Ok(_) => break,
                // Reported a moment ago.
                Err(ReadError::Damaged(_)) => break,
                Err(error) => return Err(error),
            };
            self.pass_snapshots(Lsn(record.lsn.0 - 1));
            self.last = record.frame;
            if !self.record(&record) {
                return Ok(());
            }
        }
        self.pass_snapshots(bytes_end);
        self.finish();
        Ok(())
    }

    /// Counts and applies one record. `false`: nothing after it can be judged.
    fn record(&mut self, record: &LoggedRecord) -> bool {
        if let Some(kind) = RecordKind::ALL.iter().position(|kind| Some(*kind) == record.kind) {
            self.report.by_kind[kind] += 1;
        }
        match (&record.content, record.kind) {
            (Content::UnknownNote { .. }, _) => self.report.notes_unknown += 1,
            (Content::Unreadable { .. }, Some(RecordKind::Note)) => self.note_unreadable(record.lsn),
            _ => {}
        }
        let from_snapshot = self.from_snapshot.as_mut().map(|(_, replay)| replay);
        let (mut applied, mut replays) = (Ok(()), false);
        for replay in self.from_start.as_mut().into_iter().chain(from_snapshot) {
            applied = applied.and_then(|()| replay.apply(record));
            replays = true;
        }
        match applied {
            Ok(()) if replays => self.report.replayed_to = record.lsn,
            Ok(()) => {}
            Err(error) => {
                let place = self.place();
                self.report.damage.push(Finding::Record { place, error });
                return false;
            }
        }
        if let (
            Content::Unreadable { error, .. },
            Some(RecordKind::Event | RecordKind::Config | RecordKind::Tick) | None,
        ) = (&record.content, record.kind)
        {
            // Before the oldest snapshot nothing is replayed, and still every record must be one.
            let error = ReplayError::Unreadable { lsn: record.lsn, source: *error };
            let place = self.place();
            self.report.damage.push(Finding::Record { place, error });
            return false;
        }
        true
    }

    fn note_unreadable(&mut self, lsn: Lsn) {
        for warning in &mut self.report.warnings {
            if let Warning::NotesUnreadable { count, .. } = warning {
                *count += 1;
                return;
            }
        }
        self.report.warnings.push(Warning::NotesUnreadable { count: 1, first: lsn });
    }

    /// Compares every snapshot up to `lsn` that was not compared yet with the state at this point.
    fn pass_snapshots(&mut self, lsn: Lsn) {
        while self.ahead.first().is_some_and(|header| header.lsn.0 <= lsn.0) {
            let header = self.ahead.remove(0);
            if let Err(error) = self.snapshot(header) {
                self.report.snapshot_unusable(file_name(header.lsn), &*error);
            }
        }
    }

    fn snapshot(&mut self, header: SnapshotHeader) -> Result<(), Box<dyn std::error::Error>> {
        let Some(store) = &self.store else { return Ok(()) };
        let lsn = Lsn(header.lsn.0);
        let mut bytes = Vec::new();
        store.open(header.lsn)?.read_to_end(&mut bytes)?;
        let loaded: Result<Replay, DecodeError> =
            Replay::from_snapshot(&identity_at(self.log, lsn), Tick(header.at.tick), &bytes);
        let loaded = loaded?;
        loaded.kernel().check_invariants()?;
        self.report.invariant_scans += 1;
        let compared = self.replays().next().is_some();
        let differs = self.replays().find(|replay| !replay.equals(&bytes));
        let difference = differs.map(|replay| first_difference(replay, &bytes));
        if let Some(difference) = difference {
            let offset = HEADER_BYTES + difference;
            let place = Place { file: file_name(header.lsn), offset };
            self.report.damage.push(Finding::SnapshotDiffers { place, lsn });
            return Ok(());
        }
        self.report.snapshots.push(SnapshotCheck { lsn, compared });
        // Where records between the snapshot and the oldest one are gone, nothing can follow it.
        if self.from_snapshot.is_none() && lsn >= self.kept_after {
            self.report.replayed_from_snapshot = Some(lsn);
            self.from_snapshot = Some((header, loaded));
        }
        Ok(())
    }

    fn replays(&self) -> impl Iterator<Item = &Replay> {
        self.from_start.iter().chain(self.from_snapshot.iter().map(|(_, replay)| replay))
    }

    fn finish(self) {
        let cut_short = self.report.damage.iter().any(|finding| matches!(finding, Finding::Bytes(_)));
        for header in self.ahead.iter().filter(|_| !cut_short) {
            let place = Place { file: file_name(header.lsn), offset: 0 };
            let error = format!("the log ends at lsn {}, before the snapshot", self.report.last_lsn);
            self.report.damage.push(Finding::Snapshot { place, error });
        }
        let lsn = self.report.replayed_to;
        let place = self.place();
        let scans = self.replays().count() as u64;
        let broken = self.replays().find_map(|replay| replay.kernel().check_invariants().err());
        self.report.invariant_scans += scans;
        if let Some(violation) = broken {
            self.report.damage.push(Finding::Broken { place, lsn, violation });
            return;
        }
        if let (Some(from_start), Some((header, from_snapshot))) = (&self.from_start, &self.from_snapshot) {
            let mut bytes = Vec::new();
            encode_state(from_start.kernel(), &mut |piece| bytes.extend_from_slice(piece));
            if !from_snapshot.equals(&bytes) {
                let place = Place { file: file_name(header.lsn), offset: 0 };
                self.report.damage.push(Finding::ReplaysDiffer { place, lsn });
            }
        }
    }

    fn place(&self) -> Place {
        Place { file: segment_name(self.last.segment), offset: self.last.offset }
    }
}

const HEADER_BYTES: u64 = tenure_log::snapshot::SNAPSHOT_HEADER_BYTES as u64;

fn first_difference(replay: &Replay, bytes: &[u8]) -> u64 {
    let mut same = 0;
    let mut rest = Some(bytes);
    encode_state(replay.kernel(), &mut |piece| {
        if let Some(left) = rest {
            let equal = piece.iter().zip(left).take_while(|(one, other)| one == other).count();
            same += equal;
            rest = (equal == piece.len()).then(|| &left[equal..]);
        }
    });
    same as u64
}
