//! A node's copy of the log, for other nodes: which segments there are, and their bytes, made while they are sent.

use super::body::stream;
use super::{Answered, json, media, passing};
use crate::segments::{NodeSegments, SEGMENTS_PATH};
use crate::server::Shared;
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use std::io::{self, Read, Write};
use std::sync::Arc;
use tenure_api::{Error, ErrorCode};
use tokio::sync::OwnedSemaphorePermit;

/// One read of the disk.
const READ_BYTES: usize = 64 << 10;

/// Whether a request is for the copy.
pub(super) fn is_asked(request: &Request<Incoming>) -> bool {
    let below = request.uri().path().strip_prefix(SEGMENTS_PATH);
    request.method() == Method::GET && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers another node.
pub(super) async fn answer(shared: &Arc<Shared>, request: Request<Incoming>) -> Result<Answered, Error> {
    let node = passing::admit(shared, &request)?;
    let unknown = || Error::new(ErrorCode::NotLeader, "this node has no local log at present");
    let segments = node.segments().ok_or_else(unknown)?;
    let none = || Error::new(ErrorCode::NotFound, "this node does not have the segment");
    let Some(first_lsn) = request.uri().path()[SEGMENTS_PATH.len()..].strip_prefix('/') else {
        return Ok(json(StatusCode::OK, &NodeSegments { segments: segments.list() }));
    };
    let first_lsn: u64 = first_lsn.parse().map_err(|_| none())?;
    let permit = shared.admit_copy()?;
    let opened = tokio::task::spawn_blocking(move || segments.open(first_lsn)).await;
    let failed = |error: String| Error::new(ErrorCode::Internal, error);
    let opened = opened.map_err(|error| failed(error.to_string()))?;
    let bytes = opened.map_err(|error| failed(error.to_string()))?.ok_or_else(none)?;
    Ok(send(bytes, permit))
}

fn send(mut bytes: Box<dyn Read + Send>, permit: OwnedSemaphorePermit) -> Answered {
    let (sender, body) = stream();
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut pipe = sender.writer();
        let mut copy = || -> io::Result<()> {
            let mut buffer = vec![0; READ_BYTES];
            loop {
                match bytes.read(&mut buffer)? {
                    0 => return pipe.flush(),
                    read => pipe.write_all(&buffer[..read])?,
                }
            }
        };
        // Whoever has enough hangs up; whatever else happened must not look like an end.
        if copy().is_err() {
            pipe.break_off();
        }
    });
    media(HeaderValue::from_static("application/octet-stream"), body)
}
