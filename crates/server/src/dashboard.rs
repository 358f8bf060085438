//! The dashboard: the files of `dashboard/`, embedded as they are written. What a browser is sent is what stands
//! in the tree; there is no build step that could be forgotten.
//!
//! Invariant: the page needs nothing from elsewhere, and its policy lets it ask nobody but the daemon.

use http::header::{self, HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::sync::OnceLock;

/// What the page may do: run and look like our own files say, and ask its own daemon. A string can not become
/// script even by mistake.
pub(crate) const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
);

/// One file of the dashboard.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Asset {
    name: &'static str,
    media: &'static str,
    pub(crate) bytes: &'static [u8],
    /// Hash of the bytes, quoted as in the header.
    tag: String,
}

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// Bytes of the hash that are shown: enough that no two versions meet.
const TAG_BYTES: usize = 16;

macro_rules! files {
    ($($name:literal: $media:expr),* $(,)?) => {
        [$(($name, $media, include_bytes!(concat!("dashboard/", $name)).as_slice())),*]
    };
}

/// Every file, by the name that it is asked for.
fn assets() -> &'static [Asset] {
    static ASSETS: OnceLock<Vec<Asset>> = OnceLock::new();
    ASSETS.get_or_init(|| {
        let files: &[(&'static str, &'static str, &'static [u8])] = &files! {
            "index.html": HTML,
            "sign-in.html": HTML,
            "style.css": STYLE,
            "icon.svg": IMAGE,
            "api.js": SCRIPT,
            "app.js": SCRIPT,
            "confirm.js": SCRIPT,
            "countdown.js": SCRIPT,
            "dom.js": SCRIPT,
            "feed.js": SCRIPT,
            "fresh.js": SCRIPT,
            "held.js": SCRIPT,
            "keys.js": SCRIPT,
            "network.js": SCRIPT,
            "palette.js": SCRIPT,
            "panel.js": SCRIPT,
            "plot.js": SCRIPT,
            "pollers.js": SCRIPT,
            "pulse.js": SCRIPT,
            "rows.js": SCRIPT,
            "sign-in.js": SCRIPT,
            "slots.js": SCRIPT,
            "sse.js": SCRIPT,
            "store.js": SCRIPT,
            "targets.js": SCRIPT,
            "tenure-session.js": SCRIPT,
            "text.js": SCRIPT,
            "view.js": SCRIPT,
            "pages/cluster.js": SCRIPT,
            "pages/events.js": SCRIPT,
            "pages/leases.js": SCRIPT,
            "pages/overview.js": SCRIPT,
            "pages/polling.js": SCRIPT,
            "pages/registrations.js": SCRIPT,
            "pages/slots.js": SCRIPT,
            "pages/unknown.js": SCRIPT,
            "pages/waiting.js": SCRIPT,
            "pages/why.js": SCRIPT,
        };
        files.iter().map(|&(name, media, bytes)| Asset { name, media, bytes, tag: tag_of(bytes) }).collect()
    })
}

/// The page itself.
pub(crate) fn home() -> &'static Asset {
    find("index.html").expect("invariant: the page is in the table")
}

/// Where a browser is signed in.
pub(crate) fn sign_in() -> &'static Asset {
    find("sign-in.html").expect("invariant: the page is in the table")
}

/// A file beside the pages; `None`: there is no such file.
pub(crate) fn asset(name: &str) -> Option<&'static Asset> {
    // A page is served at its own address only.
    find(name).filter(|asset| asset.media != HTML)
}

fn find(name: &str) -> Option<&'static Asset> {
    assets().iter().find(|asset| asset.name == name)
}

fn tag_of(bytes: &[u8]) -> String {
    let mut tag = String::from("\"");
    for byte in &Sha256::digest(bytes)[..TAG_BYTES] {
        write!(tag, "{byte:02x}").expect("invariant: a string takes every piece");
    }
    tag.push('"');
    tag
}

impl Asset {
    /// Whether whoever asks has these very bytes already.
    pub(crate) fn is_known_to(&self, asked: &HeaderMap) -> bool {
        let lists = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
        lists.flat_map(|list| list.split(',')).any(|known| {
            let known = known.trim();
            known == "*" || known.strip_prefix("W/").unwrap_or(known) == self.tag
        })
    }

    /// What is said of the file, with its bytes or without them.
    pub(crate) fn describe(&self, headers: &mut HeaderMap) {
        let tag = HeaderValue::from_str(&self.tag).expect("invariant: a hash is plain text");
        headers.insert(header::ETAG, tag);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.media));
        // Asked for again each time, so that a new daemon is never seen through an old page.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        if self.media == HTML {
            headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
        }
    }
}

#[cfg(test)]
mod tests;
