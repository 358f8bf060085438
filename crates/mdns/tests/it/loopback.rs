//! What the tests on loopback have in common: a private port each, services, and waiting for conditions.

use std::net::UdpSocket;
use std::time::Duration;

use tenure_mdns::{Browse, Interface, Mdns, Options, Record, Service, Sighting, Wanted};

pub(crate) const LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A port that nobody has.
pub(crate) fn free_port() -> u16 {
    UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn start(port: u16) -> Mdns {
    Mdns::start(Options { interfaces: vec![Interface::Loopback], port }).unwrap()
}

/// A service whose host label follows from its name and port.
pub(crate) fn service(name: &str, port: u16) -> Service {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
    Service {
        service_type: "_http._tcp".to_owned(),
        subtypes: Vec::new(),
        name: name.to_owned(),
        host: format!("h-{}-{port}", plain.to_lowercase()),
        port,
        ip: None,
        txt: vec![("path".to_owned(), Some(b"/".to_vec()))],
    }
}

pub(crate) fn http() -> Wanted {
    Wanted::Type("_http._tcp".to_owned())
}

/// Waits until the condition holds; panics with `what` when it does not within the limit.
pub(crate) async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let look = async {
        while !condition() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, look).await.is_ok(), "not within {LIMIT:?}: {what}");
}

/// Waits for this key to be announced.
pub(crate) async fn wait_advertised(mdns: &Mdns, key: u128) {
    wait_until(&format!("key {key} is advertised"), || mdns.standing(key).advertised).await;
}

/// The next sighting that is meant.
pub(crate) async fn wait_for(
    browse: &mut Browse,
    what: &str,
    mut is_meant: impl FnMut(&Sighting) -> bool,
) -> Sighting {
    let look = async {
        loop {
            let sighting = browse.next().await.expect("the browse goes on");
            if is_meant(&sighting) {
                return sighting;
            }
        }
    };
    tokio::time::timeout(LIMIT, look).await.unwrap_or_else(|_| panic!("not seen within {LIMIT:?}: {what}"))
}

pub(crate) async fn wait_resolved(browse: &mut Browse, name: &str) -> Record {
    let what = format!("{name} resolved");
    let is_meant =
        |sighting: &Sighting| matches!(sighting, Sighting::Resolved(record) if record.name == name);
    match wait_for(browse, &what, is_meant).await {
        Sighting::Resolved(record) => record,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn wait_removed(browse: &mut Browse, name: &str) {
    let what = format!("{name} removed");
    let is_meant =
        |sighting: &Sighting| matches!(sighting, Sighting::Removed { name: gone, .. } if gone == name);
    wait_for(browse, &what, is_meant).await;
}
