//! Ways to ask for registrations and to look at them, shared by the tests of this directory.

use serde_json::{Value, json};

use crate::daemon::LIMIT;
use crate::raw_http::Answered;
use crate::run_support::wait_until;
use crate::wire::daemon::Served;
use crate::wire::http::{Answer, Ask};
use crate::wire::lines::Lines;

/// Every grace and the lease over HTTP as short as they can be and still be seen.
pub(crate) const SHORT: &[&str] = &[
    "--mdns-socket-grace",
    "1s",
    "--mdns-stdin-grace",
    "1s",
    "--mdns-http-grace",
    "1s",
    "--mdns-http-lease",
    "1s",
];

/// Whoever goes is gone at once.
pub(crate) const NO_GRACE: &[&str] =
    &["--mdns-socket-grace", "0s", "--mdns-stdin-grace", "0s", "--mdns-http-grace", "0s"];

/// A daemon whose log is written for people, as it is on a terminal.
#[track_caller]
pub(crate) fn started() -> Served {
    started_with(&[])
}

/// The same with more flags.
#[track_caller]
pub(crate) fn started_with(flags: &[&str]) -> Served {
    let own: &[&str] = if flags.contains(&"--log-format") { &[] } else { &["--log-format", "text"] };
    Served::start_with(&[own, flags].concat())
}

/// What asks for a service of this name.
pub(crate) fn service(name: &str) -> Value {
    json!({"name": name, "type": "_http._tcp", "port": 8080})
}

/// The same with other fields.
pub(crate) fn service_with(name: &str, fields: Value) -> Value {
    let mut service = service(name);
    for (key, value) in fields.as_object().unwrap() {
        service[key] = value.clone();
    }
    service
}

/// The id of a registration, however it is shown.
#[track_caller]
pub(crate) fn id(registration: &Value) -> &str {
    registration["id"].as_str().unwrap_or_else(|| panic!("{registration}"))
}

/// Eight hexadecimal digits in lower case.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Registers over lines.
pub(crate) trait Registrant {
    /// Registers a service; gives the registration.
    #[track_caller]
    fn register(&mut self, service: Value) -> Value;
}

impl Registrant for Lines {
    fn register(&mut self, service: Value) -> Value {
        self.good(json!({ "register": service }), "registered")
    }
}

/// What is asked about registrations over HTTP.
pub(crate) trait Registry {
    /// Registers a service; gives the registration.
    #[track_caller]
    fn register(&self, service: Value) -> Value;
    /// Asks for a service that may be refused.
    #[track_caller]
    fn try_register(&self, service: Value) -> Answered;
    #[track_caller]
    fn heartbeat(&self, registration: &Value, body: Value) -> Answered;
    #[track_caller]
    fn unregister(&self, registration: &Value) -> Answered;
    /// `drain` or `revive`.
    #[track_caller]
    fn steer(&self, registration: &Value, call: &str) -> Answered;
    /// Ends it as an operator does.
    #[track_caller]
    fn end(&self, registration: &Value) -> Answered;
    /// As an operator sees it, refusals too.
    #[track_caller]
    fn look(&self, registration: &Value) -> Answered;
    /// As an operator sees it.
    #[track_caller]
    fn seen(&self, registration: &Value) -> Value;
    /// Its lease, as the native calls show it.
    #[track_caller]
    fn lease_of(&self, registration: &Value) -> Value;
    /// Waits until the lease with this view is over: the goodbye was said, the name is free.
    #[track_caller]
    fn until_reclaimed(&self, lease: &Value);
    /// `alive`, `draining` or `gone`.
    #[track_caller]
    fn state(&self, registration: &Value) -> String;
    /// Waits for a state.
    #[track_caller]
    fn until(&self, registration: &Value, state: &str);
    /// Every registration.
    #[track_caller]
    fn all(&self) -> Vec<Value>;
    /// Registrations, counted.
    #[track_caller]
    fn counts(&self) -> Value;
    /// What the log says of its end.
    fn ends_told(&self, registration: &Value) -> Vec<String>;
    /// Waits for the end and the one line that tells it.
    #[track_caller]
    fn until_told(&self, registration: &Value, reason: &str) -> String;
}

impl Registry for Served {
    fn register(&self, service: Value) -> Value {
        let answered = self.try_register(service);
        assert_eq!(answered.status, 201, "{answered:?}");
        answered.good()["registered"].clone()
    }

    fn try_register(&self, service: Value) -> Answered {
        self.http().json("POST", "/v1/mdns/services", service)
    }

    fn heartbeat(&self, registration: &Value, body: Value) -> Answered {
        self.http().json("PUT", &format!("/v1/mdns/services/{}/heartbeat", id(registration)), body)
    }

    fn unregister(&self, registration: &Value) -> Answered {
        self.http().json("DELETE", &format!("/v1/mdns/services/{}", id(registration)), Value::Null)
    }

    fn steer(&self, registration: &Value, call: &str) -> Answered {
        let path = format!("/v1/mdns/admin/registrations/{}/{call}", id(registration));
        self.http().json("POST", &path, Value::Null)
    }

    fn end(&self, registration: &Value) -> Answered {
        self.http().json("DELETE", &format!("/v1/mdns/admin/registrations/{}", id(registration)), Value::Null)
    }

    fn look(&self, registration: &Value) -> Answered {
        self.http().json("GET", &format!("/v1/mdns/admin/registrations/{}", id(registration)), Value::Null)
    }

    fn seen(&self, registration: &Value) -> Value {
        self.look(registration).good()
    }

    fn lease_of(&self, registration: &Value) -> Value {
        self.get(&format!("/v1/leases/{}", self.seen(registration)["lease_id"].as_str().unwrap()))
    }

    fn until_reclaimed(&self, lease: &Value) {
        wait_until(&format!("the reclaim of {lease}"), LIMIT, || self.inspect(lease)["state"] == "revoked");
    }

    fn state(&self, registration: &Value) -> String {
        let answered = self.look(registration);
        if answered.status == 404 {
            answered.refused("not_found");
            return "gone".to_owned();
        }
        answered.good()["state"].as_str().unwrap().to_owned()
    }

    fn until(&self, registration: &Value, state: &str) {
        let mut seen = String::new();
        wait_until(&format!("{registration} {state}"), LIMIT, || {
            seen = self.state(registration);
            assert!(seen != "gone" || state == "gone", "it is gone, not {state}: {registration}");
            seen == state
        });
    }

    fn all(&self) -> Vec<Value> {
        let all = self.http().json("GET", "/v1/mdns/admin/registrations", Value::Null).good();
        all.as_array().unwrap_or_else(|| panic!("no bare array: {all}")).clone()
    }

    fn counts(&self) -> Value {
        self.http().json("GET", "/v1/mdns/admin/status", Value::Null).good()["registrations"].clone()
    }

    fn ends_told(&self, registration: &Value) -> Vec<String> {
        let wanted = format!("id=\"{}\"", id(registration));
        let is_end = |line: &&str| line.contains("Service unregistered: ") && line.contains(&wanted);
        self.said().lines().filter(is_end).map(str::to_owned).collect()
    }

    fn until_told(&self, registration: &Value, reason: &str) -> String {
        wait_until(&format!("the end of {registration}"), LIMIT, || !self.ends_told(registration).is_empty());
        let told = self.ends_told(registration);
        assert_eq!(told.len(), 1, "{told:?}");
        let name = registration["name"].as_str().unwrap();
        let words =
            format!("Service unregistered: name=\"{name}\" id=\"{}\" reason={reason}", id(registration));
        let kept = registration["mode"] == "session";
        let words = if kept { format!("{words} session=") } else { words };
        assert!(told[0].contains(&words), "{told:?} does not say {words}");
        told[0].clone()
    }
}
