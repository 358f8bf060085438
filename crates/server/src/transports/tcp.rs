//! HTTP over TCP, with or without TLS.

use super::http::{self, Peer};
use crate::places::Source;
use crate::server::Shared;
use crate::tcp_owner::peer_uid;
use crate::tls::CertificateNames;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tenure_engine::host::read_clocks;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a refusal may take.
const REFUSAL: Duration = Duration::from_secs(1);
/// Pause after the system refused to accept, which it does when files run out.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

pub(crate) async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let stopping = shared.stopping();
    loop {
        let (stream, address) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            },
            () = stopping.cancelled() => return,
        };
        // Answers are small and leave whole.
        let _ = stream.set_nodelay(true);
        let tasks = shared.tasks().clone();
        let shared = Arc::clone(&shared);
        let uid = peer_uid(&stream);
        match (shared.admit_connection(Source::Tcp { address: address.ip(), uid }), shared.admit_refusal()) {
            (Ok(place), _) => drop(tasks.spawn(async move {
                serve(shared, stream, address, uid).await;
                drop(place);
            })),
            // Nothing can be said to a peer before its handshake.
            (Err(_), _) if shared.options().tls.is_some() => {}
            (Err(error), Some(permit)) => drop(tasks.spawn(async move {
                refuse(stream, &http::raw_refusal(&error)).await;
                drop(permit);
            })),
            (Err(error), None) => hang_up(stream, &http::raw_refusal(&error)),
        }
    }
}

async fn serve(shared: Arc<Shared>, stream: TcpStream, address: SocketAddr, uid: Option<u32>) {
    let Some(tls) = &shared.options().tls else {
        return http::serve(shared, stream, Peer::Tcp { address, uid, certificate: None }).await;
    };
    let acceptor = TlsAcceptor::from(tls.config(read_clocks().boot_ms));
    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let certificate = shown.and_then(|certificate| CertificateNames::of(certificate));
            http::serve(shared, stream, Peer::Tcp { address, uid, certificate }).await;
        }
        Ok(Err(error)) => tracing::debug!(%address, %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(%address, "TLS handshake timed out"),
    }
}

/// Says why before hanging up. What the peer has sent is read: closing over it may take the answer back.
async fn refuse(mut stream: TcpStream, answer: &[u8]) {
    let _ = tokio::time::timeout(REFUSAL, async {
        stream.write_all(answer).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    })
    .await;
}

/// Says as much as can be said without waiting.
fn hang_up(stream: TcpStream, answer: &[u8]) {
    let _ = stream.into_std().and_then(|mut stream| stream.write(answer));
}
