//! What the callers of a daemon know: everything acknowledged, and everything asked whose outcome is not known.
//!
//! Rules checked as answers come: fences rise per resource, and nobody gets a resource whose holder has not at least
//! asked to give it back.

use std::collections::BTreeMap;

use serde_json::Value;

/// An operation, known to its caller before it is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// Take a resource.
    Acquire { resource: String, holder: String },
    /// Give a lease back.
    Release { lease: String, resource: String, holder: String },
}

/// A lease that was acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) lease: String,
    pub(crate) holder: String,
    pub(crate) fence: u64,
    /// A release was sent; whether it was done may not be known.
    pub(crate) leaving: bool,
}

#[derive(Default)]
pub(crate) struct Ledger {
    /// By resource.
    pub(crate) held: BTreeMap<String, Held>,
    /// Released and acknowledged.
    pub(crate) released: Vec<String>,
    /// Sent, outcome unknown, by operation id.
    pub(crate) unknown: BTreeMap<String, Asked>,
    /// Highest fence seen, by resource.
    fences: BTreeMap<String, u64>,
    next_operation: u64,
    pub(crate) grants: u64,
    /// Outcomes that only a retry could tell.
    pub(crate) replays: u64,
}

impl Asked {
    pub(crate) fn holder(&self) -> &str {
        match self {
            Self::Acquire { holder, .. } | Self::Release { holder, .. } => holder,
        }
    }
}

impl Ledger {
    /// Writes down what is about to be sent and gives it its operation id.
    pub(crate) fn ask(&mut self, asked: Asked) -> String {
        self.next_operation += 1;
        let operation = format!("op-{}", self.next_operation);
        if let Asked::Release { resource, .. } = &asked
            && let Some(held) = self.held.get_mut(resource)
        {
            held.leaving = true;
        }
        self.unknown.insert(operation.clone(), asked);
        operation
    }

    /// A lease to give back, if this holder has one that it has not given back yet.
    pub(crate) fn to_release(&self, holder: &str) -> Option<Asked> {
        let found = self.held.iter().find(|(_, held)| held.holder == holder && !held.leaving);
        found.map(|(resource, held)| Asked::Release {
            lease: held.lease.clone(),
            resource: resource.clone(),
            holder: holder.to_owned(),
        })
    }

    /// An answer came.
    pub(crate) fn hear(&mut self, operation: &str, answer: &Heard) {
        let asked = self.unknown.remove(operation).expect("what is answered was asked");
        match (asked, answer) {
            (Asked::Acquire { resource, holder }, Heard::Lease(lease)) => {
                self.granted(resource, holder, lease)
            }
            (Asked::Acquire { .. }, Heard::Refused(code)) => {
                assert!(matches!(code.as_str(), "resource_held"), "a grant was refused with {code}");
            }
            (Asked::Release { lease, resource, .. }, Heard::Lease(answer)) => {
                assert_eq!(answer["state"], "released", "{answer}");
                if self.held.get(&resource).is_some_and(|held| held.lease == lease) {
                    self.held.remove(&resource);
                }
                self.released.push(lease);
            }
            (Asked::Release { lease, .. }, Heard::Refused(code)) => {
                panic!("the release of {lease} was refused with {code}");
            }
        }
    }

    fn granted(&mut self, resource: String, holder: String, lease: &Value) {
        let fence = lease["fence"].as_u64().unwrap();
        let id = lease["lease_id"].as_str().unwrap().to_owned();
        assert_eq!(lease["holder"], holder, "{lease}");
        if let Some(before) = self.held.get(&resource) {
            assert!(before.leaving, "{resource} was given to {lease} while held as {before:?}");
            assert!(before.fence < fence, "{before:?} before {lease}");
        }
        let highest = self.fences.entry(resource.clone()).or_default();
        assert!(*highest < fence, "the fence of {resource} was {highest} already: {lease}");
        *highest = fence;
        self.grants += 1;
        self.held.insert(resource, Held { lease: id, holder, fence, leaving: false });
    }
}

/// An answer, whatever it came over.
pub(crate) enum Heard {
    /// The lease as it is now.
    Lease(Value),
    /// The code of a refusal.
    Refused(String),
}
