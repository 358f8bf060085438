//! Calls that other nodes pass on to this one. Only nodes may: they say who asks, and are believed.

use super::bodies::BODY_WITHIN;
use super::{Answered, JSON, body, json, media};
use crate::node::{Back, NODE_HEADER, Node, PASSED_BYTES_MAX, PassedBack, PassedOn};
use crate::server::Shared;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use std::sync::Arc;
use std::time::Duration;
use tenure_api::{Error, ErrorCode};
use tenure_faces::Reply;

/// Carries out what another node passes on. What this node cannot decide is not passed any further.
pub(super) async fn answer(shared: &Arc<Shared>, request: Request<Incoming>) -> Result<Answered, Error> {
    let node = admit(shared, &request)?;
    let passed: PassedOn = understood(read(request.into_body(), BODY_WITHIN).await?)?;
    if passed.step_down {
        return Ok(json(StatusCode::OK, &node.step_down_here().await?));
    }
    if passed.memory {
        return Ok(json(StatusCode::OK, &node.memory(passed.asker).await?));
    }
    let caller = passed.caller(shared.stage()).ok_or_else(|| unreadable(&"the scope is missing"))?;
    let faces = shared.faces();
    let count = passed.calls.len();
    let replies: Vec<Result<Reply, Error>> = if faces.follows() {
        let error = Error::new(ErrorCode::NotLeader, "this node is not the leader");
        vec![Err(error); count]
    } else if count == 1 {
        // One may wait.
        let mut calls = passed.calls;
        vec![super::dispatch_here(shared, &faces, &caller, calls.remove(0)).await]
    } else {
        faces.dispatch_all(&caller, passed.calls).await
    };
    let back = PassedBack { replies: replies.into_iter().map(Back::from).collect() };
    let bytes = serde_json::to_vec(&back).map_err(|error| unreadable(&error))?;
    Ok(media(JSON, body::full(bytes)))
}

/// This node, if another one of its cluster asks.
pub(super) fn admit<'a>(shared: &'a Shared, request: &Request<Incoming>) -> Result<&'a Arc<dyn Node>, Error> {
    let node = shared.node()?;
    let shown = request.headers().get(NODE_HEADER).and_then(|value| value.to_str().ok()).unwrap_or("");
    if !node.is_node(shown) {
        return Err(Error::new(ErrorCode::Unauthorized, "only nodes of this cluster may use this route"));
    }
    Ok(node)
}

async fn read<B>(body: B, within: Duration) -> Result<Bytes, Error>
where
    B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let collected = tokio::time::timeout(within, Limited::new(body, PASSED_BYTES_MAX).collect()).await;
    let collected = collected.map_err(|_| unreadable(&"it is incomplete"))?;
    collected.map(|body| body.to_bytes()).map_err(|error| unreadable(&error))
}

fn understood(bytes: Bytes) -> Result<PassedOn, Error> {
    serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))
}

fn unreadable(why: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorCode::ParseError, format!("cannot read a request that a node forwarded: {why}"))
}

#[cfg(test)]
mod tests {
    use super::super::body::{full, stream};
    use super::*;

    #[test]
    fn a_body_that_does_not_end_is_not_waited_for_without_bound() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (pieces, body) = stream();
            assert!(pieces.send("{".into()).await);
            let error = read(body, Duration::from_millis(1)).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::ParseError);
            assert!(error.message.ends_with("it is incomplete"), "{error:?}");
            let large = full(vec![b' '; PASSED_BYTES_MAX + 1]);
            assert_eq!(read(large, BODY_WITHIN).await.unwrap_err().code, ErrorCode::ParseError);
            assert_eq!(read(full("{}"), BODY_WITHIN).await.unwrap(), "{}");
        });
    }
}
