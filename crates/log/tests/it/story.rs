//! A run of the log from creation to a second stop, with rotation, chores, snapshots and trimming, told to a witness that
//! remembers what was attempted and what was acknowledged.

use std::io::Read;
use std::path::Path;

use tenure_log::{
    AppendOutcome, CLOSE_RECORD, FileLog, Lsn, Moment, OfflineLog, OpenError, OrderedLog, Recovery,
    SharedDisk,
};

use crate::crash_disk::CrashDisk;
use crate::support::{EVENT, Owned, ROOT, Writer, drain, open};

/// What the outside world knows about a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness {
    pub(crate) acknowledged: Vec<Owned>,
    pub(crate) in_doubt: Vec<Owned>,
}

impl Witness {
    fn attempt(&mut self, first_lsn: Lsn, kind: u8, records: &[&[u8]]) {
        let number = |(index, bytes): (usize, &&[u8])| Owned {
            lsn: first_lsn.0 + index as u64,
            kind,
            bytes: bytes.to_vec(),
        };
        self.in_doubt = records.iter().enumerate().map(number).collect();
    }

    fn acknowledge(&mut self) {
        self.acknowledged.append(&mut self.in_doubt);
    }
}

/// The machine stopped or the log failed; the story ends here.
pub(crate) struct Stopped;

/// Tells the whole story. Every operation of the disk in it is a place to crash.
pub(crate) fn tell(disk: &CrashDisk, witness: &mut Witness) -> Result<(), Stopped> {
    let shared = disk.shared();
    for incarnation in 0..2_u8 {
        let (mut log, _) = open(&shared).map_err(|_| Stopped)?;
        let mut writer = Writer::new(&log);
        do_chores(&mut log);
        for step in 0..7_u8 {
            let long = vec![b'a' + step; 90 + 130 * usize::from(step % 3)];
            let records: [&[u8]; 3] = [b"short", &long, &[incarnation, step]];
            append(&mut log, &mut writer, witness, &records)?;
            do_chores(&mut log);
            if step % 3 == 2 {
                snapshot(&log, witness)?;
                log.trim(log.next_lsn());
                do_chores(&mut log);
            }
        }
        witness.attempt(log.next_lsn(), CLOSE_RECORD, &[b""]);
        match log.close(Moment { tick: writer.tick, wall_ms: 0 }) {
            AppendOutcome::Committed { .. } => witness.acknowledge(),
            AppendOutcome::Failed(_) => return Err(Stopped),
            other => panic!("a file log never answers {other:?}"),
        }
    }
    Ok(())
}

pub(crate) fn append(
    log: &mut FileLog,
    writer: &mut Writer,
    witness: &mut Witness,
    records: &[&[u8]],
) -> Result<(), Stopped> {
    let batch = writer.batch(log.next_lsn(), records);
    witness.attempt(batch.first_lsn(), EVENT, records);
    match log.append(&batch) {
        AppendOutcome::Committed { synced } => {
            assert_eq!(synced.next(), batch.next_lsn());
            witness.acknowledge();
            Ok(())
        }
        AppendOutcome::Failed(_) => Err(Stopped),
        other => panic!("a file log never answers {other:?}"),
    }
}

pub(crate) fn do_chores(log: &mut FileLog) {
    // Three: two spares and one removal. A chore that fails is offered again, and must not be waited for.
    for _ in 0..3 {
        if let Some(chore) = log.chore() {
            log.chore_done(chore.run());
        }
    }
}

/// The state of this little world is simply all records so far.
fn snapshot(log: &FileLog, witness: &Witness) -> Result<(), Stopped> {
    log.snapshots()
        .store(log.synced_lsn(), Moment::default(), &encode(&witness.acknowledged))
        .map(drop)
        .map_err(|_| Stopped)
}

pub(crate) fn encode(records: &[Owned]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        bytes.extend_from_slice(&record.lsn.to_le_bytes());
        bytes.push(record.kind);
        bytes.extend_from_slice(&(record.bytes.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&record.bytes);
    }
    bytes
}

fn decode(mut bytes: &[u8]) -> Vec<Owned> {
    let mut records = Vec::new();
    while let Some((lsn, rest)) = bytes.split_first_chunk::<8>() {
        let kind = rest[0];
        let length = u32::from_le_bytes(rest[1..5].try_into().unwrap()) as usize;
        records.push(Owned { lsn: u64::from_le_bytes(*lsn), kind, bytes: rest[5..5 + length].to_vec() });
        bytes = &rest[5 + length..];
    }
    records
}

/// Snapshot plus replay: all records, as recovery sees them.
pub(crate) fn recovered(log: &FileLog, recovery: &Recovery) -> Vec<Owned> {
    let mut records = Vec::new();
    if let Some(snapshot) = recovery.snapshot {
        let mut bytes = Vec::new();
        log.snapshots().open(snapshot.lsn).unwrap().read_to_end(&mut bytes).unwrap();
        records = decode(&bytes);
    }
    let mut reader = log.reader();
    reader.seek(recovery.replay_from()).unwrap();
    let after = recovery.snapshot.map_or(0, |snapshot| snapshot.lsn.0);
    records.extend(drain(&mut reader).into_iter().filter(|record| record.lsn > after));
    records
}

/// Opens the log after whatever happened and checks what the outside world may rely on.
/// `torn`: some start since the crash has seen bytes of the frame in doubt.
pub(crate) fn check(disk: &CrashDisk, witness: &Witness, torn: bool) -> Result<(), OpenError> {
    let shared = disk.shared();
    let (mut log, recovery) = open(&shared)?;
    let mut records = recovered(&log, &recovery);
    let all = [witness.acknowledged.as_slice(), &witness.in_doubt].concat();
    let there = records.len() == all.len();
    assert!(
        records == witness.acknowledged || records == all,
        "acknowledged {} and in doubt {}, but found {}: {recovery:?}",
        witness.acknowledged.len(),
        witness.in_doubt.len(),
        records.len(),
    );
    if let Some(lost) = witness.in_doubt.last()
        && torn
        && !there
    {
        assert!(log.next_lsn().0 > lost.lsn, "lsn {} would be given twice: {recovery:?}", lost.lsn);
    }
    let mut writer = Writer::new(&log);
    let lsn = writer.append(&mut log, &[b"life goes on"]);
    records.push(Owned { lsn: lsn.0, kind: EVENT, bytes: b"life goes on".to_vec() });
    assert_eq!(recovered(&log, &recovery), records);
    drop(log);
    let (log, recovery) = open(&shared)?;
    assert!(recovery.cut.is_none(), "the first start left something to cut");
    assert_eq!(recovered(&log, &recovery), records);
    Ok(())
}

/// Whether a start would find bytes of a torn frame.
pub(crate) fn is_torn(disk: &SharedDisk) -> bool {
    OfflineLog::verify(disk.clone(), Path::new(ROOT)).is_ok_and(|found| found.cut.is_some())
}
