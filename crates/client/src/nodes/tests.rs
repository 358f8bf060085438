//! Which errors send a call on to another node, and how much time each try gets.

use super::*;
use crate::endpoint::Endpoint;
use serde_json::json;
use tenure_api::Error;

const SECOND: Duration = Duration::from_secs(1);

fn endpoint() -> Endpoint {
    "http://127.0.0.1:1".parse().expect("an endpoint")
}

fn refused(code: ErrorCode) -> CallError {
    CallError::Rejected(Error::new(code, "no"))
}

fn unexpected_with(status: u16) -> CallError {
    CallError::Unexpected { status, message: String::new(), definite: false, lost: false }
}

fn asking(patience: Patience, repeatable: bool, body: Value) -> Asking {
    let request = Request {
        method: Method::POST,
        uri: Uri::from_static("/v1/leases"),
        headers: Vec::new(),
        body: Some(serde_json::to_vec(&body).expect("JSON").into()),
        repeatable,
        patience,
    };
    Asking { request, waiting: body.as_object().cloned() }
}

#[test]
fn a_node_that_cannot_answer_sends_the_call_on() {
    let endpoint = endpoint();
    assert_eq!(next(&CallError::Unreachable { endpoint, source: "x".into() }, false), Next::Another);
    for code in [ErrorCode::NotLeader, ErrorCode::ShuttingDown, ErrorCode::TooManyConnections] {
        assert_eq!(next(&refused(code), false), Next::Another, "{code}");
    }
    for code in
        [ErrorCode::ResourceHeld, ErrorCode::StaleEpoch, ErrorCode::NoCapacity, ErrorCode::WaitTimeout]
    {
        assert_eq!(next(&refused(code), true), Next::Nobody, "{code}");
    }
    assert_eq!(next(&CallError::Unsendable(String::new()), true), Next::Nobody);
}

#[test]
fn what_may_have_been_carried_out_is_sent_on_only_if_that_does_no_harm() {
    let broken = || CallError::Broken { endpoint: endpoint(), source: "x".into() };
    let stopping =
        || CallError::Rejected(Error { definite: false, ..Error::new(ErrorCode::ShuttingDown, "m") });
    let silent = || CallError::TimedOut { limit: SECOND };
    let errors = [broken(), stopping(), silent(), refused(ErrorCode::OutcomeUnknown), unexpected_with(503)];
    for error in errors {
        assert_eq!(next(&error, true), Next::Another, "{error}");
        assert_eq!(next(&error, false), Next::Nobody, "{error}");
    }
    assert_eq!(next(&unexpected_with(500), true), Next::Nobody);
}

#[test]
fn every_try_leaves_time_for_others() {
    let begun = BootInstant::from_ms(1_000);
    let beat = asking(Patience::AtMost(9 * SECOND), true, json!({}));
    let times = Times::new(begun, 9 * SECOND, beat.request.patience);
    assert_eq!(times.limits(begun, &beat.request).answer, 2 * SECOND);
    let later = begun.after(6 * SECOND);
    assert_eq!(times.limits(later, &beat.request).answer, SECOND);
    let last = begun.after(Duration::from_millis(8_990));
    assert_eq!(times.limits(last, &beat.request).answer, Duration::from_millis(10));

    let once = asking(Patience::Longer(Duration::ZERO), false, json!({}));
    let times = Times::new(begun, 9 * SECOND, once.request.patience);
    let limits = times.limits(begun, &once.request);
    assert_eq!(
        (limits.connect, limits.answer),
        (SECOND, 9 * SECOND),
        "it is sent once, but may connect often"
    );
}

#[test]
fn a_wait_is_not_cut_short_and_goes_on_with_what_is_left() {
    let begun = BootInstant::from_ms(1_000);
    let waiting = asking(Patience::Longer(60 * SECOND), true, json!({"wait_ms": 60_000, "holder": "me"}));
    let times = Times::new(begun, 69 * SECOND, waiting.request.patience);
    assert_eq!(times.limits(begun, &waiting.request).answer, 63 * SECOND);
    assert!(waiting.after(Duration::ZERO).is_none());
    let body = |gone| {
        let request = waiting.after(gone).expect("another request");
        serde_json::from_slice::<Value>(&request.body.expect("a body")).expect("JSON")
    };
    assert_eq!(body(20 * SECOND), json!({"wait_ms": 40_000, "holder": "me"}));
    assert_eq!(body(61 * SECOND), json!({"holder": "me"}));
}

#[test]
fn a_call_that_took_too_long_names_its_own_limit() {
    let tried = CallError::TimedOut { limit: SECOND };
    assert!(matches!(with_limit(tried, 10 * SECOND), CallError::TimedOut { limit } if limit == 10 * SECOND));
}
