//! What a stream's lease carries: the bytes only this face writes. `docs/internals/formats/stream.md` has them.
//!
//! They begin with the 36 characters of the id, so that whoever tells the story of the log can find it without knowing
//! the rest.

use serde::{Deserialize, Serialize};

/// Characters of an id.
pub(crate) const ID_BYTES: usize = 36;
const VERSION: u8 = 1;

/// A stream as it is kept. Who holds it, what it covers and its metadata stand in the lease itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamFacts {
    /// A UUID in lower case.
    pub(crate) id: String,
    pub(crate) service_ref: Option<String>,
    pub(crate) correlation_id: Option<String>,
    /// When it was asked for; it may have queued since.
    pub(crate) created_wall_ms: u64,
}

/// The bytes behind id and version.
#[derive(Serialize, Deserialize)]
struct Stored {
    service_ref: Option<String>,
    correlation_id: Option<String>,
    created_wall_ms: u64,
}

impl StreamFacts {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let stored = Stored {
            service_ref: self.service_ref.clone(),
            correlation_id: self.correlation_id.clone(),
            created_wall_ms: self.created_wall_ms,
        };
        let mut bytes = self.id.clone().into_bytes();
        bytes.push(VERSION);
        bytes.extend(postcard::to_allocvec(&stored).expect("invariant: plain data can be written"));
        bytes
    }

    /// Reads them again; `None` where they are of another kind or version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, rest) = bytes.split_at_checked(ID_BYTES)?;
        let (version, stored) = rest.split_first()?;
        if *version != VERSION {
            return None;
        }
        let stored: Stored = postcard::from_bytes(stored).ok()?;
        Some(Self {
            id: core::str::from_utf8(id).ok()?.to_owned(),
            service_ref: stored.service_ref,
            correlation_id: stored.correlation_id,
            created_wall_ms: stored.created_wall_ms,
        })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// A random UUID (RFC 9562, version 4).
pub(crate) fn draw_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("invariant: the system gives random bytes");
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// An id as it is kept; `None` where the text is no UUID.
pub(crate) fn read_id(text: &str) -> Option<String> {
    let fits = text.len() == ID_BYTES
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    fits.then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> StreamFacts {
        StreamFacts {
            id: "0f8fad5b-d9cb-469f-a165-70867728950e".to_owned(),
            service_ref: Some("1:0:19:Ä".to_owned()),
            correlation_id: None,
            created_wall_ms: 1_700_000_000_000,
        }
    }

    #[test]
    fn what_is_written_is_read_again_and_begins_with_the_id() {
        let bytes = facts().encode();
        assert!(bytes.starts_with(facts().id.as_bytes()));
        assert_eq!(StreamFacts::decode(&bytes), Some(facts()));
    }

    #[test]
    fn the_bytes_of_version_1_stay_what_they_are() {
        let shown: String = facts().encode()[ID_BYTES..].iter().map(|byte| format!("{byte:02x}")).collect();
        expect_test::expect!["010109313a303a31393ac3840080d095ffbc31"].assert_eq(&shown);
    }

    #[test]
    fn bytes_of_another_kind_are_no_facts() {
        assert_eq!(StreamFacts::decode(b""), None);
        assert_eq!(StreamFacts::decode(facts().id.as_bytes()), None);
        let mut bytes = facts().encode();
        assert_eq!(StreamFacts::decode(&bytes[..bytes.len() - 1]), None);
        bytes[ID_BYTES] = 2;
        assert_eq!(StreamFacts::decode(&bytes), None);
    }

    #[test]
    fn ids_are_uuids_and_differ() {
        let (one, other) = (draw_id(), draw_id());
        assert_ne!(one, other);
        assert_eq!((one.len(), &one[14..15]), (ID_BYTES, "4"));
        assert!(matches!(&one[19..20], "8" | "9" | "a" | "b"));
        assert_eq!(read_id(&one.to_uppercase()), Some(one));
        for text in [
            "",
            "0f8fad5b",
            "0f8fad5b-d9cb-469f-a165-70867728950",
            "0f8fad5b-d9cb-469f-a165_70867728950e",
            "ä",
        ] {
            assert_eq!(read_id(text), None, "{text:?}");
        }
    }
}
