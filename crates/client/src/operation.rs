//! Operation ids: what makes a retry harmless, and which routes take one.

use http::Method;
use std::fmt::Write as _;

/// Routes whose calls are the same operation when they come with the same id, by the beginning of their path.
const TAKE_OPERATION_ID: &[&str] =
    &["/v1/leases", "/v1/sessions", "/v1/mdns/services", "/v1/polling/", "/api/v3/intents"];
/// Routes that change nothing, or nothing more when they are asked again.
const CHANGE_NOTHING_TWICE: &[&str] = &["/v1/check", "/v1/breaker/reset"];

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

/// Whether a call may be made again once it has an operation id. Routes that are not known may not.
pub(crate) fn takes_operation_id(method: &Method, path: &str) -> bool {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| path.starts_with(beginning));
    *method == Method::POST && (begins(TAKE_OPERATION_ID) || begins(CHANGE_NOTHING_TWICE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_routes_that_know_operations_are_asked_twice() {
        for path in ["/v1/leases", "/v1/leases/k3f9-1/release", "/v1/polling/group/move", "/v1/check"] {
            assert!(takes_operation_id(&Method::POST, path), "{path}");
        }
        for path in
            ["/v1/shutdown", "/v1/cluster/step-down", "/v1/backup", "/v1/mdns/admin/registrations/1/drain"]
        {
            assert!(!takes_operation_id(&Method::POST, path), "{path}");
        }
        assert!(!takes_operation_id(&Method::DELETE, "/v1/leases"));
    }

    #[test]
    fn ids_are_short_and_never_the_same() {
        let (one, other) = (operation_id(), operation_id());
        assert_ne!(one, other);
        assert_eq!(one.len(), 32);
        assert!(one.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
