//! The limit of the HTTP stack: a server that does nothing but read a JSON body and answer with another, built as the
//! daemon's is, in a process of its own.

use super::home::{Home, Server, Site};
use super::peer::{Load, Sample, Shape, Until, Work};
use super::wire::http::{Hello, Http};
use super::wire::lines::Kept;
use super::wire::{Door, Names, Wire};
use crate::process::tied;
use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpListener;

/// Where the server says on which port it is.
#[derive(clap::Args)]
pub(crate) struct GreeterOrders {
    told: PathBuf,
}

/// Asks it for `time`.
pub(crate) fn greet(site: &Site, shape: Shape, time: Duration) -> Result<Sample> {
    let home = Home::make(site, "hello-")?;
    let told = home.run().join("port");
    let mut command = tied(std::env::current_exe()?);
    command.arg("greeter").arg(&told);
    let _server = Server::start(home, command, |_| Ok(std::fs::metadata(&told).is_ok_and(|it| it.len() > 0)))
        .context("the bare server")?;
    let port: u16 = std::fs::read_to_string(&told)?.trim().parse()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let http = Http::new(Names::fresh(), Kept::Ttl(60_000), &address.to_string());
    Wire::open(&Door::Tcp(address), shape, Hello(http))?.run(Work::Acquire, Until::Time(time))
}

/// Serves until it is killed.
pub(crate) fn serve(orders: &GreeterOrders) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        // One write, so that whoever sees it sees all of it.
        std::fs::write(&orders.told, format!("{}\n", listener.local_addr()?.port()))?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(async move {
                let mut builder = auto::Builder::new(TokioExecutor::new());
                builder.http1().timer(TokioTimer::new());
                // Whoever asked has gone.
                let _ = builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
            });
        }
    })
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let read = request.into_body().collect().await.map(|body| body.to_bytes());
    let asked = read.ok().and_then(|body| serde_json::from_slice::<tenure_api::Acquire>(&body).ok());
    let mut response = Response::new(Full::default());
    match asked {
        Some(asked) => {
            let json = serde_json::json!({"hello": asked.holder}).to_string();
            *response.body_mut() = Full::from(json);
            let value = http::HeaderValue::from_static("application/json");
            response.headers_mut().insert(http::header::CONTENT_TYPE, value);
        }
        None => *response.status_mut() = http::StatusCode::BAD_REQUEST,
    }
    Ok(response)
}
