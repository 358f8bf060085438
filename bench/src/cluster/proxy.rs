//! A way to etcd that can be cut: bytes are passed on until it is, and whoever asked hears nothing about it, as when
//! a cable is pulled. Knows nothing of what the bytes mean.

use anyhow::Result;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

pub(crate) struct Proxy {
    /// One for each port it leads to.
    ports: Vec<u16>,
    is_cut: watch::Sender<bool>,
    // Its tasks end with it.
    runtime: Option<Runtime>,
}

impl Proxy {
    /// A way to each of these ports of loopback.
    pub(crate) fn start(to: &[u16]) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (is_cut, cut) = watch::channel(false);
        let mut ports = Vec::new();
        for port in to {
            let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
            ports.push(listener.local_addr()?.port());
            runtime.spawn(accept(listener, SocketAddr::from((Ipv4Addr::LOCALHOST, *port)), cut.clone()));
        }
        Ok(Self { ports, is_cut, runtime: Some(runtime) })
    }

    pub(crate) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Nothing gets through from now on.
    pub(crate) fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Connections that were cut end, and others get through.
    pub(crate) fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, to: SocketAddr, cut: watch::Receiver<bool>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(pass_on(stream, to, cut.clone()));
    }
}

async fn pass_on(mut from: TcpStream, to: SocketAddr, mut cut: watch::Receiver<bool>) {
    let passing = async {
        let mut onward = TcpStream::connect(to).await?;
        from.set_nodelay(true)?;
        onward.set_nodelay(true)?;
        copy_bidirectional(&mut from, &mut onward).await
    };
    tokio::select! {
        biased;
        _ = cut.wait_for(|is_cut| *is_cut) => {}
        // However it ended, both sides are closed now.
        _ = passing => return,
    }
    // The side that asked stays open without a word; an error means that the proxy is gone.
    let _ = cut.wait_for(|is_cut| !*is_cut).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::time::Duration;

    #[test]
    fn nothing_gets_through_while_it_is_cut_and_others_do_afterwards() {
        let echo = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = echo.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in echo.incoming().take(2) {
                std::thread::spawn(move || {
                    let (mut stream, mut byte) = (stream.unwrap(), [0]);
                    while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
                });
            }
        });
        let proxy = Proxy::start(&[port]).unwrap();
        let connect = || std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.ports()[0])).unwrap();
        let (mut stream, mut byte) = (connect(), [0]);
        stream.write_all(b"a").unwrap();
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"a");

        proxy.cut();
        stream.write_all(b"b").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert_eq!(stream.read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock);

        proxy.mend();
        stream.set_read_timeout(None).unwrap();
        assert!(matches!(stream.read(&mut byte), Ok(0) | Err(_)));
        let mut stream = connect();
        stream.write_all(b"c").unwrap();
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"c");
    }
}
