//! What a node has to be before it serves: heard at its own URL, known by its own secret, told apart by its machine.

use super::harness::{Cluster, LIMIT};
use crate::daemon::Daemon;
use crate::run_support::wait_until;

/// A node of its own beside those of a cluster, listening where node 2 would.
fn beside(cluster: &Cluster, more: &[&str]) -> Daemon {
    let address = cluster.nodes[2].address;
    let (bind, port) = (address.ip().to_string(), address.port().to_string());
    let log = format!("etcd://{}/test", cluster.members[0].address);
    let flags = ["--bind", &bind, "--port", &port, "--log", &log, "--node", "n"];
    Daemon::prepared(&[&flags[..], more].concat())
}

// The README printed such a command: bound to 127.0.0.1, advertised elsewhere. When that node wrote, every other answered
// `not_leader` after 12 s.
#[test]
fn a_node_that_does_not_hear_itself_where_it_is_advertised_is_refused() {
    let mut cluster = Cluster::on_one_member_alone(&[], &[]);
    cluster.start_node(0);
    cluster.wait_until_whole();
    let elsewhere = format!("http://{}", cluster.nodes[1].address);
    let anothers = format!("http://{}", cluster.nodes[0].address);
    for (advertise, heard) in
        [(&elsewhere, "Connection refused"), (&anothers, "another process answers there")]
    {
        let mut node = beside(&cluster, &["--advertise", advertise]);
        node.spawn();
        let (code, said) = (node.code(), node.said());
        assert_eq!(code, 3, "{said}");
        let listens = cluster.nodes[2].address.to_string();
        for words in ["does not hear itself at --advertise", advertise, heard, &listens] {
            assert!(said.contains(words), "{words:?} is not said: {said}");
        }
        assert!(!node.socket().exists(), "it leaves its socket behind");
    }
    let own = format!("http://{}", cluster.nodes[2].address);
    let mut node = beside(&cluster, &["--advertise", &own]);
    node.start_again();
    wait_until("its first words", LIMIT, || node.said().contains("single member"));
    assert!(!node.said().contains("in the clear"), "nothing leaves the machine: {}", node.said());
}

// Given and accepted, it protected nothing.
#[test]
fn a_password_for_an_etcd_that_asks_nobody_is_warned_of() {
    let cluster = Cluster::on_one_member_alone(&[], &[]);
    let own = format!("http://{}", cluster.nodes[2].address);
    let user = ["--etcd-user", "tenure", "--etcd-password-file", "DIR/password"];
    let mut node = beside(&cluster, &[&["--advertise", &own][..], &user].concat());
    let password = node.path("password");
    std::fs::write(&password, "sesame\n").unwrap();
    std::fs::set_permissions(&password, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    node.start_again();
    wait_until("a warning", LIMIT, || node.said().contains("etcdctl auth enable"));
}
