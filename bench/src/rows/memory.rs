//! Bytes per live lease, every table of kernel and liveness included.

use super::tools::Pair;
use crate::core::Size;
use crate::gauge::{Row, allocated};
use tenure_kernel::Policy;

pub(crate) fn measure(size: Size) -> anyhow::Result<Vec<Row>> {
    let before = allocated();
    let mut pair = Pair::new();
    let ids = pair.fill(size.leases, &Policy::heartbeat(90_000, 30_000));
    let held = ids.capacity() * size_of_val(&ids[0]);
    let bytes = (allocated() - before - held) as f64 / size.leases as f64;
    Ok(vec![Row {
        name: format!("memory, {} live, each its own holder", size.leases),
        measured: format!("{bytes:.1} bytes a lease"),
        reference: "–".into(),
        ratio: "–".into(),
        must: "≤ 256 bytes".into(),
        reached: bytes <= 256.0,
        figures: vec![("bytes", bytes)],
    }])
}
