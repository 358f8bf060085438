//! Loopback and a port of one's own: everything works among the daemons of one machine, without privileges and
//! without a network.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::{PermissionsExt, chown};

use serde_json::json;

use super::stage::{HTTP, post};
use super::streams::Stream;
use crate::daemon::Daemon;

/// A user and group that nothing on a machine belongs to.
const NOBODY: u32 = 47_121;

/// A daemon that is nobody, on a port that it shares with others on loopback.
fn start(port: u16) -> Daemon {
    let flags = ["--mdns=true", "--mdns-interface", "lo", "--mdns-port", &port.to_string()];
    let daemon = Daemon::prepared(&flags);
    let directory = daemon.path("");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
    let binary = daemon.path("tenure");
    fs::copy(env!("CARGO_BIN_EXE_tenure"), &binary).unwrap();
    let who = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
    let mut daemon =
        daemon.with_launcher(&["setpriv", &who[0], &who[1], "--clear-groups"]).with_binary(&binary);
    daemon.start_again();
    daemon
}

#[test]
fn two_daemons_on_loopback_see_each_others_services() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let daemons = [start(port), start(port)];
    let browses = [0, 1].map(|at| Stream::events(&daemons[at], "/v1/mdns/browse?type=_http._tcp"));
    let names = ["Of.the first", "of the second"];
    let registered =
        [0, 1].map(|at| post(&daemons[at], &json!({"name": names[at], "type": HTTP, "port": at + 1})));
    for browse in &browses {
        for at in [0, 1] {
            let found = browse.wait_found(names[at]);
            assert_eq!((&found["port"], &found["ip"]), (&json!(at + 1), &json!("127.0.0.1")), "{found}");
        }
    }
    for at in [0, 1] {
        let path = format!("/v1/mdns/services/{}", registered[at]["id"].as_str().unwrap());
        assert_eq!(daemons[at].http_over_socket().delete(&path).status, 200);
        for browse in &browses {
            browse.wait_removed(names[at]);
        }
    }
}
