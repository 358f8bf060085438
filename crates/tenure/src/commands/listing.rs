//! Lists that come in pages, put together again.

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::connect::{Daemon, route};
use crate::failure::{Failure, Words};
use crate::printer::Printer;

/// Entries of one page at most, as the API has it.
const PAGE_MAX: u64 = 1000;

/// How much of a list is shown.
#[derive(Args)]
pub(super) struct Extent {
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = PAGE_MAX, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Show all, without a limit
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Continue a list at this cursor
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// A query together with the place in the list.
#[derive(Serialize)]
struct PageQuery<'a, Q> {
    #[serde(flatten)]
    query: &'a Q,
    limit: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl Extent {
    /// The list `key` under the route, in one object as the API gives it; its `lsn` is that of the first page, so that
    /// a watch from there misses nothing.
    pub(super) async fn fetch(
        &self,
        daemon: &Daemon,
        (noun, key): (&str, &str),
        query: &impl Serialize,
        printer: &mut Printer,
    ) -> Result<Value, Failure> {
        let mut left = if self.all { u64::MAX } else { self.limit };
        let mut cursor = self.cursor.clone();
        let mut whole: Option<Value> = None;
        loop {
            let page = PageQuery { query, limit: left.min(PAGE_MAX), cursor: cursor.clone() };
            let mut page = daemon.get(route(&[noun]).query(&page)).await?;
            let next = page.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
            let entries = page.get_mut(key).and_then(Value::as_array_mut).map(std::mem::take);
            let entries = entries.ok_or_else(|| not_a_list(key))?;
            left = left.saturating_sub(entries.len() as u64);
            let whole = whole.get_or_insert(page);
            if let Some(list) = whole.get_mut(key).and_then(Value::as_array_mut) {
                list.extend(entries);
            }
            whole["next_cursor"] = next.clone().into();
            if next.is_none() || next == cursor || left == 0 {
                if let Some(next) = next {
                    printer.talk(format_args!("note: the list continues; use --cursor {next} or --all"));
                }
                return Ok(whole.take());
            }
            cursor = next;
        }
    }
}

fn not_a_list(key: &str) -> Failure {
    Failure::Unexpected(Words::new(format_args!("the daemon's answer has no list of {key}")))
}
