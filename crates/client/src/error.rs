//! Why a call brought no answer that can be used, and whether it may have had an effect all the same.

use crate::endpoint::Endpoint;
use core::time::Duration;
use tenure_api::{Error, ErrorCode};

/// What lies below a failed connection.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The daemon refused, with a code of the table.
    #[error("{0}")]
    Refused(Error),
    /// No connection came about; nothing was sent.
    #[error("cannot reach {endpoint}: {source}")]
    Unreachable {
        /// Where the daemon was expected.
        endpoint: Endpoint,
        /// Why.
        source: Cause,
    },
    /// The connection broke after the request had left; it may have been carried out.
    #[error("the connection to {endpoint} broke: {source}")]
    Broken {
        /// The daemon.
        endpoint: Endpoint,
        /// Why.
        source: Cause,
    },
    /// An answer that is not understood: not a daemon, or one that is newer than this library.
    #[error("unexpected answer with status {status}: {message}")]
    Unexpected {
        /// Status over HTTP; 0 on the socket.
        status: u16,
        /// What is wrong with it, and how it begins.
        message: String,
        /// It says itself that the request had no effect.
        definite: bool,
        /// It says itself that the holder has no authority any more.
        lost: bool,
    },
    /// No answer within the limit; it may have been carried out.
    #[error("no answer within {} ms", limit.as_millis())]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// The request cannot be written down; nothing was sent.
    #[error("the request cannot be sent: {0}")]
    Unsendable(String),
}

impl CallError {
    /// The code of the table, where the daemon refused with one.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(error) => Some(error.code),
            Self::Unreachable { .. }
            | Self::Broken { .. }
            | Self::Unexpected { .. }
            | Self::TimedOut { .. }
            | Self::Unsendable(_) => None,
        }
    }

    /// Whether the request certainly had no effect. If not, ask again with the same operation id.
    #[must_use]
    pub fn is_definite(&self) -> bool {
        match self {
            Self::Refused(error) => error.definite,
            Self::Unreachable { .. } | Self::Unsendable(_) => true,
            Self::Unexpected { definite, .. } => *definite,
            Self::Broken { .. } | Self::TimedOut { .. } => false,
        }
    }

    /// Whether whoever asked as the holder has no authority any more.
    #[must_use]
    pub fn lost(&self) -> bool {
        match self {
            Self::Refused(error) => error.lost,
            Self::Unexpected { lost, .. } => *lost,
            Self::Unreachable { .. } | Self::Broken { .. } | Self::TimedOut { .. } | Self::Unsendable(_) => {
                false
            }
        }
    }

    /// How long to wait before asking again, where the daemon says that it may help.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(error) => error.retry_after_ms.map(Duration::from_millis),
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
        let refused = CallError::Refused(Error::new(ErrorCode::ResourceHeld, "held"));
        assert!(refused.is_definite());
        assert_eq!(refused.code(), Some(ErrorCode::ResourceHeld));
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
        assert!(!CallError::Refused(Error::new(ErrorCode::OutcomeUnknown, "who knows")).is_definite());
        assert!(CallError::Unreachable { endpoint: endpoint(), source: "x".into() }.is_definite());
        assert!(!CallError::Broken { endpoint: endpoint(), source: "x".into() }.is_definite());
        assert!(!CallError::TimedOut { limit: Duration::from_secs(1) }.is_definite());
    }

    #[test]
    fn a_refusal_tells_the_holder_that_it_lost() {
        assert!(CallError::Refused(Error::new(ErrorCode::StaleEpoch, "moved on").lost()).lost());
        assert!(!CallError::Refused(Error::new(ErrorCode::StaleEpoch, "moved on")).lost());
    }
}
