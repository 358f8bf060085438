//! What etcd says only on its page of metrics: how often it synced its log, and how large it may grow.

use super::EtcdTls;
use super::link::bare_host;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// What one member says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// How often it synced its log since it was started; `None`: it does not say.
    pub wal_fsyncs: Option<u64>,
    /// How large its store may grow, in bytes; `None`: it does not say.
    pub quota_bytes: Option<u64>,
}

/// Reads pages of metrics, with the certificates of the endpoints.
#[derive(Clone)]
pub(crate) struct Reader {
    tls: Option<(TlsConnector, Option<String>)>,
}

/// A page has some hundred kilobytes.
const PAGE_BYTES_MAX: u64 = 8 << 20;

impl Reader {
    /// # Errors
    /// What is wrong with the certificates.
    pub(crate) fn new(tls: Option<&EtcdTls>) -> Result<Self, String> {
        let tls = tls.map(|tls| Ok::<_, String>((connector(tls)?, tls.domain.clone()))).transpose()?;
        Ok(Self { tls })
    }

    /// The metrics of the member at this address; `None` if they cannot be had.
    pub(crate) async fn read(&self, address: &str, within: Duration) -> Option<Metrics> {
        let page = timeout(within, self.fetch(address)).await.ok()?.ok()?;
        Some(parse(&page))
    }

    async fn fetch(&self, address: &str) -> io::Result<String> {
        let stream = TcpStream::connect(address).await?;
        let Some((connector, domain)) = &self.tls else { return get(stream, address).await };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let domain = domain.as_deref().unwrap_or(bare_host(host)).to_owned();
        let domain = ServerName::try_from(domain).map_err(io::Error::other)?;
        get(connector.connect(domain, stream).await?, address).await
    }
}

/// The oldest HTTP there is: the page comes in one piece, and ends with the connection.
async fn get(mut stream: impl AsyncRead + AsyncWrite + Unpin, address: &str) -> io::Result<String> {
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = String::new();
    stream.take(PAGE_BYTES_MAX).read_to_string(&mut answer).await?;
    let (head, page) = answer.split_once("\r\n\r\n").ok_or_else(|| io::Error::other("not HTTP"))?;
    if head.split(' ').nth(1) != Some("200") {
        return Err(io::Error::other("the answer is not a page of metrics"));
    }
    Ok(page.to_owned())
}

fn parse(page: &str) -> Metrics {
    let number = |name: &str| {
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        // Large ones are written with an exponent.
        let value: f64 = value.trim().parse().ok()?;
        (value.is_finite() && value >= 0.0).then_some(value as u64)
    };
    Metrics {
        wal_fsyncs: number("etcd_disk_wal_fsync_duration_seconds_count"),
        quota_bytes: number("etcd_server_quota_backend_bytes"),
    }
}

fn connector(tls: &EtcdTls) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&tls.ca_pem)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() {
        return Err("no certificate of an authority".to_owned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = match &tls.identity {
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                .map_err(|error| format!("the key of the certificate: {error}"))?;
            config
                .with_client_auth_cert(certificates(certificate)?, key)
                .map_err(|error| error.to_string())?
        }
        None => config.with_no_client_auth(),
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_however_they_are_written() {
        let page = "# TYPE etcd_disk_wal_fsync_duration_seconds histogram\n\
                    etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.001\"} 5\n\
                    etcd_disk_wal_fsync_duration_seconds_sum 0.03\n\
                    etcd_disk_wal_fsync_duration_seconds_count 17\n\
                    etcd_server_quota_backend_bytes 2.147483648e+09\n";
        let read = Metrics { wal_fsyncs: Some(17), quota_bytes: Some(2_147_483_648) };
        assert_eq!(parse(page), read);
    }

    #[test]
    fn what_a_page_does_not_say_is_not_known() {
        assert_eq!(parse("etcd_server_quota_backend_bytes NaN\nother 1\n"), Metrics::default());
    }
}
