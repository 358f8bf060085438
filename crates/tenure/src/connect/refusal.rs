//! What a failed call means for people: one line, the next step where it is known, and the exit code of the table.

use std::io;

use serde_json::Value;
use tenure_api::{Blocking, Error, ErrorCode};
use tenure_client::{CallError, Endpoint};
use tenure_history::duration;

use crate::failure::{Failure, Words, chain};

/// A failed call as the failure of a command.
pub(crate) fn call_failure(error: CallError) -> Failure {
    match error {
        CallError::Rejected(error) => refused(error),
        CallError::Unreachable { endpoint, source } if is_absent(source.as_ref()) => {
            Failure::NoDaemon { address: endpoint.to_string(), cause: None }
        }
        CallError::Unreachable { endpoint, source } if is_out_of_reach(source.as_ref()) => {
            Failure::NoDaemon { address: endpoint.to_string(), cause: Some(chain(source.as_ref())) }
        }
        CallError::Unreachable { endpoint: Endpoint::Https(ref authority), ref source }
            if is_not_tls(source.as_ref()) =>
        {
            let line = format!("the server at https://{authority} does not use TLS");
            let hint = format!("use plain HTTP: --endpoint {}", Endpoint::Http(authority.clone()));
            Failure::Unexpected(Words::new(line).hint(hint))
        }
        CallError::Unreachable { ref source, .. }
            if is_kind(source.as_ref(), io::ErrorKind::PermissionDenied) =>
        {
            let hint = "the socket is for the daemon's user and group: join the group, or use --endpoint http://HOST:PORT";
            Failure::Unexpected(Words::new(error).hint(hint))
        }
        CallError::Unreachable { ref source, .. } if is_distrusted(source.as_ref()) => {
            let hint =
                "no trusted CA signed the daemon's certificate; name its CA with --ca FILE or TENURE_CA";
            Failure::Unexpected(Words::new(error).hint(hint))
        }
        CallError::Unreachable { .. } | CallError::Unexpected { .. } => {
            Failure::Unexpected(Words::new(error))
        }
        CallError::Unsendable(_) => Failure::Usage(Words::new(error)),
        CallError::Broken { .. } | CallError::TimedOut { .. } => {
            let hint =
                "the daemon may have carried out the request: check with tenure lease ls or tenure why";
            Failure::Unexpected(Words::new(error).hint(hint))
        }
    }
}

fn refused(error: Error) -> Failure {
    let words = Words { line: error.to_string(), hint: next_step(&error) };
    Failure::Answered { error: Box::new(error), words }
}

/// The command line's own hint names commands and flags; the daemon's is for every caller, and names the limit that was
/// reached. For a request that is not understood it only points to the HTTP reference.
fn next_step(error: &Error) -> Option<String> {
    match error.code {
        ErrorCode::CapacityExceeded | ErrorCode::DiskLow => sent_hint(error).or_else(|| hint(error)),
        ErrorCode::InvalidRequest | ErrorCode::ParseError => hint(error),
        _ => hint(error).or_else(|| sent_hint(error)),
    }
}

/// The hint that the daemon sent with an error.
fn sent_hint(error: &Error) -> Option<String> {
    let object = serde_json::to_value(error).ok()?;
    object.get("hint").and_then(Value::as_str).map(str::to_owned)
}

/// Nothing listens there.
pub(super) fn is_absent(source: &(dyn std::error::Error + 'static)) -> bool {
    [io::ErrorKind::ConnectionRefused, io::ErrorKind::NotFound].into_iter().any(|kind| is_kind(source, kind))
}

/// There is no network to reach it by.
pub(super) fn is_without_network(source: &(dyn std::error::Error + 'static)) -> bool {
    [io::ErrorKind::AddrNotAvailable, io::ErrorKind::NetworkUnreachable]
        .into_iter()
        .any(|kind| is_kind(source, kind))
}

/// A machine that cannot be reached, or a connection that came to nothing.
fn is_out_of_reach(source: &(dyn std::error::Error + 'static)) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, HostUnreachable, TimedOut, UnexpectedEof};
    let kinds = [ConnectionAborted, ConnectionReset, HostUnreachable, TimedOut, UnexpectedEof];
    is_without_network(source) || kinds.into_iter().any(|kind| is_kind(source, kind))
}

pub(super) fn is_kind(source: &(dyn std::error::Error + 'static), kind: io::ErrorKind) -> bool {
    std::iter::successors(Some(source), |error| error.source())
        .any(|error| error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == kind))
}

/// What a handshake came to.
fn tls_error<'a>(source: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    let inner = source.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    inner.and_then(|inner| inner.downcast_ref::<rustls::Error>())
}

/// What answers does not speak TLS.
fn is_not_tls(source: &(dyn std::error::Error + 'static)) -> bool {
    matches!(tls_error(source), Some(rustls::Error::InvalidMessage(_)))
}

/// No authority that is trusted signed the daemon's certificate.
fn is_distrusted(source: &(dyn std::error::Error + 'static)) -> bool {
    // A signature is bad where a trusted authority has the name of the one that signed.
    let Some(rustls::Error::InvalidCertificate(problem)) = tls_error(source) else { return false };
    matches!(problem, rustls::CertificateError::UnknownIssuer | rustls::CertificateError::BadSignature)
}

/// As a shell takes one word.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-:@%+=,".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The next step, where there is one that usually helps.
fn hint(error: &Error) -> Option<String> {
    let detail = |key: &str| error.details.get(key);
    let number = |key: &str| detail(key).and_then(Value::as_u64);
    let text = |key: &str| detail(key).and_then(Value::as_str);
    Some(match error.code {
        ErrorCode::ResourceHeld | ErrorCode::PoolExhausted => blocked_hint(error),
        ErrorCode::WaitTimeout => {
            "wait longer with --wait; tenure resource show lists holder and waiters".to_owned()
        }
        ErrorCode::StaleEpoch => "tenure lease show shows the current epoch and holder".to_owned(),
        ErrorCode::NotYet if detail("restored").is_some() => {
            format!("grants resume in {}", duration(number("remaining_ms")?))
        }
        ErrorCode::NotYet => match number("remaining_ms") {
            Some(left) => format!("safe in {}; --force does it now, and the log records it", duration(left)),
            None => "--force does it now, and the log records it".to_owned(),
        },
        ErrorCode::Unauthorized => token_hint(text("setting")).to_owned(),
        ErrorCode::Forbidden => "use other credentials: another --token, or the daemon's own user".to_owned(),
        ErrorCode::OutsideScope => {
            "ask the operator for a token with this prefix: tenure token new NAME --scope hold:PREFIX*"
                .to_owned()
        }
        ErrorCode::HolderMismatch => {
            "name the holder with --holder; an operator can use tenure lease revoke".to_owned()
        }
        ErrorCode::NotFound => match (text("archive"), text("subject")) {
            (Some(archive), Some(subject)) => format!(
                "on the daemon's machine, tenure log why {} {} reads the archive",
                quoted(archive),
                quoted(subject)
            ),
            _ => "tenure lease ls lists the leases".to_owned(),
        },
        ErrorCode::PoolNotFound => "tenure pool ls lists the pools".to_owned(),
        ErrorCode::SessionNotFound | ErrorCode::SessionGone | ErrorCode::SessionExpired => {
            match (error.code, detail("session_id").and_then(Value::as_str)) {
                (_, None) => "tenure admin session ls lists the sessions".to_owned(),
                (ErrorCode::SessionNotFound, Some(_)) => {
                    "tenure session ls lists the slot sessions".to_owned()
                }
                (_, Some(id)) => format!("tenure why {id} shows its history"),
            }
        }
        ErrorCode::PoolInUse => "--force removes the pool and ends the leases of its members".to_owned(),
        ErrorCode::AlreadyDraining => "tenure lease revive cancels the drain".to_owned(),
        ErrorCode::PermanentLease => "tenure lease revoke ends the lease".to_owned(),
        ErrorCode::InvalidState
        | ErrorCode::NotDraining
        | ErrorCode::NoLiveness
        | ErrorCode::DeadlinePassed => "tenure lease show shows its state, tenure why its history".to_owned(),
        ErrorCode::LeaseRetired => "tenure why shows its history".to_owned(),
        ErrorCode::LsnTrimmed => format!("the oldest kept event: --from {}", number("oldest")?),
        ErrorCode::OperationConflict => "use another --operation-id for another request".to_owned(),
        ErrorCode::OutcomeUnknown => "retry with the same --operation-id: the retry is idempotent".to_owned(),
        ErrorCode::DiskLow => "free disk space in the daemon's data directory".to_owned(),
        ErrorCode::Internal | ErrorCode::IoError => "see the daemon's log".to_owned(),
        ErrorCode::NoCapacity => match error.retry_after_ms {
            Some(ms) => format!("a slot may be free in {}; wait for it with --wait", duration(ms)),
            None => "wait for a slot with --wait".to_owned(),
        },
        ErrorCode::RateLimited
        | ErrorCode::Overloaded
        | ErrorCode::CapacityExceeded
        | ErrorCode::TooManyWaiters
        | ErrorCode::TooManyConnections
        | ErrorCode::ShuttingDown
        | ErrorCode::NotLeader
        | ErrorCode::StoreSilent
        | ErrorCode::DaemonError
        | ErrorCode::ResolveTimeout => format!("retry in {}", duration(error.retry_after_ms?)),
        ErrorCode::InvalidRequest
        | ErrorCode::ParseError
        | ErrorCode::InvalidName
        | ErrorCode::InvalidType
        | ErrorCode::TtlOutOfRange
        | ErrorCode::BundleEmpty
        | ErrorCode::BundleTooLarge
        | ErrorCode::DuplicateMember
        | ErrorCode::AmbiguousId
        | ErrorCode::NotClustered
        | ErrorCode::MethodNotAllowed
        | ErrorCode::SessionExists
        | ErrorCode::TooLarge => return None,
    })
}

/// What to do about the token, which the daemon cannot check where it names the setting.
fn token_hint(setting: Option<&str>) -> &'static str {
    match setting {
        Some(_) => {
            "omit --token and --token-from (TENURE_TOKEN, TENURE_TOKEN_FROM), or start the daemon with --token-file"
        }
        None => "send a token with --token or TENURE_TOKEN; tenure token new creates one",
    }
}

/// Since when it is held, and how to wait.
fn blocked_hint(error: &Error) -> String {
    let blocking = error.details.get("blocking").cloned().unwrap_or_default();
    let blocking: Vec<Blocking> = serde_json::from_value(blocking).unwrap_or_default();
    let Some(first) = blocking.first() else { return "wait for it with --wait".to_owned() };
    let since = first.since.as_ref().map(|since| format!("held since {since}; ")).unwrap_or_default();
    let more = match blocking.len() {
        1 => String::new(),
        more => format!(" (one of {more} that are held)"),
    };
    format!("{since}wait for it with --wait, or see: tenure why {}{more}", first.resource)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::exit_code;
    use serde_json::json;

    fn shown(error: Error) -> String {
        let Failure::Answered { words, .. } = refused(error) else { panic!("a refusal") };
        format!("{} | {}", words.line, words.hint.unwrap_or_default())
    }

    #[test]
    fn a_held_resource_tells_since_when_and_the_way_out() {
        let blocking = json!([{
            "resource": "printer", "lease_id": "k3f9-4", "holder": "alice",
            "since": "2026-02-07T22:15:00.000Z", "remaining_ms": 7, "waiters": 0,
        }]);
        let error = Error::new(ErrorCode::ResourceHeld, "printer is held").with("blocking", blocking);
        assert_eq!(
            shown(error),
            "printer is held (resource_held) | held since 2026-02-07T22:15:00.000Z; \
             wait for it with --wait, or see: tenure why printer"
        );
    }

    #[test]
    fn the_daemons_hint_counts_where_the_command_line_has_none_or_a_limit_is_named() {
        let error = |code: &str, key: &str| {
            let object = json!({"error": code, "message": "no", "definite": true, "lost": false, "hint": "sent", key: 7});
            shown(serde_json::from_value(object).unwrap())
        };
        assert_eq!(error("capacity_exceeded", "x"), "no (capacity_exceeded) | sent");
        assert_eq!(error("ambiguous_id", "x"), "no (ambiguous_id) | sent");
        assert_eq!(error("invalid_request", "x"), "no (invalid_request) | ");
        assert_eq!(error("lsn_trimmed", "oldest"), "no (lsn_trimmed) | the oldest kept event: --from 7");
    }

    #[test]
    fn what_only_the_archive_may_know_is_asked_there() {
        let error = |subject: &str| {
            let error = Error::new(ErrorCode::NotFound, "unknown").with("archive", "/var/a");
            shown(error.with("subject", subject))
        };
        let said =
            "unknown (not_found) | on the daemon's machine, tenure log why /var/a printer reads the archive";
        assert_eq!(error("printer"), said);
        let said =
            "unknown (not_found) | on the daemon's machine, tenure log why /var/a 'My App' reads the archive";
        assert_eq!(error("My App"), said);
    }

    #[test]
    fn every_code_of_the_table_leaves_with_its_exit_code() {
        for code in ErrorCode::ALL {
            let failure = refused(Error::new(*code, "no"));
            assert_eq!(exit_code(&Err(failure)), code.exit_code(), "{code}");
        }
    }

    #[test]
    fn nobody_listening_is_told_apart_from_not_being_let_in() {
        let unreachable = |kind: io::ErrorKind| {
            let endpoint = "http://127.0.0.1:5641".parse().unwrap();
            call_failure(CallError::Unreachable { endpoint, source: Box::new(io::Error::from(kind)) })
        };
        assert!(matches!(
            unreachable(io::ErrorKind::ConnectionRefused),
            Failure::NoDaemon { address, cause: None } if address == "http://127.0.0.1:5641"
        ));
        assert!(matches!(
            unreachable(io::ErrorKind::HostUnreachable),
            Failure::NoDaemon { cause: Some(cause), .. } if cause.contains("unreachable")
        ));
        assert!(matches!(unreachable(io::ErrorKind::PermissionDenied), Failure::Unexpected(_)));
    }
}
