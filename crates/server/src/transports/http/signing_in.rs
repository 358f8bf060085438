//! Who asks, and how a browser comes to be known: a code is made for its asker, redeemed once by the daemon's own page,
//! and becomes a cookie and a page value.

use super::{Answered, asked_host, asked_origin, json};
use crate::auth::{Admitted, CODE_SECS, COOKIE_SECS, Halves, SignedIn};
use crate::server::Shared;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use tenure_api as api;
use tenure_api::{Error, ErrorCode};
use tenure_faces::Scope;

/// What a page sends beside its cookie.
const PAGE: HeaderName = HeaderName::from_static("tenure-page");

/// Both halves of a sign-in, if both came.
pub(super) fn halves<'a>(headers: &'a HeaderMap, name: &str) -> Option<Halves<'a>> {
    let page = headers.get(PAGE)?.to_str().ok()?;
    Some(Halves { cookie: cookie(headers, name)?, page })
}

/// The daemon's cookie among those that came. HTTP/2 may send each in a header of its own.
fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let sent = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies =
        sent.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
    cookies.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Who asks.
pub(super) async fn caller(shared: &Shared, admitted: &Admitted) -> Result<Answered, Error> {
    let caller = api::Caller {
        principal: admitted.principal.to_string(),
        scope: shown_scope(admitted.scope),
        prefixes: admitted.within.as_ref().map(|within| within.patterns().to_vec()),
        signed_in: admitted.by_cookie,
        lsn: synced_lsn(shared).await?,
    };
    Ok(json(StatusCode::OK, &caller))
}

/// Makes a code for whoever asks.
pub(super) async fn sign_in(shared: &Shared, admitted: &Admitted) -> Result<Answered, Error> {
    let code = shared.auth().make_code(admitted)?;
    let path = format!("/sign-in#{code}");
    let lsn = synced_lsn(shared).await?;
    Ok(json(StatusCode::OK, &api::SignIn { code, path, expires_in_secs: CODE_SECS, lsn }))
}

/// Takes a code; gives a cookie and a page value.
pub(super) async fn redeem(
    shared: &Shared,
    body: &api::RedeemCode,
    head: &http::request::Parts,
) -> Result<Answered, Error> {
    let lsn = synced_lsn(shared).await?;
    let redeemed = shared.auth().redeem(&body.code, asked_host(head), asked_origin(&head.headers))?;
    let Some(SignedIn { admitted, set_cookie, page }) = redeemed else {
        let message = "this code was redeemed already, or it is older than a minute: run `tenure open` again";
        return Err(Error::new(ErrorCode::Unauthorized, message));
    };
    tracing::info!(principal = %admitted.principal, scope = admitted.scope.as_str(), "browser signed in");
    end_earlier(shared, &head.headers);
    let signed_in = api::SignedIn {
        principal: admitted.principal.to_string(),
        scope: shown_scope(admitted.scope),
        page,
        expires_in_secs: COOKIE_SECS,
        lsn,
    };
    let mut answered = json(StatusCode::OK, &signed_in);
    set(answered.headers_mut(), &set_cookie);
    Ok(answered)
}

/// Ends the sign-in that came, and has the browser forget the cookie.
pub(super) async fn sign_out(shared: &Shared, headers: &HeaderMap) -> Result<Answered, Error> {
    let signed_out = end_earlier(shared, headers);
    let lsn = synced_lsn(shared).await?;
    let mut answered = json(StatusCode::OK, &api::SignedOut { signed_out, lsn });
    set(answered.headers_mut(), &shared.auth().set_cookie("", 0));
    Ok(answered)
}

fn end_earlier(shared: &Shared, headers: &HeaderMap) -> bool {
    let name = shared.auth().cookie_name();
    let earlier = name.and_then(|name| halves(headers, name));
    earlier.is_some_and(|halves| shared.auth().sign_out(halves))
}

fn shown_scope(scope: Scope) -> api::Scope {
    match scope {
        Scope::Read => api::Scope::Read,
        Scope::Hold => api::Scope::Hold,
        Scope::Admin => api::Scope::Admin,
    }
}

fn set(headers: &mut HeaderMap, cookie: &str) {
    let cookie = HeaderValue::from_str(cookie).expect("invariant: a cookie is plain text");
    headers.append(header::SET_COOKIE, cookie);
}

async fn synced_lsn(shared: &Shared) -> Result<u64, Error> {
    Ok(shared.faces().engine_status().await?.synced_lsn.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_cookie_is_found_among_others() {
        let found = |sent: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in sent {
                headers.append(header::COOKIE, HeaderValue::from_str(value).unwrap());
            }
            cookie(&headers, "tenure_5641").map(str::to_owned)
        };
        assert_eq!(found(&["tenure_5641=abc"]).as_deref(), Some("abc"));
        assert_eq!(found(&["a=b; tenure_5642=no;tenure_5641=abc; c"]).as_deref(), Some("abc"));
        assert_eq!(found(&["a=b", "tenure_5641=abc"]).as_deref(), Some("abc"));
        assert_eq!(found(&["xtenure_5641=abc; tenure_5641"]), None);
        assert_eq!(found(&[]), None);
    }
}
