//! Lets a script that was written for one daemon run against a cluster: while a stage stands, every daemon that this thread
//! starts is a follower, with a leader and a log of its own. What the script asks stays as it is.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{LIMIT, connect};
use super::net::{Net, Shape};
use super::store::{Member, members};
use crate::daemon::Daemon;
use crate::run_support::wait_until;

const PORT: u16 = 5641;
const ASK_LIMIT: Duration = Duration::from_secs(10);
/// The leader resigns before every request of a script whose number is a multiple of this, where it is to. One that repeats
/// the request before it has no number of its own: how often a script polls depends on the machine.
const REQUESTS_PER_LEADER: u32 = 5;
/// A command takes, renews and gives back.
const REQUESTS_PER_COMMAND: u32 = 3;
/// How often it resigns in one script: one that waits asks again and again, and what silence ends begins anew each time.
const RESIGNATIONS_PER_SCRIPT: u32 = 2;

thread_local! {
    static STAGE: RefCell<Option<Stage>> = const { RefCell::new(None) };
    /// Of all scripts of a stage.
    static RESIGNATIONS: Cell<u32> = const { Cell::new(0) };
}

/// What the leader does while a script runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leader {
    Stays,
    Changes,
}

struct Stage {
    members: Vec<Member>,
    leader: Leader,
    companies: u8,
    requests: u32,
    last_request: String,
    resignations: u32,
    /// The follower that the script began last.
    follower: Option<SocketAddr>,
    /// After the members, which run in it.
    _net: Net,
}

/// The other nodes of a daemon's cluster; they end with it.
pub(crate) struct Company {
    others: Vec<Daemon>,
    flags: Vec<String>,
    follower: SocketAddr,
}

/// Runs scripts with followers; gives how often a leader resigned meanwhile.
#[track_caller]
pub(crate) fn with_followers(leader: Leader, scripts: impl FnOnce()) -> u32 {
    let net = Net::new(Shape::Loopback, &[], &["m1"]);
    let mut members = members(&net, &["m1"]);
    members[0].start();
    members[0].wait_until_healthy();
    STAGE.set(Some(Stage {
        members,
        leader,
        companies: 0,
        requests: 0,
        last_request: String::new(),
        resignations: 0,
        follower: None,
        _net: net,
    }));
    RESIGNATIONS.set(0);
    let _ended = Ended;
    scripts();
    RESIGNATIONS.get()
}

/// The stage is gone before its thread is used for something else, also after a panic.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        drop(STAGE.take());
    }
}

/// What the leader does; `None` where no stage stands.
pub(crate) fn leader() -> Option<Leader> {
    STAGE.with_borrow(|stage| stage.as_ref().map(|stage| stage.leader))
}

/// The stage, away while something of its own is done, which is no request of the script; put back when dropped.
struct Away(Option<Stage>);

impl Away {
    fn take() -> Option<Self> {
        STAGE.take().map(|stage| Self(Some(stage)))
    }

    fn stage(&mut self) -> &mut Stage {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        STAGE.set(self.0.take());
    }
}

/// Makes the leader resign if it is time for that. The next one may not lead yet when this returns: the request meets what
/// there is.
pub(crate) fn before_request(request: &str) {
    before(request, 1);
}

/// The same for a command, which makes several requests.
pub(crate) fn before_command(command: &str) {
    before(command, REQUESTS_PER_COMMAND);
}

fn before(request: &str, requests: u32) {
    let Some(mut away) = Away::take() else { return };
    let stage = away.stage();
    let (Leader::Changes, Some(follower)) = (stage.leader, stage.follower) else { return };
    if stage.last_request == request {
        return;
    }
    request.clone_into(&mut stage.last_request);
    let leaders = stage.requests / REQUESTS_PER_LEADER;
    stage.requests += requests;
    let is_due = stage.requests / REQUESTS_PER_LEADER > leaders;
    if is_due && stage.resignations < RESIGNATIONS_PER_SCRIPT {
        // It is refused where the one before was not succeeded yet.
        let asked = ask(follower, "POST", "/v1/cluster/step-down", &json!({}));
        stage.resignations += u32::from(asked.is_some());
        RESIGNATIONS.set(RESIGNATIONS.get() + u32::from(asked.is_some()));
    }
}

impl Company {
    /// Starts a leader with the same settings for a daemon that is about to start; `None` where no stage stands.
    #[track_caller]
    pub(crate) fn gather(
        flags: &[String],
        environment: &[(String, String)],
        directory: &Path,
    ) -> Option<Self> {
        // Away: these nodes have no company of their own.
        let mut away = Away::take()?;
        let stage = away.stage();
        stage.companies += 1;
        let number = stage.companies;
        let address = |place: u8| SocketAddr::from((Ipv4Addr::new(127, 1, number, place), PORT));
        let log = format!("etcd://{}/script-{number}", stage.members[0].address);
        let of_node = |name: &str, address: SocketAddr| -> Vec<String> {
            let (bind, port) = (address.ip().to_string(), address.port().to_string());
            let url = format!("http://{address}");
            let own = ["--bind", &bind, "--port", &port, "--store", &log, "--advertise", &url];
            own.iter().chain(&["--node", name, "--leader-ttl", "1s"]).map(|word| (*word).to_owned()).collect()
        };
        let follower = address(1);
        let others: &[&str] = if stage.leader == Leader::Changes { &["b", "c"] } else { &["b"] };
        let mut company = Self { others: Vec::new(), flags: of_node("a", follower), follower };
        for (place, name) in (2..).zip(others.iter().copied()) {
            let words = of_node(name, address(place));
            // Files of the script are in the follower's directory.
            let given = flags.iter().map(|flag| flag.replace("DIR", directory.to_str().unwrap()));
            let all: Vec<String> = words.into_iter().chain(given).collect();
            let mut node = Daemon::prepared(&all.iter().map(String::as_str).collect::<Vec<_>>());
            environment.iter().for_each(|(name, value)| node.set_variable(name, value));
            node.start_again();
            wait_until("a leader of its own", LIMIT, || leads(node.address()) || place > 2);
            company.others.push(node);
        }
        (stage.follower, stage.requests, stage.resignations) = (Some(follower), 0, 0);
        stage.last_request.clear();
        Some(company)
    }

    /// What makes a daemon one of them.
    pub(crate) fn flags(&self) -> &[String] {
        &self.flags
    }

    /// Waits until the daemon follows.
    #[track_caller]
    pub(crate) fn wait_until_followed(&self) {
        let _away = Away::take();
        wait_until("a follower", LIMIT, || {
            let view = ask(self.follower, "GET", "/v1/cluster", &Value::Null).unwrap_or(Value::Null);
            view["role"] == "follower" && ask(self.follower, "GET", "/readyz", &Value::Null).is_some()
        });
    }

    /// What the other nodes said.
    pub(crate) fn said(&self) -> String {
        self.others.iter().map(Daemon::said).collect()
    }
}

fn leads(node: SocketAddr) -> bool {
    ask(node, "GET", "/v1/cluster", &Value::Null).is_some_and(|view| view["role"] == "leader")
}

/// A request of the stage's own; `None`: it was refused, or not answered.
fn ask(node: SocketAddr, method: &str, path: &str, body: &Value) -> Option<Value> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answered = connect(node, ASK_LIMIT).ok()?.try_ask(method, path, body.as_bytes()).ok()?;
    (answered.status == 200).then(|| serde_json::from_slice(&answered.body).unwrap_or(Value::Null))
}
