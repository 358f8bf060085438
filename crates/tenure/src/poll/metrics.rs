//! The metrics of a poller, in the text format of Prometheus, and the small server that shows them. It serves one page and
//! knows nobody: where it listens decides who may read.

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tenure_polling::{PollerMetrics, UNOWNED_BUCKETS_MS};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Readers at once; more wait.
const CONNECTIONS_MAX: usize = 16;
/// How long a reader may take for all that it asks.
const CONNECTION_LIMIT: Duration = Duration::from_secs(30);
/// After a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The page for one group. Names of groups need no escaping.
pub(crate) fn metrics_page(group: &str, metrics: &PollerMetrics) -> String {
    let mut page = Page::default();
    page.family("poll_targets", "gauge", "Targets on the list of this poller, by state: owned, uncertain and draining are its own, other belongs to other pollers.");
    for (state, count) in metrics.targets {
        page.sample("", &format!("group=\"{group}\",state=\"{state}\""), &count);
    }
    let help = "Targets of this poller whose last three polls failed.";
    page.family("poll_failing_targets", "gauge", help);
    page.sample("", &format!("group=\"{group}\""), &metrics.failing);
    let help = "Targets that this poller released or handed over; with reason ttl_expiry, targets that it took over from \
                silent pollers.";
    page.family("poll_moves_total", "counter", help);
    for (reason, count) in &metrics.moves {
        page.sample("", &format!("group=\"{group}\",reason=\"{}\"", reason.as_str()), count);
    }
    let help = "Time that targets had no poller before this one took them.";
    page.family("poll_unowned_seconds", "histogram", help);
    let bounds = UNOWNED_BUCKETS_MS.iter().map(|ms| (*ms as f64 / 1e3).to_string());
    let mut total: u64 = 0;
    for (count, bound) in metrics.unowned.iter().zip(bounds.chain(["+Inf".to_owned()])) {
        total += count;
        page.sample("_bucket", &format!("le=\"{bound}\""), &total);
    }
    page.sample("_sum", "", &(metrics.unowned_ms as f64 / 1e3));
    page.sample("_count", "", &total);
    let help = "1 while this poller polls nothing because it cannot renew its leases.";
    page.family("poll_paused", "gauge", help);
    page.sample("", &format!("group=\"{group}\""), &u8::from(metrics.paused));
    page.family("poll_runs_total", "counter", "Polls of this poller that ended, by outcome.");
    for (outcome, count) in &metrics.runs {
        page.sample("", &format!("group=\"{group}\",outcome=\"{}\"", outcome.as_str()), count);
    }
    let help = "Other pollers of the group whose leases expired before they left.";
    page.family("poll_member_deaths_total", "counter", help);
    page.sample("", &format!("group=\"{group}\""), &metrics.member_deaths);
    page.family(
        "poll_store_calls_total",
        "counter",
        "Requests of this poller to its store (the daemon or Redis).",
    );
    page.sample("", &format!("group=\"{group}\""), &metrics.store_calls);
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
    name: &'static str,
}

impl Page {
    /// Begins a family; the samples after it belong to it.
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        self.write(format_args!("# HELP tenure_{name} {help}\n# TYPE tenure_{name} {kind}\n"));
    }

    fn sample(&mut self, suffix: &str, labels: &str, value: &dyn std::fmt::Display) {
        let name = self.name;
        match labels {
            "" => self.write(format_args!("tenure_{name}{suffix} {value}\n")),
            labels => self.write(format_args!("tenure_{name}{suffix}{{{labels}}} {value}\n")),
        }
    }

    fn write(&mut self, piece: std::fmt::Arguments<'_>) {
        self.text.write_fmt(piece).expect("invariant: a string takes every piece");
    }
}

/// Serves the page at `/metrics` until it is dropped.
pub(crate) async fn serve_metrics(listener: TcpListener, page: Arc<dyn Fn() -> String + Send + Sync>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a metrics connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let page = page.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&request, page.as_ref());
                async move { Ok::<_, Infallible>(answer) }
            });
            let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            let _ = timeout(CONNECTION_LIMIT, serving).await;
            drop(place);
        });
    }
}

fn answer<T>(request: &Request<T>, page: &(dyn Fn() -> String + Send + Sync)) -> Response<Full<Bytes>> {
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let (status, text) = match (is_read, request.uri().path()) {
        (true, "/metrics") => (StatusCode::OK, page()),
        (true, _) => (StatusCode::NOT_FOUND, "not found: the only path is /metrics\n".to_owned()),
        (false, _) => (StatusCode::METHOD_NOT_ALLOWED, "method not allowed: use GET\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(TEXT));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use tenure_polling::{MoveReason, RunOutcome};

    fn metrics() -> PollerMetrics {
        let mut metrics = PollerMetrics {
            targets: [("owned", 3), ("other", 6), ("uncertain", 0), ("draining", 0), ("unowned", 1)],
            failing: 2,
            moves: MoveReason::ALL.into_iter().zip(0..).collect(),
            unowned_ms: 1_250,
            paused: true,
            runs: RunOutcome::ALL.into_iter().zip([7, 0, 1, 0, 0]).collect(),
            member_deaths: 4,
            store_calls: 12,
            ..PollerMetrics::default()
        };
        metrics.unowned[1] = 2;
        metrics.unowned[UNOWNED_BUCKETS_MS.len()] = 1;
        metrics
    }

    #[test]
    fn every_number_has_its_line() {
        expect![[r##"
            # HELP tenure_poll_targets Targets on the list of this poller, by state: owned, uncertain and draining are its own, other belongs to other pollers.
            # TYPE tenure_poll_targets gauge
            tenure_poll_targets{group="web",state="owned"} 3
            tenure_poll_targets{group="web",state="other"} 6
            tenure_poll_targets{group="web",state="uncertain"} 0
            tenure_poll_targets{group="web",state="draining"} 0
            tenure_poll_targets{group="web",state="unowned"} 1
            # HELP tenure_poll_failing_targets Targets of this poller whose last three polls failed.
            # TYPE tenure_poll_failing_targets gauge
            tenure_poll_failing_targets{group="web"} 2
            # HELP tenure_poll_moves_total Targets that this poller released or handed over; with reason ttl_expiry, targets that it took over from silent pollers.
            # TYPE tenure_poll_moves_total counter
            tenure_poll_moves_total{group="web",reason="voluntary"} 0
            tenure_poll_moves_total{group="web",reason="rebalanced"} 1
            tenure_poll_moves_total{group="web",reason="shutdown"} 2
            tenure_poll_moves_total{group="web",reason="target_removed"} 3
            tenure_poll_moves_total{group="web",reason="ttl_expiry"} 4
            # HELP tenure_poll_unowned_seconds Time that targets had no poller before this one took them.
            # TYPE tenure_poll_unowned_seconds histogram
            tenure_poll_unowned_seconds_bucket{le="0.05"} 0
            tenure_poll_unowned_seconds_bucket{le="0.1"} 2
            tenure_poll_unowned_seconds_bucket{le="0.25"} 2
            tenure_poll_unowned_seconds_bucket{le="0.5"} 2
            tenure_poll_unowned_seconds_bucket{le="1"} 2
            tenure_poll_unowned_seconds_bucket{le="2.5"} 2
            tenure_poll_unowned_seconds_bucket{le="5"} 2
            tenure_poll_unowned_seconds_bucket{le="10"} 2
            tenure_poll_unowned_seconds_bucket{le="30"} 2
            tenure_poll_unowned_seconds_bucket{le="60"} 2
            tenure_poll_unowned_seconds_bucket{le="300"} 2
            tenure_poll_unowned_seconds_bucket{le="+Inf"} 3
            tenure_poll_unowned_seconds_sum 1.25
            tenure_poll_unowned_seconds_count 3
            # HELP tenure_poll_paused 1 while this poller polls nothing because it cannot renew its leases.
            # TYPE tenure_poll_paused gauge
            tenure_poll_paused{group="web"} 1
            # HELP tenure_poll_runs_total Polls of this poller that ended, by outcome.
            # TYPE tenure_poll_runs_total counter
            tenure_poll_runs_total{group="web",outcome="ok"} 7
            tenure_poll_runs_total{group="web",outcome="failed"} 0
            tenure_poll_runs_total{group="web",outcome="timed_out"} 1
            tenure_poll_runs_total{group="web",outcome="cancelled"} 0
            tenure_poll_runs_total{group="web",outcome="panicked"} 0
            # HELP tenure_poll_member_deaths_total Other pollers of the group whose leases expired before they left.
            # TYPE tenure_poll_member_deaths_total counter
            tenure_poll_member_deaths_total{group="web"} 4
            # HELP tenure_poll_store_calls_total Requests of this poller to its store (the daemon or Redis).
            # TYPE tenure_poll_store_calls_total counter
            tenure_poll_store_calls_total{group="web"} 12
        "##]]
        .assert_eq(&metrics_page("web", &metrics()));
    }

    /// What the page of the reference says of pollers. The part before it is the server's.
    const POLLERS: &str = "\n## Pollers";

    /// The part of `docs/reference/metrics.md` about pollers: `UPDATE_EXPECT=1` writes it.
    #[test]
    fn the_reference_lists_every_metric_of_a_poller() {
        let text = metrics_page("web", &metrics());
        let mut rows = String::new();
        for line in text.lines() {
            let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
            else {
                continue;
            };
            let kind = text.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} "))).unwrap();
            let sample = text.lines().find(|line| line.starts_with(name)).unwrap();
            let labels = sample.split_once('{').and_then(|(_, rest)| rest.split_once('}')).unwrap().0;
            let labels = labels.split(',').filter_map(|label| label.split_once('='));
            let labels: Vec<String> =
                labels.filter(|(key, _)| *key != "le").map(|(key, _)| format!("`{key}`")).collect();
            let help = help.trim_end_matches('.');
            rows.push_str(&format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(" ")));
        }
        let of_pollers = format!(
            "{POLLERS} (`--metrics`)\n\n\
             `tenure poll run --metrics ADDRESS` serves these at `http://ADDRESS/metrics`. Four names are also names of the \
             daemon and count\nsomething else there: the daemon counts the targets of every poller in every group, a poller \
             counts what it sees and does\nitself. Its states are `owned`, `other`, `uncertain`, `draining` and `unowned`; \
             only the daemon has `abandoned`, and only a\npoller has `other`. If Prometheus reads both, select one by its \
             `job` label, or targets count twice.\n\n\
             | metric | type | labels | meaning |\n|---|---|---|---|\n{rows}"
        );
        let page = expect_test::expect_file!["../../../../docs/reference/metrics.md"];
        let committed = page.data();
        let before = committed.split_once(POLLERS).map_or(committed.as_str(), |(before, _)| before);
        page.assert_eq(&format!("{before}{of_pollers}"));
    }
}
