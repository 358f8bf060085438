//! Nodes that reach each other by https, and ask every caller for a certificate: also each other.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::harness::{Cluster, LIMIT};
use crate::run_support::wait_until;

/// A root, and a certificate that it signed for these addresses, in PEM files.
fn certify(directory: &Path, addresses: &[IpAddr], uses: &[ExtendedKeyUsagePurpose]) {
    let mut root = CertificateParams::new(Vec::new()).unwrap();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    fs::write(directory.join("root.pem"), root.self_signed(&key).unwrap().pem()).unwrap();
    let root = Issuer::new(root, key);
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = addresses.iter().copied().map(SanType::IpAddress).collect();
    params.extended_key_usages = uses.to_vec();
    let key = KeyPair::generate().unwrap();
    fs::write(directory.join("node.pem"), params.signed_by(&key, &root).unwrap().pem()).unwrap();
    fs::write(directory.join("node.key"), key.serialize_pem()).unwrap();
}

/// Two nodes with these uses in their certificate; none runs yet.
fn prepared(directory: &Path, uses: &[ExtendedKeyUsagePurpose]) -> Cluster {
    let file = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let (root, certificate, key) = (file("root.pem"), file("node.pem"), file("node.key"));
    let flags = ["--tls-cert", &certificate, "--tls-key", &key, "--client-ca", &root, "--cluster-ca", &root];
    let cluster = Cluster::on_one_member_alone(&flags, &[]);
    let addresses: Vec<IpAddr> = cluster.nodes.iter().map(|node| node.address.ip()).collect();
    certify(directory, &addresses, uses);
    cluster
}

/// Over the node's own socket, which needs no certificate.
fn ask(cluster: &Cluster, place: usize, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let answered = cluster.nodes[place].daemon.http_over_socket().ask(method, path, &body);
    (answered.status, answered.json())
}

fn role(cluster: &Cluster, place: usize) -> Value {
    ask(cluster, place, "GET", "/v1/cluster", &Value::Null).1["role"].clone()
}

fn acquire(resource: &str) -> Value {
    json!({"resources": [resource], "holder": "h"})
}

#[test]
fn calls_are_passed_on_by_https_between_nodes_that_know_each_other_by_certificate() {
    let directory = TempDir::new().unwrap();
    let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let mut cluster = prepared(directory.path(), &both);
    cluster.start_node(0);
    wait_until("a writer", LIMIT, || role(&cluster, 0) == "leader");
    cluster.start_node(1);
    let (status, lease) = ask(&cluster, 1, "POST", "/v1/leases", &acquire("through"));
    assert_eq!((status, &role(&cluster, 1)), (201, &json!("follower")), "{lease}");
    // And the other way round.
    let (status, _) = ask(&cluster, 1, "POST", "/v1/cluster/step-down", &Value::Null);
    assert_eq!(status, 200);
    wait_until("another writer", LIMIT, || role(&cluster, 1) == "leader");
    let path = format!("/v1/leases/{}", lease["lease_id"].as_str().unwrap());
    let (status, seen) = ask(&cluster, 0, "GET", &path, &Value::Null);
    assert_eq!((status, &seen["fence"]), (200, &lease["fence"]), "{seen}");
}

#[test]
fn a_node_whose_certificate_is_not_good_for_callers_is_refused_and_told_why() {
    let directory = TempDir::new().unwrap();
    let mut cluster = prepared(directory.path(), &[ExtendedKeyUsagePurpose::ServerAuth]);
    // Others would refuse what it passes on, as it refuses itself.
    assert_eq!(cluster.refused_start(0), 3);
    let said = cluster.nodes[0].daemon.said();
    assert!(said.contains("cannot reach itself"), "{said}");
    assert!(said.to_lowercase().contains("alert: unsupportedcertificate"), "{said}");
}
