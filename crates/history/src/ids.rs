//! Ids as people and programs write them. `docs/internals/formats/ids.md` has the rules.
//!
//! Invariant: one id has one spelling, so that comparing strings is comparing ids.

use std::fmt;
use std::str::FromStr;

use tenure_kernel::{LeaseId, Lsn, SessionId, SessionKind};
use tenure_log::Identity;

/// The 20-bit tag of a log: four characters in front of every lease id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LogTag(u32);

/// A lease id on the wire: `k3f9-1042`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WireLease {
    /// Which log granted it.
    pub tag: LogTag,
    /// Position of the grant.
    pub lsn: Lsn,
}

/// Why a text is not an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseIdError {
    /// Not four characters of the alphabet.
    #[error("a log tag is four characters out of {ALPHABET_WORDS}")]
    Tag,
    /// No tag, a dash and a decimal number.
    #[error("a lease id is a log tag, a dash and a decimal number, like k3f9-1042")]
    Lease,
    /// No prefix, a colon and hexadecimal digits.
    #[error("a session id is pipe:, cli: or s: and at least eight hexadecimal digits, like pipe:0000002d")]
    Session,
}

/// Crockford's base 32 in lower case: no i, l, o or u, which look like something else.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ALPHABET_WORDS: &str = "0-9 and a-z without i, l, o, u";
const TAG_CHARACTERS: usize = 4;
const BITS_PER_CHARACTER: u32 = 5;

/// A tag, a dash and the digits of the largest position.
const SPELLED_BYTES_MAX: usize = TAG_CHARACTERS + 1 + 20;

const _: () = assert!(TAG_CHARACTERS as u32 * BITS_PER_CHARACTER == Identity::TAG_BITS);

impl LogTag {
    /// The tag of a log.
    #[must_use]
    pub fn of(identity: &Identity) -> Self {
        Self(identity.tag & ((1 << Identity::TAG_BITS) - 1))
    }
}

impl WireLease {
    /// How a lease of this log is written.
    #[must_use]
    pub fn new(identity: &Identity, lease: LeaseId) -> Self {
        Self { tag: LogTag::of(identity), lsn: lease.lsn() }
    }

    /// As it is written. Every answer has one: spelled by place, not through the formatter.
    #[must_use]
    pub fn text(&self) -> String {
        ascii(self.spelled(&mut [0; SPELLED_BYTES_MAX])).to_owned()
    }

    /// Spelled from the end of the room on.
    fn spelled<'a>(&self, room: &'a mut [u8; SPELLED_BYTES_MAX]) -> &'a [u8] {
        let mut from = room.len();
        let mut rest = self.lsn.0;
        loop {
            from -= 1;
            room[from] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        from -= 1;
        room[from] = b'-';
        from -= TAG_CHARACTERS;
        room[from..from + TAG_CHARACTERS].copy_from_slice(&self.tag.letters());
        &room[from..]
    }

    /// The same lease under the tag that the log has now, if its id has one that the log had before it was restored.
    #[must_use]
    pub fn renamed(self, identity: &Identity, former_tags: &[u32]) -> Option<Self> {
        former_tags.contains(&self.tag.0).then(|| Self { tag: LogTag::of(identity), ..self })
    }

    /// The lease this names in the log; `None` if it is an id of another log.
    #[must_use]
    pub fn lease(self, identity: &Identity) -> Option<LeaseId> {
        (self.tag == LogTag::of(identity)).then(|| LeaseId::new(identity.shard, self.lsn))
    }
}

impl LogTag {
    fn letters(self) -> [u8; TAG_CHARACTERS] {
        core::array::from_fn(|place| {
            let below = (TAG_CHARACTERS - 1 - place) as u32 * BITS_PER_CHARACTER;
            ALPHABET[(self.0 >> below & 31) as usize]
        })
    }
}

impl fmt::Display for LogTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ascii(&self.letters()))
    }
}

impl FromStr for LogTag {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        if text.len() != TAG_CHARACTERS {
            return Err(ParseIdError::Tag);
        }
        text.bytes()
            .try_fold(0, |tag, byte| {
                let digit = ALPHABET.iter().position(|known| *known == byte)?;
                Some(tag << BITS_PER_CHARACTER | digit as u32)
            })
            .map(Self)
            .ok_or(ParseIdError::Tag)
    }
}

impl fmt::Display for WireLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ascii(self.spelled(&mut [0; SPELLED_BYTES_MAX])))
    }
}

impl FromStr for WireLease {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let (tag, digits) = text.split_once('-').ok_or(ParseIdError::Lease)?;
        let tag = tag.parse()?;
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) || digits.starts_with('0') {
            return Err(ParseIdError::Lease);
        }
        let lsn = digits.parse().map(Lsn).map_err(|_| ParseIdError::Lease)?;
        Ok(Self { tag, lsn })
    }
}

fn ascii(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("invariant: ids are ASCII")
}

/// What stands before the colon of a session's id.
#[must_use]
pub fn session_prefix(kind: SessionKind) -> &'static str {
    match kind {
        SessionKind::Connection => "pipe",
        SessionKind::Stdin => "cli",
        SessionKind::ByHand => "s",
    }
}

/// The lowest bits of a session's number say what keeps it.
const KIND_BITS: u64 = 0b11;
/// Eight hexadecimal digits.
const SESSION_BITS: u64 = 0xffff_ffff;

/// The number of a session of this kind, from bits that the caller chose.
#[must_use]
pub fn session_id(bits: u64, kind: SessionKind) -> SessionId {
    let kind = match kind {
        SessionKind::ByHand => 0,
        SessionKind::Connection => 1,
        SessionKind::Stdin => 2,
    };
    SessionId(bits & SESSION_BITS & !KIND_BITS | kind)
}

/// What keeps the session of this number.
#[must_use]
pub fn session_kind(session: SessionId) -> SessionKind {
    match session.0 & KIND_BITS {
        1 => SessionKind::Connection,
        2 => SessionKind::Stdin,
        _ => SessionKind::ByHand,
    }
}

/// How a session is written: `pipe:0000002d`.
#[must_use]
pub fn wire_session(session: SessionId) -> String {
    format!("{}:{session}", session_prefix(session_kind(session)))
}

/// Reads a session id.
///
/// # Errors
/// When it is not spelled as [`wire_session`] spells it.
pub fn parse_session(text: &str) -> Result<SessionId, ParseIdError> {
    let (prefix, digits) = text.split_once(':').ok_or(ParseIdError::Session)?;
    let session = u64::from_str_radix(digits, 16).map(SessionId).map_err(|_| ParseIdError::Session)?;
    let right = session_prefix(session_kind(session)) == prefix && session.to_string() == digits;
    if right { Ok(session) } else { Err(ParseIdError::Session) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(tag: u32) -> Identity {
        Identity { log_id: 1, tag, fence_base: 0, shard: 7, salt: 0 }
    }

    #[test]
    fn a_tag_is_four_characters_most_significant_first() {
        for (tag, text) in [(0, "0000"), (1, "0001"), (31, "000z"), (32, "0010"), ((1 << 20) - 1, "zzzz")] {
            assert_eq!(LogTag::of(&identity(tag)).to_string(), text);
            assert_eq!(text.parse(), Ok(LogTag(tag)));
        }
        assert_eq!("k3f9".parse::<LogTag>().unwrap().to_string(), "k3f9");
    }

    #[test]
    fn every_tag_has_one_spelling() {
        for tag in 0..1 << Identity::TAG_BITS {
            let text = LogTag(tag).to_string();
            assert_eq!(text.parse(), Ok(LogTag(tag)), "{text}");
        }
    }

    #[test]
    fn a_lease_id_is_read_back() {
        let identity = identity(0x9_8765);
        let lease = LeaseId::new(7, Lsn(1042));
        let text = WireLease::new(&identity, lease).to_string();
        let read: WireLease = text.parse().unwrap();
        assert_eq!((read.lsn, read.lease(&identity)), (Lsn(1042), Some(lease)));
    }

    #[test]
    fn an_id_of_another_log_names_nothing_here() {
        let lease: WireLease = "k3f9-1042".parse().unwrap();
        assert_eq!(lease.lease(&identity(5)), None);
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in [
            "",
            "-",
            "k3f9",
            "k3f9-",
            "k3f9-0",
            "k3f9-01",
            "k3f9-+1",
            "k3f9- 1",
            "K3f9-1",
            "k3fl-1",
            "k3f-1",
            "k3f99-1",
            "k3f9-99999999999999999999",
            "ü3f-1",
        ] {
            assert!(text.parse::<WireLease>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_session_id_is_read_back() {
        for kind in SessionKind::ALL {
            for bits in [0, 42, u64::MAX] {
                let session = session_id(bits, kind);
                assert_eq!(session_kind(session), kind);
                assert_eq!(parse_session(&wire_session(session)), Ok(session));
            }
        }
        for text in [
            "",
            "0000002a",
            "x:00000028",
            "s:28",
            "s:0000002C",
            "s:",
            "s:+0000028",
            "s:0000000000000028",
            "pipe:00000028",
        ] {
            assert_eq!(parse_session(text), Err(ParseIdError::Session), "{text:?}");
        }
    }
}
