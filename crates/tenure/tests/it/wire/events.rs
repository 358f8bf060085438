//! The stream of events, read as it comes.

use serde_json::Value;

use super::http::Http;

/// One open stream.
pub(crate) struct Events {
    http: Http,
    unread: String,
}

/// One thing that a stream says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    Event(Happened),
    Comment(String),
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Happened {
    pub(crate) id: Option<String>,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

impl Events {
    /// A stream of leases' events.
    #[track_caller]
    pub(crate) fn open(http: Http, path: &str) -> Self {
        Self::begin(http, path, "watching")
    }

    /// A stream of what is seen on the network.
    #[track_caller]
    pub(crate) fn look(http: Http, path: &str) -> Self {
        Self::begin(http, path, "looking")
    }

    #[track_caller]
    fn begin(http: Http, path: &str, word: &str) -> Self {
        let mut events = Self::admitted(http, path);
        // The first words say that the watch stands: nothing that happens from now on is missed.
        assert_eq!(events.said(), Some(Said::Comment(word.to_owned())));
        events
    }

    /// A stream that may begin with anything.
    #[track_caller]
    pub(crate) fn admitted(mut http: Http, path: &str) -> Self {
        http.send("GET", path, b"").unwrap();
        let head = http.head().unwrap();
        let header = |name: &str| {
            head.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
        };
        if head.status != 200 {
            panic!("{} {:?}", head.status, head.headers);
        }
        assert_eq!(header("content-type"), Some("text/event-stream"));
        assert_eq!(header("cache-control"), Some("no-store"));
        Self { http, unread: String::new() }
    }

    /// What is said next; `None` at the end of the stream.
    #[track_caller]
    pub(crate) fn said(&mut self) -> Option<Said> {
        loop {
            if let Some((block, rest)) = self.unread.split_once("\n\n") {
                let said = read_block(block);
                self.unread = rest.to_owned();
                return Some(said);
            }
            let chunk = self.http.chunk().unwrap()?;
            self.unread.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next event.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Happened {
        // A comment says that nothing has happened for 15 seconds.
        for _ in 0..3 {
            match self.said() {
                Some(Said::Event(happened)) => return happened,
                Some(Said::Comment(_)) => {}
                None => panic!("the stream is over"),
            }
        }
        panic!("nothing happens");
    }

    /// The next event of this kind; others in between are passed over.
    #[track_caller]
    pub(crate) fn next_of(&mut self, kind: &str) -> Happened {
        loop {
            let happened = self.next();
            if happened.kind == kind {
                return happened;
            }
        }
    }

    /// The next event of this kind about this lease.
    #[track_caller]
    pub(crate) fn about(&mut self, kind: &str, lease: &Value) -> Value {
        loop {
            let happened = self.next_of(kind);
            if happened.data["lease"]["lease_id"] == lease["lease_id"] {
                return happened.data;
            }
        }
    }

    /// Kinds of the next events, in order, with the name of the first resource of their lease.
    #[track_caller]
    pub(crate) fn kinds(&mut self, count: usize) -> Vec<String> {
        (0..count)
            .map(|_| {
                let Happened { kind, data, .. } = self.next();
                match data["lease"]["resources"][0].as_str() {
                    Some(name) => format!("{kind} {name}"),
                    None => kind,
                }
            })
            .collect()
    }
}

#[track_caller]
fn read_block(block: &str) -> Said {
    if let Some(comment) = block.strip_prefix(':') {
        return Said::Comment(comment.trim().to_owned());
    }
    let mut happened = Happened { id: None, kind: String::new(), data: Value::Null };
    for line in block.lines() {
        match line.split_once(": ") {
            Some(("id", id)) => happened.id = Some(id.to_owned()),
            Some(("event", kind)) => happened.kind = kind.to_owned(),
            Some(("data", data)) => {
                assert!(happened.data.is_null(), "two data lines: {block:?}");
                happened.data = serde_json::from_str(data).unwrap();
            }
            _ => panic!("{line:?} belongs to no event"),
        }
    }
    Said::Event(happened)
}
