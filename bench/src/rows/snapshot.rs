//! Grants under full load, with and without a snapshot being built beside them.

use super::tools::{config, directory, grant_request, host, name};
use crate::core::Size;
use crate::gauge::{Row, now, percentile};
use std::time::Duration;
use tenure_engine::host::HostOptions;
use tenure_engine::{Handle, Request};
use tenure_kernel::Policy;

const IN_FLIGHT: usize = 256;

pub(crate) fn measure(size: Size) -> anyhow::Result<Vec<Row>> {
    let directory = directory()?;
    let running = host(directory.path(), &config(), HostOptions::default())?;
    let handle = running.handle();
    let policy = Policy::heartbeat(86_400_000, 30_000);
    for chunk in (0..size.leases / 2).collect::<Vec<_>>().chunks(2_000) {
        let requests: Vec<Request> = chunk.iter().map(|n| grant_request(&name(*n), &policy)).collect();
        let _ = handle.call_all(requests).wait();
    }
    let mut number = size.leases;
    let snapshots = directory.path().join("snapshots");
    let (mut without, mut during) = (Vec::new(), Vec::new());
    for round in 1..=size.rounds.min(3) {
        let span = Duration::from_secs_f64(size.seconds / 2.0);
        let began = now();
        load(&handle, &mut number, &mut without, || now() - began < span);
        let before = kept(&snapshots);
        handle.take_snapshot();
        let limit = now() + Duration::from_secs(120);
        load(&handle, &mut number, &mut during, || kept(&snapshots) == before && now() < limit);
        anyhow::ensure!(kept(&snapshots) != before, "snapshot {round} did not come");
        // The host spaces snapshots; the next round must not come too early.
        let began = now();
        load(&handle, &mut number, &mut Vec::new(), || now() - began < Duration::from_millis(5_100));
    }
    running.shut_down()?;
    let (without_p99, during_p99) = (percentile(&mut without, 0.99), percentile(&mut during, 0.99));
    let ratio = during_p99.as_secs_f64() / without_p99.as_secs_f64();
    Ok(vec![Row {
        name: "grant p99 while a snapshot is built, full load".into(),
        measured: format!("{:.2} ms of {}", during_p99.as_secs_f64() * 1e3, during.len()),
        reference: format!("without {:.2} ms of {}", without_p99.as_secs_f64() * 1e3, without.len()),
        ratio: format!("{ratio:.2} ×"),
        must: "≤ 2 ×".into(),
        reached: ratio <= 2.0,
        figures: vec![("p99_ms", during_p99.as_secs_f64() * 1e3), ("ratio", ratio)],
    }])
}

/// The newest snapshot's name, to see when another has come.
fn kept(directory: &std::path::Path) -> Option<String> {
    let entries = std::fs::read_dir(directory).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".snap")).max()
}

/// Batches of grants, one after another, each timed, while `goes_on`.
fn load(handle: &Handle, number: &mut usize, samples: &mut Vec<Duration>, goes_on: impl Fn() -> bool) {
    let policy = Policy::permanent();
    while goes_on() {
        let first = *number;
        *number += IN_FLIGHT;
        let requests = (first..first + IN_FLIGHT).map(|n| grant_request(&name(n), &policy)).collect();
        let asked = now();
        let _ = handle.call_all(requests).wait();
        samples.push(now() - asked);
    }
}
