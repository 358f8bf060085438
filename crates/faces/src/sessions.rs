//! Ids of sessions. The lowest two bits say what keeps a session, so that an id alone can be written with
//! its prefix; the rest is random.

use sha2::{Digest, Sha256};
use tenure_api::{Error, ErrorCode};
use tenure_engine::kernel::{SessionId, SessionKind};
use tenure_history::{parse_session, wire_session};

const KIND_BITS: u64 = 0b11;
/// Eight hexadecimal digits.
const ID_BITS: u64 = 0xffff_ffff;

/// A random id for a session of this kind.
pub(crate) fn draw(kind: SessionKind) -> SessionId {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("invariant: the system gives random bytes");
    of_bits(u64::from_le_bytes(bytes), kind)
}

/// The id of a session opened under an operation id: a retry opens the same one.
pub(crate) fn derived(principal: &str, operation_id: &str, kind: SessionKind) -> SessionId {
    let mut hash = Sha256::new();
    hash.update((principal.len() as u64).to_le_bytes());
    hash.update(principal.as_bytes());
    hash.update(operation_id.as_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    let bits = digest[..8].try_into().expect("invariant: a digest has 32 bytes");
    of_bits(u64::from_le_bytes(bits), kind)
}

fn of_bits(bits: u64, kind: SessionKind) -> SessionId {
    SessionId(bits & ID_BITS & !KIND_BITS | code(kind))
}

fn code(kind: SessionKind) -> u64 {
    match kind {
        SessionKind::ByHand => 0,
        SessionKind::Connection => 1,
        SessionKind::Stdin => 2,
    }
}

/// What keeps the session of this id.
pub(crate) fn kind_of(session: SessionId) -> SessionKind {
    match session.0 & KIND_BITS {
        1 => SessionKind::Connection,
        2 => SessionKind::Stdin,
        _ => SessionKind::ByHand,
    }
}

/// How a session is written.
pub(crate) fn wire_id(session: SessionId) -> String {
    wire_session(kind_of(session), session)
}

/// Reads a session id.
pub(crate) fn parse(text: &str) -> Result<SessionId, Error> {
    parse_session(text)
        .map_err(|error| Error::new(ErrorCode::InvalidRequest, format!("{text:?} is no session id: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_what_keeps_its_session() {
        for kind in SessionKind::ALL {
            let session = draw(kind);
            assert_eq!(kind_of(session), kind);
            assert_eq!(parse(&wire_id(session)), Ok(session));
        }
    }

    #[test]
    fn the_same_operation_opens_the_same_session() {
        let of = |principal, id| derived(principal, id, SessionKind::ByHand);
        assert_eq!(of("local", "a"), of("local", "a"));
        assert_ne!(of("local", "a"), of("local", "b"));
        assert_ne!(of("locala", ""), of("local", "a"));
    }
}
