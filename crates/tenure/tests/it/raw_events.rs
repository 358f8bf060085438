//! Server-sent events, read by hand.

use std::io::{Read, Write};

use serde_json::Value;

use crate::raw_http::Http;

/// One event.
#[derive(Clone, Debug)]
pub(crate) struct SentEvent {
    pub(crate) id: Option<String>,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

/// A stream that has begun.
pub(crate) struct Events<S> {
    http: Http<S>,
    text: String,
}

impl<S: Read + Write> Events<S> {
    /// Begins the stream of a path; it must be admitted.
    #[track_caller]
    pub(crate) fn of(mut http: Http<S>, path: &str) -> Self {
        http.send("GET", path, b"").unwrap();
        let head = http.head().unwrap();
        assert_eq!(head.status, 200, "{path}");
        Self { http, text: String::new() }
    }

    /// Begins a stream; it must be admitted.
    #[track_caller]
    pub(crate) fn begin(http: Http<S>, query: &str) -> Self {
        let mut events = Self::of(http, &format!("/v1/events{query}"));
        // The first words say that the watch stands: nothing that happens from now on is missed.
        while !events.text.contains(": watching\n\n") {
            assert!(events.more(), "the stream ended at once");
        }
        events
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<SentEvent> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let event = read_block(block);
                self.text = rest.to_owned();
                if event.is_some() {
                    return event;
                }
            }
            if !self.more() {
                return None;
            }
        }
    }

    /// `false`: the body is over.
    fn more(&mut self) -> bool {
        let Some(piece) = self.http.chunk().unwrap() else { return false };
        self.text.push_str(std::str::from_utf8(&piece).unwrap());
        true
    }
}

/// Comments alone are no event.
fn read_block(block: &str) -> Option<SentEvent> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    let data = field("data: ")?;
    Some(SentEvent {
        id: field("id: ").map(str::to_owned),
        kind: field("event: ").unwrap_or("message").to_owned(),
        data: serde_json::from_str(data).unwrap(),
    })
}
