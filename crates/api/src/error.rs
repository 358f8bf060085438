//! Errors, alike on every transport.

use crate::error_code::{ErrorCode, Retry};
use core::fmt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Why a request was not carried out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Error {
    /// Which error.
    #[serde(rename = "error")]
    pub code: ErrorCode,
    /// What failed, and why.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Cow<'static, str>>,
    /// Path of the daemon's page that explains the code: `/docs/errors#CODE`.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub docs: Cow<'static, str>,
    /// The request certainly had no effect.
    pub definite: bool,
    /// The caller was the holder and has lost the lease.
    pub lost: bool,
    /// A retry may succeed after this many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// More, depending on the code: `current`, `blocking`, `remaining_ms`, `oldest`, ….
    #[serde(flatten)]
    // Boxed, so that results with an error stay small.
    pub details: Box<Map<String, Value>>,
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
            hint: Some(Cow::Borrowed(code.fix())),
            docs: Cow::Borrowed(code.docs()),
            definite: code.is_definite(),
            lost: false,
            retry_after_ms,
            details: Box::default(),
        }
    }

    /// The same with one more detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// The same with a hint of its own.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
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
