//! Operation ids (idempotency keys), and which routes take one.

use http::Method;
use std::fmt::Write as _;

/// Routes whose calls are the same operation when they come with the same id, by the beginning of their path.
const TAKE_OPERATION_ID: &[&str] = &["/v1/leases", "/v1/sessions", "/v1/mdns/", "/v1/polling/", "/api/v3/"];
/// Routes that change nothing, or nothing more when they are asked again.
const CHANGE_NOTHING_TWICE: &[&str] = &["/v1/check", "/v1/breaker/reset"];

/// A new operation id (idempotency key): 128 random bits in hexadecimal.
///
/// # Panics
/// If the system's random number generator fails.
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

/// Whether a call that may be sent again changes something and has no place for an operation id but its header: what is
/// not a `GET`, a proof of life or a body that carries one.
pub(crate) fn is_change(method: &Method, path: &str) -> bool {
    let has_no_body_for_it =
        ["/v1/mdns/admin/", "/api/v3/sessions/"].iter().any(|begin| path.starts_with(begin));
    let takes_it = matches!(*method, Method::DELETE | Method::PUT) || has_no_body_for_it;
    *method != Method::GET && takes_it && !path.ends_with("/heartbeat")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_routes_that_know_operations_are_asked_twice() {
        for path in ["/v1/leases", "/v1/leases/k3f9-1/release", "/v1/polling/group/move", "/v1/check"] {
            assert!(takes_operation_id(&Method::POST, path), "{path}");
        }
        for path in ["/v1/shutdown", "/v1/cluster/step-down", "/v1/backup"] {
            assert!(!takes_operation_id(&Method::POST, path), "{path}");
        }
        assert!(!takes_operation_id(&Method::DELETE, "/v1/leases"));
    }

    #[test]
    fn every_change_without_a_body_for_it_has_its_id_in_the_header() {
        for path in ["/v1/sessions/s:1", "/v1/pools/p?force=true", "/v1/mdns/services/0a1b"] {
            assert!(is_change(&Method::DELETE, path), "{path}");
            assert!(!is_change(&Method::GET, path) && !is_change(&Method::POST, path), "{path}");
        }
        assert!(is_change(&Method::POST, "/v1/mdns/admin/registrations/0a1b/drain"));
        assert!(is_change(&Method::POST, "/api/v3/sessions/1/fail"));
        assert!(!is_change(&Method::PUT, "/v1/mdns/services/0a1b/heartbeat"));
        assert!(!is_change(&Method::POST, "/api/v3/sessions/1/heartbeat"));
    }

    #[test]
    fn ids_are_short_and_never_the_same() {
        let (one, other) = (operation_id(), operation_id());
        assert_ne!(one, other);
        assert_eq!(one.len(), 32);
        assert!(one.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
