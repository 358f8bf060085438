//! A small log with one of everything in it, and a disk that counts.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use tenure_history::History;
use tenure_kernel::RecordKind;
use tenure_kernel::codec::{FORMAT, encode_event, encode_note, encode_state};
use tenure_kernel::*;
use tenure_log::disk::{DiskFile, DiskLock, LockError, LockHolder, OpenMode};
use tenure_log::{
    AppendOutcome, BatchBuilder, BatchId, Disk, FileLog, FileLogOptions, Genesis, Moment, OrderedLog,
    RealDisk, SharedDisk,
};

pub(crate) const START_MS: u64 = 1_700_000_000_000;
pub(crate) const SESSION: SessionId = SessionId(0x2a);

/// One line of a frame.
pub(crate) enum Line {
    Event(Change),
    Note(Note),
    Tick(u64),
    Raw(RecordKind, Vec<u8>),
}

/// A log being written, with the state it comes to beside it.
pub(crate) struct Tale {
    pub(crate) directory: TempDir,
    pub(crate) log: FileLog,
    pub(crate) kernel: Kernel,
    /// The state after each LSN, encoded.
    pub(crate) states: Vec<Vec<u8>>,
    next_batch: BatchId,
    tick: u64,
}

pub(crate) fn disk() -> SharedDisk {
    Arc::new(RealDisk)
}

pub(crate) fn options(random: [u8; 16]) -> FileLogOptions {
    let genesis = Genesis { random, unix_seconds: START_MS / 1000, shard: 0 };
    FileLogOptions { segment_bytes: 2048, free_bytes_min: 0, ..FileLogOptions::new(genesis, START_MS) }
}

pub(crate) fn bytes_of(kernel: &Kernel) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_state(kernel, &mut |piece| bytes.extend_from_slice(piece));
    bytes
}

impl Tale {
    pub(crate) fn begin(random: [u8; 16]) -> Self {
        Self::begin_with(options(random))
    }

    pub(crate) fn begin_with(options: FileLogOptions) -> Self {
        let directory = TempDir::new().unwrap();
        let (log, _) = FileLog::open(disk(), directory.path(), options).unwrap();
        let identity = log.identity();
        let mut setup = Setup::plain();
        setup.fence_base = identity.fence_base;
        let kernel = Kernel::new(setup);
        let states = vec![bytes_of(&kernel)];
        let next_batch = BatchId::first(log.writer_epoch());
        Self { directory, log, kernel, states, next_batch, tick: 0 }
    }

    /// Appends one frame; answers the LSN of its first record.
    pub(crate) fn frame(&mut self, tick: u64, lines: Vec<Line>) -> u64 {
        let first = self.log.next_lsn();
        let mut batch = BatchBuilder::new(self.next_batch, first, Moment { tick, wall_ms: START_MS + tick });
        self.tick = tick;
        for line in lines {
            let mut bytes = Vec::new();
            let lsn = batch.next_lsn().0;
            let kind = match line {
                Line::Event(change) => {
                    let event = Event { operation: None, change };
                    self.kernel.evolve(Stamp { lsn: Lsn(lsn), tick: Tick(self.tick) }, &event);
                    encode_event(&event, FORMAT, &mut bytes);
                    RecordKind::of_event(&event)
                }
                Line::Note(note) => {
                    encode_note(&note, &mut bytes);
                    RecordKind::Note
                }
                Line::Tick(later) => {
                    self.tick = later;
                    bytes.extend_from_slice(&later.to_le_bytes());
                    RecordKind::Tick
                }
                Line::Raw(kind, raw) => {
                    bytes = raw;
                    kind
                }
            };
            batch.push(kind, &bytes).unwrap();
            self.states.push(bytes_of(&self.kernel));
        }
        self.next_batch = self.next_batch.next();
        assert!(matches!(self.log.append(&batch.finish()), AppendOutcome::Committed { .. }));
        first.0
    }

    pub(crate) fn event(&mut self, tick: u64, change: Change) -> LeaseId {
        LeaseId::new(0, Lsn(self.frame(tick, vec![Line::Event(change)])))
    }

    pub(crate) fn note(&mut self, tick: u64, note: Note) {
        self.frame(tick, vec![Line::Note(note)]);
    }

    pub(crate) fn was(&self, lease: LeaseId) -> Epitaph {
        let view = self.kernel.live(lease).unwrap();
        Epitaph {
            lease,
            epoch: Epoch(view.epoch().0),
            holder: view.holder().clone(),
            members: view.members().cloned().collect(),
            policy: view.policy(),
            face_data: view.face_data().to_vec(),
            granted_tick: view.granted_tick(),
            granted_wall_ms: view.granted_wall_ms(),
        }
    }

    pub(crate) fn close(&mut self) {
        let at = Moment { tick: self.tick, wall_ms: START_MS + self.tick };
        assert!(matches!(self.log.close(at), AppendOutcome::Committed { .. }));
        self.states.push(bytes_of(&self.kernel));
    }

    /// Lets go of the directory's lock, as a process that ends does.
    pub(crate) fn stop(self) -> (TempDir, Vec<Vec<u8>>) {
        (self.directory, self.states)
    }

    pub(crate) fn history(&self) -> History {
        let root = self.directory.path();
        History::online(disk(), root, self.log.reader(), self.log.identity())
    }
}

pub(crate) fn granted(holder: &str, members: &[&str], policy: Policy) -> Granted {
    Granted {
        holder: holder.into(),
        members: members.iter().map(|name| Text::from(*name)).collect(),
        deadline: None,
        policy,
        face_data: Vec::new(),
        attachment: Vec::new(),
        wall_ms: START_MS,
    }
}

pub(crate) fn steered(lease: LeaseId, text: &str) -> Steered {
    Steered { lease, actor: Actor::Operator("carol".into()), text: text.into() }
}

pub(crate) fn revoked(lease: LeaseId, reason: Reason, evidence: Evidence) -> Revoked {
    Revoked {
        lease,
        epoch: Epoch(9),
        reason,
        text: Text::default(),
        actor: Actor::Daemon,
        evidence,
        reclaim_by: ReclaimBy::Daemon,
    }
}

pub(crate) fn reclaimed(was: Epitaph, reason: Reason, ground: ReclaimGround, gate: GateReport) -> Reclaimed {
    Reclaimed { was, reason, text: Text::default(), actor: Actor::Daemon, ground, gate }
}

/// The leases of [`tale`].
#[derive(Clone, Copy)]
pub(crate) struct Leases {
    pub(crate) alice: LeaseId,
    pub(crate) bob: LeaseId,
    pub(crate) carol: LeaseId,
    pub(crate) frank: LeaseId,
    pub(crate) grace: LeaseId,
}

/// One of every kind of event and note, in small segments.
pub(crate) fn tale() -> (Tale, Leases) {
    tale_of(*b"0123456789abcdef")
}

pub(crate) fn tale_of(random: [u8; 16]) -> (Tale, Leases) {
    let mut tale = Tale::begin(random);
    let retention = Retention { window_ms: 3_600_000, ..Retention::default() };
    let open = OpenSession {
        session: SESSION,
        holder: "host".into(),
        kind: SessionKind::Connection,
        ttl_ms: 0,
        grace_ms: 5_000,
        principal: "uid:1000".into(),
        accepts_handover: None,
    };
    let gpu = Change::PoolDefined { name: "gpu".into(), size: 2 };
    let first = [Change::Configured(retention), Change::SessionOpened(open), gpu];
    tale.frame(1_000, first.into_iter().map(Line::Event).collect());

    let alice = tale
        .event(2_000, Change::Granted(granted("alice", &["r1", "r2"], Policy::heartbeat(90_000, 30_000))));
    let reserved =
        Granted { deadline: Some(Tick(62_000)), ..granted("bob", &["gpu/1"], Policy::heartbeat(30_000, 0)) };
    let bob = tale.event(2_000, Change::Granted(reserved));
    tale.event(3_000, Change::Activated { lease: bob });
    let registration = Policy {
        face: Face::Registrations,
        gate: true,
        notice: true,
        reclaim_rule: ReclaimRule::AtOnce,
        principal: "uid:1000".into(),
        ..Policy::session(SESSION, 0, 5_000)
    };
    let carol = tale.event(4_000, Change::Granted(granted("carol", &["mdns/x"], registration)));

    let silent = Subject::Lease(alice);
    tale.note(92_000, Note::Draining { subject: silent, last_seen: Tick(2_000), until: Tick(122_000) });
    tale.note(100_000, Note::Returned { subject: silent });
    tale.event(
        101_000,
        Change::Amended(Amended { lease: alice, attachment: Some(b"{\"n\":1}".to_vec()), face_data: None }),
    );
    let rebound = Rebound {
        lease: alice,
        epoch: Epoch(2),
        holder: "dave".into(),
        policy: None,
        attachment: None,
        face_data: None,
        taken_over: false,
    };
    tale.event(102_000, Change::Rebound(rebound));
    tale.event(103_000, Change::Drained(steered(alice, "maintenance")));
    tale.event(104_000, Change::Revived(steered(alice, "")));
    let was = Epitaph { epoch: Epoch(2), ..tale.was(bob) };
    tale.event(105_000, Change::Released(Released { was, text: "done".into() }));

    let gone = Subject::Session(SESSION);
    tale.note(110_000, Note::Draining { subject: gone, last_seen: Tick(110_000), until: Tick(115_000) });
    tale.note(111_000, Note::BreakerOpened { silent: 20, alive: 30 });
    tale.note(112_000, Note::BreakerClosed);
    tale.note(113_000, Note::Stalled { gap_ms: 4_200 });
    let evidence = Evidence::Disconnected { at: Tick(110_000) };
    let closed = Change::SessionClosed { session: SESSION, reason: Reason::SessionExpired };
    tale.frame(
        115_000,
        vec![
            Line::Event(closed),
            Line::Event(Change::Revoked(revoked(carol, Reason::SessionExpired, evidence))),
            Line::Note(Note::GateOpened { lease: carol }),
        ],
    );
    let was = Epitaph { epoch: Epoch(9), ..tale.was(carol) };
    let goodbye = reclaimed(was, Reason::SessionExpired, ReclaimGround::AtOnce, GateReport::Confirmed);
    tale.event(115_250, Change::Reclaimed(goodbye));
    tale.event(116_000, Change::Notified { lease: carol });

    let late = Granted { deadline: Some(Tick(118_000)), ..granted("erin", &["spare"], Policy::permanent()) };
    let erin = tale.event(117_000, Change::Granted(late));
    let was = Epitaph { epoch: Epoch(2), ..tale.was(erin) };
    tale.event(118_000, Change::Expired(Expired { was }));
    tale.event(119_000, Change::PoolRemoved { name: "gpu".into() });

    tale.note(200_000, Note::Draining { subject: silent, last_seen: Tick(110_000), until: Tick(230_000) });
    let evidence = Evidence::Silence { last_seen: Tick(110_000), promised_until: Tick(231_000) };
    tale.event(230_000, Change::Revoked(revoked(alice, Reason::HeartbeatExpired, evidence)));
    let was = Epitaph { epoch: Epoch(9), ..tale.was(alice) };
    let over = reclaimed(was, Reason::HeartbeatExpired, ReclaimGround::PromiseOver, GateReport::None);
    let permanent = Change::Granted(granted("frank", &["r1"], Policy::permanent()));
    tale.frame(
        231_000,
        vec![Line::Event(Change::Reclaimed(over)), Line::Tick(231_500), Line::Event(permanent)],
    );
    let frank = LeaseId::new(0, Lsn(tale.log.synced_lsn().0));
    tale.event(232_000, Change::Trimmed { below: Lsn(2) });
    let hurried = Policy { max_lifetime_ms: 3_600_000, ..Policy::heartbeat(90_000, 30_000) };
    let grace = tale.event(233_000, Change::Granted(granted("grace", &["r2"], hurried)));
    (tale, Leases { alice, bob, carol, frank, grace })
}

pub(crate) fn files(directory: &Path, suffix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(suffix))
        .collect();
    files.sort();
    files
}

/// The real disk, counting what is read of segments beyond their headers.
#[derive(Clone, Default)]
pub(crate) struct CountingDisk {
    pub(crate) frame_bytes_read: Arc<AtomicU64>,
}

struct CountingFile {
    file: Box<dyn DiskFile>,
    counter: Option<Arc<AtomicU64>>,
}

impl Disk for CountingDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_dir(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(directory)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        RealDisk.sync_dir(directory)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let segment = path.extension().is_some_and(|extension| extension == "seg");
        let counter = segment.then(|| self.frame_bytes_read.clone());
        Ok(Box::new(CountingFile { file: RealDisk.open(path, mode)?, counter }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        RealDisk.free_bytes(directory)
    }

    fn lock(&self, path: &Path, holder: LockHolder) -> Result<Box<dyn DiskLock>, LockError> {
        RealDisk.lock(path, holder)
    }
}

impl DiskFile for CountingFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buffer, offset)?;
        if let Some(counter) = &self.counter
            && offset >= 1024
        {
            counter.fetch_add(read as u64, Ordering::Relaxed);
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}
