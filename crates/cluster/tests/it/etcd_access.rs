//! An etcd that wants to know who asks: by certificate, by name and password.

use crate::etcd::{LONG, put, put_now};
use crate::members::{Members, Setup, wait_until};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use tempfile::TempDir;
use tenure_cluster::etcd::{EtcdOpenError, EtcdOptions, EtcdStore, EtcdTls};
use tenure_cluster::store::{Store, StoreError, Txn};

struct Authority {
    root: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "root");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { root: Issuer::new(params, key), pem }
    }

    /// A certificate and its key.
    fn sign(&self, name: &str, names: &[SanType]) -> (String, String) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = names.to_vec();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.root).unwrap().pem(), key.serialize_pem())
    }
}

/// Members that show one certificate, and want to see one.
fn with_certificates(
    dir: &TempDir,
    authority: &Authority,
    names: &[SanType],
    domain: Option<&str>,
) -> Members {
    let (certificate, key) = authority.sign("etcd", names);
    let mut args = vec!["--client-cert-auth".to_owned()];
    for (flag, file, text) in [
        ("--trusted-ca-file", "root.pem", &authority.pem),
        ("--cert-file", "etcd.pem", &certificate),
        ("--key-file", "etcd.key", &key),
    ] {
        let path = dir.path().join(file);
        std::fs::write(&path, text).unwrap();
        args.extend([flag.to_owned(), path.to_str().unwrap().to_owned()]);
    }
    let tls = EtcdTls {
        ca_pem: authority.pem.clone(),
        identity: Some(authority.sign("tenure", &[])),
        domain: domain.map(ToOwned::to_owned),
    };
    Members::start_with(1, Setup { args, tls: Some(tls) })
}

fn loopback() -> SanType {
    SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

fn store_with(members: &Members, tls: Option<EtcdTls>) -> EtcdStore {
    EtcdStore::open(EtcdOptions { endpoints: members.endpoints(), tls, user: None }).unwrap()
}

/// Asks through etcd's other interface what operators ask it.
fn operate(members: &Members, path: &str, body: &str) {
    let endpoint = members.endpoint(0);
    let mut stream = TcpStream::connect(&endpoint).unwrap();
    let length = body.len();
    let request = format!(
        "POST /v3/auth/{path} HTTP/1.0\r\nHost: {endpoint}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.split(' ').nth(1) == Some("200"), "{answer}");
}

fn as_user(members: &Members, name: &str, password: &str) -> EtcdStore {
    let user = Some((name.to_owned(), password.to_owned()));
    EtcdStore::open(EtcdOptions { endpoints: members.endpoints(), tls: None, user }).unwrap()
}

#[test]
fn certificates_are_checked_both_ways() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let members = with_certificates(&dir, &authority, &[loopback()], None);
    let store = members.store();
    let revision = put_now(&store, "a", "1");
    let mut watching = store.watch("a", "b", revision, LONG).unwrap();
    assert_eq!(watching.next(LONG).unwrap().unwrap().key, "a");
    let survey = store.survey(LONG).unwrap();
    assert!(survey[0].status.is_some() && survey[0].metrics.unwrap().wal_fsyncs.is_some());

    let other = Authority::new();
    let nothing_shown = EtcdTls { ca_pem: authority.pem.clone(), identity: None, domain: None };
    let of_another = EtcdTls { identity: Some(other.sign("tenure", &[])), ..nothing_shown.clone() };
    let trusts_another =
        EtcdTls { ca_pem: other.pem, identity: Some(authority.sign("tenure", &[])), domain: None };
    for tls in [Some(nothing_shown), Some(of_another), Some(trusts_another), None] {
        let store = store_with(&members, tls);
        let outcome = store.range("a", "b", 1, LONG);
        let Err(StoreError::Unanswered { why }) = &outcome else { panic!("{outcome:?}") };
        assert!(why.contains(&members.endpoint(0)), "{why}");
        assert_eq!(store.metrics(&members.endpoint(0), LONG), None);
    }
}

#[test]
fn the_name_in_a_certificate_can_be_given() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let name = SanType::DnsName("etcd.example".try_into().unwrap());
    let members = with_certificates(&dir, &authority, &[name], Some("etcd.example"));
    let store = members.store();
    put_now(&store, "a", "1");
    assert!(store.metrics(&members.endpoint(0), LONG).is_some());
    let identity = Some(authority.sign("tenure", &[]));
    let by_address = store_with(&members, Some(EtcdTls { ca_pem: authority.pem, identity, domain: None }));
    let outcome = by_address.range("a", "b", 1, LONG);
    assert!(
        matches!(&outcome, Err(StoreError::Unanswered { why }) if why.contains("certificate")),
        "{outcome:?}"
    );
}

#[test]
fn certificates_that_are_none_are_refused_at_once() {
    let authority = Authority::new();
    let (certificate, _) = authority.sign("tenure", &[]);
    let sound = EtcdTls { ca_pem: authority.pem, identity: None, domain: None };
    let no_key = EtcdTls { identity: Some((certificate, "nothing".into())), ..sound.clone() };
    let no_authority = EtcdTls { ca_pem: "nothing".into(), ..sound };
    for tls in [no_key, no_authority] {
        let endpoints = vec!["127.0.0.1:1".to_owned()];
        let opened = EtcdStore::open(EtcdOptions { endpoints, tls: Some(tls), user: None });
        assert!(matches!(&opened, Err(EtcdOpenError::Tls { .. })), "{opened:?}");
    }
}

#[test]
fn who_asks_is_shown_by_a_token_and_by_another_when_it_is_forgotten() {
    let args = vec!["--bcrypt-cost".to_owned(), "4".to_owned()];
    let mut members = Members::start_with(1, Setup { args, tls: None });
    let store = as_user(&members, "root", "secret");
    // Nobody is asked who they are yet.
    put_now(&store, "a", "1");
    operate(&members, "user/add", r#"{"name":"root","password":"secret"}"#);
    operate(&members, "user/grant", r#"{"user":"root","role":"root"}"#);
    operate(&members, "enable", "{}");
    let revision = put_now(&store, "a", "2");
    let mut watching = store.watch("a", "b", revision, LONG).unwrap();
    assert_eq!(watching.next(LONG).unwrap().unwrap().revision, revision);

    let put = Txn { then: vec![put("a", "3")], ..Txn::default() };
    for store in [members.store(), as_user(&members, "root", "wrong"), as_user(&members, "nobody", "secret")]
    {
        let refused = store.step(&put, LONG);
        assert!(matches!(&refused, Err(StoreError::Refused { no_space: false, .. })), "{refused:?}");
        let watch = store.watch("a", "b", 0, LONG).map(|_| ());
        assert!(matches!(&watch, Err(StoreError::Refused { .. })), "{watch:?}");
        assert!(!format!("{refused:?} {store:?}").contains("secret"));
    }

    // etcd keeps tokens in memory.
    members.kill(0);
    members.start_again(0);
    members.wait_for_leader();
    wait_until("it answers", || store.range("a", "b", 1, LONG).is_ok());
    put_now(&store, "a", "4");

    members.kill(0);
    members.start_again(0);
    members.wait_for_leader();
    // The first that it sees of the old token.
    wait_until("it is watched", || store.watch("a", "b", 0, LONG).is_ok());
}
