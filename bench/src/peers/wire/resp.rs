//! Redis' protocol, and leases as people make them there: a key with a token and a time to live, compared by a script
//! before it is renewed or deleted.

use super::text::{put_hex, put_number, shown};
use super::{Ask, Names, Of, Protocol, Said, Taken};
use crate::peers::peer::BUNDLE;
use anyhow::{Result, bail};

/// A key that was set; the token follows from the number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    place: u64,
    is_contended: bool,
}

/// A script as the server knows it.
pub(crate) type Sha = [u8; 40];

/// The scripts that were loaded.
#[derive(Clone, Copy)]
pub(crate) struct Scripts {
    pub(crate) renew: Sha,
    pub(crate) release: Sha,
    /// Acquire with a fence; `None`: a plain `SET NX PX`, which gives none.
    pub(crate) fence: Option<Sha>,
    pub(crate) acquire_bundle: Sha,
    pub(crate) release_bundle: Sha,
}

pub(crate) struct Resp {
    pub(crate) names: Names,
    pub(crate) scripts: Scripts,
    pub(crate) ttl_ms: u64,
    /// What the next request is about when it moves the deadline to an instant, in milliseconds since 1970.
    pub(crate) deadline_ms: Option<u64>,
}

pub(crate) const RENEW: &str = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('PEXPIRE',KEYS[1],ARGV[2]) else return 0 end";
pub(crate) const RELEASE: &str =
    "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";
pub(crate) const FENCE: &str = "if redis.call('SET',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then \
                                return redis.call('INCR',KEYS[2]) else return 0 end";
/// The fence is the last key.
pub(crate) const ACQUIRE_BUNDLE: &str = "for i=1,#KEYS-1 do if redis.call('EXISTS',KEYS[i])==1 then return 0 end end \
    for i=1,#KEYS-1 do redis.call('SET',KEYS[i],ARGV[1],'PX',ARGV[2]) end return redis.call('INCR',KEYS[#KEYS])";
pub(crate) const RELEASE_BUNDLE: &str = "for i=1,#KEYS do if redis.call('GET',KEYS[i])~=ARGV[1] then return 0 end end \
    return redis.call('DEL',unpack(KEYS))";
/// The counter that fences come from.
const FENCE_KEY: &[u8] = b"fence";
/// The one name that is fought for.
const CONTENDED: &[u8] = b"contended";
const NAME_BYTES: usize = 16;
const TOKEN_DIGITS: u32 = 14;

impl Resp {
    fn put_key(&self, key: Key, out: &mut Vec<u8>) {
        if key.is_contended {
            return put_bulk(CONTENDED, out);
        }
        put_length(b'$', NAME_BYTES, out);
        self.names.put(key.place, out);
        out.extend_from_slice(b"\r\n");
    }

    fn put_acquire(&self, key: Key, out: &mut Vec<u8>) {
        match &self.scripts.fence {
            Some(sha) => {
                put_script(sha, 2, 2, out);
                self.put_key(key, out);
                put_bulk(FENCE_KEY, out);
                put_token(key, out);
                put_bulk_number(self.ttl_ms, out);
            }
            None => {
                put_length(b'*', 6, out);
                put_bulk(b"SET", out);
                self.put_key(key, out);
                put_token(key, out);
                put_bulk(b"NX", out);
                put_bulk(b"PX", out);
                put_bulk_number(self.ttl_ms, out);
            }
        }
    }

    fn put_bundle(&self, key: Key, out: &mut Vec<u8>) {
        for member in 0..BUNDLE as u64 {
            self.put_key(Key { place: key.place + member, ..key }, out);
        }
    }
}

impl Protocol for Resp {
    type Hold = Key;

    fn put(&mut self, ask: &Ask<Key>, _tag: u32, out: &mut Vec<u8>) {
        let Some(key) = self.about(ask) else { return };
        match ask {
            Ask::Acquire(_) | Ask::AcquireContended => self.put_acquire(key, out),
            Ask::Renew(_) => match self.deadline_ms {
                Some(deadline_ms) => {
                    put_length(b'*', 3, out);
                    put_bulk(b"PEXPIREAT", out);
                    self.put_key(key, out);
                    put_bulk_number(deadline_ms, out);
                }
                None => {
                    put_script(&self.scripts.renew, 1, 2, out);
                    self.put_key(key, out);
                    put_token(key, out);
                    put_bulk_number(self.ttl_ms, out);
                }
            },
            Ask::Release(_) => {
                put_script(&self.scripts.release, 1, 1, out);
                self.put_key(key, out);
                put_token(key, out);
            }
            Ask::AcquireBundle(_) => {
                put_script(&self.scripts.acquire_bundle, BUNDLE + 1, 2, out);
                self.put_bundle(key, out);
                put_bulk(FENCE_KEY, out);
                put_token(key, out);
                put_bulk_number(self.ttl_ms, out);
            }
            Ask::ReleaseBundle(_) => {
                put_script(&self.scripts.release_bundle, BUNDLE, 1, out);
                self.put_bundle(key, out);
                put_token(key, out);
            }
        }
    }

    fn about(&self, ask: &Ask<Key>) -> Option<Key> {
        Some(match ask {
            Ask::Acquire(place) | Ask::AcquireBundle(place) => Key { place: *place, is_contended: false },
            Ask::AcquireContended => Key { place: 0, is_contended: true },
            Ask::Renew(key) | Ask::Release(key) | Ask::ReleaseBundle(key) => *key,
        })
    }

    fn take(&self, arrived: &[u8]) -> Result<Option<Taken<Key>>> {
        let Some(end) = arrived.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let said = match arrived[..end].trim_ascii_end() {
            b"$-1" | b":0" => Said::Refused,
            [b'+' | b':', ..] => Said::Done(None),
            line => bail!("redis answers {}", shown(line)),
        };
        Ok(Some(Taken { bytes: end + 1, of: Of::Oldest, said }))
    }
}

/// A command as the server reads it.
pub(crate) fn put_command(words: &[&[u8]], out: &mut Vec<u8>) {
    put_length(b'*', words.len(), out);
    words.iter().for_each(|word| put_bulk(word, out));
}

fn put_script(sha: &Sha, keys: usize, arguments: usize, out: &mut Vec<u8>) {
    put_length(b'*', 3 + keys + arguments, out);
    put_bulk(b"EVALSHA", out);
    put_bulk(sha, out);
    put_bulk_number(keys as u64, out);
}

fn put_length(kind: u8, length: usize, out: &mut Vec<u8>) {
    out.push(kind);
    put_number(length as u64, out);
    out.extend_from_slice(b"\r\n");
}

fn put_bulk(bytes: &[u8], out: &mut Vec<u8>) {
    put_length(b'$', bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn put_bulk_number(number: u64, out: &mut Vec<u8>) {
    let digits = number.checked_ilog10().map_or(1, |power| power as usize + 1);
    put_length(b'$', digits, out);
    put_number(number, out);
    out.extend_from_slice(b"\r\n");
}

fn put_token(key: Key, out: &mut Vec<u8>) {
    put_length(b'$', TOKEN_DIGITS as usize, out);
    put_hex(key.place, TOKEN_DIGITS, out);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resp(fence: Option<Sha>) -> Resp {
        let sha = [b'a'; 40];
        let scripts = Scripts { renew: sha, release: sha, fence, acquire_bundle: sha, release_bundle: sha };
        Resp { names: Names { load: 1 }, scripts, ttl_ms: 60_000, deadline_ms: None }
    }

    /// The words of a command, with every length checked.
    fn words(bytes: &[u8]) -> Vec<String> {
        let text = std::str::from_utf8(bytes).unwrap();
        let mut lines = text.split_terminator("\r\n");
        let count: usize = lines.next().unwrap().strip_prefix('*').unwrap().parse().unwrap();
        let mut words = Vec::new();
        while let Some(length) = lines.next() {
            let word = lines.next().unwrap();
            assert_eq!(length, format!("${}", word.len()));
            words.push(word.to_owned());
        }
        assert_eq!(words.len(), count);
        words
    }

    fn asked(mut resp: Resp, ask: &Ask<Key>) -> Vec<String> {
        let mut out = Vec::new();
        resp.put(ask, 0, &mut out);
        words(&out)
    }

    #[test]
    fn a_lease_is_a_key_with_a_token() {
        let plain = asked(resp(None), &Ask::Acquire(31));
        assert_eq!(plain, ["SET", "000100000000001f", "0000000000001f", "NX", "PX", "60000"]);
        let fenced = asked(resp(Some([b'b'; 40])), &Ask::Acquire(31));
        assert_eq!(fenced[2..], ["2", "000100000000001f", "fence", "0000000000001f", "60000"]);
        let key = Key { place: 31, is_contended: false };
        assert_eq!(
            asked(resp(None), &Ask::Renew(key))[2..],
            ["1", "000100000000001f", "0000000000001f", "60000"]
        );
        let moved = Resp { deadline_ms: Some(5), ..resp(None) };
        assert_eq!(asked(moved, &Ask::Renew(key)), ["PEXPIREAT", "000100000000001f", "5"]);
    }

    #[test]
    fn a_bundle_is_eight_keys_and_a_fence() {
        let words = asked(resp(None), &Ask::AcquireBundle(8));
        assert_eq!(words.len(), 3 + 9 + 2);
        assert_eq!(
            (words[2].as_str(), words[3].as_str(), words[11].as_str()),
            ("9", "0001000000000008", "fence")
        );
        let key = Key { place: 8, is_contended: false };
        assert_eq!(asked(resp(None), &Ask::ReleaseBundle(key)).len(), 3 + 8 + 1);
    }

    #[test]
    fn answers_are_done_or_refused_and_come_in_order() {
        let resp = resp(None);
        for (bytes, said) in [
            (b"+OK\r\n".as_slice(), Said::Done(None)),
            (b":1\r\n", Said::Done(None)),
            (b":0\r\n", Said::Refused),
            (b"$-1\r\n", Said::Refused),
        ] {
            let taken = Taken { bytes: bytes.len(), of: Of::Oldest, said };
            assert_eq!(resp.take(&[bytes, b"+O"].concat()).unwrap(), Some(taken));
        }
        assert_eq!(resp.take(b"+OK\r").unwrap(), None);
        assert!(resp.take(b"-NOSCRIPT\r\n").is_err());
    }
}
