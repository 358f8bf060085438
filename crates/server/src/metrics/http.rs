//! Requests over HTTP, counted by route, method and status without a lock: every combination has its place from the
//! start.

use super::page::{Kind, Page, Unit};
use crate::routes::routes;
use http::Method;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

/// Label of requests that no route was found for.
const UNKNOWN: &str = "unknown";
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "DELETE", "OPTIONS"];
const STATUSES: [u16; 20] =
    [200, 201, 202, 204, 206, 304, 307, 400, 401, 403, 404, 405, 409, 410, 413, 415, 429, 500, 503, 504];
/// Label of what is not in the lists.
const OTHER: &str = "other";
/// Powers of two microseconds that are shown as bounds.
const TOOK_US: RangeInclusive<u32> = 6..=26;
const BUCKETS: usize = 28;

/// Requests over HTTP, counted.
#[derive(Debug)]
pub(crate) struct HttpCounters {
    routes: BTreeMap<&'static str, RouteCounters>,
}

#[derive(Debug, Default)]
struct RouteCounters {
    /// By method and status; the last of each are all others.
    requests: [[AtomicU64; STATUSES.len() + 1]; METHODS.len() + 1],
    /// Bucket `k` holds what took less than two to the power of `k` microseconds; the last one everything else.
    took_us: [AtomicU64; BUCKETS],
    took_us_sum: AtomicU64,
}

impl Default for HttpCounters {
    fn default() -> Self {
        let paths = routes().into_iter().map(|route| route.path).chain([UNKNOWN]);
        Self { routes: paths.map(|path| (path, RouteCounters::default())).collect() }
    }
}

impl HttpCounters {
    /// Counts one request by the template of its route.
    pub(crate) fn count(&self, route: &str, method: &Method, status: u16, took_us: u64) {
        let route = self.routes.get(route).unwrap_or_else(|| &self.routes[UNKNOWN]);
        let method = METHODS.iter().position(|known| method == known).unwrap_or(METHODS.len());
        let status = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len());
        let bucket = ((u64::BITS - took_us.leading_zeros()) as usize).min(BUCKETS - 1);
        // Numbers that are read a moment apart need no order between them.
        route.requests[method][status].fetch_add(1, Ordering::Relaxed);
        route.took_us[bucket].fetch_add(1, Ordering::Relaxed);
        route.took_us_sum.fetch_add(took_us, Ordering::Relaxed);
    }

    /// Routes that were never asked are left out.
    pub(super) fn write(&self, page: &mut Page) {
        page.family("http_requests_total", Kind::Counter, "HTTP requests, by route, method and status.");
        for (path, route) in &self.routes {
            let methods = METHODS.into_iter().chain([OTHER]);
            for (method, statuses) in methods.zip(&route.requests) {
                let names = STATUSES.iter().map(ToString::to_string).chain([OTHER.to_owned()]);
                for (status, count) in names.zip(statuses) {
                    let count = count.load(Ordering::Relaxed);
                    if count > 0 {
                        page.sample(&[("route", path), ("method", method), ("status", &status)], count);
                    }
                }
            }
        }
        page.family(
            "http_request_seconds",
            Kind::Histogram,
            "Time to the first byte of the answer, by route.",
        );
        for (path, route) in &self.routes {
            let counts: Vec<u64> = route.took_us.iter().map(|count| count.load(Ordering::Relaxed)).collect();
            if counts.iter().any(|count| *count > 0) {
                let sum = route.took_us_sum.load(Ordering::Relaxed);
                page.histogram(&[("route", path)], counts.into_iter(), sum, Unit::Microseconds, TOOK_US);
            }
        }
    }
}
