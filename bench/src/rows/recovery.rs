//! Starting again with a million live leases, beside reading the same bytes into a plain hash map.

use super::tools::{config, directory, grant_request, host, name, recover};
use crate::core::Size;
use crate::gauge::{Row, median, time};
use hashbrown::HashMap;
use std::path::Path;
use tenure_engine::host::HostOptions;
use tenure_kernel::codec::decode_event;
use tenure_kernel::{Change, Policy, RecordKind};
use tenure_log::{OfflineLog, RealDisk};

pub(crate) fn measure(size: Size) -> anyhow::Result<Vec<Row>> {
    let directory = directory()?;
    let config = config();
    let running = host(directory.path(), &config, HostOptions::default())?;
    let handle = running.handle();
    let policy = Policy::heartbeat(86_400_000, 30_000);
    for chunk in (0..size.leases).collect::<Vec<_>>().chunks(2_000) {
        let requests = chunk.iter().map(|n| grant_request(&name(*n), &policy)).collect();
        anyhow::ensure!(handle.call_all(requests).wait().iter().all(|a| a.live().is_some()), "not granted");
    }
    running.shut_down()?;

    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds.min(3) {
        let (recovered, took) = time(|| recover(directory.path(), &config));
        let (engine, log) = recovered?;
        anyhow::ensure!(engine.kernel().live_count() == size.leases, "leases are missing");
        ours.push(took.as_secs_f64());
        drop((engine, log));
        let (found, took) = time(|| plain_map(directory.path()));
        anyhow::ensure!(found?.len() == size.leases, "the plain map misses some");
        plain.push(took.as_secs_f64());
    }
    let (ours, plain) = (median(ours), median(plain));
    Ok(vec![Row {
        name: format!("recovery of {} live leases", size.leases),
        measured: format!("{ours:.2} s"),
        reference: format!("read the same bytes, build a hash map {plain:.2} s"),
        ratio: format!("{:.1} ×", ours / plain),
        must: "≤ 6 ×".into(),
        reached: ours / plain <= 6.0,
        figures: vec![("seconds", ours), ("ratio", ours / plain)],
    }])
}

/// Reads the log and keeps name and position of each grant: the least that any recovery does.
fn plain_map(directory: &Path) -> anyhow::Result<HashMap<String, u64>> {
    let offline = OfflineLog::open(std::sync::Arc::new(RealDisk), directory)?;
    let mut reader = offline.reader()?;
    let mut map = HashMap::new();
    reader.seek(tenure_log::Lsn(1))?;
    while let Some(frame) = reader.next_frame()? {
        for record in frame.records().filter(|record| record.kind == RecordKind::Event.code()) {
            if let Change::Granted(granted) = decode_event(record.bytes)?.change {
                map.insert(granted.members[0].to_string(), record.lsn.0);
            }
        }
    }
    Ok(map)
}
