//! Certificates made here, read from files and shown in real handshakes.

use super::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, HandshakeKind};
use std::cell::Cell;
use std::fs;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

/// A root and what it signs, in files of a directory.
struct Desk {
    directory: TempDir,
    root: Issuer<'static, KeyPair>,
    /// Of the last certificate and the last list.
    number: Cell<u64>,
}

/// A certificate and its key.
struct Signed {
    number: u64,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Desk {
    fn new() -> Self {
        Self::of_root("root")
    }

    fn of_root(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = named(&[(DnType::CommonName, name)]);
        let key = KeyPair::generate().unwrap();
        fs::write(directory.path().join("root.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { directory, root: Issuer::new(params, key), number: Cell::new(0) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn sign(&self, file: &str, subject: DistinguishedName, names: &[SanType]) -> Signed {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = subject;
        params.subject_alt_names = names.to_vec();
        let number = self.next_number();
        params.serial_number = Some(SerialNumber::from(number));
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.root).unwrap();
        fs::write(self.path(&format!("{file}.pem")), certificate.pem()).unwrap();
        fs::write(self.path(&format!("{file}.key")), key.serialize_pem()).unwrap();
        Signed {
            number,
            certificate: certificate.der().clone(),
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        }
    }

    fn server(&self) -> TlsFiles {
        let names =
            [dns("lease.example"), dns("*.pool.example"), SanType::IpAddress("10.1.2.3".parse().unwrap())];
        self.sign("server", named(&[(DnType::CommonName, "lease.example")]), &names);
        TlsFiles {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
            client_ca: None,
            client_crl: None,
        }
    }

    /// Writes the list of certificates that the root revoked.
    fn revoke(&self, revoked: &[&Signed]) {
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2036, 1, 1),
            crl_number: SerialNumber::from(self.next_number()),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(|signed| revoked_at_once(signed.number)).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        fs::write(self.path("crl.pem"), params.signed_by(&self.root).unwrap().pem().unwrap()).unwrap();
    }

    fn next_number(&self) -> u64 {
        self.number.set(self.number.get() + 1);
        self.number.get()
    }

    fn connector(&self, shown: Option<&Signed>, alpn: &[&[u8]]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("root.pem")).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match shown {
            Some(Signed { certificate, key, .. }) => {
                builder.with_client_auth_cert(vec![certificate.clone()], key.clone_key()).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}

fn subject_of(certificate: &CertificateDer<'_>) -> Option<String> {
    CertificateNames::of(certificate).map(|names| names.subject)
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

fn revoked_at_once(number: u64) -> RevokedCertParams {
    RevokedCertParams {
        serial_number: SerialNumber::from(number),
        revocation_time: date_time_ymd(2026, 1, 1),
        reason_code: None,
        invalidity_date: None,
    }
}

/// A connection, and both ends of it.
struct Shaken {
    server: server::TlsStream<DuplexStream>,
    client: client::TlsStream<DuplexStream>,
}

impl Shaken {
    fn alpn(&self) -> Option<&[u8]> {
        self.server.get_ref().1.alpn_protocol()
    }

    /// Whom the server saw.
    fn caller(&self) -> Option<String> {
        self.server.get_ref().1.peer_certificates().and_then(|chain| chain.first()).and_then(subject_of)
    }

    /// Which certificate the client was shown.
    fn certificate(&self) -> CertificateDer<'static> {
        self.client.get_ref().1.peer_certificates().unwrap()[0].clone()
    }

    fn is_resumed(&self) -> bool {
        self.client.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// One byte from the server to the client; what the server sends to resume by comes before it.
    async fn exchange(&mut self) {
        self.server.write_all(b"x").await.unwrap();
        self.server.flush().await.unwrap();
        assert_eq!(self.client.read_u8().await.unwrap(), b'x');
    }
}

/// Shakes hands over a pipe.
async fn handshake(config: Arc<ServerConfig>, connector: &TlsConnector) -> Result<Shaken, String> {
    let (near, far) = tokio::io::duplex(1 << 16);
    let acceptor = TlsAcceptor::from(config);
    let name = ServerName::try_from("lease.example").unwrap();
    let (server, client) = tokio::join!(acceptor.accept(far), connector.connect(name, near));
    Ok(Shaken {
        server: server.map_err(|error| error.to_string())?,
        client: client.map_err(|error| error.to_string())?,
    })
}

fn problem(files: &TlsFiles, desk: &Desk) -> String {
    let shown = Tls::open(files.clone()).unwrap_err().to_string();
    shown.replace(&desk.directory.path().display().to_string(), "DIR")
}

#[tokio::test]
async fn http_versions_are_agreed_on_and_names_are_known() {
    let desk = Desk::new();
    let tls = Tls::open(desk.server()).unwrap();
    assert_eq!(*tls.names().0.read().unwrap(), ["lease.example", "*.pool.example", "10.1.2.3"]);
    let agreed = async |alpn: &[&[u8]]| {
        let shaken = handshake(tls.config(0), &desk.connector(None, alpn)).await.unwrap();
        shaken.alpn().map(<[u8]>::to_vec)
    };
    assert_eq!(agreed(&[b"http/1.1", b"h2"]).await.as_deref(), Some(&b"h2"[..]));
    assert_eq!(agreed(&[b"http/1.1"]).await.as_deref(), Some(&b"http/1.1"[..]));
    assert_eq!(agreed(&[]).await, None);
}

#[tokio::test]
async fn with_a_client_ca_only_its_certificates_are_let_in() {
    let desk = Desk::new();
    let files = TlsFiles { client_ca: Some(desk.path("root.pem")), ..desk.server() };
    let tls = Tls::open(files).unwrap();
    let parts = [(DnType::OrganizationName, "Lab"), (DnType::CommonName, "node-7")];
    let node = desk.sign("node", named(&parts), &[]);
    let shaken = handshake(tls.config(0), &desk.connector(Some(&node), &[])).await.unwrap();
    assert_eq!(shaken.caller().as_deref(), Some("CN=node-7,O=Lab"));

    assert!(handshake(tls.config(0), &desk.connector(None, &[])).await.is_err());
    let stranger = Desk::new().sign("stranger", named(&[(DnType::CommonName, "node-7")]), &[]);
    assert!(handshake(tls.config(0), &desk.connector(Some(&stranger), &[])).await.is_err());
}

#[tokio::test]
async fn a_renewed_certificate_is_served_without_a_restart() {
    let desk = Desk::new();
    let tls = Tls::open(desk.server()).unwrap();
    let connector = desk.connector(None, &[]);
    let shown = async |boot_ms| handshake(tls.config(boot_ms), &connector).await.unwrap().certificate();
    let mut open = handshake(tls.config(10_000), &connector).await.unwrap();
    let first = open.certificate();

    desk.server();
    assert_eq!(shown(10_999).await, first, "looked at less than a second ago");
    let second = shown(11_000).await;
    assert_ne!(second, first);
    assert_eq!(shown(11_500).await, second);
    open.exchange().await;
}

#[tokio::test]
async fn files_that_cannot_be_used_leave_the_old_ones_in_use() {
    let desk = Desk::new();
    let tls = Tls::open(desk.server()).unwrap();
    let connector = desk.connector(None, &[]);
    let shown = async |boot_ms| handshake(tls.config(boot_ms), &connector).await.unwrap().certificate();
    let first = shown(10_000).await;

    fs::write(desk.path("server.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    assert_eq!(shown(20_000).await, first, "half written");
    fs::remove_file(desk.path("server.pem")).unwrap();
    assert_eq!(shown(30_000).await, first, "missing");
    // As those who renew do it: one file after the other.
    let old_key = fs::read(desk.path("server.key")).unwrap();
    desk.server();
    let new_key = fs::read(desk.path("server.key")).unwrap();
    fs::write(desk.path("server.key"), old_key).unwrap();
    assert_eq!(shown(40_000).await, first, "the key of another certificate");
    fs::write(desk.path("server.key"), new_key).unwrap();
    assert_ne!(shown(50_000).await, first);
}

#[tokio::test]
async fn a_revoked_caller_is_refused_once_the_list_says_so() {
    let desk = Desk::new();
    let [alice, bob] =
        ["alice", "bob"].map(|name| desk.sign(name, named(&[(DnType::CommonName, name)]), &[]));
    desk.revoke(&[]);
    let files = TlsFiles {
        client_ca: Some(desk.path("root.pem")),
        client_crl: Some(desk.path("crl.pem")),
        ..desk.server()
    };
    let tls = Tls::open(files).unwrap();
    let [as_alice, as_bob] = [&alice, &bob].map(|shown| desk.connector(Some(shown), &[]));
    let mut open = handshake(tls.config(10_000), &as_alice).await.unwrap();
    open.exchange().await;
    let mut resumed = handshake(tls.config(10_000), &as_alice).await.unwrap();
    resumed.exchange().await;
    assert!(resumed.is_resumed(), "a session that is resumed shows no certificate");

    desk.revoke(&[&alice]);
    let refusal = handshake(tls.config(20_000), &as_alice).await.err();
    assert!(refusal.as_ref().is_some_and(|refusal| refusal.contains("Revoked")), "{refusal:?}");
    assert_eq!(handshake(tls.config(20_000), &as_bob).await.unwrap().caller().as_deref(), Some("CN=bob"));
    open.exchange().await;

    fs::write(desk.path("crl.pem"), "nothing").unwrap();
    assert!(
        handshake(tls.config(30_000), &as_alice).await.is_err(),
        "a broken list revokes what the last one did"
    );
    desk.revoke(&[&bob]);
    assert!(handshake(tls.config(40_000), &as_alice).await.is_ok());
    assert!(handshake(tls.config(40_000), &as_bob).await.is_err());
}

#[tokio::test]
async fn with_revocation_lists_every_issuer_needs_one() {
    let (desk, other) = (Desk::new(), Desk::of_root("another root"));
    let roots = [&desk, &other].map(|desk| fs::read_to_string(desk.path("root.pem")).unwrap());
    fs::write(desk.path("roots.pem"), roots.concat()).unwrap();
    desk.revoke(&[]);
    other.revoke(&[]);
    let files = TlsFiles {
        client_ca: Some(desk.path("roots.pem")),
        client_crl: Some(desk.path("crl.pem")),
        ..desk.server()
    };
    let tls = Tls::open(files).unwrap();
    let stranger = other.sign("stranger", named(&[(DnType::CommonName, "stranger")]), &[]);
    let connector = desk.connector(Some(&stranger), &[]);
    let refusal = handshake(tls.config(10_000), &connector).await.err();
    assert!(
        refusal.as_ref().is_some_and(|refusal| refusal.contains("UnknownRevocationStatus")),
        "{refusal:?}"
    );

    let lists = [&desk, &other].map(|desk| fs::read_to_string(desk.path("crl.pem")).unwrap());
    fs::write(desk.path("crl.pem"), lists.concat()).unwrap();
    handshake(tls.config(20_000), &connector).await.unwrap();
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
    let with_crl = |name: &str| {
        let client_ca = Some(desk.path("root.pem"));
        problem(&TlsFiles { client_ca, client_crl: Some(desk.path(name)), ..good.clone() }, &desk)
    };

    assert_eq!(
        with_certificate("missing"),
        "cannot read a certificate from DIR/missing: No such file or directory (os error 2)"
    );
    assert_eq!(
        with_certificate("empty"),
        "cannot read a certificate from DIR/empty: the file has no such item"
    );
    assert_eq!(with_certificate("broken"), "cannot read a certificate from DIR/broken: a section has no end");
    assert!(with_certificate("bogus").starts_with("a certificate in DIR/bogus cannot be used: "));
    assert_eq!(
        with_key("server.pem"),
        "cannot read a private key from DIR/server.pem: the file has no such item"
    );
    assert_eq!(
        with_key("other.key"),
        "the key in DIR/other.key is not the one of the certificate in DIR/server.pem"
    );
    assert_eq!(with_ca("empty"), "cannot read a client CA from DIR/empty: the file has no such item");
    assert!(with_ca("bogus").starts_with("a client CA in DIR/bogus cannot be used: "));
    assert_eq!(
        with_crl("root.pem"),
        "cannot read a revocation list from DIR/root.pem: the file has no such item"
    );
    fs::write(desk.path("list"), "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").unwrap();
    assert!(with_crl("list").starts_with("a revocation list in DIR/list cannot be used: "));
}

#[test]
fn the_daemons_names_follow_its_certificate() {
    let desk = Desk::new();
    let tls = Tls::open(desk.server()).unwrap();
    // Given away at the start, as to the check of Host headers.
    let names = tls.names().clone();
    desk.sign("server", named(&[(DnType::CommonName, "x")]), &[dns("Other.example")]);
    tls.config(1_000);
    let has = |wanted: &str| names.any(|name| name == wanted);
    assert!(has("other.example") && !has("lease.example"), "{names:?}");
    fs::write(desk.path("server.pem"), "half").unwrap();
    tls.config(2_000);
    assert!(has("other.example"), "a file that cannot be used changes no names: {names:?}");
}

#[test]
fn a_certificate_has_a_subject_and_alternative_names() {
    let desk = Desk::new();
    let names = [dns("ci.example"), SanType::URI("spiffe://lab/ci".try_into().unwrap())];
    let signed = desk.sign("x", named(&[(DnType::CommonName, "ci")]), &names);
    let shown = CertificateNames::of(&signed.certificate).unwrap();
    assert_eq!(
        (shown.subject.as_str(), shown.alternatives.join(" ").as_str()),
        ("CN=ci", "DNS:ci.example URI:spiffe://lab/ci")
    );
    for (name, is_its) in [("CN=ci", true), ("URI:spiffe://lab/ci", true), ("DNS:ci", false), ("ci", false)] {
        assert_eq!(shown.has(name), is_its, "{name}");
    }
}

#[test]
fn files_that_strangers_can_write_do_not_count() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let desk = Desk::new();
    let files = TlsFiles { client_ca: Some(desk.path("root.pem")), ..desk.server() };
    let files = TlsFiles { client_crl: Some(desk.path("crl.pem")), ..files };
    desk.revoke(&[]);
    let tls = Tls::open(files.clone()).unwrap();
    for (at, name) in [(1_000, "server.pem"), (3_000, "server.key"), (5_000, "root.pem"), (7_000, "crl.pem")]
    {
        let mode = |mode| fs::set_permissions(desk.path(name), fs::Permissions::from_mode(mode)).unwrap();
        let before = tls.config(at);
        mode(0o664);
        let shown = problem(&files, &desk);
        assert!(shown.ends_with(&format!("(mode 0664): run chmod go-w DIR/{name}")), "{shown}");
        assert!(Arc::ptr_eq(&before, &tls.config(at + 1_000)), "{name}: what was read before stays in use");
        mode(0o644);
        assert!(!Arc::ptr_eq(&before, &tls.config(at + 2_000)), "{name}");
    }
    for (name, counts) in
        [("server.pem", true), ("server.key", true), ("root.pem", false), ("crl.pem", false)]
    {
        chown(desk.path(name), Some(4_711), None).unwrap();
        assert_eq!(Tls::open(files.clone()).is_ok(), counts, "{name}");
        chown(desk.path(name), Some(rustix::process::geteuid().as_raw()), None).unwrap();
    }
}
