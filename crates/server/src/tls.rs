//! TLS from PEM files: the daemon's certificate, whose certificates callers must show, and which of them are revoked.
//! New connections have what the files say now; open ones keep what they began with. The one file that knows how
//! rustls is set up.

mod subject;

pub(crate) use subject::CertificateNames;

use crate::followed::Followed;
use crate::guarded::{Owner, open_guarded, warn_if_readable};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use std::fs::Metadata;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// Where certificates and keys are, in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The daemon's certificate, then those between it and a root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Roots of the certificates that callers must show; `None`: they need none.
    pub client_ca: Option<PathBuf>,
    /// Revocation lists of those certificates; `None`: none of them is revoked.
    pub client_crl: Option<PathBuf>,
}

/// TLS as its files say it. They are read again when they change.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    followed: Followed,
    config: RwLock<Arc<ServerConfig>>,
    names: CertifiedNames,
}

/// Names and addresses in the daemon's certificate, as they are now.
#[derive(Clone, Default, Debug)]
pub struct CertifiedNames(Arc<RwLock<Vec<String>>>);

/// TLS as its files were at one moment.
struct TlsRead {
    config: ServerConfig,
    /// Names and addresses in the daemon's certificate.
    names: Vec<String>,
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
const CLIENT_CRL: &str = "a revocation list";

impl Tls {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let paths =
            [Some(&files.certificate), Some(&files.key), files.client_ca.as_ref(), files.client_crl.as_ref()];
        let followed = Followed::new(paths.into_iter().flatten().cloned().collect());
        let TlsRead { config, names } = files.read()?;
        let names = CertifiedNames::from(names);
        Ok(Self { files, followed, config: RwLock::new(Arc::new(config)), names })
    }

    /// Names and addresses in the certificate that new connections are shown.
    #[must_use]
    pub fn names(&self) -> &CertifiedNames {
        &self.names
    }

    /// For the next connection. A changed file that cannot be used leaves what was read before in use.
    pub(crate) fn config(&self, boot_ms: u64) -> Arc<ServerConfig> {
        let certificate = self.files.certificate.display();
        match self.followed.follow(boot_ms, || self.read_again()) {
            None => {}
            Some(Ok(())) => tracing::info!(%certificate, "TLS files reloaded"),
            Some(Err(error)) => {
                tracing::warn!(%certificate, %error, "cannot use the changed TLS files; new connections get the old ones");
            }
        }
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A new configuration remembers no TLS sessions of the one before: a client whose certificate was revoked cannot
    /// resume one.
    fn read_again(&self) -> Result<(), TlsError> {
        let TlsRead { config, names } = self.files.read()?;
        self.names.set(names);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        Ok(())
    }
}

impl CertifiedNames {
    /// Whether one of them is so.
    pub(crate) fn any(&self, is_so: impl FnMut(&String) -> bool) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).iter().any(is_so)
    }

    fn set(&self, names: Vec<String>) {
        let names = names.into_iter().map(|name| name.to_ascii_lowercase()).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = names;
    }
}

impl From<Vec<String>> for CertifiedNames {
    fn from(names: Vec<String>) -> Self {
        let certified = Self::default();
        certified.set(names);
        certified
    }
}

impl TlsFiles {
    fn read(&self) -> Result<TlsRead, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain: Vec<CertificateDer<'static>> = items(&self.certificate, CERTIFICATE, Owner::Any)?;
        let (text, found) = contents(&self.key, KEY, Owner::Any)?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|source| TlsError::Pem {
            what: KEY,
            path: self.key.clone(),
            source,
        })?;
        let unusable =
            |what, path: &Path, problem: String| TlsError::Unusable { what, path: path.to_owned(), problem };
        let names = chain
            .first()
            .ok_or_else(|| unusable(CERTIFICATE, &self.certificate, "the file has no certificate".to_owned()))
            .and_then(|own| {
                subject::names_of(own).map_err(|problem| unusable(CERTIFICATE, &self.certificate, problem))
            })?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("invariant: the provider speaks the usual versions");
        let builder = match &self.client_ca {
            Some(ca) => {
                builder.with_client_cert_verifier(client_verifier(ca, self.client_crl.as_deref(), provider)?)
            }
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
        warn_if_readable(&self.key, &found);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsRead { config, names })
    }
}

fn contents(path: &Path, what: &'static str, owner: Owner) -> Result<(Vec<u8>, Metadata), TlsError> {
    let failed = |error| TlsError::Pem { what, path: path.to_owned(), source: pem::Error::Io(error) };
    let (mut file, found) = open_guarded(path, owner).map_err(failed)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(failed)?;
    Ok((text, found))
}

/// All items of one kind in a file; none is an error.
fn items<T: PemObject>(path: &Path, what: &'static str, owner: Owner) -> Result<Vec<T>, TlsError> {
    let failed = |source| TlsError::Pem { what, path: path.to_owned(), source };
    let (text, _) = contents(path, what, owner)?;
    let read: Vec<T> = T::pem_slice_iter(&text).collect::<Result<_, _>>().map_err(failed)?;
    if read.is_empty() {
        return Err(failed(pem::Error::NoItemsFound));
    }
    Ok(read)
}

fn client_verifier(
    ca: &Path,
    crl: Option<&Path>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let unusable =
        |what, path: &Path, problem: String| TlsError::Unusable { what, path: path.to_owned(), problem };
    let mut roots = RootCertStore::empty();
    for root in items(ca, CLIENT_CA, Owner::Trusted)? {
        roots.add(root).map_err(|error| unusable(CLIENT_CA, ca, error.to_string()))?;
    }
    let lists: Vec<CertificateRevocationListDer<'static>> =
        crl.map(|crl| items(crl, CLIENT_CRL, Owner::Trusted)).transpose()?.unwrap_or_default();
    // With lists, a certificate whose issuer has none among them is refused: nobody knows whether it is revoked.
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .with_crls(lists)
        .only_check_end_entity_revocation()
        .build();
    verifier.map_err(|error| match (&error, crl) {
        (VerifierBuilderError::InvalidCrl(_), Some(crl)) => unusable(CLIENT_CRL, crl, error.to_string()),
        _ => unusable(CLIENT_CA, ca, error.to_string()),
    })
}

/// rustls shows lines of the file as numbers.
fn in_words(error: &pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => "the file has no such item".to_owned(),
        pem::Error::MissingSectionEnd { .. } => "a section has no end".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "a section has no PEM header".to_owned(),
        pem::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
