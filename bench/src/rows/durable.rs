//! Durable grants with 256 in flight beside one append and sync at a time on the same disk; then grants
//! that lose, and reads of the same resource.

use super::tools::{config, directory, grant_request, host};
use crate::core::Size;
use crate::gauge::{Row, median, now, people, rate};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;
use tenure_engine::host::HostOptions;
use tenure_engine::{Answer, Handle, Request};
use tenure_kernel::Policy;

const IN_FLIGHT: usize = 256;
const CALLERS: usize = 8;

pub(crate) fn measure(size: Size) -> anyhow::Result<Vec<Row>> {
    let directory = directory()?;
    let host = host(directory.path(), &config(), HostOptions::default())?;
    let handle = host.handle();
    let span = Duration::from_secs_f64(size.seconds / 2.0);
    let reference = zero_filled(directory.path())?;
    let policy = Policy::permanent();
    anyhow::ensure!(handle.call(grant_request("contended", &policy)).live().is_some(), "not granted");

    let (mut single, mut granted, mut lost, mut read) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut number = 0;
    let mut frames_for_losers = 0;
    for _ in 0..size.rounds {
        single.push(one_at_a_time(&reference, span)?);
        granted.push(load(&handle, span, &mut number, |n| grant_request(&format!("durable{n:09}"), &policy)));
        let before = frames(&handle);
        lost.push(load(&handle, span, &mut number, |_| grant_request("contended", &policy)));
        frames_for_losers += frames(&handle) - before;
        read.push(load(&handle, span, &mut number, |_| Request::Resource("contended".into())));
    }
    host.shut_down()?;
    let (single, granted, lost, read) = (median(single), median(granted), median(lost), median(read));
    Ok(vec![
        Row {
            name: format!("durable grants, {IN_FLIGHT} in flight"),
            measured: people(granted),
            reference: format!("one append + fdatasync at a time {}", people(single)),
            ratio: format!("{:.0} ×", granted / single),
            must: "≥ 60 ×".into(),
            reached: granted / single >= 60.0,
            figures: vec![("per_second", granted), ("syncs_per_second", single), ("ratio", granted / single)],
        },
        Row {
            name: format!("a contended grant that loses, {IN_FLIGHT} in flight"),
            measured: format!("{}, {frames_for_losers} frames written", people(lost)),
            reference: format!("durable grants {}, reads {}", people(granted), people(read)),
            ratio: format!("{:.1} × and {:.2} ×", lost / granted, lost / read),
            must: "no write; ≥ 1 × and ≥ 0.5 ×".into(),
            reached: frames_for_losers == 0 && lost >= granted && lost / read >= 0.5,
            figures: vec![
                ("per_second", lost),
                ("ratio_to_grants", lost / granted),
                ("ratio_to_reads", lost / read),
            ],
        },
    ])
}

fn frames(handle: &Handle) -> u64 {
    match handle.call(Request::Status) {
        Answer::Status(status) => status.counters.frames,
        other => panic!("no status: {other:?}"),
    }
}

/// Keeps requests in flight from a few callers, each with one batch as a socket read would bring.
fn load(handle: &Handle, span: Duration, number: &mut usize, make: impl Fn(usize) -> Request + Sync) -> f64 {
    let began = now();
    let first = *number;
    let share = IN_FLIGHT / CALLERS;
    let done: usize = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (handle, make) = (handle.clone(), &make);
                scope.spawn(move || {
                    let mut done = 0;
                    while now() - began < span {
                        let at = first + done * CALLERS + caller;
                        let requests = (0..share).map(|n| make(at + n * CALLERS)).collect();
                        done += handle.call_all(requests).wait().len();
                    }
                    done
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().expect("a caller ends")).sum()
    });
    *number += done * CALLERS + IN_FLIGHT;
    rate(done, now() - began)
}

fn zero_filled(directory: &Path) -> anyhow::Result<File> {
    let file =
        OpenOptions::new().create_new(true).read(true).write(true).open(directory.join("reference"))?;
    let zeros = vec![0; 1 << 20];
    for chunk in 0..64 {
        file.write_all_at(&zeros, chunk << 20)?;
    }
    file.sync_all()?;
    Ok(file)
}

fn one_at_a_time(file: &File, span: Duration) -> anyhow::Result<f64> {
    let record = [7; 128];
    let began = now();
    let mut done = 0;
    while now() - began < span {
        file.write_all_at(&record, (done as u64 * 128) % (64 << 20))?;
        file.sync_data()?;
        done += 1;
    }
    Ok(rate(done, now() - began))
}
