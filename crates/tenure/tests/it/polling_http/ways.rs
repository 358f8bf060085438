//! A poller by hand, and how a group is looked at.

use serde_json::{Value, json};

use crate::daemon::{Daemon, LIMIT};
use crate::raw_http::Answered;
use crate::run_support::wait_until;

pub(crate) const GROUP: &str = "web";

/// A ttl that a test can wait for.
pub(crate) const SHORT_MS: u64 = 1_500;
/// A ttl that no test sees the end of.
pub(crate) const LONG_MS: u64 = 120_000;

/// A poller, kept by a session of its own.
pub(crate) struct ByHand {
    pub(crate) instance: String,
    pub(crate) name: String,
    pub(crate) session: String,
    membership: Value,
    weight: u32,
    is_fixed: bool,
}

impl ByHand {
    /// Joins under a name that it would come back with.
    #[track_caller]
    pub(crate) fn join(daemon: &Daemon, name: &str, ttl_ms: u64) -> Self {
        Self::enter(daemon, &format!("{name}~1"), name, ttl_ms, 1, true)
    }

    /// Joins under a name that was drawn for this run.
    #[track_caller]
    pub(crate) fn join_drawn(daemon: &Daemon, name: &str, ttl_ms: u64) -> Self {
        Self::enter(daemon, name, name, ttl_ms, 1, false)
    }

    #[track_caller]
    pub(crate) fn enter(
        daemon: &Daemon,
        instance: &str,
        name: &str,
        ttl_ms: u64,
        weight: u32,
        is_fixed: bool,
    ) -> Self {
        let session = session(daemon, instance, ttl_ms);
        let mut poller = Self {
            instance: instance.to_owned(),
            name: name.to_owned(),
            session,
            membership: Value::Null,
            weight,
            is_fixed,
        };
        poller.membership = daemon.acquire(&json!({
            "resources": [format!("poll/{GROUP}/@poller/{name}")],
            "holder": instance,
            "session": poller.session,
            "attachment": poller.facts("online"),
        }));
        poller
    }

    fn facts(&self, status: &str) -> Value {
        let (instance, weight, fixed_name) = (&self.instance, self.weight, self.is_fixed);
        json!({"instance": instance, "weight": weight, "status": status, "fixed_name": fixed_name})
    }

    #[track_caller]
    pub(crate) fn try_take(&self, daemon: &Daemon, target: &str) -> Answered {
        let resource = format!("poll/{GROUP}/{target}");
        let body = json!({"resources": [resource], "holder": self.instance, "session": self.session});
        daemon.post("/v1/leases", &body)
    }

    /// Takes a target; gives its lease.
    #[track_caller]
    pub(crate) fn take(&self, daemon: &Daemon, target: &str) -> Value {
        let answered = self.try_take(daemon, target);
        assert_eq!(answered.status, 201, "{answered:?}");
        answered.json()
    }

    /// Tells the others how it stands.
    #[track_caller]
    pub(crate) fn tell(&self, daemon: &Daemon, status: &str) {
        let body = json!({"epoch": self.membership["epoch"], "attachment": self.facts(status)});
        of_lease(daemon, &self.membership, "amend", &body);
    }

    /// Reports which targets nobody holds and which fail.
    #[track_caller]
    pub(crate) fn report(&self, daemon: &Daemon, unowned: &[&str], failing: &[&str]) {
        let mut facts = self.facts("online");
        let all = |names: &[&str]| json!({"total": names.len(), "names": names});
        facts["report"] = json!({"unowned": all(unowned), "failing": all(failing)});
        let body = json!({"epoch": self.membership["epoch"], "attachment": facts});
        of_lease(daemon, &self.membership, "amend", &body);
    }

    #[track_caller]
    pub(crate) fn beat(&self, daemon: &Daemon) {
        let answered = daemon.post(&format!("/v1/sessions/{}/heartbeat", self.session), &json!({}));
        assert_eq!(answered.status, 200, "{answered:?}");
    }

    /// Ends its session, and with that all it has.
    #[track_caller]
    pub(crate) fn close(&self, daemon: &Daemon) {
        let answered = daemon.http().delete(&format!("/v1/sessions/{}", self.session));
        assert_eq!(answered.status, 200, "{answered:?}");
    }

    /// Goes, to be back within the window: what it has is kept by nobody meanwhile.
    #[track_caller]
    pub(crate) fn go_away(&self, daemon: &Daemon, targets: &[Value], window_ms: u64) -> String {
        let away = session(daemon, &format!("{}~absent", self.name), window_ms);
        for lease in targets {
            hand_over(daemon, lease, &away);
        }
        self.tell(daemon, "absent");
        hand_over(daemon, &self.membership, &away);
        away
    }
}

#[track_caller]
fn session(daemon: &Daemon, holder: &str, ttl_ms: u64) -> String {
    let opened = daemon.post("/v1/sessions", &json!({"holder": holder, "ttl_ms": ttl_ms, "grace_ms": 0}));
    assert_eq!(opened.status, 201, "{opened:?}");
    opened.json()["session"].as_str().unwrap().to_owned()
}

/// Asks something of a lease; it has to be done.
#[track_caller]
pub(crate) fn of_lease(daemon: &Daemon, lease: &Value, verb: &str, body: &Value) -> Value {
    let path = format!("/v1/leases/{}/{verb}", lease["lease_id"].as_str().unwrap());
    let answered = daemon.post(&path, body);
    assert_eq!(answered.status, 200, "{verb}: {answered:?}");
    answered.json()
}

/// Gives a lease to another session; gives the lease after that.
#[track_caller]
pub(crate) fn hand_over(daemon: &Daemon, lease: &Value, to_session: &str) -> Value {
    of_lease(daemon, lease, "handover", &json!({"epoch": lease["epoch"], "to_session": to_session}))
}

/// Lets go of a lease, saying why.
#[track_caller]
pub(crate) fn let_go(daemon: &Daemon, lease: &Value, why: &str) {
    of_lease(daemon, lease, "release", &json!({"epoch": lease["epoch"], "reason": why}));
}

/// The group.
#[track_caller]
pub(crate) fn view(daemon: &Daemon) -> Value {
    let answered = daemon.get(&format!("/v1/polling/{GROUP}"));
    assert_eq!(answered.status, 200, "{answered:?}");
    answered.json()
}

/// Waits until the group looks as it should.
#[track_caller]
pub(crate) fn until(daemon: &Daemon, what: &str, mut is_so: impl FnMut(&Value) -> bool) -> Value {
    let mut seen = Value::Null;
    wait_until(what, LIMIT, || {
        seen = view(daemon);
        is_so(&seen)
    });
    seen
}

/// What one poller is shown as.
#[track_caller]
pub(crate) fn node<'a>(view: &'a Value, instance: &str) -> &'a Value {
    find_node(view, instance).unwrap_or_else(|| panic!("no {instance}: {view}"))
}

pub(crate) fn find_node<'a>(view: &'a Value, instance: &str) -> Option<&'a Value> {
    view["live_nodes"].as_array().unwrap().iter().find(|node| node["instance_id"] == instance)
}

/// What a target that somebody has is shown as.
#[track_caller]
pub(crate) fn target<'a>(view: &'a Value, name: &str) -> &'a Value {
    find_target(view, name).unwrap_or_else(|| panic!("nobody has {name}: {view}"))
}

pub(crate) fn find_target<'a>(view: &'a Value, name: &str) -> Option<&'a Value> {
    let nodes = view["live_nodes"].as_array().unwrap().iter();
    nodes.flat_map(|node| node["owned_targets"].as_array().unwrap()).find(|target| target["target"] == name)
}

/// Targets of a poller with their states, in the order in which they are shown.
#[track_caller]
pub(crate) fn owned(view: &Value, instance: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let targets = node(view, instance)["owned_targets"].as_array().unwrap();
    targets.iter().map(|target| (text(&target["target"]), text(&target["state"]))).collect()
}

/// What nobody has.
pub(crate) fn unowned(view: &Value) -> Vec<&str> {
    view["unowned_targets"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

/// What was polled last in a group without pollers.
pub(crate) fn abandoned(view: &Value) -> Vec<&str> {
    view["abandoned"].as_object().unwrap().keys().map(String::as_str).collect()
}

/// Says something to the group as an operator.
#[track_caller]
pub(crate) fn steer(daemon: &Daemon, verb: &str, body: &Value) -> Answered {
    daemon.post(&format!("/v1/polling/{GROUP}/{verb}"), body)
}

/// The same; it has to be done.
#[track_caller]
pub(crate) fn steered(daemon: &Daemon, verb: &str, body: &Value) -> Value {
    let answered = steer(daemon, verb, body);
    assert_eq!(answered.status, 200, "{verb} {body}: {answered:?}");
    answered.json()
}

/// The lease of a name in the group, if there is one.
#[track_caller]
pub(crate) fn lease_of(daemon: &Daemon, name: &str) -> Option<Value> {
    let answered = daemon.get(&format!("/v1/leases?resource_prefix=poll/{GROUP}/{name}"));
    assert_eq!(answered.status, 200, "{answered:?}");
    let leases = answered.json()["leases"].as_array().unwrap().clone();
    leases.into_iter().find(|lease| lease["resources"][0] == format!("poll/{GROUP}/{name}"))
}
