//! Ids of sessions: drawn, or made from an operation id so that a retry opens the same one.

use sha2::{Digest, Sha256};
use tenure_api::{Error, ErrorCode};
use tenure_engine::kernel::{SessionId, SessionKind};
use tenure_history::{parse_session, session_id};

/// A random id for a session of this kind.
pub(crate) fn draw(kind: SessionKind) -> SessionId {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("invariant: the system gives random bytes");
    session_id(u64::from_le_bytes(bytes), kind)
}

/// The id of a session opened under an operation id: a retry opens the same one.
pub(crate) fn derived(principal: &str, operation_id: &str, kind: SessionKind) -> SessionId {
    session_id(bits_of(principal, operation_id, &[]), kind)
}

/// Bits that stand for an operation, the same for every try; `salt` gives others.
pub(crate) fn bits_of(principal: &str, operation_id: &str, salt: &[u8]) -> u64 {
    let mut hash = Sha256::new();
    hash.update((principal.len() as u64).to_le_bytes());
    hash.update(principal.as_bytes());
    hash.update(operation_id.as_bytes());
    hash.update(salt);
    let digest: [u8; 32] = hash.finalize().into();
    u64::from_le_bytes(digest[..8].try_into().expect("invariant: a digest has 32 bytes"))
}

/// Reads a session id.
pub(crate) fn parse(text: &str) -> Result<SessionId, Error> {
    parse_session(text).map_err(|error| {
        Error::new(ErrorCode::InvalidRequest, format!("{text:?} is not a session id: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_operation_opens_the_same_session() {
        let of = |principal, id| derived(principal, id, SessionKind::ByHand);
        assert_eq!(of("local", "a"), of("local", "a"));
        assert_ne!(of("local", "a"), of("local", "b"));
        assert_ne!(of("locala", ""), of("local", "a"));
    }
}
