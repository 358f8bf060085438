//! What is seen on the network, a line each; and one service in full.

use std::net::IpAddr;

use tenure_api::{Address, Browsed, DiscoveryEvent, ServiceRecord};

use super::registration::txt_words;
use super::{Page, word};
use crate::printer::plain;

/// The type whose instances are types.
const TYPES_TYPE: &str = "_services._dns-sd._udp";

/// What a browse says.
pub(crate) fn browsed_line(browsed: &Browsed) -> String {
    match browsed {
        Browsed::Found { found } => line("found", found),
        Browsed::Seen(event) => discovery_line(event),
    }
}

/// What a subscription says.
pub(crate) fn discovery_line(event: &DiscoveryEvent) -> String {
    line(&word(&event.event), &event.service)
}

/// One service in full.
pub(crate) fn service_page(service: &ServiceRecord) -> Page {
    let mut page = Page::default();
    page.row("name", service.name.clone());
    page.row("type", service.service_type.clone());
    page.row("host", service.host.clone());
    let addresses: Vec<String> = service.addresses.iter().map(ToString::to_string).collect();
    page.row("addresses", addresses.join(", "));
    page.row("port", service.port.map(|port| port.to_string()));
    page.row("txt", entries(service));
    page
}

fn line(what: &str, service: &ServiceRecord) -> String {
    let ServiceRecord { name, service_type, .. } = service;
    if service_type == TYPES_TYPE {
        return plain(&format!("{what:<8}  {name}"));
    }
    let parts = [place(service), entries(service)];
    let parts: String =
        parts.iter().filter(|part| !part.is_empty()).map(|part| format!("  {part}")).collect();
    plain(&format!("{what:<8}  {name}.{service_type}{parts}"))
}

/// `192.0.2.7:80 (host.local)`, or as much of it as is known.
fn place(service: &ServiceRecord) -> String {
    let socket = |ip: &Address, port: u16| match ip.ip {
        IpAddr::V4(_) => format!("{ip}:{port}"),
        IpAddr::V6(_) => format!("[{ip}]:{port}"),
    };
    match (&service.ip, &service.host, service.port) {
        (Some(ip), Some(host), Some(port)) => format!("{} ({host})", socket(ip, port)),
        (Some(ip), None, Some(port)) => socket(ip, port),
        (None, Some(host), Some(port)) => format!("{host}:{port}"),
        (_, _, None) | (None, None, _) => String::new(),
    }
}

fn entries(service: &ServiceRecord) -> String {
    let raw = service.txt_base64.iter().map(|(key, value)| format!("{key} = base64:{value}"));
    let all: Vec<String> = txt_words(&service.txt).chain(raw).collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    #[test]
    fn discovery_events_are_shown_as_far_as_they_are_known() {
        let all = json!([
            {"found": {
                "name": "Büro 1.2", "type": "_http._tcp", "host": "a.local", "ip": "192.0.2.7", "port": 80,
                "addresses": ["192.0.2.7", "2001:db8::1"], "txt": {"flag": null, "path": "/"},
                "txt_base64": {"raw": "/w=="},
            }},
            {"found": {"name": "b", "type": "_http._tcp", "host": "b.local", "port": 81}},
            {"found": {"name": "c", "type": "_http._tcp", "ip": "2001:db8::1", "port": 82}},
            {"found": {"name": "_http._tcp", "type": "_services._dns-sd._udp"}},
            {"event": "found", "service": {"name": "d", "type": "_http._tcp"}},
            {"event": "removed", "service": {"name": "e\u{1b}", "type": "_http._tcp"}},
        ]);
        let all: Vec<Browsed> = serde_json::from_value(all).unwrap();
        let lines: Vec<String> = all.iter().map(browsed_line).collect();
        expect![[r#"
            found     Büro 1.2._http._tcp  192.0.2.7:80 (a.local)  flag, path = /, raw = base64:/w==
            found     b._http._tcp  b.local:81
            found     c._http._tcp  [2001:db8::1]:82
            found     _http._tcp
            found     d._http._tcp
            removed   e�._http._tcp"#]]
        .assert_eq(&lines.join("\n"));
    }
}
