//! Certificates made here, read from files and shown in real handshakes.

use super::*;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, SanType,
};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fs;
use tempfile::TempDir;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A root and what it signs, in files of a directory.
struct Desk {
    directory: TempDir,
    root: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
struct Signed {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Desk {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = named(&[(DnType::CommonName, "root")]);
        let key = KeyPair::generate().unwrap();
        fs::write(directory.path().join("root.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { directory, root: Issuer::new(params, key) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn sign(&self, file: &str, subject: DistinguishedName, names: &[SanType]) -> Signed {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = subject;
        params.subject_alt_names = names.to_vec();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.root).unwrap();
        fs::write(self.path(&format!("{file}.pem")), certificate.pem()).unwrap();
        fs::write(self.path(&format!("{file}.key")), key.serialize_pem()).unwrap();
        Signed {
            certificate: certificate.der().clone(),
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        }
    }

    fn server(&self) -> TlsFiles {
        let names =
            [dns("lease.example"), dns("*.pool.example"), SanType::IpAddress("10.1.2.3".parse().unwrap())];
        self.sign("server", named(&[(DnType::CommonName, "lease.example")]), &names);
        TlsFiles { certificate: self.path("server.pem"), key: self.path("server.key"), client_ca: None }
    }

    fn connector(&self, shown: Option<&Signed>, alpn: &[&[u8]]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("root.pem")).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match shown {
            Some(Signed { certificate, key }) => {
                builder.with_client_auth_cert(vec![certificate.clone()], key.clone_key()).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

fn named(parts: &[(DnType, &str)]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for (kind, value) in parts {
        name.push(kind.clone(), *value);
    }
    name
}

/// Shakes hands over a pipe: the protocol agreed on and whom the server saw.
async fn handshake(tls: &Tls, connector: TlsConnector) -> Result<(Option<Vec<u8>>, Option<String>), String> {
    let (near, far) = tokio::io::duplex(1 << 16);
    let acceptor = TlsAcceptor::from(Arc::clone(&tls.config));
    let name = ServerName::try_from("lease.example").unwrap();
    let (accepted, connected) = tokio::join!(acceptor.accept(far), connector.connect(name, near));
    let (accepted, _connected) =
        (accepted.map_err(|error| error.to_string())?, connected.map_err(|error| error.to_string())?);
    let connection = accepted.get_ref().1;
    let shown = connection.peer_certificates().and_then(|chain| chain.first()).and_then(subject_of);
    Ok((connection.alpn_protocol().map(<[u8]>::to_vec), shown))
}

fn problem(files: &TlsFiles, desk: &Desk) -> String {
    let shown = files.read().unwrap_err().to_string();
    shown.replace(&desk.directory.path().display().to_string(), "DIR")
}

#[tokio::test]
async fn http_versions_are_agreed_on_and_names_are_known() {
    let desk = Desk::new();
    let tls = desk.server().read().unwrap();
    assert_eq!(tls.names, ["lease.example", "*.pool.example", "10.1.2.3"]);
    let agreed = async |alpn: &[&[u8]]| handshake(&tls, desk.connector(None, alpn)).await.unwrap().0;
    assert_eq!(agreed(&[b"http/1.1", b"h2"]).await.as_deref(), Some(&b"h2"[..]));
    assert_eq!(agreed(&[b"http/1.1"]).await.as_deref(), Some(&b"http/1.1"[..]));
    assert_eq!(agreed(&[]).await, None);
}

#[tokio::test]
async fn with_a_client_ca_only_its_certificates_are_let_in() {
    let desk = Desk::new();
    let files = TlsFiles { client_ca: Some(desk.path("root.pem")), ..desk.server() };
    let tls = files.read().unwrap();
    let parts = [(DnType::OrganizationName, "Lab"), (DnType::CommonName, "node-7")];
    let node = desk.sign("node", named(&parts), &[]);
    let (_, shown) = handshake(&tls, desk.connector(Some(&node), &[])).await.unwrap();
    assert_eq!(shown.as_deref(), Some("CN=node-7,O=Lab"));

    assert!(handshake(&tls, desk.connector(None, &[])).await.is_err());
    let stranger = Desk::new().sign("stranger", named(&[(DnType::CommonName, "node-7")]), &[]);
    assert!(handshake(&tls, desk.connector(Some(&stranger), &[])).await.is_err());
}

#[test]
fn subjects_are_unambiguous_text() {
    let desk = Desk::new();
    let subject = |parts: &[(DnType, &str)]| subject_of(&desk.sign("x", named(parts), &[]).certificate);
    let of = |value: &str| subject(&[(DnType::CommonName, value)]).unwrap();
    assert_eq!(of("plain name"), "CN=plain name");
    assert_eq!(of("a,O=Lab"), "CN=a\\,O\\=Lab");
    assert_ne!(Some(of("a,O=Lab")), subject(&[(DnType::OrganizationName, "Lab"), (DnType::CommonName, "a")]));
    assert_eq!(of("# x "), "CN=\\# x\\ ");
    assert_eq!(of("line\nbreak"), "CN=line\\0abreak");
    assert_eq!(of("höhle"), "CN=höhle");
    let custom = subject(&[(DnType::from_oid(&[2, 5, 4, 97]), "VAT")]).unwrap();
    assert!(custom.starts_with("2.5.4.97=#"), "{custom}");
}

#[test]
fn a_subject_that_is_too_long_is_hashed_not_cut() {
    let desk = Desk::new();
    let of = |value: &str| {
        subject_of(&desk.sign("x", named(&[(DnType::CommonName, value)]), &[]).certificate).unwrap()
    };
    let long = "x".repeat(400);
    let (one, other) = (of(&long), of(&format!("{long}y")));
    assert!(one.starts_with("sha256:") && one.len() == 71, "{one}");
    assert_ne!(one, other);
    assert_eq!(of(&"x".repeat(248)).len(), 251);
}

#[test]
fn without_a_subject_an_alternative_name_counts() {
    let desk = Desk::new();
    let of = |names: &[SanType]| subject_of(&desk.sign("x", DistinguishedName::new(), names).certificate);
    let uri = SanType::URI("spiffe://lab/node".try_into().unwrap());
    assert_eq!(of(&[uri]).as_deref(), Some("URI:spiffe://lab/node"));
    assert_eq!(of(&[dns("node.example")]).as_deref(), Some("DNS:node.example"));
    assert_eq!(of(&[]), None);
    assert_eq!(subject_of(&CertificateDer::from(vec![1, 2, 3])), None);
}

#[test]
fn errors_say_which_file_and_what_is_wrong() {
    let desk = Desk::new();
    let good = desk.server();
    let other = desk.sign("other", named(&[(DnType::CommonName, "other")]), &[]);
    drop(other);
    fs::write(desk.path("empty"), "").unwrap();
    fs::write(desk.path("broken"), "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap();
    let bogus = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(desk.path("bogus"), bogus).unwrap();

    let with_certificate =
        |name: &str| problem(&TlsFiles { certificate: desk.path(name), ..good.clone() }, &desk);
    let with_key = |name: &str| problem(&TlsFiles { key: desk.path(name), ..good.clone() }, &desk);
    let with_ca = |name: &str| problem(&TlsFiles { client_ca: Some(desk.path(name)), ..good.clone() }, &desk);

    assert_eq!(
        with_certificate("missing"),
        "cannot read a certificate from DIR/missing: No such file or directory (os error 2)"
    );
    assert_eq!(with_certificate("empty"), "cannot read a certificate from DIR/empty: there is none in it");
    assert_eq!(with_certificate("broken"), "cannot read a certificate from DIR/broken: a section has no end");
    assert!(with_certificate("bogus").starts_with("a certificate in DIR/bogus cannot be used: "));
    assert_eq!(with_key("server.pem"), "cannot read a private key from DIR/server.pem: there is none in it");
    assert_eq!(
        with_key("other.key"),
        "the key in DIR/other.key is not the one of the certificate in DIR/server.pem"
    );
    assert_eq!(with_ca("empty"), "cannot read a client CA from DIR/empty: there is none in it");
    assert!(with_ca("bogus").starts_with("a client CA in DIR/bogus cannot be used: "));
}
