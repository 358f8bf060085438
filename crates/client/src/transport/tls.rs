//! TLS: whom to trust, and with which certificate to introduce oneself.

use crate::client::BuildError;
use crate::endpoint::Authority;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// TLS towards one host.
pub(crate) struct Tls {
    connector: TlsConnector,
    host: ServerName<'static>,
}

/// A certificate with its key, both as PEM.
pub(crate) struct Identity {
    pub(crate) certificates: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl Tls {
    pub(crate) fn new(
        authority: &Authority,
        ca_pem: &[u8],
        identity: Option<&Identity>,
    ) -> Result<Self, BuildError> {
        let host = ServerName::try_from(authority.host.clone())
            .map_err(|_| BuildError::Host(authority.host.clone()))?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca_pem)? {
            roots.add(certificate)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = PrivateKeyDer::from_pem_slice(&identity.key)
                    .map_err(|error| BuildError::Pem(error.to_string()))?;
                builder.with_client_auth_cert(certificates(&identity.certificates)?, key)?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), host })
    }

    pub(crate) async fn wrap(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.host.clone(), stream).await
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, BuildError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| BuildError::Pem(error.to_string()))?;
    if found.is_empty() {
        return Err(BuildError::Pem("no certificate in it".to_owned()));
    }
    Ok(found)
}
