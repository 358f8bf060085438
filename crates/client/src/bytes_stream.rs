//! A body that is read piece by piece, within a limit for each piece.

use crate::client::Client;
use crate::error::CallError;
use crate::nodes::Answered;
use crate::transport::{Opened, Sender};
use bytes::Bytes;
use core::time::Duration;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

/// Default limit for the next piece.
const PIECE_LIMIT: Duration = Duration::from_secs(60);

/// A response body that is read piece by piece, such as a backup.
#[derive(Debug)]
pub struct ByteStream {
    client: Client,
    /// Which of the client's nodes it comes from.
    node: usize,
    body: Incoming,
    piece_limit: Duration,
    /// The connection lives as long as its sender.
    _sender: Sender,
}

impl ByteStream {
    pub(crate) fn new(client: Client, opened: Answered<Opened>) -> Self {
        let Answered { node, body: Opened { body, sender, .. }, .. } = opened;
        Self { client, node, body, piece_limit: PIECE_LIMIT, _sender: sender }
    }

    /// It is over, and what comes next is better asked of another node.
    pub(crate) fn leave_node(&self) {
        self.client.nodes().leave(self.node);
    }

    pub(crate) fn with_piece_limit(mut self, limit: Duration) -> Self {
        self.piece_limit = limit;
        self
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// If the connection broke or no piece came in time: the bytes so far are incomplete.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            let Ok(frame) = tokio::time::timeout(self.piece_limit, self.body.frame()).await else {
                self.leave_node();
                return Err(CallError::TimedOut { limit: self.piece_limit });
            };
            match frame {
                None => return Ok(None),
                Some(Err(error)) => {
                    self.leave_node();
                    return Err(self.client.nodes().node(self.node).broken(error));
                }
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data()
                        && !piece.is_empty()
                    {
                        return Ok(Some(piece));
                    }
                }
            }
        }
    }
}
