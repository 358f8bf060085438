//! Errors as every transport says them.

use crate::error_code::{ErrorCode, Retry};
use core::fmt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Why a request was not carried out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Error {
    /// Which error.
    #[serde(rename = "error")]
    pub code: ErrorCode,
    /// What happened, in a sentence.
    pub message: String,
    /// The request certainly had no effect.
    pub definite: bool,
    /// Whoever asked as the holder has no authority any more.
    pub lost: bool,
    /// Asking again may help after this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// More, depending on the code: `current`, `blocking`, `remaining_ms`, `oldest`, ….
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

/// A holder on a connection lost a lease.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lost {
    /// The lease.
    pub lease_id: String,
    /// Its epoch from now on.
    pub epoch: u64,
    /// Why.
    pub reason: String,
}

impl Error {
    /// An error with the advice of the table.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let retry_after_ms = match code.retry() {
            Retry::Never => None,
            Retry::AfterMs(ms) => Some(ms),
        };
        Self {
            code,
            message: message.into(),
            definite: code.is_definite(),
            lost: false,
            retry_after_ms,
            details: Map::new(),
        }
    }

    /// The same with one more detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// The same, telling the holder that it has no authority any more.
    #[must_use]
    pub fn lost(mut self) -> Self {
        self.lost = true;
        self
    }

    /// The same with its own time to ask again.
    #[must_use]
    pub fn retry_after(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Error {}
