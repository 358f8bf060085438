//! Tenure over HTTP/1.1, connections kept, one request at a time on each; and any POST of JSON, for the bare stack.

use super::lines::{Granted, Kept, put_acquire};
use super::text::{number, put_number, shown};
use super::{Ask, Names, Of, Protocol, Said, Taken};
use anyhow::{Context, Result};

pub(crate) struct Http {
    names: Names,
    kept: Kept,
    /// The lines of every head that are always the same.
    head: Vec<u8>,
    body: Vec<u8>,
}

/// The same small body, again and again.
pub(crate) struct Hello(pub(crate) Http);

const HEAD_END: &[u8] = b"\r\n\r\n";

impl Http {
    pub(crate) fn new(names: Names, kept: Kept, host: &str) -> Self {
        let head = format!(" HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: ");
        Self { names, kept, head: head.into_bytes(), body: Vec::new() }
    }

    fn put_rest(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        put_number(self.body.len() as u64, out);
        out.extend_from_slice(HEAD_END);
        out.extend_from_slice(&self.body);
    }
}

impl Protocol for Http {
    type Hold = Granted;

    fn put(&mut self, ask: &Ask<Granted>, _tag: u32, out: &mut Vec<u8>) {
        self.body.clear();
        out.extend_from_slice(b"POST /v1/leases");
        match ask {
            Ask::Acquire(_) | Ask::AcquireBundle(_) | Ask::AcquireContended => {
                put_acquire(self.names, &self.kept, ask, &mut self.body);
            }
            Ask::Renew(granted) | Ask::Release(granted) | Ask::ReleaseBundle(granted) => {
                let verb: &[u8] = if matches!(ask, Ask::Renew(_)) { b"/heartbeat" } else { b"/release" };
                out.push(b'/');
                out.extend_from_slice(granted.id());
                out.extend_from_slice(verb);
                self.body.extend_from_slice(b"{\"epoch\":");
                put_number(granted.epoch(), &mut self.body);
                self.body.push(b'}');
            }
        }
        self.put_rest(out);
    }

    fn about(&self, ask: &Ask<Granted>) -> Option<Granted> {
        match ask {
            Ask::Renew(granted) | Ask::Release(granted) | Ask::ReleaseBundle(granted) => Some(*granted),
            Ask::Acquire(_) | Ask::AcquireBundle(_) | Ask::AcquireContended => None,
        }
    }

    fn take(&self, arrived: &[u8]) -> Result<Option<Taken<Granted>>> {
        let Some((bytes, status, body)) = response(arrived)? else { return Ok(None) };
        let said = match status {
            // Only grants are created.
            201 => Said::Done(Some(Granted::read(body).with_context(|| shown(body))?)),
            200 => Said::Done(None),
            _ => Said::Refused,
        };
        Ok(Some(Taken { bytes, of: Of::Oldest, said }))
    }
}

impl Protocol for Hello {
    type Hold = ();

    fn put(&mut self, _ask: &Ask<()>, _tag: u32, out: &mut Vec<u8>) {
        let Http { names, kept, body, .. } = &mut self.0;
        body.clear();
        // As many bytes to read as an acquire has.
        put_acquire(*names, kept, &Ask::Acquire(1), body);
        out.extend_from_slice(b"POST /hello");
        self.0.put_rest(out);
    }

    fn about(&self, _ask: &Ask<()>) -> Option<()> {
        None
    }

    fn take(&self, arrived: &[u8]) -> Result<Option<Taken<()>>> {
        let Some((bytes, status, _)) = response(arrived)? else { return Ok(None) };
        let said = if status == 200 { Said::Done(None) } else { Said::Refused };
        Ok(Some(Taken { bytes, of: Of::Oldest, said }))
    }
}

/// Bytes, status and body of the first whole response.
fn response(arrived: &[u8]) -> Result<Option<(usize, u64, &[u8])>> {
    let Some(end) = arrived.windows(HEAD_END.len()).position(|window| window == HEAD_END) else {
        return Ok(None);
    };
    let (head, body) = (&arrived[..end], &arrived[end + HEAD_END.len()..]);
    let broken = || format!("not understood: {}", shown(arrived));
    let (status, _) = head.strip_prefix(b"HTTP/1.1 ").and_then(number).with_context(broken)?;
    let length = head.split(|byte| *byte == b'\n').find_map(|line| {
        let (name, value) = line.split_at_checked(b"content-length:".len())?;
        name.eq_ignore_ascii_case(b"content-length:").then(|| number(value.trim_ascii()))?
    });
    let length = length.and_then(|(length, _)| usize::try_from(length).ok()).with_context(broken)?;
    Ok(body.get(..length).map(|body| (end + HEAD_END.len() + length, status, body)))
}

#[cfg(test)]
mod tests {
    use super::super::lines::tests::granted;
    use super::*;
    use tenure_api::{Acquire, HolderCall};

    fn http() -> Http {
        Http::new(Names { load: 3 }, Kept::Ttl(9_000), "127.0.0.1:5641")
    }

    #[test]
    fn requests_have_the_bodies_that_the_api_reads() {
        let mut http = http();
        let mut request = |ask: &Ask<Granted>| {
            let mut out = Vec::new();
            http.put(ask, 0, &mut out);
            let text = String::from_utf8(out).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.ends_with(&format!("\r\ncontent-length: {}", body.len())), "{head}");
            (head.lines().next().unwrap().to_owned(), body.to_owned())
        };
        let (first, body) = request(&Ask::Acquire(10));
        assert_eq!(first, "POST /v1/leases HTTP/1.1");
        assert_eq!(serde_json::from_str::<Acquire>(&body).unwrap().resources, ["000300000000000a"]);
        let (first, body) = request(&Ask::Renew(granted()));
        assert_eq!(first, "POST /v1/leases/k3f9-1042/heartbeat HTTP/1.1");
        assert_eq!(serde_json::from_str::<HolderCall>(&body).unwrap().epoch, 7);
        assert_eq!(request(&Ask::Release(granted())).0, "POST /v1/leases/k3f9-1042/release HTTP/1.1");
    }

    #[test]
    fn responses_are_cut_where_they_end() {
        let http = http();
        let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\ndate: x\r\n\r\n{\"a\"";
        assert_eq!(http.take(&ok[..20]).unwrap(), None);
        assert_eq!(http.take(&ok[..ok.len() - 1]).unwrap(), None);
        let two = [ok.as_slice(), b"HTTP"].concat();
        let taken = http.take(&two).unwrap().unwrap();
        assert_eq!(taken, Taken { bytes: ok.len(), of: Of::Oldest, said: Said::Done(None) });
        let refused = b"HTTP/1.1 409 Conflict\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(http.take(refused).unwrap().unwrap().said, Said::Refused);
        assert!(http.take(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(http.take(b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}").is_err());
    }
}
