//! Registrants, operators and crashes in any order: whatever happens, the same few things stay true.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::ways::{Registry, id, service_with, started};
use crate::daemon::LIMIT;
use crate::faults::random::Random;
use crate::run_support::wait_until;
use crate::wire::daemon::Served;
use crate::wire::events::Events;
use crate::wire::http::Answer;
use crate::wire::lines::Lines;

const NAMES: [&str; 3] = ["app", "App (2)", "größe.local"];

/// One connection, and the session that it is.
struct Connection {
    lines: Lines,
    session: Value,
}

impl Connection {
    fn open(daemon: &Served) -> Self {
        let mut lines = daemon.lines();
        let session = lines.ask(json!({"hello": {}}))["hello"]["session"].clone();
        assert!(session.is_string(), "{session}");
        Self { lines, session }
    }
}

/// A world with a few connections.
struct World {
    daemon: Served,
    random: Random,
    lines: Vec<Connection>,
    /// Who registered what last, over lines: a permanent registration shows no session.
    registrants: BTreeMap<String, Value>,
    /// Ids that ended: they never come back.
    ended: BTreeSet<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let daemon = started();
        let lines = (0..3).map(|_| Connection::open(&daemon)).collect();
        Self {
            daemon,
            random: Random::new(seed),
            lines,
            registrants: BTreeMap::new(),
            ended: BTreeSet::new(),
        }
    }

    fn any(&mut self) -> Option<Value> {
        let all = self.daemon.all();
        (!all.is_empty()).then(|| all[self.random.below(all.len() as u64) as usize].clone())
    }

    fn step(&mut self) {
        match self.random.below(12) {
            0..=3 => self.register_over_lines(),
            4..=5 => self.register_over_http(),
            6 => self.reconnect(),
            7 => self.unregister(),
            8 => self.steer("drain"),
            9 => self.steer("revive"),
            10 => self.beat(),
            _ => self.end(),
        }
    }

    fn wanted(&mut self) -> Value {
        let name = NAMES[self.random.below(3) as usize];
        let name = if self.random.below(2) == 0 { name.to_owned() } else { name.to_ascii_uppercase() };
        let port = 1 + self.random.below(5);
        let lease = self.random.below(6);
        let mut service = service_with(&name, json!({"port": port, "txt": {"k": port.to_string()}}));
        if lease == 0 {
            service["lease"] = 0.into();
        }
        service
    }

    /// Who could be meant by a service of this name, before it is registered.
    fn namesakes(&self, wanted: &Value) -> Vec<Value> {
        let same = |seen: &Value| {
            let (one, other) = (seen["name"].as_str().unwrap(), wanted["name"].as_str().unwrap());
            one.eq_ignore_ascii_case(other)
        };
        self.daemon.all().into_iter().filter(same).collect()
    }

    fn register_over_lines(&mut self) {
        let at = self.random.below(3) as usize;
        let wanted = self.wanted();
        let namesakes = self.namesakes(&wanted);
        let connection = &mut self.lines[at];
        connection.lines.say(json!({"register": wanted}));
        // What an operator ended was told to it before.
        let answer = connection.lines.until(|line| line["lost"].is_null());
        let (registered, session) = (&answer["registered"], connection.session.clone());
        self.is_the_right_one(&wanted, registered, &namesakes, Some(&session));
        self.registrants.insert(id(registered).to_owned(), session);
    }

    fn register_over_http(&mut self) {
        let wanted = self.wanted();
        let namesakes = self.namesakes(&wanted);
        let registered = self.daemon.register(wanted.clone());
        self.is_the_right_one(&wanted, &registered, &namesakes, None);
        self.registrants.remove(id(&registered));
    }

    /// Its own, else one that drains, else a new one.
    fn is_the_right_one(
        &self,
        wanted: &Value,
        registered: &Value,
        namesakes: &[Value],
        session: Option<&Value>,
    ) {
        let same = |seen: &&Value| seen["id"] == registered["id"];
        let is_own = |seen: &Value| session.is_some() && self.registrants.get(id(seen)) == session;
        let own = namesakes.iter().find(|seen| is_own(seen) && seen["state"] == "alive");
        let drains = namesakes.iter().any(|seen| seen["state"] == "draining");
        match (own, drains) {
            (Some(own), _) => assert_eq!(registered["id"], own["id"], "its own: {namesakes:?}"),
            (None, true) => {
                let taken =
                    namesakes.iter().find(same).unwrap_or_else(|| panic!("{registered}: {namesakes:?}"));
                assert_eq!(taken["state"], "draining", "{registered}: {namesakes:?}");
                assert!(registered["epoch"].as_u64() >= taken["epoch"].as_u64(), "{registered}: {taken}");
            }
            (None, false) => {
                assert!(
                    namesakes.iter().all(|seen| seen["id"] != registered["id"]),
                    "{registered}: {namesakes:?}"
                );
                assert_eq!(registered["epoch"], 1, "{registered}");
            }
        }
        assert!(!self.ended.contains(id(registered)), "an id is given twice: {registered}");
        let seen = self.daemon.seen(registered);
        for field in ["name", "port", "txt"] {
            assert_eq!(seen[field], wanted[field], "the new payload wins: {seen}");
        }
        assert_eq!(seen["state"] == "draining", registered["draining"] == true, "{seen}: {registered}");
        assert_eq!(seen["mode"] == "permanent", wanted["lease"] == 0, "{seen}");
    }

    /// One connection ends, another takes its place.
    fn reconnect(&mut self) {
        let at = self.random.below(3) as usize;
        let fresh = Connection::open(&self.daemon);
        let session = std::mem::replace(&mut self.lines[at], fresh).session;
        let daemon = &self.daemon;
        wait_until("what it kept drains", LIMIT, || {
            daemon.all().iter().all(|seen| seen["session_id"] != session || seen["state"] == "draining")
        });
    }

    fn unregister(&mut self) {
        let Some(seen) = self.any() else { return };
        let answered = self.daemon.unregister(&seen);
        match answered.status {
            200 => self.has_ended(&seen),
            // What came in over the socket is another principal's.
            _ => drop(answered.refused("forbidden")),
        }
    }

    fn end(&mut self) {
        let Some(seen) = self.any() else { return };
        self.daemon.end(&seen).good();
        self.has_ended(&seen);
    }

    fn has_ended(&mut self, seen: &Value) {
        self.daemon.until(seen, "gone");
        self.daemon.until_reclaimed(&json!({"lease_id": seen["lease_id"]}));
        self.ended.insert(id(seen).to_owned());
    }

    fn steer(&mut self, call: &str) {
        let Some(seen) = self.any() else { return };
        let answered = self.daemon.steer(&seen, call);
        if answered.status == 200 {
            let state = if call == "drain" { "draining" } else { "alive" };
            assert_eq!(self.daemon.state(&seen), state, "{seen}");
            return;
        }
        let code = answered.json()["error"].as_str().unwrap().to_owned();
        answered.refused(&code);
        let expected: &[&str] = match (call, seen["mode"] == "permanent", seen["state"] == "draining") {
            ("drain", true, _) => &["permanent_lease"],
            ("drain", false, true) => &["already_draining"],
            ("revive", _, false) => &["not_draining"],
            ("revive", _, true) => &["no_liveness"],
            other => panic!("{other:?} {code}: {seen}"),
        };
        assert!(expected.contains(&code.as_str()), "{call} {code}: {seen}");
        assert_eq!(self.daemon.seen(&seen)["state"], seen["state"]);
    }

    fn beat(&mut self) {
        let Some(seen) = self.any() else { return };
        let answered = self.daemon.heartbeat(&seen, json!({"epoch": seen["epoch"]}));
        if answered.status != 200 {
            let code = answered.json()["error"].as_str().unwrap().to_owned();
            assert!(["forbidden", "no_liveness"].contains(&code.as_str()), "{code}: {seen}");
        }
    }

    /// What is true after every step.
    fn holds(&self) {
        let all = self.daemon.all();
        let distinct = |field: &str| {
            all.iter()
                .map(|seen| seen[field].as_str().unwrap().to_ascii_lowercase())
                .collect::<BTreeSet<_>>()
                .len()
        };
        for field in ["id", "lease_id", "advertised_name"] {
            assert_eq!(distinct(field), all.len(), "{field} is there twice: {all:?}");
        }
        assert!(all.iter().all(|seen| !self.ended.contains(id(seen))), "one that ended is back: {all:?}");
        let count = |wanted: &dyn Fn(&Value) -> bool| all.iter().filter(|seen| wanted(seen)).count();
        let counts = json!({
            "alive": count(&|seen| seen["state"] == "alive"),
            "draining": count(&|seen| seen["state"] == "draining"),
            "permanent": count(&|seen| seen["mode"] == "permanent"),
            "total": all.len(),
        });
        assert_eq!(self.daemon.counts(), counts);
    }

    /// What a browse that begins now is told, by name.
    fn found(&self) -> BTreeMap<String, Value> {
        let mut found = BTreeMap::new();
        let count = self.daemon.all().len();
        let mut browse = Events::look(self.daemon.http(), "/v1/mdns/browse?type=_http._tcp");
        while found.len() < count {
            let record = browse.next().data["found"].clone();
            found.insert(record["name"].as_str().unwrap().to_owned(), record["port"].clone());
        }
        found
    }
}

/// What a restart does not change.
fn lasting(all: &[Value]) -> Vec<Value> {
    let fields =
        ["id", "name", "port", "txt", "mode", "epoch", "lease_id", "advertised_name", "registered_at"];
    all.iter().map(|seen| fields.iter().map(|field| seen[*field].clone()).collect()).collect()
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..120 {
        world.step();
        world.holds();
    }
    let before = world.daemon.all();
    let advertised: BTreeMap<String, Value> = before
        .iter()
        .map(|seen| (seen["advertised_name"].as_str().unwrap().to_owned(), seen["port"].clone()))
        .collect();
    assert_eq!(world.found(), advertised, "what is advertised is what is registered");
    world.daemon.kill();
    world.daemon.start_again();
    assert_eq!(lasting(&world.daemon.all()), lasting(&before));
    assert_eq!(world.found(), advertised, "all of it is announced again");
    world.lines = (0..3).map(|_| Connection::open(&world.daemon)).collect();
    for _ in 0..30 {
        world.step();
        world.holds();
    }
    while let Some(seen) = world.any() {
        world.daemon.end(&seen).good();
        world.has_ended(&seen);
    }
    assert_eq!(world.daemon.counts()["total"], 0);
    let leases = world.daemon.get("/v1/resources?prefix=mdns");
    assert_eq!(leases["resources"], json!([]), "no name is left behind");
}

#[test]
fn a_first_mixture_keeps_what_is_always_true() {
    run(1);
}

#[test]
fn a_second_mixture_keeps_what_is_always_true() {
    run(2);
}

#[test]
fn a_third_mixture_keeps_what_is_always_true() {
    run(3);
}
