//! `tenure log verify`: whether a log is sound.

use clap::Args;
use serde_json::{Value, json};
use tenure_history::{LogTag, Report, rfc3339, verify};
use tenure_kernel::RecordKind;

use super::DataDirectory;
use crate::failure::{Failure, Words};
use crate::printer::{Printer, counted};
use crate::writer::Writer;

/// Verify every checksum, record, snapshot and invariant of a log
///
/// Reads the whole log, replays it from the start and from its oldest snapshot, and compares every snapshot with the
/// replayed state. Exits with 0 if the log is sound, with 1 if it is damaged (the first damaged file and offset are
/// named), and with 3 if it cannot be read.
#[derive(Args)]
#[command(after_help = "Example:\n  tenure log verify /var/lib/tenure")]
pub(super) struct Verify {
    #[command(flatten)]
    directory: DataDirectory,
}

impl Verify {
    pub(super) fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        self.directory.check()?;
        let writer = self.directory.mention_writer(printer);
        let report = verify(DataDirectory::disk(), self.directory.as_ref())
            .map_err(|error| self.directory.unreadable(&error))?;
        if printer.json() {
            printer.object(&object(&report, writer.as_ref()))?;
        } else {
            lines(&report).into_iter().try_for_each(|line| printer.line(line))?;
        }
        match report.damage.first() {
            None => Ok(()),
            Some(finding) => {
                let place = finding.place();
                let line = format!("the log is damaged: {} at offset {}", place.file, place.offset);
                let hint = "copy the directory before you try anything else with it";
                Err(Failure::Refused(Words::new(line).hint(hint)))
            }
        }
    }
}

fn lines(report: &Report) -> Vec<String> {
    let tag = report.identity.as_ref().map_or_else(|| "unknown".to_owned(), |id| LogTag::of(id).to_string());
    let kinds: Vec<String> = RecordKind::ALL
        .iter()
        .zip(report.by_kind)
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| counted(count, &format!("{} record", kind.name())))
        .collect();
    let extent = match report.last_lsn >= report.first_lsn {
        true => format!("lsn {} to {}", report.first_lsn, report.last_lsn),
        false => "no records".to_owned(),
    };
    let read = [
        counted(report.segments, "segment"),
        counted(report.frames, "frame"),
        counted(report.records, "record"),
    ];
    let mut lines = vec![
        format!("log        {tag}, {extent}, last written {}", last(report)),
        format!("read       {}", read.join(", ")),
        format!("decoded    {}", if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") }),
        format!("replayed   {}", replayed(report)),
    ];
    for check in &report.snapshots {
        let same = if check.compared {
            "matches the replayed log"
        } else {
            "is complete; no log before it to compare"
        };
        lines.push(format!("snapshot   lsn {} {same}", check.lsn));
    }
    if report.indexes > 0 {
        lines.push(format!("indexes    {}, matching the segments", counted(report.indexes, "index file")));
    }
    lines.extend(report.warnings.iter().map(|warning| format!("warning    {warning}")));
    for finding in &report.damage {
        let place = finding.place();
        lines.push(format!("damage     {} at offset {}: {finding}", place.file, place.offset));
    }
    lines.push(if report.is_sound() { "sound" } else { "damaged" }.to_owned());
    lines
}

fn last(report: &Report) -> String {
    match report.frames {
        0 => "never".to_owned(),
        _ => rfc3339(report.last.wall_ms),
    }
}

fn replayed(report: &Report) -> String {
    let from_snapshot = report.replayed_from_snapshot.map(|lsn| format!("the snapshot at lsn {lsn}"));
    let from = match (report.replayed_from_start, from_snapshot) {
        (true, Some(snapshot)) => format!("the start and {snapshot}"),
        (true, None) => "the start".to_owned(),
        (false, Some(snapshot)) => snapshot,
        (false, None) => return "nothing".to_owned(),
    };
    format!("from {from}, to lsn {}", report.replayed_to)
}

fn object(report: &Report, writer: Option<&Writer>) -> Value {
    let by_kind: serde_json::Map<String, Value> = RecordKind::ALL
        .iter()
        .zip(report.by_kind)
        .map(|(kind, count)| (kind.name().to_owned(), count.into()))
        .collect();
    let snapshots: Vec<Value> = report
        .snapshots
        .iter()
        .map(|check| json!({"lsn": check.lsn.0, "compared": check.compared}))
        .collect();
    let damage: Vec<Value> = report
        .damage
        .iter()
        .map(|finding| {
            let place = finding.place();
            json!({"file": place.file, "offset": place.offset, "message": finding.to_string()})
        })
        .collect();
    let warnings: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    let writer = writer.map(|writer| json!({"pid": writer.pid, "since": rfc3339(writer.since_wall_ms)}));
    json!({
        "sound": report.is_sound(),
        "tag": report.identity.as_ref().map(|identity| LogTag::of(identity).to_string()),
        "log_id": report.identity.map(|identity| format!("{:016x}", identity.log_id)),
        "first_lsn": report.first_lsn.0,
        "last_lsn": report.last_lsn.0,
        "last_at": (report.frames > 0).then(|| rfc3339(report.last.wall_ms)),
        "ended_cleanly": report.ended_cleanly,
        "segments": report.segments,
        "frames": report.frames,
        "records": report.records,
        "decoded": by_kind,
        "notes_unknown": report.notes_unknown,
        "replayed": {
            "from_start": report.replayed_from_start,
            "from_snapshot": report.replayed_from_snapshot.map(|lsn| lsn.0),
            "to": report.replayed_to.0,
        },
        "snapshots": snapshots,
        "invariant_scans": report.invariant_scans,
        "indexes": report.indexes,
        "damage": damage,
        "warnings": warnings,
        "writer": writer,
    })
}
