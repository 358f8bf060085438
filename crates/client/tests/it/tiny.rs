//! Servers of a few lines: they say what a test tells them to, byte for byte.

use std::future::Future;
use std::path::PathBuf;
use tempfile::TempDir;
use tenure_client::{Client, Endpoint};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::task::AbortOnDropHandle;

/// A server on its own port; each connection is handed to the script with its number, from 0.
pub(crate) struct TinyHttp {
    pub(crate) endpoint: Endpoint,
    _task: AbortOnDropHandle<()>,
}

/// One request as it was read.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl TinyHttp {
    pub(crate) async fn serve<F, S>(mut script: S) -> Self
    where
        S: FnMut(usize, TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let task = tokio::spawn(async move {
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::spawn(script(number, stream));
            }
        });
        Self { endpoint: endpoint.parse().expect("an endpoint"), _task: AbortOnDropHandle::new(task) }
    }

    pub(crate) fn client(&self) -> Client {
        Client::builder(self.endpoint.clone()).build().expect("a client")
    }
}

/// Reads one request; `None` when the other side closed.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).expect("a head in ASCII");
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0);
            let mut body = bytes.split_off(end + 4);
            while body.len() < length {
                read_some(stream, &mut body).await?;
            }
            return Some(Asked { head, body: String::from_utf8(body).expect("a body in UTF-8") });
        }
        read_some(stream, &mut bytes).await?;
    }
}

async fn read_some(stream: &mut (impl AsyncRead + Unpin), into: &mut Vec<u8>) -> Option<()> {
    let read = stream.read_buf(into).await.ok()?;
    (read > 0).then_some(())
}

pub(crate) async fn answer(stream: &mut (impl AsyncWrite + Unpin), status: u16, body: &str) {
    let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).await.expect("the client listens");
}

/// The beginning of a stream of events.
pub(crate) async fn begin_stream(stream: &mut (impl AsyncWrite + Unpin)) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("the client listens");
}

pub(crate) async fn chunk(stream: &mut (impl AsyncWrite + Unpin), piece: &str) {
    let text = format!("{:x}\r\n{piece}\r\n", piece.len());
    stream.write_all(text.as_bytes()).await.expect("the client listens");
}

/// A socket in its own directory; each connection is handed to the script.
pub(crate) struct TinySocket {
    pub(crate) path: PathBuf,
    _directory: TempDir,
    _task: AbortOnDropHandle<()>,
}

impl TinySocket {
    pub(crate) async fn serve<F, S>(mut script: S) -> Self
    where
        S: FnMut(usize, UnixStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("tenure.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let task = tokio::spawn(async move {
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::spawn(script(number, stream));
            }
        });
        Self { path, _directory: directory, _task: AbortOnDropHandle::new(task) }
    }
}
