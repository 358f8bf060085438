//! What was measured, as a table and as an object. Pure: rows in, words out.

use serde::Serialize;
use serde_json::Value;

use super::course::Row;
use super::{Transport, Work};
use crate::table::Table;

/// The object that `--json` prints.
#[derive(Serialize)]
pub(crate) struct Report {
    /// Version of the daemon.
    version: String,
    /// What the daemon keeps its data on: its directory.
    data_dir: String,
    /// Whether the rows are fewer than were asked for.
    complete: bool,
    rows: Vec<Figures>,
}

/// One row. Latencies are those of answers that were no refusals.
#[derive(Serialize)]
struct Figures {
    transport: Transport,
    work: Work,
    in_flight: usize,
    connections: usize,
    /// Answers that were no refusals.
    answered: u64,
    took_us: f64,
    per_second: f64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    errors: u64,
    /// The same by error code.
    refused: std::collections::BTreeMap<String, u64>,
    /// Processor time of the daemon for one answer; null where its process is not on this machine.
    daemon_cpu_us: Option<f64>,
    /// Of the load itself.
    load_cpu_us: Option<f64>,
}

impl Report {
    pub(crate) fn new(version: String, data_dir: String, complete: bool, rows: Vec<Row>) -> Self {
        Self { version, data_dir, complete, rows: rows.into_iter().map(Figures::of).collect() }
    }

    pub(crate) fn object(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self)
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(&[
            "TRANSPORT",
            "WORK",
            "IN FLIGHT",
            "OPS/S",
            "P50",
            "P99",
            "MAX",
            "ERRORS",
            "DAEMON CPU",
            "LOAD CPU",
        ]);
        for row in &self.rows {
            let each = |cpu_us: Option<f64>| cpu_us.map_or_else(|| "–".to_owned(), span);
            table.row(vec![
                row.transport.as_str().to_owned(),
                row.work.as_str().to_owned(),
                row.in_flight.to_string(),
                grouped(row.per_second.round() as u64),
                span(row.p50_us),
                span(row.p99_us),
                span(row.max_us),
                grouped(row.errors),
                each(row.daemon_cpu_us),
                each(row.load_cpu_us),
            ]);
        }
        table
    }

    /// One line for every row that holds refusals.
    pub(crate) fn refusals(&self) -> Vec<String> {
        self.rows
            .iter()
            .filter(|row| row.errors > 0)
            .map(|row| {
                let (transport, work) = (row.transport.as_str(), row.work.as_str());
                let codes = row.refused.iter().map(|(code, count)| format!("{code} × {}", grouped(*count)));
                let codes: Vec<String> = codes.collect();
                format!("{transport} {work}, {} in flight: rejected with {}", row.in_flight, codes.join(", "))
            })
            .collect()
    }

    /// The first row in which nothing was done at all, in words.
    pub(crate) fn useless(&self) -> Option<String> {
        let row = self.rows.iter().find(|row| row.answered == 0)?;
        let why = match row.refused.keys().next() {
            Some(code) => format!("the daemon rejects every request with {code}"),
            None => "there was nothing to request".to_owned(),
        };
        let (transport, work) = (row.transport.as_str(), row.work.as_str());
        Some(format!("{transport} {work}, {} in flight: {why}", row.in_flight))
    }
}

impl Figures {
    fn of(row: Row) -> Self {
        let latency = &row.measured.latency;
        let answered = latency.count();
        let us = |ns: u64| ns as f64 / 1_000.0;
        let quantile_us = |of_ten_thousand| us(latency.quantile_ns(of_ten_thousand));
        let errors: u64 = row.measured.refused.values().sum();
        let for_one = |ns: Option<u64>| Some(us(ns?) / (answered + errors).max(1) as f64);
        Self {
            transport: row.step.transport,
            work: row.step.work,
            in_flight: row.step.in_flight,
            connections: row.connections,
            answered,
            took_us: us(row.measured.took_ns),
            per_second: answered as f64 * 1e9 / row.measured.took_ns.max(1) as f64,
            p50_us: quantile_us(5_000),
            p90_us: quantile_us(9_000),
            p99_us: quantile_us(9_900),
            p999_us: quantile_us(9_990),
            max_us: us(latency.max_ns()),
            errors,
            refused: row.measured.refused,
            daemon_cpu_us: for_one(row.daemon_ns),
            load_cpu_us: for_one(row.load_ns),
        }
    }
}

/// Three digits that matter, in the unit that suits them.
fn span(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 1_000.0 => (us, "µs"),
        us if us < 1_000_000.0 => (us / 1_000.0, "ms"),
        us => (us / 1_000_000.0, "s"),
    };
    let digits = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::course::Step;
    use crate::bench::histogram::Histogram;
    use crate::bench::load::Measured;

    fn row(answered: u64, refused: &[(&str, u64)]) -> Row {
        let mut latency = Histogram::new();
        (0..answered).for_each(|_| latency.add(250_000));
        let refused = refused.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect();
        Row {
            step: Step { transport: Transport::Socket, in_flight: 16, work: Work::Acquire },
            connections: 8,
            measured: Measured { latency, refused, took_ns: 500_000_000 },
            daemon_ns: Some(20_000_000),
            load_ns: None,
        }
    }

    fn report(rows: Vec<Row>) -> Report {
        Report::new("1.2.3".into(), "/data".into(), true, rows)
    }

    #[test]
    fn a_row_tells_rate_latency_and_cost() {
        let report = report(vec![row(3_000, &[("resource_held", 1_000)])]);
        assert_eq!(
            report.table().lines(None)[1],
            "socket     acquire  16         6,000  250 µs  250 µs  250 µs  1,000   5.00 µs     –"
        );
        assert_eq!(report.refusals(), ["socket acquire, 16 in flight: rejected with resource_held × 1,000"]);
        assert_eq!(report.useless(), None);
        let object = report.object().unwrap();
        assert_eq!(object["rows"][0]["per_second"], 6_000.0);
        assert_eq!(object["rows"][0]["refused"]["resource_held"], 1_000);
    }

    #[test]
    fn a_row_without_an_answer_is_no_measurement() {
        let useless = |refused| report(vec![row(0, refused)]).useless().unwrap();
        assert_eq!(
            useless(&[("forbidden", 7)]),
            "socket acquire, 16 in flight: the daemon rejects every request with forbidden"
        );
        assert_eq!(useless(&[]), "socket acquire, 16 in flight: there was nothing to request");
    }

    #[test]
    fn spans_have_three_digits_that_matter() {
        for (us, shown) in [
            (0.0, "0.00 µs"),
            (9.994, "9.99 µs"),
            (9.996, "10.0 µs"),
            (99.96, "100 µs"),
            (999.0, "999 µs"),
            (1_234.0, "1.23 ms"),
            (12_345_678.0, "12.3 s"),
        ] {
            assert_eq!(span(us), shown, "{us}");
        }
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
