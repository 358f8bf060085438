//! Which node this is, for one that asks at an address: a node asks so whether it hears itself where it is advertised.

use super::{Answered, json, passing};
use crate::node::SELF_PATH;
use crate::server::Shared;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use tenure_api::Error;

pub(super) fn is_asked(request: &Request<Incoming>) -> bool {
    request.method() == Method::GET && request.uri().path() == SELF_PATH
}

/// Answers a node of this cluster.
pub(super) fn answer(shared: &Shared, request: &Request<Incoming>) -> Result<Answered, Error> {
    Ok(json(StatusCode::OK, &passing::admit(shared, request)?.myself()))
}
