//! Paths of the API, with names made safe.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

/// What RFC 3986 leaves as it is in a path segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Where a call goes, and how much longer than others its answer may take.
pub(crate) struct Route {
    pub(super) path: String,
    pub(super) wait: Duration,
}

/// `/v1` and the segments, which may hold any character.
pub(crate) fn route(segments: &[&str]) -> Route {
    let segments = segments.iter().map(|segment| format!("/{}", utf8_percent_encode(segment, SEGMENT)));
    Route { path: std::iter::once("/v1".to_owned()).chain(segments).collect(), wait: Duration::ZERO }
}

impl Route {
    /// The same with a query; nothing is added where it is empty.
    pub(crate) fn query(mut self, query: &impl Serialize) -> Self {
        let query = serde_urlencoded::to_string(query)
            .expect("invariant: a query of the API is a flat list of plain values");
        if !query.is_empty() {
            self.path = format!("{}?{query}", self.path);
        }
        self
    }

    /// The same for a call that may wait so long.
    pub(crate) fn waiting(mut self, wait_ms: u64) -> Self {
        self.wait = Duration::from_millis(wait_ms);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_api::{LeaseQuery, State};

    #[test]
    fn names_are_one_segment_and_queries_hold_what_was_given() {
        assert_eq!(route(&["resources", "db/prim är"]).path, "/v1/resources/db%2Fprim%20%C3%A4r");
        assert_eq!(route(&["leases"]).query(&LeaseQuery::default()).path, "/v1/leases");
        let query = LeaseQuery {
            holder: Some("a b&c".into()),
            state: Some(State::Active),
            limit: Some(5),
            ..LeaseQuery::default()
        };
        assert_eq!(route(&["leases"]).query(&query).path, "/v1/leases?holder=a+b%26c&state=active&limit=5");
    }
}
