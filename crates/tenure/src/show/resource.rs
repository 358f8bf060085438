//! Resources, pools, and what a guarded store is told.

use tenure_api::{CheckAnswer, Pool, Resource};
use tenure_history::duration;

use super::{Now, Page, age, names, when};
use crate::table::Table;

/// Waiters named on a page.
const NAMES_MAX: usize = 20;

/// Everything about one resource.
pub(crate) fn resource_page(resource: &Resource, now: Option<Now>) -> Page {
    let mut page = Page::default();
    page.row("resource", resource.name.clone());
    page.row("holder", resource.holder.clone().unwrap_or_else(|| "none: the resource is free".to_owned()));
    page.row("lease", resource.lease_id.clone());
    page.row("epoch", resource.epoch.map(|epoch| epoch.to_string()));
    page.row("fence", resource.fence.map(|fence| fence.to_string()));
    page.row("since", resource.since.as_ref().map(|since| when(now, since)));
    page.row("left", resource.remaining_ms.map(|ms| format!("{} of its current phase", duration(ms))));
    let waiters = resource.waiters.as_deref().filter(|waiters| !waiters.is_empty());
    page.row("waiters", waiters.map(|waiters| format!("{}: {}", waiters.len(), names(waiters, NAMES_MAX))));
    page
}

/// One row each.
pub(crate) fn resource_table(resources: &[Resource], now: Option<Now>) -> Table {
    let mut table = Table::new(&["NAME", "HOLDER", "LEASE", "FENCE", "LEFT", "AGE", "SINCE"]);
    for resource in resources {
        let since = resource.since.clone();
        table.row(vec![
            resource.name.clone(),
            resource.holder.clone().unwrap_or_default(),
            resource.lease_id.clone().unwrap_or_default(),
            resource.fence.map(|fence| fence.to_string()).unwrap_or_default(),
            resource.remaining_ms.map(duration).unwrap_or_default(),
            since.as_ref().and_then(|since| age(now, since)).unwrap_or_default(),
            since.unwrap_or_default(),
        ]);
    }
    table
}

/// One row each.
pub(crate) fn pool_table(pools: &[Pool]) -> Table {
    let mut table = Table::new(&["NAME", "SIZE", "FREE"]);
    for pool in pools {
        let removed = if pool.removed { " (removed)" } else { "" };
        table.row(vec![format!("{}{removed}", pool.name), pool.size.to_string(), pool.free.to_string()]);
    }
    table
}

/// Whether what was presented counts.
pub(crate) fn check_page(answer: &CheckAnswer) -> Page {
    let mut page = Page::default();
    page.row("current", if answer.current { "yes" } else { "no" }.to_owned());
    page.row("lease", answer.lease_id.clone());
    page.row("holder", answer.holder.clone());
    page.row("epoch", answer.epoch.map(|epoch| epoch.to_string()));
    page.row("fence", answer.fence.map(|fence| fence.to_string()));
    page
}
