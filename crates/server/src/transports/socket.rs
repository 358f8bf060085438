//! The Unix socket: lines, or HTTP for those who speak it first. The system says who the peer is.

use super::http::{self, Peer};
use super::lines;
use super::prefixed::Prefixed;
use crate::auth::SocketPeer;
use crate::places::Source;
use crate::server::Shared;
use bytes::BytesMut;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tenure_api::{Answer, AnswerLine, Error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

/// How long a peer that is refused may take to speak, and then to listen.
const REFUSAL: Duration = Duration::from_secs(1);
/// How long a peer may send nothing at first while few places are left.
const FIRST_BYTE_WITHIN: Duration = Duration::from_secs(30);
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
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            },
            () = stopping.cancelled() => return,
        };
        let tasks = shared.tasks().clone();
        let shared = Arc::clone(&shared);
        // `serve` refuses a peer without credentials.
        let uid = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
        match (shared.admit_connection(Source::Socket { uid }), shared.admit_refusal()) {
            (Ok(place), _) => drop(tasks.spawn(async move {
                serve(shared, stream).await;
                drop(place);
            })),
            (Err(error), Some(permit)) => drop(tasks.spawn(async move {
                refuse(stream, error).await;
                drop(permit);
            })),
            (Err(error), None) => hang_up(stream, &line_of(error)),
        }
    }
}

async fn serve(shared: Arc<Shared>, mut stream: UnixStream) {
    let peer = match SocketPeer::of(&stream) {
        Ok(peer) => peer,
        Err(error) => return tracing::warn!(%error, "cannot identify the peer of a socket connection"),
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
        () = silent_while_scarce(&shared) => return tracing::debug!("closed a silent connection to make room for others"),
        () = stopping.cancelled() => return,
    }
    let speaks_lines = speaks_lines(&first);
    let stream = Prefixed::new(first.freeze(), stream);
    if speaks_lines {
        lines::serve(shared, stream, admitted.principal, admitted.scope).await;
    } else {
        http::serve(shared, stream, Peer::Socket(admitted)).await;
    }
}

/// Says why before hanging up, in what the peer speaks; a peer that says nothing is told in a line.
async fn refuse(mut stream: UnixStream, error: Error) {
    let mut first = BytesMut::with_capacity(FIRST_BYTES);
    let _ = tokio::time::timeout(REFUSAL, stream.read_buf(&mut first)).await;
    let is_line = first.is_empty() || speaks_lines(&first);
    let answer = if is_line { line_of(error) } else { http::raw_refusal(&error) };
    let _ = tokio::time::timeout(REFUSAL, async {
        stream.write_all(&answer).await?;
        stream.shutdown().await
    })
    .await;
}

/// Resolves once places are scarce, for a connection that sends nothing.
async fn silent_while_scarce(shared: &Shared) {
    loop {
        tokio::time::sleep(FIRST_BYTE_WITHIN).await;
        if shared.are_places_scarce() {
            return;
        }
    }
}

/// Says as much as can be said without waiting.
fn hang_up(stream: UnixStream, answer: &[u8]) {
    let _ = stream.into_std().and_then(|mut stream| stream.write(answer));
}

fn line_of(error: Error) -> Vec<u8> {
    let mut line = serde_json::to_vec(&AnswerLine { answer: Answer::Error(error), tag: None })
        .expect("invariant: answers can be written");
    line.push(b'\n');
    line
}

/// Lines are objects; nothing that is HTTP begins so.
fn speaks_lines(first: &[u8]) -> bool {
    first.first().is_some_and(|byte| *byte == b'{' || byte.is_ascii_whitespace())
}
