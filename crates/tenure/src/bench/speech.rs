//! Requests as bytes and answers read from bytes, over the socket and over HTTP. Written and read by hand: whatever the
//! load costs is taken from the daemon that shares the machine with it. Knows nothing of connections or time.
//!
//! The tests hold both directions against the types of the API, so that a change there is noticed here.

use std::io::BufRead;

/// What is asked.
#[derive(Clone, Copy)]
pub(crate) enum Ask {
    /// Nothing: shows that the other side speaks the same language.
    Greet,
    /// A lease over a resource with this number.
    Acquire(u64),
    Heartbeat(Held),
    Release(Held),
}

/// A lease that was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    id: [u8; ID_BYTES_MAX],
    id_bytes: u8,
    epoch: u32,
}

/// How requests are put and answers are read on one transport.
#[derive(Clone)]
pub(crate) struct Speech {
    tongue: Tongue,
    /// Resources are called so with a number behind, and so is the holder.
    name: String,
    ttl_ms: u64,
    body: Vec<u8>,
}

#[derive(Clone)]
enum Tongue {
    Lines,
    /// The lines of every head that are always the same.
    Http {
        head: String,
    },
}

/// One answer, cut out of what arrived.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Taken<'a> {
    /// So many bytes were its.
    pub(crate) bytes: usize,
    /// Of which request; `None`: it answers nothing. HTTP answers in order, so that it is always the first.
    pub(crate) tag: Option<u32>,
    pub(crate) said: Said<'a>,
}

/// What an answer says.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Said<'a> {
    /// It was done; the object.
    Done(&'a [u8]),
    /// It was not; the error code.
    Refused(&'a str),
}

/// An answer that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unexpected answer from the daemon: {0}")]
pub(crate) struct NotUnderstood(String);

/// More than any lease id has.
const ID_BYTES_MAX: usize = 27;
/// Bytes of an answer that are shown where it makes no sense.
const SHOWN_BYTES: usize = 120;
const HEAD_END: &[u8] = b"\r\n\r\n";

impl Held {
    /// Reads what an acquire was answered with.
    pub(crate) fn read(object: &[u8]) -> Result<Self, NotUnderstood> {
        let found = after(object, b"\"lease_id\":\"").and_then(|id| {
            let end = id.iter().position(|byte| *byte == b'"').filter(|end| *end <= ID_BYTES_MAX)?;
            let epoch = u32::try_from(number(after(&id[end..], b"\"epoch\":")?)?.0).ok()?;
            let mut held = Self { id: [0; ID_BYTES_MAX], id_bytes: end as u8, epoch };
            held.id[..end].copy_from_slice(&id[..end]);
            Some(held)
        });
        found.ok_or_else(|| not_understood(object))
    }

    fn id(&self) -> &[u8] {
        &self.id[..usize::from(self.id_bytes)]
    }
}

impl Speech {
    /// One JSON object per line.
    pub(crate) fn lines(name: &str, ttl_ms: u64) -> Self {
        Self { tongue: Tongue::Lines, name: name.to_owned(), ttl_ms, body: Vec::new() }
    }

    /// HTTP/1.1 with connections that are kept.
    pub(crate) fn http(name: &str, ttl_ms: u64, host: &str, token: Option<&str>) -> Self {
        let mut head = format!(" HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n");
        if let Some(token) = token {
            head.push_str(&format!("authorization: Bearer {token}\r\n"));
        }
        Self { tongue: Tongue::Http { head }, name: name.to_owned(), ttl_ms, body: Vec::new() }
    }

    /// Adds one request to what leaves next.
    pub(crate) fn put(&mut self, ask: &Ask, tag: u32, out: &mut Vec<u8>) {
        match &self.tongue {
            Tongue::Lines => {
                let verb: &[u8] = match ask {
                    Ask::Greet => b"{\"hello\":",
                    Ask::Acquire(_) => b"{\"acquire\":",
                    Ask::Heartbeat(_) => b"{\"heartbeat\":",
                    Ask::Release(_) => b"{\"release\":",
                };
                out.extend_from_slice(verb);
                match ask {
                    Ask::Greet => out.extend_from_slice(b"{}"),
                    Ask::Acquire(place) => put_acquire(&self.name, self.ttl_ms, *place, out),
                    Ask::Heartbeat(held) | Ask::Release(held) => {
                        out.extend_from_slice(b"{\"lease_id\":\"");
                        out.extend_from_slice(held.id());
                        out.extend_from_slice(b"\",\"epoch\":");
                        put_number(held.epoch.into(), out);
                        out.push(b'}');
                    }
                }
                out.extend_from_slice(b",\"tag\":");
                put_number(tag.into(), out);
                out.extend_from_slice(b"}\n");
            }
            Tongue::Http { head } => {
                self.body.clear();
                match ask {
                    Ask::Greet => out.extend_from_slice(b"GET /healthz"),
                    Ask::Acquire(place) => {
                        out.extend_from_slice(b"POST /v1/leases");
                        put_acquire(&self.name, self.ttl_ms, *place, &mut self.body);
                    }
                    Ask::Heartbeat(held) | Ask::Release(held) => {
                        let verb: &[u8] =
                            if matches!(ask, Ask::Heartbeat(_)) { b"/heartbeat" } else { b"/release" };
                        out.extend_from_slice(b"POST /v1/leases/");
                        out.extend_from_slice(held.id());
                        out.extend_from_slice(verb);
                        self.body.extend_from_slice(b"{\"epoch\":");
                        put_number(held.epoch.into(), &mut self.body);
                        self.body.push(b'}');
                    }
                }
                out.extend_from_slice(head.as_bytes());
                out.extend_from_slice(b"content-length: ");
                put_number(self.body.len() as u64, out);
                out.extend_from_slice(HEAD_END);
                out.extend_from_slice(&self.body);
            }
        }
    }

    /// The first whole answer of what arrived; `None`: there is none yet.
    pub(crate) fn take<'a>(&self, arrived: &'a [u8]) -> Result<Option<Taken<'a>>, NotUnderstood> {
        match &self.tongue {
            Tongue::Lines => take_line(arrived),
            Tongue::Http { .. } => take_response(arrived),
        }
    }
}

fn put_acquire(name: &str, ttl_ms: u64, place: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"resources\":[\"");
    out.extend_from_slice(name.as_bytes());
    out.push(b'-');
    put_number(place, out);
    out.extend_from_slice(b"\"],\"holder\":\"");
    out.extend_from_slice(name.as_bytes());
    // No grace: what a run that was killed leaves behind ends with its ttl.
    out.extend_from_slice(b"\",\"grace_ms\":0,\"ttl_ms\":");
    put_number(ttl_ms, out);
    out.push(b'}');
}

fn put_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut begin = digits.len();
    loop {
        begin -= 1;
        digits[begin] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[begin..]);
}

fn take_line(arrived: &[u8]) -> Result<Option<Taken<'_>>, NotUnderstood> {
    let mut rest = arrived;
    // Goes through the C library's memchr, and a slice cannot fail.
    let bytes = rest.skip_until(b'\n').unwrap_or(0);
    let Some(line) = arrived[..bytes].strip_suffix(b"\n") else { return Ok(None) };
    let tag = tag_of(line);
    let said = match line.strip_prefix(b"{\"error\":\"") {
        Some(code) => Said::Refused(until_quote(code).ok_or_else(|| not_understood(line))?),
        None if line.starts_with(b"{\"") => Said::Done(line),
        None => return Err(not_understood(line)),
    };
    Ok(Some(Taken { bytes, tag, said }))
}

/// The tag stands last.
fn tag_of(line: &[u8]) -> Option<u32> {
    let line = line.strip_suffix(b"}")?;
    let digits = line.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, digits) = line.split_at(line.len() - digits);
    if !before.ends_with(b",\"tag\":") {
        return None;
    }
    u32::try_from(number(digits)?.0).ok()
}

fn take_response(arrived: &[u8]) -> Result<Option<Taken<'_>>, NotUnderstood> {
    let Some(end) = arrived.windows(HEAD_END.len()).position(|window| window == HEAD_END) else {
        return Ok(None);
    };
    let (head, body) = (&arrived[..end], &arrived[end + HEAD_END.len()..]);
    let broken = || not_understood(arrived);
    let (status, _) = head.strip_prefix(b"HTTP/1.1 ").and_then(number).ok_or_else(broken)?;
    let length = head.split(|byte| *byte == b'\n').find_map(|line| {
        let (name, value) = line.split_at_checked(b"content-length:".len())?;
        name.eq_ignore_ascii_case(b"content-length:").then(|| number(value.trim_ascii()))?
    });
    let length = length.and_then(|(length, _)| usize::try_from(length).ok()).ok_or_else(broken)?;
    let Some(body) = body.get(..length) else { return Ok(None) };
    let said = match status {
        200..300 => Said::Done(body),
        _ => {
            let code = body.strip_prefix(b"{\"error\":\"").and_then(until_quote);
            Said::Refused(code.ok_or_else(broken)?)
        }
    };
    Ok(Some(Taken { bytes: end + HEAD_END.len() + length, tag: Some(0), said }))
}

fn after<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    let place = bytes.windows(mark.len()).position(|window| window == mark)?;
    Some(&bytes[place + mark.len()..])
}

fn until_quote(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&bytes[..end]).ok()
}

/// The number that the bytes begin with, and what follows it.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = bytes.split_at(digits);
    let value = digits
        .iter()
        .try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    (!digits.is_empty()).then_some((value, rest))
}

fn not_understood(answer: &[u8]) -> NotUnderstood {
    let shown = &answer[..answer.len().min(SHOWN_BYTES)];
    NotUnderstood(String::from_utf8_lossy(shown).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tenure_api::{
        Acquire, Answer, AnswerLine, ByLease, Error, ErrorCode, Heartbeat, HolderCall, Line, Tag, Verb,
    };

    const NAME: &str = "bench-1f";

    fn held() -> Held {
        Held::read(br#"{"lease_id":"k3f9-1042","holder":"x","mode":"heartbeat","epoch":7,"fence":1}"#)
            .unwrap()
    }

    fn line(ask: &Ask) -> Line {
        let mut out = Vec::new();
        Speech::lines(NAME, 60_000).put(ask, 23, &mut out);
        Line::parse(out.strip_suffix(b"\n").unwrap()).unwrap()
    }

    fn acquire() -> Acquire {
        Acquire {
            resources: vec!["bench-1f-10".into()],
            holder: NAME.into(),
            ttl_ms: Some(60_000),
            grace_ms: Some(0),
            ..Acquire::default()
        }
    }

    #[test]
    fn lines_are_what_the_api_reads() {
        let by_lease = || ByLease {
            lease_id: "k3f9-1042".into(),
            body: HolderCall { epoch: 7, ..HolderCall::default() },
        };
        for (ask, verb) in [
            (Ask::Greet, Verb::Hello(tenure_api::Hello::default())),
            (Ask::Acquire(10), Verb::Acquire(Box::new(acquire()))),
            (Ask::Heartbeat(held()), Verb::Heartbeat(Heartbeat::Lease(by_lease()))),
            (Ask::Release(held()), Verb::Release(by_lease())),
        ] {
            assert_eq!(line(&ask), Line { verb, tag: Some(Tag::Number(23.into())) });
        }
    }

    #[test]
    fn requests_have_the_bodies_that_the_api_reads() {
        let mut speech = Speech::http(NAME, 60_000, "127.0.0.1:5641", Some("secret"));
        let mut request = |ask: &Ask| {
            let mut out = Vec::new();
            speech.put(ask, 0, &mut out);
            let text = String::from_utf8(out).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.ends_with(&format!("\r\ncontent-length: {}", body.len())), "{head}");
            assert!(head.contains("\r\nhost: 127.0.0.1:5641\r\n"), "{head}");
            assert!(head.contains("\r\nauthorization: Bearer secret\r\n"), "{head}");
            (head.lines().next().unwrap().to_owned(), body.to_owned())
        };
        assert_eq!(request(&Ask::Greet), ("GET /healthz HTTP/1.1".into(), String::new()));
        let (first, body) = request(&Ask::Acquire(10));
        assert_eq!(first, "POST /v1/leases HTTP/1.1");
        assert_eq!(serde_json::from_str::<Acquire>(&body).unwrap(), acquire());
        let (first, body) = request(&Ask::Heartbeat(held()));
        assert_eq!(first, "POST /v1/leases/k3f9-1042/heartbeat HTTP/1.1");
        assert_eq!(serde_json::from_str::<HolderCall>(&body).unwrap().epoch, 7);
        assert_eq!(request(&Ask::Release(held())).0, "POST /v1/leases/k3f9-1042/release HTTP/1.1");
    }

    fn said(line: &AnswerLine) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(line).unwrap();
        bytes.push(b'\n');
        bytes
    }

    #[test]
    fn answers_of_the_api_are_read() {
        let speech = Speech::lines(NAME, 1);
        let error =
            Error::new(ErrorCode::ResourceHeld, "held \"tag\":9").with("blocking", json!([{"tag": 5}]));
        let tag = Some(Tag::Number(4_000.into()));
        let refused = said(&AnswerLine { answer: Answer::Error(error), tag });
        let taken = speech.take(&refused).unwrap().unwrap();
        assert_eq!(
            taken,
            Taken { bytes: refused.len(), tag: Some(4_000), said: Said::Refused("resource_held") }
        );

        let welcome = tenure_api::Welcome { session: "pipe:1".into(), version: "1".into() };
        let done = said(&AnswerLine { answer: Answer::Hello(welcome), tag: None });
        let two = [done.as_slice(), b"{\"rest"].concat();
        let taken = speech.take(&two).unwrap().unwrap();
        assert_eq!((taken.bytes, taken.tag), (done.len(), None));
        assert_eq!(speech.take(&two[taken.bytes..]), Ok(None));
        assert!(speech.take(b"HTTP/1.1 200 OK\n").is_err());
    }

    #[test]
    fn responses_are_cut_where_they_end() {
        let speech = Speech::http(NAME, 1, "h", None);
        let ok = b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\ndate: x\r\n\r\n{\"a\"";
        let (last, most) = ok.split_last().unwrap();
        assert_eq!(*last, b'"');
        assert_eq!(speech.take(&most[..20]), Ok(None));
        assert_eq!(speech.take(most), Ok(None));
        let two = [ok.as_slice(), b"HTTP"].concat();
        let taken = speech.take(&two).unwrap().unwrap();
        assert_eq!(taken, Taken { bytes: ok.len(), tag: Some(0), said: Said::Done(b"{\"a\"") });
        let refused = b"HTTP/1.1 409 Conflict\r\ncontent-length: 24\r\n\r\n{\"error\":\"stale_epoch\",}";
        assert_eq!(speech.take(refused).unwrap().unwrap().said, Said::Refused("stale_epoch"));
        assert!(speech.take(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }

    #[test]
    fn a_lease_without_an_id_or_an_epoch_is_not_understood() {
        assert_eq!(held().id(), b"k3f9-1042");
        assert!(Held::read(br#"{"lease_id":"k3f9-1042","epoch":null}"#).is_err());
        assert!(Held::read(br#"{"epoch":1}"#).is_err());
        assert!(
            Held::read(&[b"{\"lease_id\":\"", [b'x'; 99].as_slice(), b"\",\"epoch\":1"].concat()).is_err()
        );
    }

    #[test]
    fn numbers_are_written_as_people_do() {
        for number in [0, 9, 10, 1_234_567_890, u64::MAX] {
            let mut out = Vec::new();
            put_number(number, &mut out);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }
}
