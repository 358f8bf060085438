//! Who is let in: passwords, permissions, certificates.

use super::Poller;
use crate::loopback::Loopback;
use crate::redis_server::RedisServer;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use std::fs;
use tenure_polling::assignment::Hash;
use tenure_polling::store::{RedisOptions, RedisStore, Store, StoreError};

#[tokio::test]
async fn a_user_with_a_password_needs_only_the_keys_of_polling() {
    let server = RedisServer::start().await;
    allow(&server, &["~poll:*", "&poll:*"]);
    let poller =
        Poller::join_with(&RedisOptions::new(format!("{}?user=ann&pass=s3cret", server.url()))).await;
    let poller = poller.expect("joins");
    let lease = poller.acquire("t").await;
    assert!(poller.store.renew(std::slice::from_ref(&lease)).await.expect("renewed").lost.is_empty());
    poller.store.leave(&[lease], None).await.expect("left");
}

/// Whoever may not publish or subscribe still polls.
#[tokio::test]
async fn without_the_channel_everything_but_the_news_works() {
    let server = RedisServer::start().await;
    allow(&server, &["~poll:*", "resetchannels"]);
    let options = RedisOptions::new(format!("{}?user=ann&pass=s3cret", server.url()));
    let poller = Poller::join_with(&options).await.expect("joins");
    let lease = poller.acquire("t").await;
    assert_eq!(poller.view(&["t"]).await.owners.len(), 1);
    assert!(poller.store.renew(&[lease]).await.expect("renewed").lost.is_empty());
    assert_eq!(server.cli(&["PUBSUB", "CHANNELS"]), "");
}

#[tokio::test]
async fn whoever_is_not_let_in_is_told_so_for_good() {
    let server = RedisServer::start().await;
    allow(&server, &["~other:*", "&*"]);
    for (user, password) in [("ann", "wrong"), ("nobody", "s3cret"), ("ann", "s3cret")] {
        let options = RedisOptions::new(format!("{}?user={user}&pass={password}", server.url()));
        let refused = RedisStore::connect(&options).await.err();
        let Some(StoreError::Rejected(why)) = refused else { panic!("{user}: {refused:?}") };
        assert!(!why.contains(password), "{why}");
        assert!(!format!("{options:?}").contains("pass"), "{options:?}");
    }
    server.cli(&["CONFIG", "SET", "requirepass", "s3cret"]);
    let refused = RedisStore::connect(&RedisOptions::new(server.url())).await.err();
    assert!(matches!(refused, Some(StoreError::Rejected(_))), "{refused:?}");
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let directory = tempfile::tempdir().expect("a directory");
    for url in [
        format!("unix://{}/none.sock", directory.path().display()),
        format!("redis://{}", Loopback::draw().free_port()),
    ] {
        let missing = RedisStore::connect(&RedisOptions::new(url)).await.err();
        assert!(matches!(missing, Some(StoreError::Unreachable(_))), "{missing:?}");
    }
}

#[tokio::test]
async fn certificates_are_looked_at_on_both_sides() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let loopback = Loopback::draw();
    let address = loopback.free_port();
    let files = tempfile::tempdir().expect("a directory");
    let place = |name: &str, text: &str| {
        let path = files.path().join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let (certificate, key) = authority.certify(&address.ip().to_string());
    let (ca, certificate, key) =
        (place("ca.pem", &authority.pem()), place("cert.pem", &certificate), place("key.pem", &key));
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let server = RedisServer::start_with(&[
        "--bind",
        &ip,
        "--tls-port",
        &port,
        "--tls-ca-cert-file",
        &ca,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
    ])
    .await;
    let (own_certificate, own_key) = authority.certify("poller");
    let options = RedisOptions {
        ca_pem: Some(authority.pem().into_bytes()),
        client_cert_pem: Some(own_certificate.into_bytes()),
        client_key_pem: Some(own_key.into_bytes()),
        ..RedisOptions::new(format!("rediss://{address}"))
    };
    let poller = Poller::join_with(&options).await.expect("joins");
    poller.acquire("t").await;
    assert_eq!(server.cli(&["EXISTS", "poll:lease:t"]), "1");

    let without_ours = RedisOptions { client_cert_pem: None, client_key_pem: None, ..options.clone() };
    let with_anothers_ca = RedisOptions { ca_pem: Some(stranger.pem().into_bytes()), ..options.clone() };
    let with_the_systems = RedisOptions { ca_pem: None, ..options.clone() };
    let in_clear = RedisOptions::new(format!("redis://{address}"));
    for options in [without_ours, with_anothers_ca, with_the_systems, in_clear] {
        let refused = RedisStore::connect(&options).await.err();
        assert!(matches!(refused, Some(StoreError::Unreachable(_))), "{refused:?}");
    }
}

#[test]
fn what_cannot_be_is_refused_before_anybody_is_asked() {
    let refused = |options: RedisOptions| matches!(RedisStore::open(&options), Err(StoreError::Rejected(_)));
    assert!(refused(RedisOptions::new("http://h")));
    let cluster = RedisOptions::new("redis-cluster://h");
    assert!(RedisStore::open(&cluster).is_ok());
    assert!(refused(RedisOptions { hash: Hash::Fnv1a, ..cluster.clone() }));
    assert!(refused(RedisOptions { prefix: Some("x:".to_owned()), ..cluster }));
    assert!(refused(RedisOptions { ca_pem: Some(b"no PEM".to_vec()), ..RedisOptions::new("rediss://h") }));
}

/// A user `ann` who may run scripts and what they do, on some keys and channels.
fn allow(server: &RedisServer, where_to: &[&str]) {
    let mut command = vec!["ACL", "SETUSER", "ann", "reset", "on", ">s3cret"];
    command.extend(["+@read", "+@write", "+@scripting", "+@connection", "+@pubsub", "+time"]);
    command.extend(where_to);
    assert_eq!(server.cli(&command), "OK");
}

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
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

    /// Certificate and key.
    fn certify(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        // Not the authority's own name, or it would seem to vouch for itself.
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }
}
