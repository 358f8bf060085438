//! A data directory with a small log, and the binary run on it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;
use tenure_kernel::RecordKind;
use tenure_kernel::codec::{FORMAT, encode_event, encode_note, encode_state};
use tenure_kernel::*;
use tenure_log::{
    AppendOutcome, BatchBuilder, BatchId, FileLog, FileLogOptions, Genesis, Moment, OrderedLog, RealDisk,
};

pub(crate) const START_MS: u64 = 1_700_000_000_000;

/// A log being written.
pub(crate) struct Fixture {
    pub(crate) directory: TempDir,
    pub(crate) log: FileLog,
    kernel: Kernel,
    next_batch: BatchId,
    tick: u64,
}

/// What the binary answered.
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    /// Exit code, output and talk in one text.
    pub(crate) fn all(&self) -> String {
        format!("exit {}\n--- out\n{}--- err\n{}", self.code, self.out, self.err)
    }
}

/// Runs the binary; the directory's path is shown as DIR.
pub(crate) fn tenure(directory: Option<&Path>, arguments: &[&str]) -> Answer {
    let shown = directory.map(|path| path.to_str().unwrap().to_owned()).unwrap_or_default();
    let arguments = arguments.iter().map(|argument| argument.replace("DIR", &shown));
    let output = Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(arguments)
        .env("NO_COLOR", "1")
        .env("TENURE_MDNS_ENABLED", "false")
        .env("TENURE_SESSIONS_POOLS", "")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap();
        if shown.is_empty() { text } else { text.replace(&shown, "DIR") }
    };
    Answer { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

impl Fixture {
    pub(crate) fn begin() -> Self {
        let directory = TempDir::new().unwrap();
        let random = *b"0123456789abcdef";
        let genesis = Genesis { random, unix_seconds: START_MS / 1000, shard: 0 };
        let options = FileLogOptions {
            segment_bytes: 2048,
            free_bytes_min: 0,
            ..FileLogOptions::new(genesis, START_MS)
        };
        let (log, _) = FileLog::open(Arc::new(RealDisk), directory.path(), options).unwrap();
        let next_batch = BatchId::first(log.writer_epoch());
        let mut setup = Setup::plain();
        setup.fence_base = log.identity().fence_base;
        Self { directory, log, kernel: Kernel::new(setup), next_batch, tick: 0 }
    }

    /// A log with a bit of everything, stopped cleanly.
    pub(crate) fn stopped() -> TempDir {
        let mut fixture = Self::begin();
        fixture.write_a_story();
        fixture.close();
        fixture.directory
    }

    pub(crate) fn write_a_story(&mut self) {
        let session = SessionId(0x2d);
        self.event(1_000, Change::Configured(Retention::default()));
        self.event(
            1_000,
            Change::SessionOpened(OpenSession {
                session,
                holder: "host".into(),
                kind: SessionKind::Connection,
                ttl_ms: 0,
                grace_ms: 5_000,
                principal: "uid:1000".into(),
                accepts_handover: None,
            }),
        );
        self.event(2_000, Change::PoolDefined { name: "gpu".into(), size: 2 });
        let mut alice = granted("alice", &["r1", "r2"], Policy::heartbeat(90_000, 30_000));
        alice.attachment = br#"{"job":7}"#.to_vec();
        let alice = self.event(3_000, Change::Granted(alice));
        let bob = Granted {
            deadline: Some(Tick(64_000)),
            ..granted("bob", &["gpu/1"], Policy::heartbeat(30_000, 0))
        };
        self.event(4_000, Change::Granted(bob));
        let mut carol = granted("carol", &["mdns/x"], Policy::session(session, 0, 5_000));
        carol.face_data = vec![0xff, 0x00];
        let carol = self.event(5_000, Change::Granted(carol));
        self.note(
            6_000,
            Note::Draining {
                subject: Subject::Session(session),
                last_seen: Tick(6_000),
                until: Tick(11_000),
            },
        );
        self.event(
            11_000,
            Change::Revoked(Revoked {
                lease: carol,
                epoch: Epoch(2),
                reason: Reason::SessionExpired,
                text: Text::default(),
                actor: Actor::Daemon,
                evidence: Evidence::Disconnected { at: Tick(6_000) },
                reclaim_by: ReclaimBy::Daemon,
            }),
        );
        let steered =
            Steered { lease: alice, actor: Actor::Operator("dora".into()), text: "maintenance".into() };
        self.event(12_000, Change::Drained(steered));
    }

    pub(crate) fn event(&mut self, tick: u64, change: Change) -> LeaseId {
        let operation = matches!(change, Change::Granted(_)).then(|| Operation {
            key: u128::from(self.log.next_lsn().0),
            fingerprint: 9,
            keep_ms: 600_000,
            principal: "local".into(),
        });
        let event = Event { operation, change };
        let lsn = Lsn(self.log.next_lsn().0);
        self.kernel.evolve(Stamp { lsn, tick: Tick(tick) }, &event);
        let mut bytes = Vec::new();
        encode_event(&event, FORMAT, &mut bytes);
        self.raw(tick, RecordKind::of_event(&event), &bytes);
        LeaseId::new(0, lsn)
    }

    pub(crate) fn note(&mut self, tick: u64, note: Note) {
        let mut bytes = Vec::new();
        encode_note(&note, &mut bytes);
        self.raw(tick, RecordKind::Note, &bytes);
    }

    pub(crate) fn raw(&mut self, tick: u64, kind: RecordKind, bytes: &[u8]) {
        self.tick = tick;
        let at = Moment { tick, wall_ms: START_MS + tick };
        let mut batch = BatchBuilder::new(self.next_batch, self.log.next_lsn(), at);
        batch.push(kind, bytes).unwrap();
        self.next_batch = self.next_batch.next();
        assert!(matches!(self.log.append(&batch.finish()), AppendOutcome::Committed { .. }));
    }

    pub(crate) fn snapshot(&self) {
        let mut bytes = Vec::new();
        encode_state(&self.kernel, &mut |piece| bytes.extend_from_slice(piece));
        let at = Moment { tick: self.tick, wall_ms: START_MS + self.tick };
        self.log.snapshots().store(self.log.synced_lsn(), at, &bytes).unwrap();
    }

    pub(crate) fn close(&mut self) {
        let at = Moment { tick: self.tick, wall_ms: START_MS + self.tick };
        assert!(matches!(self.log.close(at), AppendOutcome::Committed { .. }));
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

pub(crate) fn segments(directory: &TempDir) -> Vec<PathBuf> {
    let mut segments: Vec<PathBuf> = std::fs::read_dir(directory.path().join("log"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .collect();
    segments.sort();
    segments
}

pub(crate) fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 4;
    let mut file = std::fs::File::create(file).unwrap();
    file.write_all(&bytes).unwrap();
}
