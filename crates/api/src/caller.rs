//! Who asks, as the daemon sees it, and the codes by which a browser is signed in.

use serde::{Deserialize, Serialize};

/// What a caller may do. Each scope includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Look.
    Read,
    /// Hold leases and sessions of its own.
    Hold,
    /// End what others hold; steer the daemon.
    Admin,
}

/// Who asks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Caller {
    /// `local`, `uid:N`, `token:NAME` or `cert:SUBJECT`; on a node `local@MACHINE` and `uid:N@MACHINE`.
    pub principal: String,
    /// What it may do.
    pub scope: Scope,
    /// What it may hold: names, and prefixes that end with `*`; without this everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefixes: Option<Vec<String>>,
    /// It came by a cookie, which `POST /v1/sign_out` ends.
    pub signed_in: bool,
    /// As of.
    pub lsn: u64,
}

/// A code that signs one browser in, once, as whoever asked for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignIn {
    /// The code.
    pub code: String,
    /// Where a browser redeems it: a path of the daemon's HTTP address, with the code as its fragment, which browsers
    /// send to no server.
    pub path: String,
    /// How long it is good for.
    pub expires_in_secs: u64,
    /// As of.
    pub lsn: u64,
}

/// Shows a code.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RedeemCode {
    /// What `POST /v1/sign_in` gave.
    pub code: String,
}

/// A browser is signed in: the cookie that comes with this counts only together with `page`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignedIn {
    /// Who asked for the code.
    pub principal: String,
    /// What it may do.
    pub scope: Scope,
    /// What the page keeps and sends in the header `Tenure-Page` with every request.
    pub page: String,
    /// How long both are good for.
    pub expires_in_secs: u64,
    /// As of.
    pub lsn: u64,
}

/// A browser is signed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignedOut {
    /// There was a cookie to end.
    pub signed_out: bool,
    /// As of.
    pub lsn: u64,
}
