//! Stands between a client and the daemon, and loses answers when told to.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tenure_client::{Client, Endpoint};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::task::AbortOnDropHandle;

pub(crate) struct Proxy {
    path: PathBuf,
    to_lose: Arc<AtomicUsize>,
    _directory: TempDir,
    _task: AbortOnDropHandle<()>,
}

impl Proxy {
    pub(crate) async fn before(daemon: PathBuf) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("proxy.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let to_lose = Arc::new(AtomicUsize::new(0));
        let losing = to_lose.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (daemon, losing) = (daemon.clone(), losing.clone());
                tokio::spawn(async move {
                    if let Ok(to_daemon) = UnixStream::connect(daemon).await {
                        forward(stream, to_daemon, &losing).await;
                    }
                });
            }
        });
        Self { path, to_lose, _directory: directory, _task: AbortOnDropHandle::new(task) }
    }

    /// The next so many answers are swallowed and their connections closed.
    pub(crate) fn lose_answers(&self, count: usize) {
        self.to_lose.store(count, Ordering::SeqCst);
    }

    pub(crate) fn answers_to_lose(&self) -> usize {
        self.to_lose.load(Ordering::SeqCst)
    }

    pub(crate) fn client(&self) -> Client {
        Client::builder(Endpoint::Unix(self.path.clone())).holder("me").build().expect("a client")
    }
}

async fn forward(client: UnixStream, daemon: UnixStream, to_lose: &AtomicUsize) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_daemon, mut to_daemon) = daemon.into_split();
    let answers = async {
        let mut piece = vec![0; 64 << 10];
        loop {
            match from_daemon.read(&mut piece).await {
                Ok(0) | Err(_) => return,
                Ok(read) => {
                    let less_one = |count: usize| count.checked_sub(1);
                    if to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less_one).is_ok()
                        || to_client.write_all(&piece[..read]).await.is_err()
                    {
                        return;
                    }
                }
            }
        }
    };
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_daemon) => {}
        () = answers => {}
    }
}
