//! Three nodes, the real binary, on three members of a real etcd, and everything that can befall them.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::net::{Net, Shape, Wire};
use super::proxy::{Proxy, Replies};
use super::store::{Member, members};
use crate::daemon::Daemon;
use crate::raw_http::{Answered, Http};
use crate::run_support::{boot_ms, wait_until};

pub(crate) const NODES: [&str; 3] = ["a", "b", "c"];
const MEMBERS: [&str; 3] = ["m1", "m2", "m3"];
const PORT: u16 = 5641;
/// Nothing that heals by itself takes this long unless it is broken.
pub(crate) const LIMIT: Duration = Duration::from_secs(40);
const CONNECT_LIMIT: Duration = Duration::from_millis(500);

/// Nodes and store. Dropped, everything that runs is ended before the network goes.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) members: Vec<Member>,
    net: Net,
}

/// One node.
pub(crate) struct Node {
    pub(crate) name: &'static str,
    pub(crate) daemon: Daemon,
    pub(crate) address: SocketAddr,
    proxy: Proxy,
    is_up: bool,
    is_frozen: bool,
    /// Its clock, where it is not that of the others.
    _clock: Option<Clock>,
}

/// A clock since boot that is ahead of the machine's, kept by a process that ends with the test.
struct Clock {
    keeper: Child,
}

impl Clock {
    fn ahead(seconds: u64) -> Self {
        let mut keeper = Command::new("unshare");
        keeper.args(["--time", "--boottime", &seconds.to_string(), "cat"]);
        let keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let clock = Self { keeper };
        let offsets = format!("/proc/{}/timens_offsets", clock.keeper.id());
        wait_until("a clock that is ahead", LIMIT, || {
            let text = std::fs::read_to_string(&offsets).unwrap_or_default();
            text.lines().any(|line| line.split_whitespace().eq(["boottime", &seconds.to_string(), "0"]))
        });
        clock
    }

    /// Words that start a program with this clock.
    fn launcher(&self) -> [String; 2] {
        ["nsenter".to_owned(), format!("--time=/proc/{}/ns/time_for_children", self.keeper.id())]
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

impl Cluster {
    /// All on one machine.
    #[track_caller]
    pub(crate) fn local(flags: &[&str]) -> Self {
        Self::start(Shape::Loopback, flags)
    }

    /// A machine for each.
    #[track_caller]
    pub(crate) fn apart(flags: &[&str]) -> Self {
        Self::start(Shape::Lan, flags)
    }

    /// The same, with one more variable in the environment of every node.
    #[track_caller]
    pub(crate) fn local_with(flags: &[&str], variable: (&str, &str)) -> Self {
        Self::begun(Self::prepared_with(Shape::Loopback, flags, Some(variable)))
    }

    /// Two nodes on one member with flags of its own, all on one machine. The third node is there to be started.
    #[track_caller]
    pub(crate) fn on_one_member(flags: &[&str], member_flags: &[&str]) -> Self {
        let mut cluster = Self::on_one_member_alone(flags, member_flags);
        cluster.start_node(0);
        cluster.start_node(1);
        cluster.wait_until_whole();
        cluster
    }

    /// The same, and no node runs yet.
    #[track_caller]
    pub(crate) fn on_one_member_alone(flags: &[&str], member_flags: &[&str]) -> Self {
        let mut cluster = Self::prepared_on(&MEMBERS[..1], Shape::Loopback, flags, None);
        cluster.members[0].add_flags(member_flags);
        cluster.members[0].start();
        cluster.members[0].wait_until_healthy();
        cluster
    }

    #[track_caller]
    fn start(shape: Shape, flags: &[&str]) -> Self {
        Self::begun(Self::prepared(shape, flags))
    }

    #[track_caller]
    fn begun(mut cluster: Self) -> Self {
        cluster.members.iter_mut().for_each(Member::start);
        cluster.members.iter().for_each(Member::wait_until_healthy);
        for place in 0..NODES.len() {
            cluster.start_node(place);
        }
        cluster.wait_until_whole();
        cluster
    }

    /// Nothing runs yet.
    #[track_caller]
    pub(crate) fn prepared(shape: Shape, flags: &[&str]) -> Self {
        Self::prepared_with(shape, flags, None)
    }

    #[track_caller]
    fn prepared_with(shape: Shape, flags: &[&str], variable: Option<(&str, &str)>) -> Self {
        Self::prepared_on(&MEMBERS, shape, flags, variable)
    }

    #[track_caller]
    fn prepared_on(names: &[&str], shape: Shape, flags: &[&str], variable: Option<(&str, &str)>) -> Self {
        let net = Net::new(shape, &NODES, names);
        let members = members(&net, names);
        let store: Vec<SocketAddr> = members.iter().map(|member| member.address).collect();
        let nodes = NODES.iter().map(|name| Node::prepared(&net, name, &store, flags, variable)).collect();
        Self { nodes, members, net }
    }

    /// Starts a node that does not run and waits until it listens.
    #[track_caller]
    pub(crate) fn start_node(&mut self, place: usize) {
        self.nodes[place].daemon.spawn();
        self.started(place);
    }

    /// Waits until a node listens that was spawned.
    #[track_caller]
    pub(crate) fn started(&mut self, place: usize) {
        let node = &mut self.nodes[place];
        node.daemon.wait_until_ready();
        node.is_up = true;
        node.is_frozen = false;
    }

    pub(crate) fn kill_node(&mut self, place: usize) {
        let node = &mut self.nodes[place];
        node.daemon.kill();
        node.is_up = false;
    }

    /// Kills a node as the loss of its machine does: its guardian is gone first.
    #[track_caller]
    pub(crate) fn lose_node(&mut self, place: usize) {
        kill_process(self.nodes[place].guardian(), Signal::KILL).unwrap();
        self.kill_node(place);
    }

    #[track_caller]
    pub(crate) fn stop_node(&mut self, place: usize) {
        let node = &mut self.nodes[place];
        node.daemon.stop();
        node.is_up = false;
    }

    /// Waits until a node has ended by itself; gives its exit code.
    #[track_caller]
    pub(crate) fn end_of_node(&mut self, place: usize) -> i32 {
        let node = &mut self.nodes[place];
        node.is_up = false;
        node.daemon.code()
    }

    /// Starts a node that is to refuse; gives its exit code.
    #[track_caller]
    pub(crate) fn refused_start(&mut self, place: usize) -> i32 {
        let node = &mut self.nodes[place];
        node.daemon.spawn();
        node.daemon.code()
    }

    pub(crate) fn freeze_node(&mut self, place: usize) {
        let node = &mut self.nodes[place];
        node.daemon.freeze();
        node.is_frozen = true;
    }

    pub(crate) fn thaw_node(&mut self, place: usize) {
        let node = &mut self.nodes[place];
        node.daemon.thaw();
        node.is_frozen = false;
    }

    pub(crate) fn cut_node(&self, place: usize, wire: Wire) {
        self.net.cut(self.nodes[place].name, wire);
    }

    pub(crate) fn heal_node(&self, place: usize, wire: Wire) {
        self.net.heal(self.nodes[place].name, wire);
    }

    pub(crate) fn cut_member(&self, place: usize) {
        self.net.cut(&self.members[place].name, Wire::Store);
    }

    pub(crate) fn heal_member(&self, place: usize) {
        self.net.heal(&self.members[place].name, Wire::Store);
    }

    /// What becomes of the store's replies to a node.
    pub(crate) fn set_replies(&self, place: usize, replies: Replies) {
        self.nodes[place].proxy.set(replies);
    }

    /// Which member leads, if it can be told.
    pub(crate) fn leading_member(&self) -> Option<usize> {
        self.members.iter().position(Member::is_leader)
    }

    /// The node that says of itself that it writes, with the highest epoch; `None` while nobody does.
    pub(crate) fn writer(&self) -> Option<usize> {
        let writers = self.nodes.iter().enumerate().filter_map(|(place, node)| {
            let view = node.view()?;
            (view["role"] == "leader").then_some((view["leader"]["epoch"].as_u64().unwrap_or(0), place))
        });
        writers.max().map(|(_, place)| place)
    }

    #[track_caller]
    pub(crate) fn wait_for_writer(&self) -> usize {
        let mut writer = None;
        wait_until(&format!("a writer\n{}", self.said_lately()), LIMIT, || {
            writer = self.writer();
            writer.is_some()
        });
        writer.unwrap()
    }

    /// Waits until all that runs is ready and follows one writer.
    #[track_caller]
    pub(crate) fn wait_until_whole(&self) {
        let deadline = boot_ms() + LIMIT.as_millis() as u64;
        wait_until("a cluster that is whole", LIMIT * 2, || {
            let running: Vec<&Node> =
                self.nodes.iter().filter(|node| node.is_up && !node.is_frozen).collect();
            let writers: Vec<Option<Value>> = running.iter().map(|node| node.view_when_ready()).collect();
            let is_whole = writers.iter().all(|view| view.is_some() && *view == writers[0])
                && writers.first().is_some_and(|view| view.as_ref().is_some_and(Value::is_object));
            assert!(is_whole || boot_ms() < deadline, "not whole: {writers:?}\n{}", self.said_lately());
            is_whole
        });
    }

    /// Two nodes that do not write.
    #[track_caller]
    pub(crate) fn followers(&self) -> [usize; 2] {
        let writer = self.wait_for_writer();
        let mut others = (0..self.nodes.len()).filter(|place| *place != writer);
        [others.next().unwrap(), others.next().unwrap()]
    }

    /// The last lines of every node, for messages of failures.
    pub(crate) fn said_lately(&self) -> String {
        let mut text = String::new();
        for node in &self.nodes {
            let said = node.daemon.said();
            let lines: Vec<&str> = said.lines().collect();
            let last = &lines[lines.len().saturating_sub(15)..];
            text += &format!("--- {} said last:\n{}\n", node.name, last.join("\n"));
        }
        text
    }
}

impl Node {
    fn prepared(
        net: &Net,
        name: &'static str,
        store: &[SocketAddr],
        flags: &[&str],
        variable: Option<(&str, &str)>,
    ) -> Self {
        let machine = net.machine(name);
        let address = SocketAddr::from((machine.lan, PORT));
        let proxy = Proxy::start(net.callers_store_address(), store);
        let endpoints: Vec<String> = proxy.addresses.iter().map(SocketAddr::to_string).collect();
        let (log, bind) = (format!("etcd://{}/test", endpoints.join(",")), machine.lan.to_string());
        // Who checks the others' certificates has one.
        let scheme = if flags.contains(&"--cluster-ca") { "https" } else { "http" };
        let (port, advertise) = (PORT.to_string(), format!("{scheme}://{address}"));
        let mut all = vec!["--bind", &bind, "--port", &port, "--log", &log, "--advertise", &advertise];
        all.extend(["--node", name]);
        if net.shape() == Shape::Lan {
            all.extend(["--insecure-no-auth", "--auth-local", "admin"]);
        }
        all.extend(flags);
        // No two machines were started at the same time: only differences on one clock mean anything.
        let ahead_seconds = NODES.iter().position(|node| *node == name).unwrap() as u64 * 3_600;
        let clock = (net.shape() == Shape::Lan && ahead_seconds > 0).then(|| Clock::ahead(ahead_seconds));
        let mut launcher: Vec<String> = clock.iter().flat_map(Clock::launcher).collect();
        launcher.extend(net.launcher(name).map(str::to_owned));
        let launcher: Vec<&str> = launcher.iter().map(String::as_str).collect();
        let mut daemon = Daemon::prepared(&all).with_launcher(&launcher);
        if let Some((name, value)) = variable {
            daemon = daemon.with_variable(name, value);
        }
        Self { name, daemon, address, proxy, is_up: false, is_frozen: false, _clock: clock }
    }

    /// The process that resigns for it when it dies.
    #[track_caller]
    pub(crate) fn guardian(&self) -> Pid {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.daemon.pid())).unwrap();
        let children = tasks
            .map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default());
        let children: String = children.collect();
        let mut guardians = children.split_whitespace().filter(|pid| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.starts_with(b"tenure\0guardian\0")
        });
        let pid = guardians.next().unwrap_or_else(|| panic!("no guardian: {}", self.daemon.said()));
        Pid::from_raw(pid.parse().unwrap()).unwrap()
    }

    /// Whether it has a process that was not stopped.
    pub(crate) fn is_up(&self) -> bool {
        self.is_up && !self.is_frozen
    }

    /// A connection whose reads end after a while.
    pub(crate) fn connect(&self, limit: Duration) -> std::io::Result<Http<TcpStream>> {
        connect(self.address, limit)
    }

    /// One request; an error is a connection that broke or an answer that did not come in time.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> std::io::Result<Answered> {
        self.ask_within(Duration::from_secs(10), method, path, body)
    }

    pub(crate) fn ask_within(
        &self,
        limit: Duration,
        method: &str,
        path: &str,
        body: &Value,
    ) -> std::io::Result<Answered> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.connect(limit)?.try_ask(method, path, body.as_bytes())
    }

    /// A request that has to succeed.
    #[track_caller]
    pub(crate) fn good(&self, method: &str, path: &str, body: &Value) -> Value {
        let answered = self
            .ask(method, path, body)
            .unwrap_or_else(|error| panic!("{} {method} {path}: {error}\n{}", self.name, self.daemon.said()));
        assert!(matches!(answered.status, 200 | 201), "{} {method} {path}: {answered:?}", self.name);
        answered.json()
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        self.good("GET", path, &Value::Null)
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        self.good("POST", path, body)
    }

    /// What it said since it was ready last.
    pub(crate) fn said_since_start(&self) -> String {
        self.daemon.said().rsplit("\nready\n").next().unwrap_or_default().to_owned()
    }

    /// How it sees the cluster; `None` if it cannot be asked.
    pub(crate) fn view(&self) -> Option<Value> {
        if !self.is_up() {
            return None;
        }
        let answered = self.ask_within(Duration::from_secs(1), "GET", "/v1/cluster", &Value::Null).ok()?;
        (answered.status == 200).then(|| answered.json())
    }

    /// The writer and its epoch as it sees them, once it serves.
    fn view_when_ready(&self) -> Option<Value> {
        let ready = self.ask_within(Duration::from_secs(1), "GET", "/readyz", &Value::Null).ok()?;
        // One that has just started cannot lead at once.
        if !self.said_since_start().contains("this node may lead") {
            return None;
        }
        let view = self.view().filter(|_| ready.status == 200)?;
        let writer = &view["leader"];
        writer.is_object().then(|| serde_json::json!({"node": writer["node"], "epoch": writer["epoch"]}))
    }
}

/// A connection whose reads end after a while.
pub(crate) fn connect(address: SocketAddr, limit: Duration) -> std::io::Result<Http<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    Ok(Http::new(stream, &address.to_string()))
}

/// What was carried out or told; `None`: refused, or no answer.
pub(crate) fn done(asked: &std::io::Result<Answered>) -> Option<Value> {
    let answered = asked.as_ref().ok()?;
    matches!(answered.status, 200 | 201).then(|| answered.json())
}
