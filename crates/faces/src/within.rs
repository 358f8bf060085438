//! Scopes per prefix: which resource names a caller may take, and which names a call takes. Pure.
//!
//! Invariant: a grant names its resources and pools in its call, so a caller that is checked here holds nothing outside
//! its names but what it took before they were narrowed. That it may go on with and give back.

use crate::call::Call;
use crate::registrations::{Described, resource};
use crate::streams::slots;
use core::fmt;
use std::borrow::Cow;
use std::sync::Arc;
use tenure_api::{self as api, Error, ErrorCode};

/// Names of resources and pools: exact ones, and all that begin with a prefix (`build/*`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Within(Arc<[String]>);

/// What a call takes, or consents to take.
#[derive(PartialEq, Eq, Debug)]
enum Takes<'a> {
    Nothing,
    /// These resources and pools.
    Names(Vec<Cow<'a, str>>),
    /// Whatever begins so.
    Prefix(&'a str),
}

impl Within {
    /// Reads names and prefixes that are separated by commas.
    ///
    /// # Errors
    /// What is wrong with them, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let patterns: Vec<String> = text.split(',').map(str::to_owned).collect();
        for pattern in &patterns {
            let name = pattern.strip_suffix('*').unwrap_or(pattern);
            if name.is_empty() {
                return Err("a prefix has at least one character, as in hold:build/*".to_owned());
            }
            if name.contains('*') || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
                return Err("a prefix has one * at its end, as in hold:build/*, and no spaces".to_owned());
            }
        }
        Ok(Self(patterns.into()))
    }

    /// The names and prefixes as they are written.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.0
    }

    fn allows(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        })
    }

    /// Whether every name that begins so is allowed.
    fn allows_prefix(&self, prefix: &str) -> bool {
        self.0
            .iter()
            .filter_map(|pattern| pattern.strip_suffix('*'))
            .any(|allowed| prefix.starts_with(allowed))
    }

    /// Refuses a call that takes something else. A session of the third application takes slots of the default pool
    /// where it names none.
    pub(crate) fn check(&self, call: &Call, default_pool: &str) -> Result<(), Error> {
        let outside = match Takes::of(call, default_pool) {
            Takes::Nothing => None,
            Takes::Names(names) => names.into_iter().find(|name| !self.allows(name)),
            Takes::Prefix(prefix) => (!self.allows_prefix(prefix)).then_some(Cow::Borrowed(prefix)),
        };
        let Some(outside) = outside else { return Ok(()) };
        let message = format!("{outside:?} is outside the prefixes of these credentials: {self}");
        let prefixes: Vec<serde_json::Value> = self.0.iter().map(|pattern| pattern.as_str().into()).collect();
        Err(Error::new(ErrorCode::OutsideScope, message)
            .with("resource", outside.into_owned())
            .with("prefixes", prefixes))
    }
}

/// As it stands in a token file.
impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

impl<'a> Takes<'a> {
    /// Every call is named, so that a new one is thought of here.
    fn of(call: &'a Call, default_pool: &'a str) -> Self {
        match call {
            Call::Acquire(acquire) => {
                let names = acquire.resources.iter().chain(acquire.pools.keys());
                Self::Names(names.map(|name| Cow::Borrowed(name.as_str())).collect())
            }
            Call::StartStream { start, .. } => Self::of_stream(start, default_pool),
            Call::Register(register) | Call::RegisterAt(_, register) => Self::of_registration(register),
            // Leases of other principals may be handed over to this session.
            Call::OpenSession(api::OpenSession { accepts_handover: Some(prefix), .. }) => {
                Self::Prefix(prefix)
            }
            Call::Under { call, .. } => Self::of(call, default_pool),
            // Nothing is taken: reads, what is done with a lease of one's own, and what needs scope admin, whose names
            // are all names.
            Call::OpenSession(api::OpenSession { accepts_handover: None, .. })
            | Call::Inspect(_)
            | Call::List(_)
            | Call::Activate(..)
            | Call::Heartbeat(..)
            | Call::Release(..)
            | Call::Acknowledge(..)
            | Call::Amend(..)
            | Call::Rebind(..)
            | Call::Handover(..)
            | Call::Resume(..)
            | Call::Revoke(..)
            | Call::Reclaim(..)
            | Call::Drain(..)
            | Call::Revive(..)
            | Call::Session(_)
            | Call::Sessions { .. }
            | Call::SessionHeartbeat(..)
            | Call::CloseSession(_)
            | Call::Resource(_)
            | Call::Resources(_)
            | Call::DefinePool(..)
            | Call::Pool(_)
            | Call::Pools
            | Call::RemovePool(..)
            | Call::Check(_)
            | Call::Why(_)
            | Call::Status
            | Call::ResetBreaker
            | Call::EndAll
            | Call::NodeTold(_)
            | Call::ConnectionsTold(_)
            | Call::Unregister(_)
            | Call::UnregisterEpoch(..)
            | Call::HeartbeatRegistration(..)
            | Call::Resolve(_)
            | Call::RegistrationStatus
            | Call::Registrations
            | Call::InspectRegistration(_)
            | Call::EndRegistration(_)
            | Call::DrainRegistration(_)
            | Call::ReviveRegistration(_)
            | Call::Stream(_)
            | Call::Streams(_)
            | Call::HeartbeatStream(..)
            | Call::ActivateStream(..)
            | Call::FailStream(..)
            | Call::StopStream(_)
            | Call::IntendStop { .. }
            | Call::Polling(_)
            | Call::PollingGroups
            | Call::MoveTarget { .. }
            | Call::CordonPoller { .. }
            | Call::UncordonPoller { .. } => Self::Nothing,
        }
    }

    fn of_stream(start: &'a api::SlotSessionStart, default_pool: &str) -> Self {
        let mut names: Vec<Cow<'a, str>> =
            start.resources.iter().map(|name| Cow::Borrowed(name.as_str())).collect();
        // A count that is refused later takes nothing.
        if let Ok(Some((pool, _))) = slots(start, default_pool) {
            names.push(Cow::Owned(pool.to_string()));
        }
        Self::Names(names)
    }

    /// Every name that the service may get. One that is not acceptable is refused later and takes nothing.
    fn of_registration(register: &api::Register) -> Self {
        let Ok(described) = Described::check(register) else { return Self::Nothing };
        let names = described.variants().map(|name| resource(&described.service_type, &name));
        Self::Names(names.map(Cow::Owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn within(text: &str) -> Within {
        Within::parse(text).unwrap()
    }

    fn acquire(body: serde_json::Value) -> Call {
        Call::Acquire(Box::new(serde_json::from_value(body).unwrap()))
    }

    fn stream(body: serde_json::Value) -> Call {
        Call::StartStream { start: Box::new(serde_json::from_value(body).unwrap()), operation_id: None }
    }

    fn register(name: &str) -> Call {
        let body = json!({"name": name, "type": "_http._tcp", "port": 80});
        Call::Register(Box::new(serde_json::from_value(body).unwrap()))
    }

    fn session(accepts: Option<&str>) -> Call {
        Call::OpenSession(api::OpenSession {
            holder: "h".to_owned(),
            accepts_handover: accepts.map(str::to_owned),
            ..api::OpenSession::default()
        })
    }

    #[test]
    fn a_name_is_allowed_exactly_or_by_its_beginning() {
        let names = within("build/*,gpu");
        for allowed in ["build/", "build/x", "build/x/y", "gpu"] {
            assert!(names.allows(allowed), "{allowed}");
        }
        for other in ["build", "builds/x", "gpu/0", "gp", "Build/x", "", "x/build/y"] {
            assert!(!names.allows(other), "{other}");
        }
        assert!(names.allows_prefix("build/") && names.allows_prefix("build/x"));
        assert!(!names.allows_prefix("b") && !names.allows_prefix("build") && !names.allows_prefix("gpu"));
        assert_eq!(names.to_string(), "build/*,gpu");
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        for text in ["", "*", "a,,b", "a,", ",a", "a*b", "a**", "*/x", "a b", "a,*", "a\u{7}"] {
            assert!(Within::parse(text).is_err(), "{text:?}");
        }
        for text in ["a", "a*", "mdns/_http._tcp/*", "a*,b*", "ä/*"] {
            assert!(Within::parse(text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn every_call_that_takes_something_is_checked_with_all_it_takes() {
        let calls: [(Call, &[&str]); 13] = [
            (acquire(json!({"resources": ["a"], "holder": "h"})), &["a"]),
            (acquire(json!({"resources": ["a", "b"], "holder": "h"})), &["a", "b"]),
            (acquire(json!({"pools": {"p": 1}, "holder": "h"})), &["p"]),
            (
                acquire(json!({"resources": ["a"], "pools": {"p": 1, "q": 2}, "holder": "h"})),
                &["a", "p", "q"],
            ),
            (acquire(json!({"resources": ["poll/g/t"], "holder": "h", "session": "s:1"})), &["poll/g/t"]),
            (stream(json!({})), &["usual"]),
            (stream(json!({"count": 2})), &["usual"]),
            (stream(json!({"pool": "p"})), &["p"]),
            (stream(json!({"resources": ["a"]})), &["a"]),
            (stream(json!({"resources": ["a"], "count": 1})), &["a", "usual"]),
            (stream(json!({"resources": ["a"], "pool": "p"})), &["a", "p"]),
            (register("app"), &["mdns/_http._tcp/app"]),
            (session(Some("a/")), &["a/"]),
        ];
        for (call, taken) in calls {
            let all = within(&taken.iter().map(|name| format!("{name}*")).collect::<Vec<_>>().join(","));
            assert_eq!(all.check(&call, "usual"), Ok(()), "{call:?}");
            for missing in taken {
                let rest: Vec<String> =
                    taken.iter().filter(|name| *name != missing).map(|name| format!("{name}*")).collect();
                let rest = within(&[rest, vec!["elsewhere/*".to_owned()]].concat().join(","));
                let error = rest.check(&call, "usual").unwrap_err();
                assert_eq!(error.code, ErrorCode::OutsideScope, "{call:?}");
                assert_eq!(error.details["resource"], *missing, "{call:?}");
                assert_eq!(error.details["prefixes"].as_array().unwrap().len(), taken.len(), "{call:?}");
            }
        }
    }

    #[test]
    fn a_service_may_get_any_of_its_names() {
        let exact = within("mdns/_http._tcp/app");
        let error = exact.check(&register("app"), "usual").unwrap_err();
        assert_eq!(error.code, ErrorCode::OutsideScope, "it could become app (2)");
    }

    #[test]
    fn what_takes_nothing_is_not_looked_at() {
        let none = within("none");
        assert_eq!(none.check(&session(None), "usual"), Ok(()));
        assert_eq!(
            none.check(&Call::Release("0000-1".to_owned(), api::HolderCall::default()), "usual"),
            Ok(())
        );
        assert_eq!(none.check(&Call::Status, "usual"), Ok(()));
    }
}
