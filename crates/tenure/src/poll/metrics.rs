//! A poller in numbers, in the text format of Prometheus, and the small server that shows them. It serves one page and
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
use tenure_polling::{Numbers, UNOWNED_BUCKETS_MS};
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
pub(crate) fn metrics_page(group: &str, numbers: &Numbers) -> String {
    let mut page = Page::default();
    page.family("poll_targets", "gauge", "Targets by state, as this poller sees them.");
    for (state, count) in numbers.targets {
        page.sample("", &format!("group=\"{group}\",state=\"{state}\""), &count);
    }
    let help = "Targets that this poller holds and whose polls fail.";
    page.family("poll_failing_targets", "gauge", help);
    page.sample("", &format!("group=\"{group}\""), &numbers.failing);
    page.family("poll_moves_total", "counter", "Targets that this poller let go of or took, by reason.");
    for (reason, count) in &numbers.moves {
        page.sample("", &format!("group=\"{group}\",reason=\"{}\"", reason.as_str()), count);
    }
    let help = "How long targets that this poller took had no owner.";
    page.family("poll_unowned_seconds", "histogram", help);
    let bounds = UNOWNED_BUCKETS_MS.iter().map(|ms| (*ms as f64 / 1e3).to_string());
    let mut total: u64 = 0;
    for (count, bound) in numbers.unowned.iter().zip(bounds.chain(["+Inf".to_owned()])) {
        total += count;
        page.sample("_bucket", &format!("le=\"{bound}\""), &total);
    }
    page.sample("_sum", "", &(numbers.unowned_ms as f64 / 1e3));
    page.sample("_count", "", &total);
    let help = "Whether all polling stands still because nothing could be renewed.";
    page.family("poll_paused", "gauge", help);
    page.sample("", &format!("group=\"{group}\""), &u8::from(numbers.paused));
    page.family("poll_runs_total", "counter", "Polls that ended, by outcome.");
    for (outcome, count) in &numbers.runs {
        page.sample("", &format!("group=\"{group}\",outcome=\"{}\"", outcome.as_str()), count);
    }
    let help = "Pollers of the group that died: their time was over before they left.";
    page.family("poll_member_deaths_total", "counter", help);
    page.sample("", &format!("group=\"{group}\""), &numbers.member_deaths);
    page.family("poll_store_calls_total", "counter", "Calls made to the store.");
    page.sample("", &format!("group=\"{group}\""), &numbers.store_calls);
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
        (true, _) => (StatusCode::NOT_FOUND, "there is only /metrics\n".to_owned()),
        (false, _) => (StatusCode::METHOD_NOT_ALLOWED, "it can only be read\n".to_owned()),
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

    #[test]
    fn every_number_has_its_line() {
        let mut numbers = Numbers {
            targets: [("owned", 3), ("other", 6), ("uncertain", 0), ("draining", 0), ("unowned", 1)],
            failing: 2,
            moves: MoveReason::ALL.into_iter().zip(0..).collect(),
            unowned_ms: 1_250,
            paused: true,
            runs: RunOutcome::ALL.into_iter().zip([7, 0, 1, 0, 0]).collect(),
            member_deaths: 4,
            store_calls: 12,
            ..Numbers::default()
        };
        numbers.unowned[1] = 2;
        numbers.unowned[UNOWNED_BUCKETS_MS.len()] = 1;
        expect![[r##"
            # HELP tenure_poll_targets Targets by state, as this poller sees them.
            # TYPE tenure_poll_targets gauge
            tenure_poll_targets{group="web",state="owned"} 3
            tenure_poll_targets{group="web",state="other"} 6
            tenure_poll_targets{group="web",state="uncertain"} 0
            tenure_poll_targets{group="web",state="draining"} 0
            tenure_poll_targets{group="web",state="unowned"} 1
            # HELP tenure_poll_failing_targets Targets that this poller holds and whose polls fail.
            # TYPE tenure_poll_failing_targets gauge
            tenure_poll_failing_targets{group="web"} 2
            # HELP tenure_poll_moves_total Targets that this poller let go of or took, by reason.
            # TYPE tenure_poll_moves_total counter
            tenure_poll_moves_total{group="web",reason="voluntary"} 0
            tenure_poll_moves_total{group="web",reason="rebalanced"} 1
            tenure_poll_moves_total{group="web",reason="shutdown"} 2
            tenure_poll_moves_total{group="web",reason="target_removed"} 3
            tenure_poll_moves_total{group="web",reason="ttl_expiry"} 4
            # HELP tenure_poll_unowned_seconds How long targets that this poller took had no owner.
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
            # HELP tenure_poll_paused Whether all polling stands still because nothing could be renewed.
            # TYPE tenure_poll_paused gauge
            tenure_poll_paused{group="web"} 1
            # HELP tenure_poll_runs_total Polls that ended, by outcome.
            # TYPE tenure_poll_runs_total counter
            tenure_poll_runs_total{group="web",outcome="ok"} 7
            tenure_poll_runs_total{group="web",outcome="failed"} 0
            tenure_poll_runs_total{group="web",outcome="timed_out"} 1
            tenure_poll_runs_total{group="web",outcome="cancelled"} 0
            tenure_poll_runs_total{group="web",outcome="panicked"} 0
            # HELP tenure_poll_member_deaths_total Pollers of the group that died: their time was over before they left.
            # TYPE tenure_poll_member_deaths_total counter
            tenure_poll_member_deaths_total{group="web"} 4
            # HELP tenure_poll_store_calls_total Calls made to the store.
            # TYPE tenure_poll_store_calls_total counter
            tenure_poll_store_calls_total{group="web"} 12
        "##]]
        .assert_eq(&metrics_page("web", &numbers));
    }
}
