//! Who asks, and how a browser comes to be known: a code is made for whoever asks, shown once, and becomes a cookie.

use super::body::full;
use super::{Answered, json, media};
use crate::auth::{Admitted, CODE_SECS};
use crate::server::Shared;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};
use tenure_api as api;
use tenure_api::{Error, ErrorCode};
use tenure_faces::Scope;

/// The daemon's cookie among those that came. HTTP/2 may send each in a header of its own.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let sent = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies =
        sent.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
    cookies.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Who asks.
pub(super) async fn caller(shared: &Shared, admitted: &Admitted) -> Result<Answered, Error> {
    let caller = api::Caller {
        principal: admitted.principal.to_string(),
        scope: match admitted.scope {
            Scope::Read => api::Scope::Read,
            Scope::Hold => api::Scope::Hold,
            Scope::Admin => api::Scope::Admin,
        },
        signed_in: admitted.by_cookie,
        lsn: synced_lsn(shared).await?,
    };
    Ok(json(StatusCode::OK, &caller))
}

/// Makes a code for whoever asks.
pub(super) async fn sign_in(shared: &Shared, admitted: &Admitted) -> Result<Answered, Error> {
    let code = shared.auth().make_code(admitted)?;
    let path = format!("/sign-in?code={code}");
    let lsn = synced_lsn(shared).await?;
    Ok(json(StatusCode::OK, &api::SignIn { code, path, expires_in_secs: CODE_SECS, lsn }))
}

/// Takes a code and sets the cookie.
pub(super) fn redeem(
    shared: &Shared,
    method: &Method,
    query: &api::SignInQuery,
    headers: &HeaderMap,
) -> Result<Answered, Error> {
    if *method != Method::GET {
        // Whoever only asks what there is must not use the code up.
        let message = format!("{method} is not for this route");
        return Err(Error::new(ErrorCode::MethodNotAllowed, message).with("allowed", "GET"));
    }
    let redeemed = query.code.as_deref().and_then(|code| shared.auth().redeem(code));
    let mut answered = match redeemed {
        Some((admitted, set_cookie)) => {
            tracing::info!(principal = %admitted.principal, scope = admitted.scope.as_str(), "a browser signed in");
            end_earlier(shared, headers);
            let mut answered = Response::new(full(""));
            *answered.status_mut() = StatusCode::SEE_OTHER;
            let headers = answered.headers_mut();
            headers.insert(header::LOCATION, HeaderValue::from_static("/"));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            set(headers, &set_cookie);
            answered
        }
        None => {
            let text = "This address was used already, or it is older than a minute.\n\
                        Run `tenure open` again for a new one.\n";
            let mut answered = media(HeaderValue::from_static("text/plain; charset=utf-8"), full(text));
            *answered.status_mut() = StatusCode::UNAUTHORIZED;
            answered
        }
    };
    // The code is in the address, which is told to nobody.
    answered.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(answered)
}

/// Ends the cookie that came, and has the browser forget it.
pub(super) async fn sign_out(shared: &Shared, headers: &HeaderMap) -> Result<Answered, Error> {
    let signed_out = end_earlier(shared, headers);
    let lsn = synced_lsn(shared).await?;
    let mut answered = json(StatusCode::OK, &api::SignedOut { signed_out, lsn });
    set(answered.headers_mut(), &shared.auth().set_cookie("", 0));
    Ok(answered)
}

fn end_earlier(shared: &Shared, headers: &HeaderMap) -> bool {
    let name = shared.auth().cookie_name();
    let earlier = name.and_then(|name| cookie(headers, name));
    earlier.is_some_and(|cookie| shared.auth().sign_out(cookie))
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
