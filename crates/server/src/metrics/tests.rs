//! Reads the text back as Prometheus would and looks for what makes it wrong.

use super::*;
use ::http::Method;
use std::collections::{BTreeMap, BTreeSet};
use tenure_engine::Lane;
use tenure_engine::kernel::{Lsn, Tick};
use tenure_faces::{TargetCounts, UnownedTimes};

type Labels = BTreeMap<String, String>;

/// The text, read back.
#[derive(Default)]
struct Scrape {
    kinds: BTreeMap<String, String>,
    samples: Vec<(String, Labels, f64)>,
}

impl Scrape {
    fn read(text: &str) -> Self {
        let mut scrape = Self::default();
        let mut helped = BTreeSet::new();
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, words) = help.split_once(' ').unwrap();
                assert!(helped.insert(name.to_owned()), "{name} is explained twice");
                assert!(words.ends_with('.'), "{line}");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert!(helped.contains(name));
                assert!(scrape.kinds.insert(name.to_owned(), kind.to_owned()).is_none());
            } else {
                scrape.samples.push(read_sample(line));
            }
        }
        scrape
    }

    fn family(&self, name: &str) -> String {
        let bare = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| {
            name.strip_suffix(suffix)
                .filter(|bare| self.kinds.get(*bare).is_some_and(|kind| kind == "histogram"))
        });
        bare.unwrap_or(name).to_owned()
    }

    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted: Labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let found = self.samples.iter().find(|(found, labels, _)| found == name && *labels == wanted);
        found.unwrap_or_else(|| panic!("no {name} {labels:?}")).2
    }

    /// Every rule of the format that a scraper would stumble over.
    fn check(&self) {
        let mut seen = BTreeSet::new();
        let mut order: Vec<String> = Vec::new();
        for (name, labels, _) in &self.samples {
            assert!(seen.insert((name, labels)), "{name} {labels:?} is there twice");
            let family = self.family(name);
            assert!(self.kinds.contains_key(&family), "{name} belongs to no family");
            if order.last() != Some(&family) {
                assert!(!order.contains(&family), "{family} is scattered");
                order.push(family);
            }
        }
        for (name, kind) in &self.kinds {
            if kind == "histogram" {
                self.check_histogram(name);
            }
        }
    }

    fn check_histogram(&self, name: &str) {
        let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
        for (found, labels, value) in &self.samples {
            if *found == format!("{name}_bucket") {
                let mut labels = labels.clone();
                let bound = labels.remove("le").unwrap();
                let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
                series.entry(labels).or_default().push((bound, *value));
            }
        }
        for (labels, buckets) in series {
            let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            for pair in buckets.windows(2) {
                assert!(pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1, "{name} {labels:?} {pair:?}");
            }
            let (bound, total) = *buckets.last().unwrap();
            assert!(bound.is_infinite(), "{name} {labels:?} ends without +Inf");
            assert_eq!(total, self.value(&format!("{name}_count"), &labels));
            assert!(self.value(&format!("{name}_sum"), &labels) >= 0.0);
        }
    }
}

fn read_sample(line: &str) -> (String, Labels, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = match series.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}').unwrap()),
        None => (series, ""),
    };
    assert!(
        name.starts_with("tenure_") && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
        "{line}"
    );
    let mut read = Labels::new();
    for pair in labels.split("\",").filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once("=\"").unwrap();
        assert!(read.insert(key.to_owned(), value.trim_end_matches('"').to_owned()).is_none(), "{line}");
    }
    (name.to_owned(), read, value.parse().unwrap())
}

fn page(http: &HttpCounters, snapshot_age_ms: Option<u64>, recovery_secs: f64) -> String {
    page_of(http, snapshot_age_ms, recovery_secs, None)
}

fn page_of(
    http: &HttpCounters,
    snapshot_age_ms: Option<u64>,
    recovery_secs: f64,
    node: Option<NodeNumbers>,
) -> String {
    let status = status();
    let streams = StreamNumbers {
        lease_expired: 11,
        heartbeats: 12,
        heartbeats_late: 13,
        notices_dropped: 15,
        rejected: vec![(ErrorCode::NoCapacity, 14), (ErrorCode::InvalidName, 0)],
        queued: 15,
        draining: 0,
    };
    let pools = vec![PoolSnapshot { name: "tuner".into(), size: 4, free: 1, removed: false }];
    let counts =
        TargetCounts { owned: 21, uncertain: 22, draining: 23, unowned: 24, abandoned: 25, failing: 26 };
    let polling = PollingNumbers {
        targets: [("web".to_owned(), counts)].into(),
        moves: vec![("web".to_owned(), [31, 32, 33, 34, 35, 36])],
        unowned: UnownedTimes::default(),
    };
    text(&Numbers {
        status: &status,
        http,
        snapshot_age_ms,
        recovery_secs,
        registrations: 3,
        streams,
        pools,
        polling,
        goodbyes: 7,
        token_file: Some(FileState::broken(5)),
        cert_scope_file: Some(FileState::broken(6)),
        node,
    })
}

fn status() -> Status {
    let mut counters = Counters::default();
    counters.grants[Face::Leases.index()] = [5, 2, 1];
    counters.ends[Face::Leases.index()][Reason::HeartbeatExpired as usize] = 3;
    counters.heartbeats_late = 7;
    counters.log_bytes = 4096;
    counters.stalls = 2;
    counters.task_failures[Task::Spare as usize] = 8;
    counters.notices_given_up = 9;
    let key = CountKey { state: StateName::Active, mode: Mode::Heartbeat, face: Face::Leases };
    Status {
        applied_lsn: Lsn(9),
        synced_lsn: Lsn(8),
        tick: Tick(1_000),
        leases: vec![(key, 4)],
        retained: 0,
        operations: 0,
        operation_floor: Tick(0),
        notices: 0,
        sessions: 0,
        waiters: 6,
        watches: 0,
        inbox: Lane::ALL.map(|lane| (lane, lane as u64)),
        breaker_until: Some(Tick(5_000)),
        restored_until: None,
        space: Space::Low,
        failing: Vec::new(),
        counters,
    }
}

/// Names of the contract.
const NAMES: &[&str] = &[
    "leases",
    "grants_total",
    "ends_total",
    "heartbeats_total",
    "renewal_margin_seconds",
    "expiry_lateness_seconds",
    "sync_seconds",
    "batch_events",
    "inbox_depth",
    "waiters",
    "wait_seconds",
    "waiters_passed_total",
    "stalls_total",
    "notes_dropped_total",
    "log_bytes",
    "snapshot_age_seconds",
    "recovery_seconds",
    "http_requests_total",
    "http_request_seconds",
    "breaker_open",
    "disk_low",
    "task_failures_total",
    "notifications_dropped_total",
    "notifications_given_up_total",
    "token_lines_rejected",
    "token_file_outdated",
    "cert_scope_lines_rejected",
    "cert_scope_file_outdated",
    "mdns_registrations",
    "mdns_goodbyes_total",
    "sessions",
    "sessions_lease_expired_total",
    "sessions_heartbeat_total",
    "sessions_heartbeat_late_total",
    "session_start_rejected_total",
    "pool_size",
    "pool_in_use",
    "poll_targets",
    "poll_failing_targets",
    "poll_moves_total",
    "poll_unowned_seconds",
];

/// Names that only a node has.
const NAMES_OF_NODES: &[&str] = &[
    "cluster_leader",
    "cluster_lag_lsn",
    "cluster_lag_seconds",
    "cluster_elections_total",
    "cluster_append_seconds",
    "cluster_appends_unanswered_total",
    "cluster_store_bytes",
    "cluster_store_silent_seconds",
    "cluster_nodes_silent",
    "cluster_nodes_differing",
    "cluster_format",
];

/// A node that writes, with five appends of which one took longer than every bound.
fn node_numbers() -> NodeNumbers {
    NodeNumbers {
        writes: true,
        lag_lsn: 41,
        lag_seconds: 1.5,
        claims: [42, 43, 44],
        append_seconds: 6.25,
        appends: 5,
        append_buckets: [0, 1, 2, 3, 4, 4, 4, 4, 4, 4],
        unknown: [45, 46, 47],
        store_bytes: 48,
        store_silent_seconds: 2.5,
        silent_nodes: 49,
        differing_nodes: 50,
        format: 51,
    }
}

#[test]
fn the_text_can_be_read_back_and_holds_every_documented_name() {
    let http = HttpCounters::default();
    http.count("/v1/leases", &Method::POST, 201, 3);
    let scrape = Scrape::read(&page(&http, Some(61_500), 0.25));
    scrape.check();
    for name in NAMES {
        let name = format!("tenure_{name}");
        assert!(
            scrape.samples.iter().any(|(found, ..)| scrape.family(found) == name),
            "{name} has no sample"
        );
    }
    assert_eq!(scrape.kinds.len(), NAMES.len());
}

#[test]
fn numbers_are_where_they_belong() {
    let scrape = Scrape::read(&page(&HttpCounters::default(), Some(61_500), 0.25));
    let active = [("state", "active"), ("mode", "heartbeat"), ("application", "leases")];
    assert_eq!(scrape.value("tenure_leases", &active), 4.0);
    let reserved = [("state", "reserved"), ("mode", "session"), ("application", "polling")];
    assert_eq!(scrape.value("tenure_leases", &reserved), 0.0);
    let refused = [("application", "leases"), ("outcome", "rejected")];
    assert_eq!(scrape.value("tenure_grants_total", &refused), 2.0);
    let expired = [("application", "leases"), ("reason", "heartbeat_expired")];
    assert_eq!(scrape.value("tenure_ends_total", &expired), 3.0);
    assert_eq!(scrape.value("tenure_heartbeats_total", &[("outcome", "late")]), 7.0);
    assert_eq!(scrape.value("tenure_inbox_depth", &[("lane", "reading")]), 3.0);
    assert_eq!(scrape.value("tenure_waiters", &[]), 6.0);
    assert_eq!(scrape.value("tenure_snapshot_age_seconds", &[]), 61.5);
    assert_eq!(scrape.value("tenure_recovery_seconds", &[]), 0.25);
    assert_eq!(scrape.value("tenure_breaker_open", &[]), 1.0);
    assert_eq!(scrape.value("tenure_disk_low", &[]), 1.0);
    assert_eq!(scrape.value("tenure_task_failures_total", &[("task", "spare_segment")]), 8.0);
    assert_eq!(scrape.value("tenure_notifications_given_up_total", &[]), 9.0);
    assert_eq!(scrape.value("tenure_notifications_dropped_total", &[]), 15.0);
    assert_eq!(scrape.value("tenure_token_lines_rejected", &[]), 5.0);
    assert_eq!(scrape.value("tenure_token_file_outdated", &[]), 1.0);
    assert_eq!(scrape.value("tenure_cert_scope_lines_rejected", &[]), 6.0);
    assert_eq!(scrape.value("tenure_cert_scope_file_outdated", &[]), 1.0);
    assert_eq!(scrape.value("tenure_stalls_total", &[]), 2.0);
    assert_eq!(scrape.value("tenure_sessions", &[("state", "new")]), 15.0);
    assert_eq!(scrape.value("tenure_session_start_rejected_total", &[("reason", "no_capacity")]), 14.0);
    assert_eq!(scrape.value("tenure_pool_in_use", &[("pool", "tuner")]), 3.0);
    let uncertain = [("group", "web"), ("state", "uncertain")];
    assert_eq!(scrape.value("tenure_poll_targets", &uncertain), 22.0);
    let expired = [("group", "web"), ("reason", "ttl_expiry")];
    assert_eq!(scrape.value("tenure_poll_moves_total", &expired), 34.0);
    assert_eq!(scrape.value("tenure_poll_unowned_seconds_count", &[]), 0.0);
    let fresh = Scrape::read(&page(&HttpCounters::default(), None, 0.25));
    assert!(!fresh.kinds.contains_key("tenure_snapshot_age_seconds"), "there is no snapshot to have an age");
}

#[test]
fn a_node_has_numbers_that_other_daemons_have_not() {
    let scrape = Scrape::read(&page_of(&HttpCounters::default(), Some(1), 0.25, Some(node_numbers())));
    scrape.check();
    let mut names: Vec<String> =
        NAMES.iter().chain(NAMES_OF_NODES).map(|name| format!("tenure_{name}")).collect();
    names.sort_unstable();
    assert!(scrape.kinds.keys().eq(&names), "{:?}", scrape.kinds.keys());
    assert_eq!(scrape.value("tenure_cluster_leader", &[]), 1.0);
    assert_eq!(scrape.value("tenure_cluster_lag_lsn", &[]), 41.0);
    assert_eq!(scrape.value("tenure_cluster_lag_seconds", &[]), 1.5);
    assert_eq!(scrape.value("tenure_cluster_elections_total", &[("outcome", "lost")]), 43.0);
    assert_eq!(scrape.value("tenure_cluster_append_seconds_bucket", &[("le", "0.005")]), 2.0);
    assert_eq!(scrape.value("tenure_cluster_append_seconds_bucket", &[("le", "+Inf")]), 5.0);
    assert_eq!(scrape.value("tenure_cluster_append_seconds_sum", &[]), 6.25);
    assert_eq!(scrape.value("tenure_cluster_appends_unanswered_total", &[("resolved", "fenced")]), 47.0);
    assert_eq!(scrape.value("tenure_cluster_store_bytes", &[]), 48.0);
    assert_eq!(scrape.value("tenure_cluster_store_silent_seconds", &[]), 2.5);
    assert_eq!(scrape.value("tenure_cluster_nodes_silent", &[]), 49.0);
    assert_eq!(scrape.value("tenure_cluster_nodes_differing", &[]), 50.0);
    assert_eq!(scrape.value("tenure_cluster_format", &[]), 51.0);
}

#[test]
fn requests_are_counted_by_route_method_and_status() {
    let http = HttpCounters::default();
    for took_us in [0, 1_100, 1_100, 40_000, 3_000_000_000] {
        http.count("/v1/leases/{lease_id}", &Method::GET, 200, took_us);
    }
    http.count("/v1/leases/{lease_id}", &Method::GET, 404, 2_100);
    http.count("/v1/leases/k3f9-1042", &Method::GET, 404, 2_100);
    http.count("unknown", &Method::from_bytes(b"PROPFIND").unwrap(), 599, 2);
    let scrape = Scrape::read(&page(&http, None, 0.0));
    scrape.check();
    let requests = |route, method, status| {
        scrape
            .value("tenure_http_requests_total", &[("route", route), ("method", method), ("status", status)])
    };
    assert_eq!(requests("/v1/leases/{lease_id}", "GET", "200"), 5.0);
    assert_eq!(requests("/v1/leases/{lease_id}", "GET", "404"), 1.0);
    assert_eq!(requests("unknown", "GET", "404"), 1.0, "an id is never a label");
    assert_eq!(requests("unknown", "other", "other"), 1.0);
    let below = |bound| {
        let labels = [("route", "/v1/leases/{lease_id}"), ("le", bound)];
        scrape.value("tenure_http_request_seconds_bucket", &labels)
    };
    assert_eq!(
        (below("0.001024"), below("0.002048"), below("0.065536"), below("+Inf")),
        (1.0, 3.0, 5.0, 6.0)
    );
}

/// Where the part about pollers begins; a test of the binary writes that part.
const POLLERS: &str = "\n## Pollers";

/// `docs/reference/metrics.md`, from what is scraped: `UPDATE_EXPECT=1` writes it.
#[test]
fn the_reference_lists_every_metric() {
    let http = HttpCounters::default();
    http.count("/v1/leases", &Method::POST, 201, 3);
    let alone = page(&http, Some(61_500), 0.25);
    let of_node = node_text(&node_numbers(), &HttpCounters::default());
    let table = |text: &str| {
        let scrape = Scrape::read(text);
        let mut rows = String::new();
        for line in text.lines() {
            let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|help| help.split_once(' '))
            else {
                continue;
            };
            if text == of_node && !name.starts_with("tenure_cluster") {
                continue;
            }
            let labels: BTreeSet<String> = scrape
                .samples
                .iter()
                .filter(|(found, ..)| scrape.family(found) == name)
                .flat_map(|(_, labels, _)| labels.keys().filter(|label| *label != "le").cloned())
                .collect();
            let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
            let help = help.trim_end_matches('.');
            rows.push_str(&format!(
                "| `{name}` | {} | {} | {help} |\n",
                scrape.kinds[name],
                labels.join(" ")
            ));
        }
        rows
    };
    let head = "| metric | type | labels | meaning |\n|---|---|---|---|\n";
    let reference = format!(
        "<!-- Generated by tests of the server and the binary (UPDATE_EXPECT=1 writes it); edits here are lost. -->\n\n# Metrics\n\n\
         `GET /metrics` answers in the text format of Prometheus; scope `read`. Counters begin at 0 with every start of the\n\
         daemon. Histograms have `_bucket`, `_sum` and `_count`, in seconds where the name says so.\n\n\
         | label | values |\n|---|---|\n\
         | `application` | `leases`, `registrations`, `slots`, `polling` |\n\
         | `lane` | a queue of requests, the most urgent first: {} |\n\n\
         ## Every daemon\n\n{head}{}\n## Nodes of a cluster\n\n{head}{}",
        Lane::ALL.map(|lane| format!("`{}` ({})", lane.as_str(), requests_of(lane))).join(", "),
        table(&alone),
        table(&of_node)
    );
    let page = expect_test::expect_file!["../../../../docs/reference/metrics.md"];
    let committed = page.data();
    let of_pollers = committed.split_once(POLLERS).map(|(_, rest)| format!("{POLLERS}{rest}"));
    let reference = reference + &of_pollers.unwrap_or_default();
    page.assert_eq(&reference);
}

fn requests_of(lane: Lane) -> &'static str {
    match lane {
        Lane::Liveness => "heartbeats",
        Lane::Ending => "releases and other ends",
        Lane::Granting => "grants",
        Lane::Reading => "reads",
    }
}
