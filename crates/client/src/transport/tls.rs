//! TLS: the authorities to trust, and the certificate to show. The one place of the client that sets rustls up.

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

/// The authorities to trust and the certificate to show, the same towards every host.
pub(crate) struct TlsSetup(Arc<ClientConfig>);

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

impl TlsSetup {
    /// `ca_pem`: the only authorities to trust; `None`: those that the system trusts.
    pub(crate) fn new(ca_pem: Option<&[u8]>, identity: Option<&Identity>) -> Result<Self, BuildError> {
        let roots = match ca_pem {
            Some(pem) => roots_of(pem)?,
            None => system_roots()?,
        };
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
        Ok(Self(Arc::new(config)))
    }

    pub(crate) fn towards(&self, authority: &Authority) -> Result<Tls, BuildError> {
        let host = ServerName::try_from(authority.host.clone())
            .map_err(|_| BuildError::Host(authority.host.clone()))?;
        Ok(Tls { connector: TlsConnector::from(Arc::clone(&self.0)), host })
    }
}

impl Tls {
    pub(crate) async fn wrap(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.host.clone(), stream).await
    }
}

fn roots_of(pem: &[u8]) -> Result<RootCertStore, BuildError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

/// The files that `SSL_CERT_FILE` and `SSL_CERT_DIR` name, or the store of the system.
fn system_roots() -> Result<RootCertStore, BuildError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // A system's store may hold certificates that no verifier can use.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let problem = found.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
        return Err(BuildError::SystemRoots(problem));
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, BuildError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| BuildError::Pem(error.to_string()))?;
    if found.is_empty() {
        return Err(BuildError::Pem("no certificate in it".to_owned()));
    }
    Ok(found)
}
