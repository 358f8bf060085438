//! TLS: the daemon shows its certificate, callers show theirs, and what is no TLS is turned away.

use std::fs;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, SanType,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

use crate::daemon::{Daemon, LIMIT};
use crate::faults::random::Random;
use crate::raw_http::Http;
use crate::run_support::wait_until;

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A root, and certificates that it signed, in files of the daemon's desk.
struct Authority {
    root: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(daemon: &Daemon, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = named(name);
        let key = KeyPair::generate().unwrap();
        fs::write(daemon.path(&format!("{name}.pem")), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { root: Issuer::new(params, key) }
    }

    fn sign(&self, daemon: &Daemon, file: &str, names: &[SanType]) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = named(file);
        params.subject_alt_names = names.to_vec();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        fs::write(daemon.path(&format!("{file}.pem")), params.signed_by(&key, &self.root).unwrap().pem())
            .unwrap();
        fs::write(daemon.path(&format!("{file}.key")), key.serialize_pem()).unwrap();
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

fn started(flags: &[&str]) -> Daemon {
    started_with(flags, |_| {})
}

fn started_with(flags: &[&str], prepare: impl FnOnce(&Daemon)) -> Daemon {
    let mut daemon =
        Daemon::prepared(&[&["--tls-cert", "DIR/server.pem", "--tls-key", "DIR/server.key"], flags].concat());
    let root = Authority::new(&daemon, "root");
    let ip = SanType::IpAddress("127.0.0.1".parse().unwrap());
    root.sign(&daemon, "server", &[ip, SanType::DnsName("lease.example".try_into().unwrap())]);
    for caller in ["alice", "bob", "carol"] {
        let name = SanType::DnsName(format!("{caller}.example").try_into().unwrap());
        root.sign(&daemon, caller, &[name]);
    }
    let foreign = Authority::new(&daemon, "foreign");
    foreign.sign(&daemon, "mallory", &[]);
    prepare(&daemon);
    daemon.start_again();
    daemon
}

/// Shakes hands, showing the certificate in these files; trusts the root in that one.
fn connect(daemon: &Daemon, root: &str, shown: Option<&str>) -> Http<Tls> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(daemon.path(&format!("{root}.pem"))).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match shown {
        Some(file) => {
            let certificate = CertificateDer::from_pem_file(daemon.path(&format!("{file}.pem"))).unwrap();
            let key = PrivateKeyDer::from_pem_file(daemon.path(&format!("{file}.key"))).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    Http::new(StreamOwned::new(connection, daemon.tcp()), &daemon.address().to_string())
}

const GRANT: &str = r#"{"resources": ["a"], "holder": "h", "ttl_ms": 60000}"#;

#[test]
fn https_works_for_who_trusts_the_root_and_fails_for_who_does_not() {
    let daemon = started(&[]);
    let mut http = connect(&daemon, "root", None);
    assert_eq!(http.get("/healthz").status, 200);
    assert_eq!(http.ask("POST", "/v1/leases", GRANT.as_bytes()).status, 201);
    let breadcrumb: Value = serde_json::from_str(&fs::read_to_string(daemon.breadcrumb()).unwrap()).unwrap();
    assert_eq!(breadcrumb["endpoint"], format!("https://{}", daemon.address()));
    assert!(connect(&daemon, "foreign", None).try_ask("GET", "/healthz", b"").is_err());
    let named = connect(&daemon, "root", None)
        .to(&format!("lease.example:{}", daemon.address().port()))
        .get("/v1/leases");
    assert_eq!(named.status, 200, "a name of its certificate is a name of the daemon: {named:?}");
}

#[test]
fn a_renewed_certificate_is_shown_to_new_connections_and_open_ones_go_on() {
    let daemon = started(&[]);
    let mut open = connect(&daemon, "root", None);
    assert_eq!(open.get("/healthz").status, 200);
    // Of another root: a client that trusts that root alone sees which certificate the daemon shows.
    let ip = SanType::IpAddress("127.0.0.1".parse().unwrap());
    Authority::new(&daemon, "foreign").sign(&daemon, "server", &[ip]);
    wait_until("the renewed certificate", LIMIT, || {
        connect(&daemon, "foreign", None).try_ask("GET", "/healthz", b"").is_ok()
    });
    assert_eq!(open.get("/healthz").status, 200);
    assert!(connect(&daemon, "root", None).try_ask("GET", "/healthz", b"").is_err());
}

#[test]
fn plain_http_and_garbage_on_the_tls_port_are_turned_away_and_harm_nobody() {
    let daemon = started(&[]);
    let mut plain = daemon.http();
    assert!(plain.try_ask("GET", "/healthz", b"").is_err(), "no HTTP without TLS");
    let mut random = Random::new(3);
    for round in 0..200 {
        let mut http = daemon.http();
        http.stream().set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        // The beginning of a real handshake, then nonsense.
        let mut bytes = if round % 2 == 0 {
            b"\x16\x03\x01\x00\xf4\x01\x00\x00\xf0\x03\x03".to_vec()
        } else {
            Vec::new()
        };
        bytes.extend(random.bytes(round * 5));
        let _ = http.raw(&bytes);
        let _ = http.answer();
    }
    assert_eq!(connect(&daemon, "root", None).get("/healthz").status, 200);
    assert!(!daemon.said().contains("panic"), "{}", daemon.said());
}

#[test]
fn a_certificate_is_who_a_caller_is() {
    let daemon = started(&["--client-ca", "DIR/root.pem"]);
    let granted = connect(&daemon, "root", Some("alice")).ask("POST", "/v1/leases", GRANT.as_bytes());
    assert_eq!(granted.status, 201, "{granted:?}");
    let lease = granted.json();
    let release = format!("/v1/leases/{}/release", lease["lease_id"].as_str().unwrap());
    let theft = connect(&daemon, "root", Some("bob")).post(&release, &json!({"epoch": 1}));
    assert_eq!(theft.refusal(), (403, "forbidden".to_owned()), "{theft:?}");
    let admin = connect(&daemon, "root", Some("alice")).put("/v1/pools/p", &json!({"size": 1}));
    assert_eq!(admin.refusal(), (403, "forbidden".to_owned()), "certificates hold and do no more: {admin:?}");
    assert_eq!(connect(&daemon, "root", Some("alice")).post(&release, &json!({"epoch": 1})).status, 200);
}

#[test]
fn without_a_certificate_of_the_right_root_there_is_no_connection() {
    let daemon = started(&["--client-ca", "DIR/root.pem"]);
    for shown in [None, Some("mallory")] {
        let answered = connect(&daemon, "root", shown).try_ask("GET", "/v1/leases", b"");
        assert!(answered.is_err(), "{shown:?}: {answered:?}");
    }
    assert_eq!(connect(&daemon, "root", Some("alice")).get("/v1/leases").status, 200);
}

#[test]
fn certificates_may_be_administrators_if_the_operator_says_so() {
    let daemon = started(&["--client-ca", "DIR/root.pem", "--auth-cert-scope", "admin"]);
    let lease = connect(&daemon, "root", Some("bob")).ask("POST", "/v1/leases", GRANT.as_bytes()).json();
    let id = lease["lease_id"].as_str().unwrap();
    let revoked =
        connect(&daemon, "root", Some("alice")).post(&format!("/v1/leases/{id}/revoke"), &json!({}));
    assert_eq!(revoked.status, 200, "{revoked:?}");
    let why = connect(&daemon, "root", Some("bob")).get(&format!("/v1/why?lease={id}"));
    assert!(why.text().contains("cert:CN=alice"), "{why:?}");
}

#[test]
fn a_line_of_a_file_says_what_a_certificate_may_do() {
    let flags =
        ["--client-ca", "DIR/root.pem", "--auth-cert-scope-file", "DIR/scopes", "--auth-cert-scope", "none"];
    let daemon = started_with(&flags, |daemon| {
        fs::write(daemon.path("scopes"), "CN=alice hold:build/*\nDNS:bob.example admin\n").unwrap();
    });
    let take = |who: &str, resource: &str| {
        let body = json!({"resources": [resource], "holder": "h", "ttl_ms": 60_000});
        connect(&daemon, "root", Some(who)).post("/v1/leases", &body)
    };
    let refused = take("alice", "deploy");
    assert_eq!(refused.refusal(), (403, "outside_scope".to_owned()), "{refused:?}");
    let lease = take("alice", "build/x");
    assert_eq!(lease.status, 201, "{lease:?}");
    let caller = connect(&daemon, "root", Some("alice")).get("/v1/caller").json();
    assert_eq!((&caller["principal"], &caller["prefixes"]), (&json!("cert:CN=alice"), &json!(["build/*"])));
    let by_name = connect(&daemon, "root", Some("bob")).put("/v1/pools/p", &json!({"size": 1}));
    assert_eq!(by_name.status, 200, "an alternative name counts: {by_name:?}");
    let unnamed = connect(&daemon, "root", Some("carol")).get("/v1/leases");
    assert_eq!(unnamed.refusal(), (403, "forbidden".to_owned()), "{unnamed:?}");
    assert!(unnamed.text().contains("CN=carol"), "{unnamed:?}");

    // An open connection has what the file says now.
    let mut open = connect(&daemon, "root", Some("carol"));
    fs::write(daemon.path("scopes.draft"), "CN=carol read\nCN=alice hold:*\n").unwrap();
    fs::rename(daemon.path("scopes.draft"), daemon.path("scopes")).unwrap();
    wait_until("the new line", LIMIT, || open.get("/v1/leases").status == 200);
    let slip = take("alice", "build/y");
    assert_eq!(
        slip.refusal(),
        (401, "unauthorized".to_owned()),
        "a slip in its line widens nothing: {slip:?}"
    );
    let id = lease.json()["lease_id"].as_str().unwrap().to_owned();
    let kept = connect(&daemon, "root", Some("alice"))
        .post(&format!("/v1/leases/{id}/heartbeat"), &json!({"epoch": 1}));
    assert_eq!(kept.status, 200, "{kept:?}");
    let status = daemon.http_over_socket().get("/v1/status").json();
    let file = &status["cert_scope_file"];
    assert_eq!((&file["lines"], &file["lines_rejected"]), (&json!(1), &json!(1)), "{status}");
}

#[test]
fn the_names_of_a_renewed_certificate_are_the_daemons_at_once() {
    let daemon = started(&[]);
    let port = daemon.address().port();
    let asked =
        |name: &str| connect(&daemon, "root", None).to(&format!("{name}:{port}")).get("/v1/leases").status;
    assert_eq!((asked("lease.example"), asked("other.example")), (200, 403));
    let ip = SanType::IpAddress("127.0.0.1".parse().unwrap());
    let renewed = Authority::new(&daemon, "root");
    renewed.sign(&daemon, "server", &[ip, SanType::DnsName("other.example".try_into().unwrap())]);
    wait_until("the renewed certificate", LIMIT, || {
        connect(&daemon, "root", None).try_ask("GET", "/healthz", b"").is_ok()
    });
    assert_eq!((asked("lease.example"), asked("other.example")), (403, 200));
}

#[test]
fn files_that_are_no_certificates_stop_the_start() {
    for (name, text) in [("server.pem", "nonsense"), ("server.key", "nonsense")] {
        let mut daemon = Daemon::prepared(&["--tls-cert", "DIR/server.pem", "--tls-key", "DIR/server.key"]);
        let root = Authority::new(&daemon, "root");
        root.sign(&daemon, "server", &[]);
        fs::write(daemon.path(name), text).unwrap();
        daemon.spawn();
        assert_eq!(daemon.code(), 2, "{}", daemon.said());
        assert!(daemon.said().contains(name), "{}", daemon.said());
        assert!(!daemon.data_dir().exists());
    }
}
