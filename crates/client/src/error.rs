//! Errors of calls, and whether a failed call may have had an effect.

use crate::endpoint::Endpoint;
use core::time::Duration;
use tenure_api::{Error, ErrorCode};

/// The cause of a failed connection.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// An error of a call.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The daemon answered with an error code.
    #[error("{0}")]
    Rejected(Error),
    /// No connection could be opened; nothing was sent.
    #[error("cannot reach {endpoint}: {source}")]
    Unreachable {
        /// The endpoint.
        endpoint: Endpoint,
        /// The cause.
        source: Cause,
    },
    /// The connection broke after the request was sent; the call may have been carried out.
    #[error("the connection to {endpoint} broke: {source}")]
    Broken {
        /// The endpoint.
        endpoint: Endpoint,
        /// The cause.
        source: Cause,
    },
    /// The answer cannot be parsed: the peer is not a daemon, or is newer than this library.
    #[error("unexpected answer with status {status}: {message}")]
    Unexpected {
        /// Status over HTTP; 0 on the socket.
        status: u16,
        /// What is wrong with the answer, and its first characters.
        message: String,
        /// The answer says that the request had no effect.
        definite: bool,
        /// The answer says that the holder has lost the lease.
        lost: bool,
    },
    /// No answer within the limit; the call may have been carried out.
    #[error("no answer within {} ms", limit.as_millis())]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// The request cannot be serialized; nothing was sent.
    #[error("the request cannot be sent: {0}")]
    Unsendable(String),
}

impl CallError {
    /// The error code, if the daemon answered with one.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Rejected(error) => Some(error.code),
            Self::Unreachable { .. }
            | Self::Broken { .. }
            | Self::Unexpected { .. }
            | Self::TimedOut { .. }
            | Self::Unsendable(_) => None,
        }
    }

    /// Whether the request certainly had no effect. If not, call again with the same operation id.
    #[must_use]
    pub fn is_definite(&self) -> bool {
        match self {
            Self::Rejected(error) => error.definite,
            Self::Unreachable { .. } | Self::Unsendable(_) => true,
            Self::Unexpected { definite, .. } => *definite,
            Self::Broken { .. } | Self::TimedOut { .. } => false,
        }
    }

    /// Whether the caller has lost the lease.
    #[must_use]
    pub fn lost(&self) -> bool {
        match self {
            Self::Rejected(error) => error.lost,
            Self::Unexpected { lost, .. } => *lost,
            Self::Unreachable { .. } | Self::Broken { .. } | Self::TimedOut { .. } | Self::Unsendable(_) => {
                false
            }
        }
    }

    /// How long to wait before a retry, if the daemon suggests one.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Rejected(error) => error.retry_after_ms.map(Duration::from_millis),
            Self::Unreachable { .. }
            | Self::Broken { .. }
            | Self::Unexpected { .. }
            | Self::TimedOut { .. }
            | Self::Unsendable(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Endpoint {
        "unix:/run/x".parse().expect("an endpoint")
    }

    #[test]
    fn only_what_certainly_had_no_effect_is_definite() {
        let refused = CallError::Rejected(Error::new(ErrorCode::ResourceHeld, "held"));
        assert!(refused.is_definite());
        assert_eq!(refused.code(), Some(ErrorCode::ResourceHeld));
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
        assert!(!CallError::Rejected(Error::new(ErrorCode::OutcomeUnknown, "who knows")).is_definite());
        assert!(CallError::Unreachable { endpoint: endpoint(), source: "x".into() }.is_definite());
        assert!(!CallError::Broken { endpoint: endpoint(), source: "x".into() }.is_definite());
        assert!(!CallError::TimedOut { limit: Duration::from_secs(1) }.is_definite());
    }

    #[test]
    fn a_refusal_tells_the_holder_that_it_lost() {
        assert!(CallError::Rejected(Error::new(ErrorCode::StaleEpoch, "moved on").lost()).lost());
        assert!(!CallError::Rejected(Error::new(ErrorCode::StaleEpoch, "moved on")).lost());
    }
}
