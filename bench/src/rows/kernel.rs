//! Grant and release through decide and evolve, beside the raw hash table that any such kernel needs.

use super::tools::{Alone, grant, name, release};
use crate::core::Size;
use crate::gauge::{Random, Row, cpu_time, median, people, rate};
use hashbrown::HashMap;
use tenure_kernel::{LeaseId, Policy, Text};

const SMALL: usize = 1_000;
/// Requests looked at before they are worked on.
const AHEAD: usize = 32;

pub(crate) fn measure(size: Size) -> anyhow::Result<Vec<Row>> {
    let policy = Policy::heartbeat(90_000, 30_000);
    let operations = size.leases.min(300_000);
    let mut large = Alone::new();
    let mut large_ids = large.fill(size.leases, &policy);
    let mut small = Alone::new();
    let mut small_ids = small.fill(SMALL, &policy);
    let mut table: HashMap<[u8; 16], u32> = (0..size.leases).map(|n| (key(n), n as u32)).collect();

    // The steady state: as many ended leases are remembered as ever will be.
    churn(&mut large, &mut large_ids, size.leases, 99);
    churn(&mut small, &mut small_ids, size.leases, 99);
    let (mut ours, mut raw, mut ours_small) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..size.rounds {
        ours.push(churn(&mut large, &mut large_ids, operations, round as u64));
        raw.push(churn_raw(&mut table, size.leases, operations, round as u64));
        ours_small.push(churn(&mut small, &mut small_ids, operations, round as u64));
    }
    let (ours, raw, ours_small) = (median(ours), median(raw), median(ours_small));
    Ok(vec![
        Row {
            name: format!("grant + release, {} live", size.leases),
            measured: people(ours),
            reference: format!("hashbrown insert + remove {}", people(raw)),
            ratio: format!("{:.2} ×", ours / raw),
            must: "≥ 0.2 ×".into(),
            reached: ours / raw >= 0.2,
            figures: vec![("per_second", ours), ("ratio", ours / raw)],
        },
        Row {
            name: format!("the same, against {SMALL} live"),
            measured: people(ours),
            reference: format!("{} at {SMALL} live", people(ours_small)),
            ratio: format!("{:.2} ×", ours / ours_small),
            must: "≥ 0.5 ×".into(),
            reached: ours / ours_small >= 0.5,
            figures: vec![("ratio", ours / ours_small)],
        },
    ])
}

/// Releases a random lease and grants its resource again.
fn churn(alone: &mut Alone, ids: &mut [LeaseId], operations: usize, seed: u64) -> f64 {
    let mut random = Random(seed + 1);
    let policy = Policy::heartbeat(90_000, 30_000);
    // Names are made outside the measured stretch, as they are for the raw table.
    let order: Vec<usize> = (0..operations).map(|_| random.below(ids.len())).collect();
    let grants: Vec<_> = order.iter().map(|n| grant(&name(*n), "holder", &policy)).collect();
    let names: Vec<Text> = order.iter().map(|n| name(*n).into()).collect();
    let ((), took) = cpu_time(|| {
        // As the engine does with what one read brings: look ahead a little, then work.
        for at in (0..operations).step_by(AHEAD) {
            let batch = at..(at + AHEAD).min(operations);
            let leases: Vec<LeaseId> = batch.clone().map(|n| ids[order[n]]).collect();
            alone.warm(&leases, &names[batch.clone()]);
            for n in batch {
                let lease = &mut ids[order[n]];
                alone.submit(&release(*lease));
                *lease = LeaseId::new(0, alone.submit(&grants[n]).lsn);
            }
        }
    });
    rate(operations, took)
}

fn churn_raw(table: &mut HashMap<[u8; 16], u32>, keys: usize, operations: usize, seed: u64) -> f64 {
    let mut random = Random(seed + 1);
    let order: Vec<[u8; 16]> = (0..operations).map(|_| key(random.below(keys))).collect();
    let ((), took) = cpu_time(|| {
        for (n, key) in order.iter().enumerate() {
            let removed = table.remove(key);
            table.insert(*key, removed.unwrap_or_default() + n as u32 % 2);
        }
    });
    rate(operations, took)
}

fn key(number: usize) -> [u8; 16] {
    let mut key = [0; 16];
    key.copy_from_slice(name(number).as_bytes());
    key
}
