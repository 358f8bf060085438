//! Tenure's lines: one JSON object each, over the socket.

use super::text::{after, number, put_number, shown};
use super::{Ask, Names, Of, Protocol, Said, Taken};
use crate::peers::peer::BUNDLE;
use anyhow::{Context, Result, bail};
use std::io::BufRead;

/// A lease that was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Granted {
    id: [u8; ID_BYTES_MAX],
    id_bytes: u8,
    epoch: u32,
}

/// Who keeps the leases that are taken.
#[derive(Clone)]
pub(crate) enum Kept {
    /// A heartbeat each within so many milliseconds; no grace.
    Ttl(u64),
    /// This session by hand.
    Session(String),
}

pub(crate) struct Lines {
    pub(crate) names: Names,
    pub(crate) kept: Kept,
}

/// More than any lease id has.
const ID_BYTES_MAX: usize = 27;
/// The one name that is fought for.
const CONTENDED: &str = "contended";

impl Granted {
    /// Reads what an acquire was answered with.
    pub(crate) fn read(object: &[u8]) -> Option<Self> {
        let id = after(object, b"\"lease_id\":\"")?;
        let end = id.iter().position(|byte| *byte == b'"').filter(|end| *end <= ID_BYTES_MAX)?;
        let epoch = u32::try_from(number(after(&id[end..], b"\"epoch\":")?)?.0).ok()?;
        let mut granted = Self { id: [0; ID_BYTES_MAX], id_bytes: end as u8, epoch };
        granted.id[..end].copy_from_slice(&id[..end]);
        Some(granted)
    }

    pub(crate) fn id(&self) -> &[u8] {
        &self.id[..usize::from(self.id_bytes)]
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.into()
    }
}

impl Protocol for Lines {
    type Hold = Granted;

    fn put(&mut self, ask: &Ask<Granted>, tag: u32, out: &mut Vec<u8>) {
        match ask {
            Ask::Acquire(_) | Ask::AcquireBundle(_) | Ask::AcquireContended => {
                out.extend_from_slice(b"{\"acquire\":");
                put_acquire(self.names, &self.kept, ask, out);
            }
            Ask::Renew(granted) => put_call(b"{\"heartbeat\":", granted, out),
            Ask::Release(granted) | Ask::ReleaseBundle(granted) => put_call(b"{\"release\":", granted, out),
        }
        out.extend_from_slice(b",\"tag\":");
        put_number(tag.into(), out);
        out.extend_from_slice(b"}\n");
    }

    fn about(&self, ask: &Ask<Granted>) -> Option<Granted> {
        match ask {
            Ask::Renew(granted) | Ask::Release(granted) | Ask::ReleaseBundle(granted) => Some(*granted),
            Ask::Acquire(_) | Ask::AcquireBundle(_) | Ask::AcquireContended => None,
        }
    }

    fn take(&self, arrived: &[u8]) -> Result<Option<Taken<Granted>>> {
        let mut rest = arrived;
        // Goes through the C library's memchr, and a slice cannot fail.
        let bytes = rest.skip_until(b'\n').unwrap_or(0);
        let Some(line) = arrived[..bytes].strip_suffix(b"\n") else { return Ok(None) };
        let of = tag_of(line).map_or(Of::Nothing, Of::Tag);
        let said = if line.starts_with(b"{\"error\":") {
            Said::Refused
        } else if line.starts_with(b"{\"acquired\":") {
            Said::Done(Some(Granted::read(line).with_context(|| shown(line))?))
        } else if line.starts_with(b"{\"") {
            Said::Done(None)
        } else {
            bail!("not understood: {}", shown(line));
        };
        Ok(Some(Taken { bytes, of, said }))
    }
}

/// The body of an acquire.
pub(super) fn put_acquire(names: Names, kept: &Kept, ask: &Ask<Granted>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"resources\":[\"");
    match ask {
        Ask::AcquireBundle(place) => {
            for member in 0..BUNDLE as u64 {
                if member > 0 {
                    out.extend_from_slice(b"\",\"");
                }
                names.put(place + member, out);
            }
        }
        Ask::Acquire(place) => names.put(*place, out),
        _ => out.extend_from_slice(CONTENDED.as_bytes()),
    }
    out.extend_from_slice(b"\"],\"holder\":\"bench\"");
    if matches!(ask, Ask::AcquireContended) {
        out.extend_from_slice(b",\"wait_ms\":60000");
    }
    match kept {
        Kept::Ttl(ttl_ms) => {
            out.extend_from_slice(b",\"grace_ms\":0,\"ttl_ms\":");
            put_number(*ttl_ms, out);
        }
        Kept::Session(session) => {
            out.extend_from_slice(b",\"session\":\"");
            out.extend_from_slice(session.as_bytes());
            out.push(b'"');
        }
    }
    out.push(b'}');
}

fn put_call(verb: &[u8], granted: &Granted, out: &mut Vec<u8>) {
    out.extend_from_slice(verb);
    out.extend_from_slice(b"{\"lease_id\":\"");
    out.extend_from_slice(granted.id());
    out.extend_from_slice(b"\",\"epoch\":");
    put_number(granted.epoch(), out);
    out.push(b'}');
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tenure_api::{
        Acquire, Answer, AnswerLine, ByLease, Error, ErrorCode, Heartbeat, HolderCall, Line, Tag, Verb,
    };

    pub(in crate::peers::wire) fn granted() -> Granted {
        Granted::read(br#"{"lease_id":"k3f9-1042","holder":"x","mode":"heartbeat","epoch":7,"fence":1}"#)
            .unwrap()
    }

    fn lines(kept: Kept) -> Lines {
        Lines { names: Names { load: 3 }, kept }
    }

    fn line(kept: Kept, ask: &Ask<Granted>) -> Line {
        let mut out = Vec::new();
        lines(kept).put(ask, 23, &mut out);
        Line::parse(out.strip_suffix(b"\n").unwrap()).unwrap()
    }

    #[test]
    fn lines_are_what_the_api_reads() {
        let by_lease = || ByLease {
            lease_id: "k3f9-1042".into(),
            body: HolderCall { epoch: 7, ..HolderCall::default() },
        };
        let acquire = |resources: Vec<String>| Acquire {
            resources,
            holder: "bench".into(),
            ttl_ms: Some(9_000),
            grace_ms: Some(0),
            ..Acquire::default()
        };
        let bundle = (16..24).map(|place| format!("0003{place:012x}")).collect();
        let contended = Acquire { wait_ms: Some(60_000), ..acquire(vec![CONTENDED.into()]) };
        for (ask, verb) in [
            (Ask::Acquire(10), Verb::Acquire(acquire(vec!["000300000000000a".into()]).into())),
            (Ask::AcquireBundle(16), Verb::Acquire(acquire(bundle).into())),
            (Ask::AcquireContended, Verb::Acquire(contended.into())),
            (Ask::Renew(granted()), Verb::Heartbeat(Heartbeat::Lease(by_lease()))),
            (Ask::Release(granted()), Verb::Release(by_lease())),
            (Ask::ReleaseBundle(granted()), Verb::Release(by_lease())),
        ] {
            assert_eq!(line(Kept::Ttl(9_000), &ask), Line { verb, tag: Some(Tag::Number(23.into())) });
        }
        let kept = Acquire {
            session: Some("s:00000001".into()),
            ttl_ms: None,
            grace_ms: None,
            ..acquire(vec!["000300000000000a".into()])
        };
        assert_eq!(
            line(Kept::Session("s:00000001".into()), &Ask::Acquire(10)).verb,
            Verb::Acquire(kept.into())
        );
    }

    #[test]
    fn answers_of_the_api_are_read() {
        let said = |line: &AnswerLine| {
            let mut bytes = serde_json::to_vec(line).unwrap();
            bytes.push(b'\n');
            bytes
        };
        let lines = lines(Kept::Ttl(1));
        let error = Error::new(ErrorCode::ResourceHeld, "held \"tag\":9");
        let refused =
            said(&AnswerLine { answer: Answer::Error(error), tag: Some(Tag::Number(4_000.into())) });
        let taken = lines.take(&refused).unwrap().unwrap();
        assert_eq!(taken, Taken { bytes: refused.len(), of: Of::Tag(4_000), said: Said::Refused });

        let welcome = tenure_api::Welcome { session: "pipe:1".into(), version: "1".into() };
        let done = said(&AnswerLine { answer: Answer::Hello(welcome), tag: None });
        let two = [done.as_slice(), b"{\"rest"].concat();
        let taken = lines.take(&two).unwrap().unwrap();
        assert_eq!((taken.bytes, taken.of), (done.len(), Of::Nothing));
        assert_eq!(lines.take(&two[taken.bytes..]).unwrap(), None);
        assert!(lines.take(b"HTTP/1.1 200 OK\n").is_err());
    }

    #[test]
    fn a_lease_without_an_id_or_an_epoch_is_not_understood() {
        assert_eq!(granted().id(), b"k3f9-1042");
        assert_eq!(Granted::read(br#"{"lease_id":"k3f9-1042","epoch":null}"#), None);
        assert_eq!(Granted::read(br#"{"epoch":1}"#), None);
    }
}
