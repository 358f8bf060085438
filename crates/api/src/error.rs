//! Errors, alike on every transport.

use crate::error_code::{ErrorCode, Retry};
use core::fmt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// An error: why the daemon did not carry out a request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Error {
    /// Error code.
    #[serde(rename = "error")]
    pub code: ErrorCode,
    /// What failed, with the value, and why.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Cow<'static, str>>,
    /// Path of the page on the daemon that explains the code: `/docs/errors#CODE`.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub docs: Cow<'static, str>,
    /// True if the request certainly had no effect.
    pub definite: bool,
    /// True if the caller was the holder and has lost the lease.
    pub lost: bool,
    /// A retry may succeed after this many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// More fields, depending on the code: `current`, `blocking`, `remaining_ms`, `oldest`, `limit`, ….
    #[serde(flatten)]
    // Boxed, so that results with an error stay small.
    pub details: Box<Map<String, Value>>,
}

/// Message to a holder on a connection: it lost a lease.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lost {
    /// Id of the lease.
    pub lease_id: String,
    /// New epoch of the lease.
    pub epoch: u64,
    /// Reason code.
    pub reason: String,
}

impl Error {
    /// An error with the hint, link and retry advice of its code.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let retry_after_ms = match code.retry() {
            Retry::Never => None,
            Retry::AfterMs(ms) => Some(ms),
        };
        Self {
            code,
            message: message.into(),
            hint: Some(Cow::Borrowed(code.fix())),
            docs: Cow::Borrowed(code.docs()),
            definite: code.is_definite(),
            lost: false,
            retry_after_ms,
            details: Box::default(),
        }
    }

    /// Adds a detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Replaces the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Marks that the holder has lost the lease.
    #[must_use]
    pub fn lost(mut self) -> Self {
        self.lost = true;
        self
    }

    /// Replaces the time until a retry.
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
