//! The limit that no durable system passes: one append to a zero-filled file and one `fdatasync`, again and again.

use super::latencies::Latencies;
use super::peer::Sample;
use crate::gauge::now;
use anyhow::Result;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// As much as can be written in one run; it begins again after that.
const FILE_BYTES: u64 = 64 << 20;
const ZEROES: usize = 1 << 20;

/// Appends `bytes` at a time to a file in `directory` for `time`.
pub(crate) fn append_and_sync(directory: &Path, bytes: usize, time: Duration) -> Result<Sample> {
    std::fs::create_dir_all(directory)?;
    let home = tempfile::Builder::new().prefix("disk-").tempdir_in(directory)?;
    let file = OpenOptions::new().write(true).create_new(true).open(home.path().join("appended"))?;
    let zeroes = vec![0; ZEROES];
    for place in 0..FILE_BYTES / ZEROES as u64 {
        file.write_all_at(&zeroes, place * ZEROES as u64)?;
    }
    file.sync_all()?;
    let record = vec![0x5a; bytes];
    let mut latencies = Latencies::new();
    let began = now();
    let mut at = 0;
    while now() - began < time {
        let asked = now();
        file.write_all_at(&record, at)?;
        file.sync_data()?;
        latencies.add(now() - asked);
        at = (at + bytes as u64) % FILE_BYTES;
    }
    Ok(Sample { done: latencies.count(), refused: 0, took: now() - began, latencies })
}
