//! What one node asks of another's copy of the log: which segments it has, their bytes, and events that only it has kept;
//! and of the leader, what happens to one session. And this node's own copy, as others ask for it.

use std::io::{self, Read};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use tenure_api::{Error, ErrorCode, EventsQuery, SlotSession, SlotSessionEvent};
use tenure_cluster::SharedMirror;
use tenure_cluster::values::Writer;
use tenure_faces::{FollowedElsewhere, ToldSoFar};
use tenure_log::Lsn;
use tenure_log::file::FileReader;
use tenure_server::{
    EVENTS_PATH, FOLLOW_PATH, FollowedLine, FollowedOn, NODE_HEADER, NodeSegment, NodeSegments,
    SEGMENTS_PATH, Segments, ToldElsewhere,
};
use tokio::sync::mpsc::{Sender as NewsSender, channel};

use super::passing::Sender;
use super::shared::NodeShared;

/// How long a connection may take to open, and a node to begin with its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// How long a node may take to go on with a segment.
pub(super) const PIECE_WITHIN: Duration = Duration::from_secs(10);
/// How long a stream may say nothing: whoever tells it says a word every 15 s.
const STREAM_PIECE_WITHIN: Duration = Duration::from_secs(40);
/// A list of segments is at most this long.
const LIST_BYTES_MAX: usize = 4 << 20;
/// Pieces of a stream on their way to a reader that may be slow.
const PIECES_MAX: usize = 16;
/// The longest line of what happens to a session.
const LINE_BYTES_MAX: usize = 4 << 20;
/// How often a stream looks whether another node leads by now.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The segments of another node, oldest first.
pub(super) async fn list(shared: &NodeShared, url: &str) -> Result<Vec<NodeSegment>, String> {
    let (body, _connection) = get(shared, url, SEGMENTS_PATH).await?;
    let collected = tokio::time::timeout(PIECE_WITHIN, Limited::new(body, LIST_BYTES_MAX).collect()).await;
    let bytes = collected
        .map_err(|_| format!("the node sent nothing for {} s", PIECE_WITHIN.as_secs()))?
        .map_err(|error| error.to_string())?
        .to_bytes();
    let listed: NodeSegments = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    Ok(listed.segments)
}

/// Asks another node. The connection ends with the second value.
pub(super) async fn get(shared: &NodeShared, url: &str, path: &str) -> Result<(Incoming, Sender), String> {
    let (response, sender) = send(shared, url, path).await?;
    match response.status() {
        StatusCode::OK => Ok((response.into_body(), sender)),
        status => Err(format!("it answers {status}")),
    }
}

async fn send(shared: &NodeShared, url: &str, path: &str) -> Result<(Response<Incoming>, Sender), String> {
    let uri: Uri = url.parse().map_err(|_| format!("{url} is not a URL"))?;
    let request = Request::get(path)
        .header(HOST, uri.authority().map_or("", http::uri::Authority::as_str))
        .header(NODE_HEADER, shared.secret())
        .body(Full::<Bytes>::default())
        .map_err(|error| error.to_string())?;
    let asking = async {
        let mut sender = shared.passing().connect(&uri).await?;
        let response = sender.send_request(request).await.map_err(|error| crate::failure::chain(&error))?;
        Ok((response, sender))
    };
    tokio::time::timeout(ANSWER_WITHIN, asking).await.unwrap_or_else(|_| Err("it does not answer".to_owned()))
}

/// Events from a node that has kept what the query begins with; `None`: none that answers has.
pub(super) async fn events(shared: &NodeShared, query: &EventsQuery) -> Option<ToldElsewhere> {
    let first_lsn = query.from?.saturating_add(1);
    let path = format!("{EVENTS_PATH}?{}", serde_urlencoded::to_string(query).ok()?);
    for (node, url) in shared.others() {
        let listed = list(shared, &url).await.unwrap_or_default();
        if listed.first().is_none_or(|oldest| oldest.first_lsn > first_lsn) {
            continue;
        }
        match get(shared, &url, &path).await {
            Ok((body, connection)) => return Some(follow(body, connection)),
            Err(error) => tracing::debug!(node, error, "cannot read events from another node"),
        }
    }
    None
}

fn follow(mut body: Incoming, connection: Sender) -> ToldElsewhere {
    let (pieces, told) = channel(PIECES_MAX);
    tokio::spawn(async move {
        let _connection = connection;
        loop {
            let piece = tokio::select! {
                piece = tokio::time::timeout(STREAM_PIECE_WITHIN, body.frame()) => piece,
                () = pieces.closed() => return,
            };
            let Ok(Some(Ok(piece))) = piece else { return };
            if let Ok(bytes) = piece.into_data()
                && pieces.send(bytes).await.is_err()
            {
                return;
            }
        }
    });
    told
}

/// Streams the events of a session of `/api/v3` from the leader, until another node leads.
pub(super) async fn session(
    shared: &Arc<NodeShared>,
    leader: Writer,
    session_id: &str,
    told: Option<&ToldSoFar>,
) -> Result<FollowedElsewhere, Error> {
    let unreachable = |why: String| {
        Error::new(ErrorCode::NotLeader, format!("the leader cannot be reached: {}: {why}", leader.url))
    };
    let query = serde_urlencoded::to_string(FollowedOn::new(session_id, told))
        .map_err(|error| unreachable(error.to_string()))?;
    let path = format!("{FOLLOW_PATH}?{query}");
    let (response, connection) = send(shared, &leader.url, &path).await.map_err(unreachable)?;
    let status = response.status();
    let mut body = response.into_body();
    if status != StatusCode::OK {
        let collected = Limited::new(body, LINE_BYTES_MAX).collect();
        let answer = tokio::time::timeout(ANSWER_WITHIN, collected).await.ok().and_then(Result::ok);
        let error: Option<Error> = answer.and_then(|answer| serde_json::from_slice(&answer.to_bytes()).ok());
        // Whatever else it says is about the leader: an older one does not know what it is asked.
        let is_known =
            |error: &Error| matches!(error.code, ErrorCode::SessionNotFound | ErrorCode::NotLeader);
        return Err(error.filter(is_known).unwrap_or_else(|| unreachable(format!("it answers {status}"))));
    }
    let (news, told) = channel(PIECES_MAX);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let _connection = connection;
        let mut deposed = pin!(shared.is_deposed(&leader, LOOK_EVERY));
        let mut lines = Vec::new();
        loop {
            let piece = tokio::select! {
                piece = tokio::time::timeout(STREAM_PIECE_WITHIN, body.frame()) => piece,
                () = news.closed() => return,
                () = &mut deposed => return,
            };
            let Ok(Some(Ok(piece))) = piece else { return };
            let Ok(bytes) = piece.into_data() else { continue };
            lines.extend_from_slice(&bytes);
            if lines.len() > LINE_BYTES_MAX || !pass_lines(&mut lines, &news).await {
                return;
            }
        }
    });
    Ok(told)
}

/// Passes whole lines on. `false`: the receiver is gone, or a line cannot be parsed.
async fn pass_lines(lines: &mut Vec<u8>, news: &NewsSender<(SlotSessionEvent, SlotSession)>) -> bool {
    let Some(end) = lines.iter().rposition(|byte| *byte == b'\n') else { return true };
    let rest = lines.split_off(end.saturating_add(1));
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Ok(FollowedLine { news: kind, session }) = serde_json::from_slice(line) else { return false };
        if news.send((kind, session)).await.is_err() {
            return false;
        }
    }
    *lines = rest;
    true
}

/// This node's copy, for another one.
pub(super) struct OwnSegments(FileReader);

impl OwnSegments {
    pub(super) fn of(mirror: &SharedMirror) -> Self {
        Self(mirror.lock().expect("invariant: nobody panics while holding the copy").reader())
    }
}

impl Segments for OwnSegments {
    fn list(&self) -> Vec<NodeSegment> {
        let extents = self.0.extents();
        let shown = extents.iter().map(|extent| NodeSegment {
            first_lsn: extent.first_lsn.0,
            last_lsn: extent.last_lsn.0,
            bytes: extent.bytes,
        });
        shown.collect()
    }

    fn open(&self, first_lsn: u64) -> io::Result<Option<Box<dyn Read + Send>>> {
        let opened = self.0.from_segment(Lsn(first_lsn)).map_err(io::Error::other)?;
        Ok(opened.map(|bytes| -> Box<dyn Read + Send> { Box::new(bytes) }))
    }
}
