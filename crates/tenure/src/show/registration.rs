//! Registrations: what a registrant is told, and what operators see.

use tenure_api::{AdminRegistration, DaemonStatus, Registration, Time, Txt};
use tenure_history::duration;

use super::{Now, Page, relative, seen, word};
use crate::printer::plain;
use crate::table::Table;

/// Where there is nothing.
const NONE: &str = "—";

/// What was registered, and under which name.
pub(crate) fn registered_page(registration: &Registration) -> Page {
    let mut page = Page::default();
    page.row("registered", registration.id.clone());
    page.row("name", registration.name.clone());
    page.row("type", registration.service_type.clone());
    page.row("port", registration.port.to_string());
    page.row(
        "advertised as",
        format!("{}.{}.local", registration.advertised_name, registration.service_type),
    );
    let lease = match registration.lease {
        0 => String::new(),
        secs => format!(", {} each", span(secs)),
    };
    page.row("mode", format!("{}{lease}", word(&registration.mode)));
    page.row("draining", registration.draining.then(|| "an operator drains this registration".to_owned()));
    page
}

/// One row each.
pub(crate) fn registration_table(registrations: &[AdminRegistration]) -> Table {
    let mut table = Table::new(&["ID", "NAME", "TYPE", "PORT", "MODE", "STATE", "REMAINING"]);
    for registration in registrations {
        table.row(vec![
            registration.id.clone(),
            // Two registrants of one name are told apart by the names that are advertised.
            registration.advertised_name.clone(),
            registration.service_type.clone(),
            registration.port.to_string(),
            word(&registration.mode),
            word(&registration.state),
            or_none(registration.remaining_secs.map(span)),
        ]);
    }
    table
}

/// One registration in a line, shown before the command ends it.
pub(crate) fn registration_words(registration: &AdminRegistration) -> String {
    let AdminRegistration { id, name, service_type, port, mode, state, .. } = registration;
    plain(&format!("registration {id}: {name}.{service_type}, port {port}, {}, {}", word(state), word(mode)))
}

/// Everything about one.
pub(crate) fn registration_lines(registration: &AdminRegistration, now: Now) -> Vec<String> {
    let AdminRegistration { advertised, advertised_name, service_type, .. } = registration;
    let advertised = match advertised {
        true => format!("{advertised_name}.{service_type}.local"),
        false => format!("no ({advertised_name}.{service_type}.local)"),
    };
    let (last_seen, unheard_since) = (registration.last_seen.as_ref(), registration.unheard_since.as_ref());
    let heard = seen(last_seen, unheard_since, |time| at(now, time));
    let rows = [
        ("Name", registration.name.clone()),
        ("Type", service_type.clone()),
        ("Port", registration.port.to_string()),
        ("Address", or_none(registration.ip.map(|ip| ip.to_string()))),
        ("Mode", word(&registration.mode)),
        ("State", word(&registration.state)),
        ("Session", or_none(registration.session_id.clone())),
        ("Lease", or_none(registration.lease_secs.map(span))),
        ("Remaining", or_none(registration.remaining_secs.map(span))),
        ("Grace", span(registration.grace_secs)),
        ("Registered", at(now, &registration.registered_at)),
        ("Last seen", or_none(heard)),
        ("Advertised", advertised),
        ("Lease id", format!("{}, epoch {}", registration.lease_id, registration.epoch)),
        ("Last error", or_none(registration.last_error.clone())),
    ];
    let mut lines = vec![format!("Registration {}", plain(&registration.id))];
    lines.extend(rows.into_iter().map(|(label, value)| labelled(&format!("  {label}:"), 14, &value)));
    lines.push(if registration.txt.is_empty() { labelled("  TXT:", 14, NONE) } else { "  TXT:".to_owned() });
    lines.extend(txt_words(&registration.txt).map(|entry| plain(&format!("    {entry}"))));
    lines
}

/// The daemon, and its registrations counted.
pub(crate) fn daemon_lines(status: &DaemonStatus) -> Vec<String> {
    let counts = &status.registrations;
    let mdns = status.mdns.clone().unwrap_or_else(|| "off".to_owned());
    let registrations =
        format!("{} alive, {} draining, {} permanent", counts.alive, counts.draining, counts.permanent);
    let row = |label: &str, value: String| labelled(label, 15, &value);
    vec![
        plain(&format!("Tenure v{} — running (pid {})", status.version, status.pid)),
        row("Uptime:", span(status.uptime_secs)),
        row("HTTP:", or_none(status.http.clone())),
        row("IPC:", or_none(status.ipc.clone())),
        row("mDNS:", mdns),
        String::new(),
        row("Registrations:", registrations),
    ]
}

/// `path = /`, or `flag` alone.
pub(super) fn txt_words(txt: &Txt) -> impl Iterator<Item = String> {
    txt.iter().map(|(key, value)| match value {
        Some(value) => format!("{key} = {value}"),
        None => key.clone(),
    })
}

fn labelled(label: &str, width: usize, value: &str) -> String {
    plain(&format!("{label:<width$}{value}"))
}

fn or_none(value: Option<String>) -> String {
    value.unwrap_or_else(|| NONE.to_owned())
}

/// `72s`, `2m 30s`, `2h 14m`.
fn span(secs: u64) -> String {
    match secs {
        0..120 => format!("{secs}s"),
        _ => duration(secs.saturating_mul(1_000)),
    }
}

/// `2026-02-07T22:15:00.000Z (2h 14m ago)`.
fn at(now: Now, time: &Time) -> String {
    match relative(Some(now), time) {
        Some(relative) => format!("{time} ({relative})"),
        None => time.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::{Value, json};

    fn registration(change: &[(&str, Value)]) -> AdminRegistration {
        let mut object = json!({
            "id": "a1b2c3d4", "name": "stone-golden-summit", "type": "_moss._tcp", "port": 7185,
            "mode": "session", "state": "alive", "lease_secs": null, "remaining_secs": null, "grace_secs": 30,
            "session_id": "pipe:f7e2a3c1", "registered_at": "2026-02-07T22:15:00.000Z",
            "last_seen": "2026-02-07T22:15:00.000Z", "txt": {}, "ip": null, "lease_id": "k3f9-4", "epoch": 1,
            "advertised": true, "advertised_name": "stone-golden-summit", "last_error": null,
        });
        for (key, value) in change {
            object[*key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn the_table_has_advertised_names_of_any_script_and_a_dash_where_nothing_ends() {
        let rows = [
            registration(&[]),
            registration(&[
                ("id", json!("d4e5f6a7")),
                ("name", json!("Küche 台所")),
                ("advertised_name", json!("Küche 台所")),
                ("state", json!("draining")),
                ("remaining_secs", json!(18)),
            ]),
            registration(&[
                ("id", json!("07b8c9d0")),
                ("name", json!("web")),
                ("advertised_name", json!("web (2)")),
                ("mode", json!("heartbeat")),
                ("remaining_secs", json!(4_000)),
            ]),
        ];
        expect![[r#"
            ID        NAME                 TYPE        PORT  MODE       STATE     REMAINING
            a1b2c3d4  stone-golden-summit  _moss._tcp  7185  session    alive     —
            d4e5f6a7  Küche 台所             _moss._tcp  7185  session    draining  18s
            07b8c9d0  web (2)              _moss._tcp  7185  heartbeat  alive     1h 6m"#]]
        .assert_eq(&registration_table(&rows).lines(None).join("\n"));
    }

    #[test]
    fn a_registration_that_was_not_heard_since_a_restart_says_so() {
        let restarted = "2026-02-08T00:28:00.000Z";
        let shown = registration(&[("last_seen", json!(null)), ("unheard_since", json!(restarted))]);
        let lines = registration_lines(&shown, Now::of("2026-02-08T00:29:00.000Z").unwrap());
        let expected = "  Last seen:  not since the restart or revive, 2026-02-08T00:28:00.000Z (60 s ago)";
        assert!(lines.iter().any(|line| line == expected), "{lines:#?}");
    }

    #[test]
    fn a_registration_is_told_with_times_both_ways() {
        let shown = registration(&[
            ("txt", json!({"mac": "00:80:64:C7:66:51", "flag": null, "bad": "a\u{1b}b"})),
            ("last_error", json!("no interface")),
            ("advertised", json!(false)),
        ]);
        let now = Now::of("2026-02-08T00:29:00.000Z").unwrap();
        expect![[r#"
            Registration a1b2c3d4
              Name:       stone-golden-summit
              Type:       _moss._tcp
              Port:       7185
              Address:    —
              Mode:       session
              State:      alive
              Session:    pipe:f7e2a3c1
              Lease:      —
              Remaining:  —
              Grace:      30s
              Registered: 2026-02-07T22:15:00.000Z (2h 14m ago)
              Last seen:  2026-02-07T22:15:00.000Z (2h 14m ago)
              Advertised: no (stone-golden-summit._moss._tcp.local)
              Lease id:   k3f9-4, epoch 1
              Last error: no interface
              TXT:
                bad = a�b
                flag
                mac = 00:80:64:C7:66:51"#]]
        .assert_eq(&registration_lines(&shown, now).join("\n"));
    }

    #[test]
    fn the_daemon_is_told_in_a_block() {
        let status = json!({
            "version": "0.2.0", "uptime_secs": 8_040, "platform": "linux", "pid": 4821,
            "registrations": {"alive": 3, "draining": 1, "permanent": 0, "total": 4},
            "http": "http://127.0.0.1:5641", "ipc": "/run/tenure/tenure.sock", "interfaces": ["lo"],
            "mdns": "up on lo",
        });
        expect![[r#"
            Tenure v0.2.0 — running (pid 4821)
            Uptime:        2h 14m
            HTTP:          http://127.0.0.1:5641
            IPC:           /run/tenure/tenure.sock
            mDNS:          up on lo

            Registrations: 3 alive, 1 draining, 0 permanent"#]]
        .assert_eq(&daemon_lines(&serde_json::from_value(status).unwrap()).join("\n"));
    }
}
