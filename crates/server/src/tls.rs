//! TLS from PEM files: the daemon's certificate, and whose certificates callers must show. The one file that knows
//! how rustls is set up.

mod subject;

pub(crate) use subject::subject_of;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where certificates and keys are, in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The daemon's certificate, then those between it and a root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Roots of the certificates that callers must show; `None`: they need none.
    pub client_ca: Option<PathBuf>,
}

/// TLS as it was read from its files.
#[derive(Clone, Debug)]
pub struct Tls {
    /// For the transport.
    pub config: Arc<ServerConfig>,
    /// Names and addresses in the daemon's certificate.
    pub names: Vec<String>,
}

/// Which file cannot be used, and why.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// It cannot be read as PEM.
    #[error("cannot read {what} from {}: {}", path.display(), in_words(source))]
    Pem {
        /// What was looked for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// What it holds is not accepted.
    #[error("{what} in {} cannot be used: {problem}", path.display())]
    Unusable {
        /// What it holds.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// Certificate and key are each sound and do not belong together.
    #[error("the key in {} is not the one of the certificate in {}", key.display(), certificate.display())]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
}

const CERTIFICATE: &str = "a certificate";
const KEY: &str = "a private key";
const CLIENT_CA: &str = "a client CA";

impl TlsFiles {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn read(&self) -> Result<Tls, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain = certificates(&self.certificate, CERTIFICATE)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|source| TlsError::Pem {
            what: KEY,
            path: self.key.clone(),
            source,
        })?;
        let unusable =
            |what, path: &Path, problem: String| TlsError::Unusable { what, path: path.to_owned(), problem };
        let names = chain
            .first()
            .ok_or_else(|| unusable(CERTIFICATE, &self.certificate, "there is none".to_owned()))
            .and_then(|own| {
                subject::names_of(own).map_err(|problem| unusable(CERTIFICATE, &self.certificate, problem))
            })?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("invariant: the provider speaks the usual versions");
        let builder = match &self.client_ca {
            Some(path) => builder.with_client_cert_verifier(client_verifier(path, provider)?),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::Mismatch { certificate: self.certificate.clone(), key: self.key.clone() }
            }
            rustls::Error::InvalidCertificate(_) => {
                unusable(CERTIFICATE, &self.certificate, error.to_string())
            }
            other => unusable(KEY, &self.key, other.to_string()),
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { config: Arc::new(config), names })
    }
}

fn certificates(path: &Path, what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::Pem { what, path: path.to_owned(), source };
    let read: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
    if read.is_empty() {
        return Err(failed(pem::Error::NoItemsFound));
    }
    Ok(read)
}

fn client_verifier(
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let unusable = |problem: String| TlsError::Unusable { what: CLIENT_CA, path: path.to_owned(), problem };
    let mut roots = RootCertStore::empty();
    for root in certificates(path, CLIENT_CA)? {
        roots.add(root).map_err(|error| unusable(error.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| unusable(error.to_string()))
}

/// rustls shows lines of the file as numbers.
fn in_words(error: &pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => "there is none in it".to_owned(),
        pem::Error::MissingSectionEnd { .. } => "a section has no end".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "a section does not begin as PEM does".to_owned(),
        pem::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
