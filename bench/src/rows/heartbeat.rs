//! Heartbeats beside a raw lookup, and one session's heartbeat over many leases beside one over a single one.

use super::tools::{Pair, grant, name};
use crate::core::Size;
use crate::gauge::{Random, Row, cpu_time, median, people, rate};
use hashbrown::HashMap;
use tenure_kernel::{Action, Command, Epoch, OpenSession, Policy, SessionId, SessionKind, Tick};

const COVERED: usize = 10_000;
/// Requests looked at before they are worked on.
const AHEAD: usize = 32;

pub(crate) fn measure(size: Size) -> anyhow::Result<Vec<Row>> {
    let operations = 1_000_000;
    let mut pair = Pair::new();
    let ids = pair.fill(size.leases, &Policy::heartbeat(90_000, 30_000));
    let table: HashMap<u128, u32> = ids.iter().map(|id| (id.0, 1)).collect();
    let mut effects = Vec::new();
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for round in 0..size.rounds {
        let mut random = Random(round as u64 + 1);
        let order: Vec<_> = (0..operations).map(|_| ids[random.below(ids.len())]).collect();
        let (renewed, took) = cpu_time(|| {
            let mut renewed = 0;
            let mut slots = Vec::new();
            // As the engine does with what one read brings: look ahead a little, then work.
            for batch in order.chunks(AHEAD) {
                let kernel = &pair.kernel;
                kernel.find(batch, &mut slots);
                pair.liveness.warm(&slots);
                for (id, slot) in batch.iter().zip(&slots) {
                    let quick =
                        slot.and_then(|slot| pair.liveness.quick_heartbeat(slot, Tick(5), Epoch::FIRST));
                    let beaten = quick.is_some() || {
                        let slow =
                            pair.liveness.heartbeat(kernel, Tick(5), *id, Epoch::FIRST, None, &mut effects);
                        slow.is_ok()
                    };
                    renewed += usize::from(beaten);
                }
            }
            renewed
        });
        anyhow::ensure!(renewed == operations, "only {renewed} heartbeats counted");
        ours.push(rate(operations, took));
        let (sum, took) = cpu_time(|| order.iter().map(|id| table[&id.0] as usize).sum::<usize>());
        anyhow::ensure!(sum == operations, "the raw table lost something");
        raw.push(rate(operations, took));
    }
    let (ours, raw) = (median(ours), median(raw));
    let (one, many) = session(size)?;
    Ok(vec![
        Row {
            name: format!("heartbeat, {} live, random lease", size.leases),
            measured: people(ours),
            reference: format!("hashbrown lookup {}", people(raw)),
            ratio: format!("{:.2} ×", ours / raw),
            must: "≥ 0.3 ×".into(),
            reached: ours / raw >= 0.3,
            figures: vec![("per_second", ours), ("ratio", ours / raw)],
        },
        Row {
            name: format!("session heartbeat over {COVERED} leases"),
            measured: format!("{many:.0} ns"),
            reference: format!("over 1 lease {one:.0} ns"),
            ratio: format!("{:.2} ×", many / one),
            must: "≤ 2 ×".into(),
            reached: many / one <= 2.0,
            figures: vec![("ns", many), ("ratio", many / one)],
        },
    ])
}

/// Nanoseconds per heartbeat of a session with one lease and of one with many.
fn session(size: Size) -> anyhow::Result<(f64, f64)> {
    let mut pair = Pair::new();
    for (session, leases) in [(1, 1), (2, COVERED)] {
        let open = OpenSession {
            session: SessionId(session),
            holder: "holder".into(),
            kind: SessionKind::ByHand,
            ttl_ms: 90_000,
            grace_ms: 30_000,
            principal: "local".into(),
            accepts_handover: None,
        };
        pair.submit(&Command::plain(Action::OpenSession(open)));
        let policy = Policy::session(SessionId(session), 90_000, 30_000);
        for number in 0..leases {
            pair.submit(&grant(&format!("{session}/{}", name(number)), "holder", &policy));
        }
    }
    let beats = 200_000;
    let mut effects = Vec::new();
    let mut beat = |session: u64| {
        let ((), took) = cpu_time(|| {
            for _ in 0..beats {
                let kernel = &pair.kernel;
                let renewal =
                    pair.liveness.session_heartbeat(kernel, Tick(5), SessionId(session), &mut effects);
                let losses =
                    kernel.session(SessionId(session)).and_then(|s| s.losses_after(kernel.applied().lsn));
                assert!(renewal.is_ok() && losses.is_some_and(|losses| losses.count() == 0));
            }
        });
        took.as_nanos() as f64 / f64::from(beats)
    };
    let (mut one, mut many) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        one.push(beat(1));
        many.push(beat(2));
    }
    Ok((median(one), median(many)))
}
