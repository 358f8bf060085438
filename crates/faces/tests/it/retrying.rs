//! Operation × lost answer × state afterwards, over every call there is: the list of calls is read from the source of
//! [`Call`], so that a call without a rule for its retry fails here.

use crate::daemon::{Daemon, over_http};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tenure_engine::EngineConfig;
use tenure_engine::kernel::SessionKind;
use tenure_faces::{Call, Caller, Opening, Scope, Stage};

/// They change nothing.
const LOOKS: &[&str] = &[
    "Inspect",
    "List",
    "Session",
    "Sessions",
    "Resource",
    "Resources",
    "Pool",
    "Pools",
    "Check",
    "Why",
    "Status",
    "Resolve",
    "RegistrationStatus",
    "Registrations",
    "InspectRegistration",
    "Stream",
    "Streams",
    "Polling",
    "PollingGroups",
];
/// Asked again they do no more than they did, and have no id: proofs of life count as often as they come, and the others
/// name all that they are about.
const AGAIN: &[&str] = &[
    "Heartbeat",
    "SessionHeartbeat",
    "HeartbeatRegistration",
    "HeartbeatStream",
    "Acknowledge",
    "ResetBreaker",
    "EndAll",
];
/// Between nodes alone; the last two stand for other calls.
const OF_NODES: &[&str] = &["NodeTold", "ConnectionsTold", "RegisterAt", "Under"];

/// What happens after the answer is lost and before the retry.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Since {
    Nothing,
    Ended,
    Restarted,
    EndedAndRestarted,
}

/// The variants of an enum, from its source.
fn variants(source: &str) -> Vec<&str> {
    let body = source.split("pub enum Call {").nth(1).unwrap().split("\n}").next().unwrap();
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let named = lines.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    named.map(|line| line.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap()).collect()
}

/// What each call is made by, and what must outlive it.
struct Asked {
    call: Call,
    caller: Caller,
    _connections: Vec<Opening>,
}

impl Daemon {
    async fn lease(&self, variant: &str, more: Value) -> (String, u64) {
        let mut acquire = json!({ "resources": [format!("r/{variant}")], "holder": "h", "ttl_ms": 60_000 });
        acquire.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let lease = self.done(json!({ "Acquire": acquire })).await;
        (lease["lease_id"].as_str().unwrap().to_owned(), lease["epoch"].as_u64().unwrap())
    }

    async fn session(&self) -> String {
        let open = json!({ "OpenSession": { "holder": "s", "ttl_ms": 60_000, "accepts_handover": "r/" } });
        self.done(open).await["session"].as_str().unwrap().to_owned()
    }

    async fn registration(&self, variant: &str) -> String {
        let register = json!({ "Register": { "name": variant, "type": "_http._tcp", "port": 80 } });
        self.done(register).await["registered"]["id"].as_str().unwrap().to_owned()
    }

    async fn stream(&self, variant: &str, more: Value) -> String {
        let mut start = json!({ "resources": [format!("t/{variant}")] });
        start.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let started = self.done(json!({ "StartStream": { "start": start, "operation_id": null } })).await;
        started["session_id"].as_str().unwrap().to_owned()
    }

    /// A group with one poller and one target of its own.
    async fn group(&self, variant: &str) -> String {
        let group = variant.to_lowercase();
        let session = self.session().await;
        for resource in [format!("poll/{group}/@poller/n1"), format!("poll/{group}/x")] {
            let acquire = json!({ "resources": [resource], "holder": "n1", "session": session });
            self.done(json!({ "Acquire": acquire })).await;
        }
        group
    }

    /// A call of this kind that will succeed, and everything it needs.
    async fn example(&self, variant: &str) -> Asked {
        let mut connections = Vec::new();
        let mut caller = over_http("local", Scope::Admin);
        let name = variant.to_lowercase();
        let call = match variant {
            "Acquire" => json!({ variant: { "resources": ["r/new"], "holder": "h" } }),
            "Activate" => {
                let (lease, epoch) = self.lease(variant, json!({ "reserve_ms": 60_000 })).await;
                json!({ variant: [lease, { "epoch": epoch }] })
            }
            "Release" | "Revoke" | "Drain" => {
                let (lease, epoch) = self.lease(variant, json!({})).await;
                json!({ variant: [lease, { "epoch": epoch }] })
            }
            "Amend" => {
                let (lease, epoch) = self.lease(variant, json!({})).await;
                json!({ variant: [lease, { "epoch": epoch, "attachment": 1 }] })
            }
            "Rebind" => {
                let (lease, epoch) = self.lease(variant, json!({})).await;
                json!({ variant: [lease, { "epoch": epoch, "holder": "next" }] })
            }
            "Handover" => {
                let (lease, epoch) = self.lease(variant, json!({})).await;
                json!({ variant: [lease, { "epoch": epoch, "to_session": self.session().await }] })
            }
            "Resume" => {
                let stage = Stage::alone(self.faces.clone());
                let open = || stage.open_connection(SessionKind::Connection, &caller.principal, Scope::Admin);
                let ((first, holder), (second, next)) = (open().await.unwrap(), open().await.unwrap());
                let acquire = json!({ "Acquire": { "resources": ["r/resumed"], "holder": "h" } });
                let lease = self.ask(&holder, acquire).await.unwrap()["lease_id"].clone();
                drop(first);
                while self.done(json!({ "Inspect": lease })).await["liveness"] != "draining" {
                    tokio::task::yield_now().await;
                }
                connections.push(second);
                caller = next;
                json!({ variant: [lease, { "epoch": 1 }] })
            }
            "Reclaim" => {
                let (lease, _) = self.lease(variant, json!({})).await;
                self.done(json!({ "Revoke": [lease, { "reclaim": false }] })).await;
                json!({ variant: [lease, { "force": true }] })
            }
            "Revive" => {
                let (lease, _) = self.lease(variant, json!({})).await;
                self.done(json!({ "Drain": [lease, {}] })).await;
                json!({ variant: [lease, {}] })
            }
            "OpenSession" => json!({ variant: { "holder": "h" } }),
            "CloseSession" => json!({ variant: self.session().await }),
            "DefinePool" => json!({ variant: [name, { "size": 3 }] }),
            "RemovePool" => {
                self.done(json!({ "DefinePool": [name, { "size": 1 }] })).await;
                json!({ variant: [name, { "force": false }] })
            }
            "Register" => json!({ variant: { "name": name, "type": "_http._tcp", "port": 80 } }),
            "Unregister" | "EndRegistration" | "DrainRegistration" => {
                json!({ variant: self.registration(variant).await })
            }
            "UnregisterEpoch" => json!({ variant: [self.registration(variant).await, 1] }),
            "ReviveRegistration" => {
                let id = self.registration(variant).await;
                self.done(json!({ "DrainRegistration": id })).await;
                json!({ variant: id })
            }
            "StartStream" => {
                let start = json!({ "resources": ["t/new"] });
                json!({ variant: { "start": start, "operation_id": null } })
            }
            "ActivateStream" => {
                json!({ variant: [self.stream(variant, json!({ "start_timeout": 60 })).await, {}] })
            }
            "FailStream" => json!({ variant: [self.stream(variant, json!({})).await, { "reason": "no" }] }),
            "StopStream" => json!({ variant: self.stream(variant, json!({})).await }),
            "IntendStop" => {
                let stop = json!({ "session_id": self.stream(variant, json!({})).await });
                json!({ variant: { "stop": stop, "operation_id": null } })
            }
            "MoveTarget" => {
                let body = json!({ "target": "x", "poller": "n1" });
                json!({ variant: { "group": self.group(variant).await, "body": body, "operation_id": null } })
            }
            "CordonPoller" | "UncordonPoller" => {
                let body = json!({ "poller": "n1" });
                let group = self.group(variant).await;
                let asked = json!({ "group": group, "body": body, "operation_id": null });
                if variant == "UncordonPoller" {
                    self.done(json!({ "CordonPoller": asked })).await;
                }
                json!({ variant: asked })
            }
            _ => panic!("Call::{variant} needs an example here, or a rule for its retry"),
        };
        Asked { call: serde_json::from_value(call).unwrap(), caller, _connections: connections }
    }

    /// Ends everything that can be ended.
    async fn end_everything(&self) {
        self.done(json!("EndAll")).await;
        let sessions = self.done(json!({ "Sessions": { "limit": 1000, "cursor": null } })).await;
        for session in sessions["sessions"].as_array().unwrap() {
            // One that belongs to an open connection stays.
            let _ = self
                .ask(&over_http("local", Scope::Admin), json!({ "CloseSession": session["session"] }))
                .await;
        }
        for pool in self.done(json!("Pools")).await["pools"].as_array().unwrap() {
            self.done(json!({ "RemovePool": [pool["name"], { "force": true }] })).await;
        }
    }
}

#[tokio::test]
async fn a_retry_is_answered_by_its_first_outcome_whatever_the_call_and_whatever_happened_since() {
    let exempt: Vec<&str> = [LOOKS, AGAIN, OF_NODES].concat();
    let all = variants(include_str!("../../src/call.rs"));
    assert!(all.len() > 50 && exempt.iter().all(|name| all.contains(name)), "{all:?}");
    let mut wrong = Vec::new();
    for since in [Since::Nothing, Since::Ended, Since::Restarted, Since::EndedAndRestarted] {
        let mut daemon = Daemon::start(EngineConfig::default()).await;
        let mut asked = BTreeMap::new();
        for variant in all.iter().copied().filter(|name| !exempt.contains(name)) {
            let Asked { mut call, caller, _connections } = daemon.example(variant).await;
            assert!(call.set_operation_id(&format!("op-{variant}")), "Call::{variant} takes no operation id");
            let first = daemon.faces.dispatch(&caller, call.clone()).await;
            let first = first.unwrap_or_else(|error| panic!("Call::{variant}: {error}"));
            asked.insert(variant, (call, caller, core::mem::discriminant(&first), _connections));
        }
        if matches!(since, Since::Ended | Since::EndedAndRestarted) {
            daemon.end_everything().await;
        }
        if matches!(since, Since::Restarted | Since::EndedAndRestarted) {
            daemon = daemon.restart().await;
        }
        for (variant, (call, caller, kind, _connections)) in asked {
            match daemon.faces.dispatch(&caller, call).await {
                Ok(again) if core::mem::discriminant(&again) == kind => {}
                // A registrant has to know that it must register anew.
                Err(error)
                    if variant == "Register" && error.message.contains("of this operation has ended") => {}
                again => wrong.push(format!("Call::{variant}, {since:?}: {again:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
