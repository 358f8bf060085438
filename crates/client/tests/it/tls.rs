//! TLS: which authorities a client trusts, and which certificate it shows.

use crate::tiny::{answer, read_request};
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use tenure_client::{CallError, Client, Endpoint};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// An authority, and what it certified: PEM of certificate and key.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

struct Certified {
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("names");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("a certificate") }
    }

    fn pem(&self) -> String {
        self.issuer.pem()
    }

    fn certify(&self, name: &str) -> Certified {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Certified { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A server that answers everybody whom the authority certified.
async fn serve(authority: &Authority, server: &Certified) -> (Endpoint, AbortOnDropHandle<()>) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("PEM")).expect("a root");
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("a verifier");
    serve_with(verifier, server).await
}

async fn serve_with(
    verifier: Arc<dyn ClientCertVerifier>,
    server: &Certified,
) -> (Endpoint, AbortOnDropHandle<()>) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificate = CertificateDer::from_pem_slice(server.certificate.as_bytes()).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(server.key.as_bytes()).expect("PEM");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)
        .expect("a certificate that fits its key");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = format!("https://{}", listener.local_addr().expect("an address"));
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                while read_request(&mut stream).await.is_some() {
                    answer(&mut stream, 200, "OK").await;
                }
            });
        }
    });
    (endpoint.parse().expect("an endpoint"), AbortOnDropHandle::new(task))
}

#[tokio::test]
async fn both_sides_are_known_to_each_other() {
    let authority = Authority::new();
    let (endpoint, _server) = serve(&authority, &authority.certify("127.0.0.1")).await;
    let me = authority.certify("me");
    let client = Client::builder(endpoint)
        .ca_pem(authority.pem())
        .identity_pem(me.certificate, me.key)
        .build()
        .expect("a client");
    client.ready().await.expect("ready");
    client.ready().await.expect("ready on the kept connection");
}

#[tokio::test]
async fn whoever_is_not_trusted_is_not_spoken_to() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let me = authority.certify("me");
    let client = |endpoint: Endpoint, trusted: &Authority| {
        Client::builder(endpoint)
            .ca_pem(trusted.pem())
            .identity_pem(me.certificate.clone(), me.key.clone())
            .build()
            .expect("a client")
    };
    let (endpoint, _server) = serve(&authority, &authority.certify("127.0.0.1")).await;
    let error = client(endpoint, &stranger).ready().await.expect_err("another authority");
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    let (endpoint, _server) = serve(&authority, &authority.certify("127.0.0.2")).await;
    let error = client(endpoint, &authority).ready().await.expect_err("another host");
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_client_without_a_certificate_is_turned_away_by_a_server_that_asks_for_one() {
    let authority = Authority::new();
    let (endpoint, _server) = serve(&authority, &authority.certify("127.0.0.1")).await;
    let client = Client::builder(endpoint).ca_pem(authority.pem()).build().expect("a client");
    client.ready().await.expect_err("nobody knows who that is");
}

/// Names the endpoint that [`a_process_of_its_own`] calls.
const CALLED: &str = "TENURE_TEST_CALLED";

/// The environment belongs to the process, so what it decides is asked in another one.
#[tokio::test]
async fn a_process_of_its_own() {
    let Ok(endpoint) = std::env::var(CALLED) else { return };
    let client = Client::builder(endpoint.parse().expect("an endpoint")).build().expect("a client");
    client.ready().await.expect("ready");
}

/// Calls an endpoint from a process whose system trusts the authorities in a file.
async fn call_trusting(roots: &Path, endpoint: &Endpoint) -> Output {
    let mut call = Command::new(std::env::current_exe().expect("this program"));
    call.args(["--exact", "tls::a_process_of_its_own", "--nocapture"]);
    call.env(CALLED, endpoint.to_string()).env("SSL_CERT_FILE", roots).env_remove("SSL_CERT_DIR");
    tokio::task::spawn_blocking(move || call.output()).await.expect("waited").expect("it runs")
}

#[tokio::test]
async fn where_no_authority_is_given_those_of_the_system_are_trusted() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let (endpoint, _server) =
        serve_with(WebPkiClientVerifier::no_client_auth(), &authority.certify("127.0.0.1")).await;
    let said = |output: &Output| {
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };

    let trusted = call_trusting(&file("trusted.pem", &authority.pem()), &endpoint).await;
    assert!(trusted.status.success(), "{}", said(&trusted));
    let distrusted = call_trusting(&file("strangers.pem", &stranger.pem()), &endpoint).await;
    assert!(said(&distrusted).contains("InvalidCertificate"), "{}", said(&distrusted));
    let none = call_trusting(&file("empty.pem", ""), &endpoint).await;
    assert!(said(&none).contains("SystemRoots"), "{}", said(&none));
}
