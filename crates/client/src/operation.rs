//! Operation ids: what makes a retry harmless.

use std::fmt::Write as _;

/// A fresh operation id: 128 random bits in hexadecimal.
///
/// # Panics
/// If the system has no randomness to give.
#[must_use]
pub fn operation_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("invariant: the system gives randomness");
    bytes.iter().fold(String::with_capacity(32), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_never_the_same() {
        let (one, other) = (operation_id(), operation_id());
        assert_ne!(one, other);
        assert_eq!(one.len(), 32);
        assert!(one.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
