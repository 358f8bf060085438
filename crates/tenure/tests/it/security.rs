//! Who may do what, seen from outside the process: addresses, tokens, peers of the socket, certificates, browsers.

mod binding;
mod browsers;
mod certificates;
mod loopback;
mod ownership;
mod peers;
mod signing_in;
mod tokens;

use std::fmt::Write;
use std::fs;
use std::net::TcpStream;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::daemon::Daemon;
use crate::raw_http::Http;

/// One line of a token file.
fn token_line(name: &str, scope: &str, token: &str) -> String {
    let mut line = format!("{name} {scope} ");
    for byte in Sha256::digest(token.as_bytes()) {
        write!(line, "{byte:02x}").unwrap();
    }
    line + "\n"
}

/// Writes a token file whose tokens are `secret-NAME`, as an editor does: a new file in place of the old.
pub(crate) fn write_tokens(path: &Path, tokens: &[(&str, &str)]) {
    let text: String =
        tokens.iter().map(|(name, scope)| token_line(name, scope, &format!("secret-{name}"))).collect();
    let draft = path.with_extension("draft");
    fs::write(&draft, text).unwrap();
    fs::rename(draft, path).unwrap();
}

/// A daemon with tokens.
pub(crate) fn with_tokens(tokens: &[(&str, &str)], flags: &[&str]) -> Daemon {
    let mut daemon = Daemon::prepared(&[&["--token-file", "DIR/tokens"], flags].concat());
    write_tokens(&daemon.path("tokens"), tokens);
    daemon.start_again();
    daemon
}

/// A connection that shows the token of this name.
pub(crate) fn as_token(daemon: &Daemon, name: &str) -> Http<TcpStream> {
    daemon.http().with("authorization", &format!("Bearer secret-{name}"))
}
