//! A million leases due at one tick: how long until all are ended and synced, and what heartbeats of others
//! feel meanwhile. The same where silence is followed by a grace, so that the breaker looks at each: without threads and
//! disk, in processor time.

use super::driven::{Driven, heartbeat};
use super::tools::{config, directory, name, recover};
use crate::core::Size;
use crate::gauge::{Row, now, percentile};
use std::time::Duration;
use tenure_engine::host::{Host, HostOptions};
use tenure_engine::{Answer, Handle, Request, Submit};
use tenure_kernel::{Action, Bundle, Epoch, Grant, LeaseId, Lsn, Policy};

const TTL_MS: u32 = 1_000;
const GRACE_MS: u32 = 30_000;

pub(crate) fn measure(size: Size) -> anyhow::Result<Vec<Row>> {
    let mut rows = vec![at_once(size)?];
    for (principals, from) in [(1, "one principal"), (1_000, "1000 principals")] {
        rows.push(after_grace(size, principals, from)?);
    }
    Ok(rows)
}

/// Each lease has a holder of its own, all renew at one instant and never again. From three principals on the breaker
/// opens; it holds the ends for as long as their grace lasts anyway.
fn after_grace(size: Size, principals: usize, from: &str) -> anyhow::Result<Row> {
    let mut config = config();
    config.liveness.breaker.fraction = 0.5;
    let mut driven = Driven::new(&config);
    let doomed = driven.fill(size.leases, principals, &Policy::heartbeat(TTL_MS * 60, GRACE_MS))?;
    driven.renew(&doomed)?;
    let due = driven.tick().after_ms(u64::from(TTL_MS * 60 + GRACE_MS));
    let survivor = driven.ask([grant("survivor", Policy::heartbeat(3_600_000, 0))]);
    let survivor = survivor.iter().find_map(|answer| Some(answer.live()?.id));
    let survivor = survivor.ok_or_else(|| anyhow::anyhow!("not granted"))?;
    driven.take_turns();
    while driven.engine.kernel().live_count() > 1 {
        let outputs = driven.next_turn(vec![heartbeat(survivor)]);
        anyhow::ensure!(!outputs.outs.is_empty(), "a heartbeat was not answered in its turn");
        anyhow::ensure!(driven.tick() < due.after_ms(3_600_000), "the storm did not come or did not end");
    }
    let took = Duration::from_millis(driven.tick().ms_since(due));
    let turns = driven.take_turns();
    let held = if driven.engine.counters().breaker_opened > 0 { ", held by the breaker" } else { "" };
    Ok(Row {
        name: format!("storm after a grace: {} holders of {from}{held}", size.leases),
        measured: format!("the last one ended {:.2} s late", took.as_secs_f64()),
        reference: format!(
            "longest turn meanwhile {:.1} ms of {}",
            turns.max.as_secs_f64() * 1e3,
            turns.count
        ),
        ratio: "–".into(),
        must: "≤ 3 s; ≤ 20 ms".into(),
        reached: took <= Duration::from_secs(3) && turns.max <= Duration::from_millis(20),
        figures: vec![("seconds", took.as_secs_f64()), ("max_ms", turns.max.as_secs_f64() * 1e3)],
    })
}

fn at_once(size: Size) -> anyhow::Result<Row> {
    let directory = directory()?;
    let config = config();
    // Everything is granted in one life of the daemon; the next one gives all of them the same full ttl.
    let (engine, log) = recover(directory.path(), &config)?;
    let host = Host::start(engine, Box::new(log), &config, HostOptions::default(), Box::new(|_| {}));
    let handle = host.handle();
    let doomed = Policy::heartbeat(TTL_MS * 60, 0);
    for chunk in (0..size.leases).collect::<Vec<_>>().chunks(2_000) {
        let requests = chunk.iter().map(|n| grant(&name(*n), doomed.clone())).collect();
        for answer in handle.call_all(requests).wait() {
            anyhow::ensure!(answer.live().is_some(), "not granted: {answer:?}");
        }
    }
    host.shut_down()?;

    let (engine, log) = recover(directory.path(), &config)?;
    let host = Host::start(engine, Box::new(log), &config, HostOptions::default(), Box::new(|_| {}));
    let handle = host.handle();
    let survivor = handle.call(grant("survivor", Policy::heartbeat(3_600_000, 0)));
    let survivor = survivor.live().map(|lease| lease.id).ok_or_else(|| anyhow::anyhow!("not granted"))?;
    let (took, mut beats) = watch(&handle, survivor, size.leases)?;
    host.shut_down()?;
    let p99 = percentile(&mut beats, 0.99);
    Ok(Row {
        name: format!("storm: {} leases due at one tick", size.leases),
        measured: format!("all ended and synced in {:.2} s", took.as_secs_f64()),
        reference: format!("heartbeat p99 meanwhile {:.1} ms of {}", p99.as_secs_f64() * 1e3, beats.len()),
        ratio: "–".into(),
        must: "≤ 3 s; p99 ≤ 20 ms".into(),
        reached: took <= Duration::from_secs(3) && p99 <= Duration::from_millis(20),
        figures: vec![("seconds", took.as_secs_f64()), ("p99_ms", p99.as_secs_f64() * 1e3)],
    })
}

fn grant(name: &str, policy: Policy) -> Request {
    Request::Submit(Submit::now(Action::Grant(Grant::new(Bundle::one(name), "storm", policy))))
}

/// Beats for the survivor until everybody else has ended; from the first end to the last.
fn watch(handle: &Handle, survivor: LeaseId, doomed: usize) -> anyhow::Result<(Duration, Vec<Duration>)> {
    let mut began = None;
    let mut beats = Vec::new();
    let limit = now() + Duration::from_secs(180);
    loop {
        anyhow::ensure!(now() < limit, "the storm did not come or did not end");
        let asked = now();
        let beat = Request::Heartbeat { lease: survivor, epoch: Epoch::FIRST, via: None, asker: None };
        let answers = handle.call_all(vec![beat]).wait();
        let beat_took = now() - asked;
        anyhow::ensure!(matches!(answers[..], [Answer::Renewed { .. }]), "lost the survivor: {answers:?}");
        let Answer::Status(status) = handle.call(Request::Status) else { anyhow::bail!("no status") };
        let live: u64 = status.leases.iter().map(|(_, count)| count).sum();
        if (live as usize) < doomed + 1 {
            began.get_or_insert(asked);
            beats.push(beat_took);
        }
        if live == 1 && status.synced_lsn >= Lsn(status.applied_lsn.0) {
            let began = began.ok_or_else(|| anyhow::anyhow!("the storm was over before it was seen"))?;
            return Ok((now() - began, beats));
        }
        if began.is_none() {
            std::thread::yield_now();
        }
    }
}
