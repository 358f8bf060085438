//! The Unix socket: lines, or HTTP for those who speak it first. The system says who the peer is.

use super::http::{self, Peer};
use super::lines;
use super::prefixed::Prefixed;
use crate::auth::SocketPeer;
use crate::server::Shared;
use bytes::BytesMut;
use std::sync::Arc;
use std::time::Duration;
use tenure_api::{Answer, AnswerLine, Error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

/// How long a refusal may take to be read.
const REFUSAL: Duration = Duration::from_secs(10);
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// Bytes read to find out what a peer speaks.
const FIRST_BYTES: usize = 4 << 10;

pub(crate) async fn accept(shared: Arc<Shared>, listener: UnixListener) {
    let stopping = shared.stopping();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            },
            () = stopping.cancelled() => return,
        };
        let tasks = shared.tasks().clone();
        let permit = shared.admit_connection();
        let shared = Arc::clone(&shared);
        tasks.spawn(async move {
            match permit {
                Some(permit) => {
                    serve(shared, stream).await;
                    drop(permit);
                }
                None => refuse(stream, shared.too_many_connections()).await,
            }
        });
    }
}

async fn serve(shared: Arc<Shared>, mut stream: UnixStream) {
    let peer = match SocketPeer::of(&stream) {
        Ok(peer) => peer,
        Err(error) => return tracing::warn!(%error, "a peer of the socket could not be identified"),
    };
    let admitted = match shared.auth().socket(&peer) {
        Ok(admitted) => admitted,
        Err(error) => return refuse(stream, error).await,
    };
    let mut first = BytesMut::with_capacity(FIRST_BYTES);
    let stopping = shared.stopping();
    tokio::select! {
        read = stream.read_buf(&mut first) => match read {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        },
        () = stopping.cancelled() => return,
    }
    let speaks_lines = first[0] == b'{' || first[0].is_ascii_whitespace();
    let stream = Prefixed::new(first.freeze(), stream);
    if speaks_lines {
        lines::serve(shared, stream, admitted.principal, admitted.scope).await;
    } else {
        http::serve(shared, stream, Peer::Socket(admitted)).await;
    }
}

/// Says why before hanging up. What the peer speaks is not known; a line can be read by eye.
async fn refuse(mut stream: UnixStream, error: Error) {
    let mut line = serde_json::to_vec(&AnswerLine { answer: Answer::Error(error), tag: None })
        .expect("invariant: answers can be written");
    line.push(b'\n');
    let _ = tokio::time::timeout(REFUSAL, async {
        stream.write_all(&line).await?;
        stream.shutdown().await
    })
    .await;
}
