//! Requests over HTTP, counted by route, method and status without a lock: every combination has its place from the
//! start.

use super::page::{Kind, Page, Unit};
use crate::routes::routes;
use http::Method;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests that no route was found for, and what is not in the lists below.
const UNKNOWN: &str = "unknown";
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "DELETE", "OPTIONS", "other"];
const STATUSES: [&str; 21] = [
    "200", "201", "202", "204", "206", "304", "307", "400", "401", "403", "404", "405", "409", "410", "413",
    "415", "429", "500", "503", "504", "other",
];
/// Powers of two milliseconds that are shown as bounds.
const TOOK_MS: RangeInclusive<u32> = 0..=16;
const BUCKETS: usize = 18;

/// Requests over HTTP, counted.
#[derive(Debug)]
pub(crate) struct HttpCounters {
    routes: BTreeMap<&'static str, RouteCounters>,
}

#[derive(Debug, Default)]
struct RouteCounters {
    requests: [[AtomicU64; STATUSES.len()]; METHODS.len()],
    /// Bucket `k` holds what took less than two to the power of `k` milliseconds; the last one everything else.
    took_ms: [AtomicU64; BUCKETS],
    took_ms_sum: AtomicU64,
}

impl Default for HttpCounters {
    fn default() -> Self {
        let paths = routes().into_iter().map(|route| route.path).chain([UNKNOWN]);
        Self { routes: paths.map(|path| (path, RouteCounters::default())).collect() }
    }
}

impl HttpCounters {
    /// Counts one request by the template of its route.
    pub(crate) fn count(&self, route: &str, method: &Method, status: u16, took_ms: u64) {
        let route = self.routes.get(route).unwrap_or_else(|| &self.routes[UNKNOWN]);
        let place = |list: &[&str], word: &str| {
            list.iter().position(|known| *known == word).unwrap_or(list.len() - 1)
        };
        let method = place(&METHODS, method.as_str());
        let status = place(&STATUSES, &status.to_string());
        let bucket = ((u64::BITS - took_ms.leading_zeros()) as usize).min(BUCKETS - 1);
        // Numbers that are read a moment apart need no order between them.
        route.requests[method][status].fetch_add(1, Ordering::Relaxed);
        route.took_ms[bucket].fetch_add(1, Ordering::Relaxed);
        route.took_ms_sum.fetch_add(took_ms, Ordering::Relaxed);
    }

    /// Routes that were never asked are left out.
    pub(super) fn write(&self, page: &mut Page) {
        page.family("http_requests_total", Kind::Counter, "Requests over HTTP, by route, method and status.");
        for (path, route) in &self.routes {
            for (method, statuses) in METHODS.iter().zip(&route.requests) {
                for (status, count) in STATUSES.iter().zip(statuses) {
                    let count = count.load(Ordering::Relaxed);
                    if count > 0 {
                        page.sample(&[("route", path), ("method", method), ("status", status)], count);
                    }
                }
            }
        }
        page.family(
            "http_request_seconds",
            Kind::Histogram,
            "How long answers took until their first byte, by route.",
        );
        for (path, route) in &self.routes {
            let counts: Vec<u64> = route.took_ms.iter().map(|count| count.load(Ordering::Relaxed)).collect();
            if counts.iter().any(|count| *count > 0) {
                let sum = route.took_ms_sum.load(Ordering::Relaxed);
                page.histogram(&[("route", path)], counts.into_iter(), sum, Unit::Milliseconds, TOOK_MS);
            }
        }
    }
}
