//! The authenticated caller, and the codes with which a browser signs in.

use serde::{Deserialize, Serialize};

/// What a caller may do. Each scope includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Read leases, resources, events and status.
    Read,
    /// Hold leases and sessions of its own.
    Hold,
    /// End or move what others hold, and operate the daemon.
    Admin,
}

/// The authenticated caller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Caller {
    /// Identity of the caller: `local`, `uid:N`, `token:NAME` or `cert:SUBJECT`; on a node `local@MACHINE` and
    /// `uid:N@MACHINE`.
    pub principal: String,
    /// What the caller may do.
    pub scope: Scope,
    /// Names that the caller may hold, and prefixes that end with `*`; absent if all names are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefixes: Option<Vec<String>>,
    /// True if a cookie authenticated the caller; `POST /v1/sign_out` ends it.
    pub signed_in: bool,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// A code that signs one browser in, once, as the caller who requested it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignIn {
    /// The code.
    pub code: String,
    /// Path where a browser redeems the code. The code is the fragment, which browsers send to no server.
    pub path: String,
    /// Seconds until the code expires.
    pub expires_in_secs: u64,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// Request to exchange a code for a cookie.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RedeemCode {
    /// Code from `POST /v1/sign_in`.
    pub code: String,
}

/// A browser is signed in. The cookie of this answer authenticates requests only together with `page`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignedIn {
    /// Identity of the caller who requested the code.
    pub principal: String,
    /// What the browser may do.
    pub scope: Scope,
    /// Value that the page sends in the header `Tenure-Page` with every request.
    pub page: String,
    /// Seconds until the cookie and the value expire.
    pub expires_in_secs: u64,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// A browser is signed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignedOut {
    /// True if the request had a cookie to end.
    pub signed_out: bool,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}
