//! Who asks, and what they may do. Decides from what a transport saw: addresses, headers, certificates, peer
//! credentials. Knows no sockets and no routes.
//!
//! Invariant: a credential that must be shown and is not right is refused, never taken for a weaker one.

mod browser;
mod certificates;
mod credentials;
mod peer;
mod rate;
mod sign_in;
mod tokens;

pub(crate) use browser::{Fetch, ForeignPages};
pub(crate) use credentials::FileState;
pub use credentials::LineFault;
pub(crate) use peer::SocketPeer;
pub(crate) use sign_in::{CODE_SECS, COOKIE_SECS, Halves};
pub use tokens::{TOKEN_NAME_BYTES_MAX, TokenEntry, TokenScope, check_token_name, parse_tokens, token_hash};

use crate::tls::{CertificateNames, CertifiedNames};
use browser::{Authority, Names};
use certificates::{CertificateTable, Row};
use rate::RateLimits;
use sign_in::{Bearer, SignIns};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::OnceLock;
use tenure_api::{self as api, Error, ErrorCode};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::Text;
use tenure_faces::{Scope, Within};
use tokens::TokenTable;

/// Everything that decides who may do what.
#[derive(Clone, Debug)]
pub struct AuthSettings {
    /// Address that TCP connections are accepted on.
    pub bind: IpAddr,
    /// Scope over TCP of programs of this machine without a credential, other than root's and the daemon's own user's;
    /// `None`: nothing.
    pub local: Option<Scope>,
    /// Tokens; with them TCP always needs one.
    pub token_file: Option<PathBuf>,
    /// Whoever reaches the port counts as local.
    pub insecure_no_auth: bool,
    /// HTTP is spoken over TLS.
    pub tls: bool,
    /// TLS admits only those who show a certificate.
    pub client_certificates: bool,
    /// Scope of callers whose certificate is in no line of `certificate_scope_file`; `None`: nothing.
    pub certificate_scope: Option<Scope>,
    /// Scopes of certain certificates.
    pub certificate_scope_file: Option<PathBuf>,
    /// Names in the daemon's own certificate.
    pub certified_names: CertifiedNames,
    /// Names that callers reach the daemon by besides: `NAME` or `NAME:PORT`.
    pub server_names: Vec<String>,
    /// Origins besides the daemon's own whose pages may ask: `https://host[:port]`.
    pub allow_origin: Vec<String>,
    /// Requests of one principal per second; 0: as many as it likes.
    pub requests_per_second: u64,
    /// Names this machine among those of a cluster; `None`: the daemon is alone.
    pub machine: Option<String>,
    /// The daemon's user.
    pub uid: u32,
    /// The daemon's group.
    pub gid: u32,
}

/// Why the daemon does not start with these settings.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Everybody in reach could do everything.
    #[error(
        "{bind} can be reached from other machines, and no authentication is set: give a token file or a client CA, \
         or accept every caller with --insecure-no-auth"
    )]
    Open {
        /// The address.
        bind: IpAddr,
    },
    /// Two settings contradict each other.
    #[error("--insecure-no-auth contradicts {other}")]
    Contradiction {
        /// The other setting.
        other: &'static str,
    },
    /// A setting would have no effect.
    #[error(
        "auth.cert_scope_file is set, and auth.token_file too: with a token file every request needs a token"
    )]
    NoCertificates,
    /// A credential file cannot be read, or strangers can write it.
    #[error("cannot use {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A credential file is not understood.
    #[error("{}: {fault}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and what.
        fault: LineFault,
    },
    /// A name is not one.
    #[error("{name:?} is not a name of a server: write NAME or NAME:PORT, without a scheme")]
    NotAName {
        /// The value of the setting.
        name: String,
    },
    /// An origin is not one.
    #[error("{origin:?} is not an origin: write scheme://host or scheme://host:port")]
    NotAnOrigin {
        /// What was given.
        origin: String,
    },
}

/// Who asks, as far as it is established.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Admitted {
    /// `local`, `uid:N`, `token:NAME` or `cert:SUBJECT`; on a node `local@MACHINE` and `uid:N@MACHINE`.
    pub(crate) principal: Text,
    /// What it may do.
    pub(crate) scope: Scope,
    /// What it may take; `None`: everything.
    pub(crate) within: Option<Within>,
    /// It is known by a cookie.
    pub(crate) by_cookie: bool,
    /// The file that its token is from cannot be read any more: it may keep and give back what it has.
    pub(crate) is_outdated: bool,
}

/// A browser that was signed in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SignedIn {
    pub(crate) admitted: Admitted,
    /// A header `Set-Cookie`.
    pub(crate) set_cookie: String,
    /// What the page keeps and sends beside the cookie.
    pub(crate) page: String,
}

/// What was seen of a request over TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpAsk<'a> {
    /// From where.
    pub(crate) address: SocketAddr,
    /// The user at the other end, where it is of this machine and known.
    pub(crate) uid: Option<u32>,
    /// A proxy says that it passed the request on: the sender is not the peer.
    pub(crate) is_forwarded: bool,
    /// A certificate that the TLS layer accepted.
    pub(crate) certificate: Option<&'a CertificateNames>,
    /// Header `Authorization`.
    pub(crate) authorization: Option<&'a str>,
    /// The daemon's cookie, with what its page sends beside it.
    pub(crate) signed_in: Option<Halves<'a>>,
    /// Header `Host`, or the authority of the target.
    pub(crate) host: Option<&'a str>,
    /// Header `Origin`.
    pub(crate) origin: Option<&'a str>,
    /// Headers `Sec-Fetch-*`.
    pub(crate) fetch: Fetch<'a>,
    /// What pages of other origins may do with the route.
    pub(crate) foreign: ForeignPages,
    /// The route is answered under every name.
    pub(crate) any_host: bool,
    /// The route is not for everybody.
    pub(crate) needs_credential: bool,
    /// It asks for more than to look.
    pub(crate) writes: bool,
}

/// Decides who may do what.
#[derive(Debug)]
pub struct Auth {
    settings: AuthSettings,
    tokens: Option<TokenTable>,
    certificates: Option<CertificateTable>,
    names: OnceLock<Names>,
    /// Names of the settings.
    named: Vec<Authority>,
    /// Origins of the settings, in the form that browsers send.
    origins: Vec<String>,
    rate: Option<RateLimits>,
    sign_ins: SignIns,
}

const LOCAL: &str = "local";

impl Auth {
    /// Checks the settings and reads the tokens.
    ///
    /// # Errors
    /// When the settings leave the daemon open, contradict each other, or name a file that is no token file.
    pub fn new(settings: AuthSettings) -> Result<Self, AuthError> {
        check_bind(&settings)?;
        let boot_ms = read_clocks().boot_ms;
        let tokens = settings.token_file.clone().map(|path| TokenTable::open(path, boot_ms)).transpose()?;
        let certificates = settings
            .certificate_scope_file
            .clone()
            .map(|path| CertificateTable::open(path, boot_ms))
            .transpose()?;
        let origins = settings
            .allow_origin
            .iter()
            .map(|origin| {
                browser::normal_origin(origin).ok_or(AuthError::NotAnOrigin { origin: origin.clone() })
            })
            .collect::<Result<_, _>>()?;
        let named = settings
            .server_names
            .iter()
            .map(|name| browser::server_name(name).ok_or(AuthError::NotAName { name: name.clone() }))
            .collect::<Result<_, _>>()?;
        let rate = (settings.requests_per_second > 0).then(|| RateLimits::new(settings.requests_per_second));
        let sign_ins = SignIns::new();
        Ok(Self { settings, tokens, certificates, names: OnceLock::new(), named, origins, rate, sign_ins })
    }

    /// Tells where the daemon listens, once it does: requests must be addressed to it.
    pub(crate) fn listens_on(&self, address: SocketAddr) {
        let certified = self.settings.certified_names.clone();
        let names = Names::new(address, self.settings.tls, certified, &self.named, &self.origins);
        // A second listener would bring its own names; there is one.
        let _ = self.names.set(names);
        self.sign_ins.listens_on(address.port());
    }

    /// Whether pages of this origin may ask: those of the settings, not the daemon's own.
    pub(crate) fn allows_origin(&self, origin: &str) -> bool {
        browser::normal_origin(origin).is_some_and(|origin| self.origins.contains(&origin))
    }

    /// Establishes who asks over TCP. `None`: nobody in particular, and the route asks for nobody.
    pub(crate) fn tcp(&self, ask: &TcpAsk<'_>) -> Result<Option<Admitted>, Error> {
        self.tcp_at(ask, read_clocks().boot_ms)
    }

    fn tcp_at(&self, ask: &TcpAsk<'_>, boot_ms: u64) -> Result<Option<Admitted>, Error> {
        self.check_sender(ask, boot_ms)?;
        let identified = self.identify(ask, boot_ms);
        if ask.needs_credential { identified.map(Some) } else { Ok(identified.ok()) }
    }

    /// Checks the page that a request is from, and the name that it is addressed to. A browser adds no Authorization
    /// header by itself: a request with a valid token is not one that a rebound name has brought here.
    fn check_sender(&self, ask: &TcpAsk<'_>, boot_ms: u64) -> Result<(), Error> {
        let Some(names) = self.names.get() else { return Ok(()) };
        names.check_page(ask.host, ask.origin, ask.fetch, ask.foreign)?;
        let named = names.check_host(ask.host);
        if named.is_err() && (ask.any_host || self.shows_token(ask, boot_ms)) { Ok(()) } else { named }
    }

    fn shows_token(&self, ask: &TcpAsk<'_>, boot_ms: u64) -> bool {
        let token = ask.authorization.and_then(|shown| bearer(shown).ok());
        token.is_some_and(|token| {
            self.tokens.as_ref().is_some_and(|tokens| tokens.find(token, boot_ms).is_some())
        })
    }

    fn identify(&self, ask: &TcpAsk<'_>, boot_ms: u64) -> Result<Admitted, Error> {
        if let Some(admitted) = self.signed_in(ask, boot_ms) {
            let is_own_page = |names: &Names| names.is_own_page(ask.host, ask.origin);
            // The browser sends a cookie for whatever page it shows; where that is from only the origin tells.
            if ask.writes && !self.names.get().is_some_and(is_own_page) {
                let message =
                    "a cookie is for the daemon's own pages: the request has no Origin of this daemon";
                return Err(Error::new(ErrorCode::Forbidden, message));
            }
            return Ok(admitted);
        }
        if let Some(tokens) = &self.tokens {
            let token = ask.authorization.map(bearer).transpose()?.ok_or_else(|| {
                unauthorized("a token is needed: send it in the header `Authorization: Bearer TOKEN`")
            })?;
            return tokens.find(token, boot_ms).ok_or_else(|| unauthorized("the token is not known"));
        }
        if ask.authorization.is_some_and(|shown| bearer(shown).is_ok()) {
            return Err(no_tokens());
        }
        if let Some(shown) = ask.certificate {
            return self.certified(shown, boot_ms);
        }
        if self.settings.client_certificates {
            return Err(unauthorized("the certificate has neither a subject nor an alternative name"));
        }
        self.near(ask)
    }

    /// Establishes whose certificate was shown.
    fn certified(&self, shown: &CertificateNames, boot_ms: u64) -> Result<Admitted, Error> {
        let row = self.certificates.as_ref().map_or(Row::None, |table| table.find(shown, boot_ms));
        let (scope, is_outdated) = match (row, self.settings.certificate_scope) {
            (Row::Scope(scope), _) => (scope, false),
            (Row::Outdated(Some(scope)), _) => (scope, true),
            // Whatever it has now, it may keep what it took before.
            (Row::Outdated(None), _) => (TokenScope { scope: Scope::Hold, within: None }, true),
            (Row::None, Some(scope)) => (TokenScope { scope, within: None }, false),
            (Row::None, None) => {
                let message = format!(
                    "the certificate {} has no scope: no line of auth.cert_scope_file names it, and auth.cert_scope gives none",
                    shown.subject
                );
                return Err(Error::new(ErrorCode::Forbidden, message));
            }
        };
        let principal = format!("cert:{}", shown.subject);
        Ok(Admitted { within: scope.within, is_outdated, ..Admitted::new(principal, scope.scope) })
    }

    /// Establishes who asks without a credential. A program of this machine is its user, as on the socket.
    fn near(&self, ask: &TcpAsk<'_>) -> Result<Admitted, Error> {
        let is_near = ask.address.ip().to_canonical().is_loopback();
        if !self.settings.insecure_no_auth {
            if !is_near {
                let message =
                    "only programs on the daemon's own machine may send requests without a credential";
                return Err(unauthorized(message));
            }
            if ask.is_forwarded {
                let message = "a proxy passed the request on, as its headers say (Forwarded, X-Forwarded-*, Via, X-Real-IP \
                     and the like): send a credential";
                return Err(unauthorized(message));
            }
        }
        let uid = ask.uid.filter(|_| is_near && !ask.is_forwarded);
        let principal = match uid {
            // Without credentials every caller over TCP is `local`, at every node.
            _ if self.settings.insecure_no_auth && self.settings.machine.is_some() => LOCAL.to_owned(),
            Some(uid) => self.of_machine(&format!("uid:{uid}")),
            None => self.of_machine(LOCAL),
        };
        let local = self
            .settings
            .local
            .ok_or_else(|| unauthorized("requests over TCP need credentials; the Unix socket needs none"));
        let scope = if uid.is_some_and(|uid| self.is_own(uid)) { Scope::Admin } else { local? };
        Ok(Admitted::new(principal, scope))
    }

    /// A program of this machine, by a name that no other machine of the cluster has.
    fn of_machine(&self, name: &str) -> String {
        match &self.settings.machine {
            Some(machine) => format!("{name}@{machine}"),
            None => name.to_owned(),
        }
    }

    /// Root and the daemon's own user may do everything.
    fn is_own(&self, uid: u32) -> bool {
        uid == 0 || uid == self.settings.uid
    }

    /// Establishes who is at the other end of the socket.
    pub(crate) fn socket(&self, peer: &SocketPeer) -> Result<Admitted, Error> {
        let scope = if self.is_own(peer.uid) {
            Scope::Admin
        } else if peer.gid == self.settings.gid || peer.groups.contains(&self.settings.gid) {
            Scope::Hold
        } else {
            let message = format!("uid {} is neither the daemon's nor in its group", peer.uid);
            return Err(Error::new(ErrorCode::Forbidden, message));
        };
        Ok(Admitted::new(self.of_machine(&format!("uid:{}", peer.uid)), scope))
    }

    /// The caller that the cookie of a sign-in names. A cookie that is not valid names no caller. A token, or a
    /// certificate where one is required, takes precedence over the cookie.
    fn signed_in(&self, ask: &TcpAsk<'_>, boot_ms: u64) -> Option<Admitted> {
        let names_nobody = self.settings.client_certificates && ask.certificate.is_none();
        let halves = ask.signed_in.filter(|_| ask.authorization.is_none() && !names_nobody)?;
        let signed_in = self.sign_ins.find(halves, self.tokens.as_ref(), boot_ms)?;
        // The sign-in of a certificate counts beside that certificate, with what it may do now.
        if signed_in.principal.starts_with("cert:") {
            let now = self.certified(ask.certificate?, boot_ms).ok()?;
            return (now.principal == signed_in.principal).then_some(Admitted { by_cookie: true, ..now });
        }
        Some(signed_in)
    }

    /// Why a credential of a file that cannot be used any more does nothing but keep and give back what it has.
    pub(crate) fn outdated(&self) -> Error {
        let tokens = self.tokens.as_ref().map(|tokens| tokens.file().path());
        let path = tokens.or(self.certificates.as_ref().map(|table| table.file().path()));
        let path = path.map(|path| path.display().to_string()).unwrap_or_default();
        unauthorized(&format!(
            "the daemon cannot use all of {path}: until it can, callers renew and release what they hold, and nothing \
             else"
        ))
    }

    /// How the token file and the file of certificates are at present; `None`: there is none.
    pub(crate) fn file_states(&self) -> (Option<FileState>, Option<FileState>) {
        let boot_ms = read_clocks().boot_ms;
        let tokens = self.tokens.as_ref().map(|tokens| tokens.file().known(boot_ms).state.clone());
        let certificates = self.certificates.as_ref().map(|table| table.file().known(boot_ms).state.clone());
        (tokens, certificates)
    }

    /// Adds the credential files to the daemon's status.
    pub(crate) fn add_files(&self, status: &mut api::Status) {
        let now = read_clocks();
        status.token_file = self.tokens.as_ref().map(|tokens| tokens.file().status(now));
        status.cert_scope_file = self.certificates.as_ref().map(|table| table.file().status(now));
    }

    /// Makes a code that signs a browser in as whoever asks.
    pub(crate) fn make_code(&self, asker: &Admitted) -> Result<String, Error> {
        self.make_code_at(asker, read_clocks().boot_ms)
    }

    fn make_code_at(&self, asker: &Admitted, boot_ms: u64) -> Result<String, Error> {
        if asker.by_cookie {
            let message = "a browser that is signed in cannot make sign-in codes";
            return Err(Error::new(ErrorCode::Forbidden, message));
        }
        let bearer = Bearer::new(asker, self.tokens.as_ref(), boot_ms);
        Ok(self.sign_ins.make_code(bearer, boot_ms))
    }

    /// Takes a code that a page shows; `None`: the code is not good.
    ///
    /// # Errors
    /// When the page is not the daemon's own: it could sign its visitor in as somebody else.
    pub(crate) fn redeem(
        &self,
        code: &str,
        host: Option<&str>,
        origin: Option<&str>,
    ) -> Result<Option<SignedIn>, Error> {
        if !self.names.get().is_some_and(|names| names.is_own_page(host, origin)) {
            let message =
                "only the daemon's own page at /sign-in redeems codes: the request has no Origin of it";
            return Err(Error::new(ErrorCode::Forbidden, message));
        }
        Ok(self.redeem_at(code, read_clocks().boot_ms))
    }

    fn redeem_at(&self, code: &str, boot_ms: u64) -> Option<SignedIn> {
        let issued = self.sign_ins.redeem(code, self.tokens.as_ref(), boot_ms)?;
        let set_cookie = self.set_cookie(&issued.cookie, COOKIE_SECS);
        Some(SignedIn { admitted: issued.admitted, set_cookie, page: issued.page })
    }

    /// Ends a sign-in; says whether it was good.
    pub(crate) fn sign_out(&self, halves: Halves<'_>) -> bool {
        self.sign_ins.end(halves, read_clocks().boot_ms)
    }

    /// The name of the daemon's cookie; `None`: it has none.
    pub(crate) fn cookie_name(&self) -> Option<&str> {
        self.sign_ins.cookie_name()
    }

    /// A header `Set-Cookie`; a cookie that is good for no time is forgotten by the browser.
    pub(crate) fn set_cookie(&self, cookie: &str, secs: u64) -> String {
        let name = self.cookie_name().unwrap_or("tenure");
        let secure = if self.settings.tls { "; Secure" } else { "" };
        format!("{name}={cookie}; HttpOnly; SameSite=Strict; Path=/; Max-Age={secs}{secure}")
    }

    /// Refuses a principal that asks too often.
    pub(crate) fn check_rate(&self, principal: &str, boot_ms: impl FnOnce() -> u64) -> Result<(), Error> {
        match &self.rate {
            Some(rate) => rate.check(principal, boot_ms()),
            None => Ok(()),
        }
    }
}

impl Admitted {
    pub(crate) fn new(principal: impl AsRef<str>, scope: Scope) -> Self {
        let principal = Text::from(principal.as_ref());
        Self { principal, scope, within: None, by_cookie: false, is_outdated: false }
    }
}

fn check_bind(settings: &AuthSettings) -> Result<(), AuthError> {
    if settings.certificate_scope_file.is_some() && settings.token_file.is_some() {
        return Err(AuthError::NoCertificates);
    }
    let contradicted =
        [(settings.token_file.is_some(), "a token file"), (settings.client_certificates, "a client CA")];
    if settings.insecure_no_auth {
        return match contradicted.into_iter().find(|(given, _)| *given) {
            Some((_, other)) => Err(AuthError::Contradiction { other }),
            None => Ok(()),
        };
    }
    let is_known_who_asks = contradicted.into_iter().any(|(given, _)| given);
    if settings.bind.to_canonical().is_loopback() || is_known_who_asks {
        return Ok(());
    }
    Err(AuthError::Open { bind: settings.bind })
}

/// The token in a header; the scheme is compared without case (RFC 9110, 11.1).
fn bearer(authorization: &str) -> Result<&str, Error> {
    authorization
        .split_once(' ')
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .filter(|token| !token.is_empty())
        .ok_or_else(|| unauthorized("only `Authorization: Bearer TOKEN` is supported"))
}

/// Without this error another principal would act than the caller means, and it may be allowed more than the token.
fn no_tokens() -> Error {
    unauthorized("the token cannot be checked: this daemon has no tokens (auth.token_file is not set)")
        .hint("send no token, or start the daemon with --token-file")
        .with("setting", "auth.token_file")
}

fn unauthorized(message: &str) -> Error {
    Error::new(ErrorCode::Unauthorized, message)
}

#[cfg(test)]
mod tests;
