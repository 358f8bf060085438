//! The ways in which one client does its worst. Each is bounded in connections, in what it prepares and in time.

use crate::gauge::now;
use crate::peers::tenure::Control;
use crate::process::pause;
use anyhow::{Context, Result};
use rustix::process::Uid;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attack {
    /// Nobody attacks: what the others see by themselves.
    Calm,
    /// Retries of one waiting operation, without end.
    Joins,
    /// As many waits as a connection may have, then it closes; again and again.
    WaitsThatClose,
    /// Heartbeats of one lease, as many as go through.
    Heartbeats,
    /// Acquires of fresh names, as many as go through.
    Acquires,
    /// Requests whose answers are never read.
    NeverReads,
    /// 200 requests at once on each HTTP/2 connection.
    Http2,
    /// Event streams from the beginning of a long log.
    EventStreams,
    /// Reads that cost much.
    Reads,
}

/// Whom it attacks.
pub(crate) struct Target {
    pub(crate) socket: PathBuf,
    pub(crate) address: SocketAddr,
    /// A lease of somebody else, once there is one.
    pub(crate) lease: String,
}

/// What one connection does.
struct Client {
    /// The bytes of a burst, by its number.
    burst: Box<dyn Fn(u64) -> Vec<u8> + Send>,
    reads: bool,
    over: Over,
    /// After so many bursts it stays for a while, and closes.
    bursts_max: u64,
    stays: Duration,
}

#[derive(Clone, Copy)]
enum Over {
    Socket,
    Tcp,
}

/// Both ends of what a client needs of a connection.
trait Stream: Read + Write + Send + Sized {
    fn twin(&self) -> std::io::Result<Self>;
    fn limit(&self) -> std::io::Result<()>;
    fn end(&self);
}

/// `nobody`, on every system.
const STRANGER: u32 = 65_534;
const LINES_PER_BURST: usize = 200;
/// Leases in the log that streams and lists read.
const PREPARED: usize = 20_000;
const HTTP2_STREAMS: u32 = 200;
/// How often a client that waits looks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// After this long the attack gives up a write that the daemon does not take, and the connection with it.
const WRITE_WITHIN: Duration = Duration::from_secs(1);
const FOR_EVER: Duration = Duration::from_secs(3_600);

impl Attack {
    pub(crate) const ALL: [Self; 9] = [
        Self::Calm,
        Self::Joins,
        Self::WaitsThatClose,
        Self::Heartbeats,
        Self::Acquires,
        Self::NeverReads,
        Self::Http2,
        Self::EventStreams,
        Self::Reads,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Calm => "none",
            Self::Joins => "retries of one waiting acquire",
            Self::WaitsThatClose => "1,000 waits, then a close",
            Self::Heartbeats => "pipelined heartbeats",
            Self::Acquires => "pipelined acquires",
            Self::NeverReads => "never reads",
            Self::Http2 => "HTTP/2, 200 streams",
            Self::EventStreams => "event streams from the start",
            Self::Reads => "why, lists, polling views",
        }
    }

    /// What there has to be first.
    pub(crate) fn prepare(self, target: &mut Target) -> Result<()> {
        let mut control = Control::open(&target.socket)?;
        let count = match self {
            Self::Calm => 0,
            Self::Joins | Self::WaitsThatClose | Self::Heartbeats | Self::Acquires | Self::NeverReads => 1,
            Self::Http2 | Self::EventStreams | Self::Reads => PREPARED,
        };
        for first in (0..count).step_by(LINES_PER_BURST) {
            let names = first..count.min(first + LINES_PER_BURST);
            for n in names.clone() {
                let body =
                    json!({"resources": [format!("held/{n}")], "holder": "attacker", "mode": "permanent"});
                control.say(&json!({"acquire": body}))?;
            }
            for _ in names {
                let answer = control.hear()?;
                let lease = answer["acquired"]["lease_id"].as_str();
                target.lease = lease.with_context(|| format!("the daemon says {answer}"))?.to_owned();
            }
        }
        Ok(())
    }

    /// Starts the connections; each gives how many bursts it sent.
    pub(crate) fn begin<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        target: &'scope Target,
        is_over: &'scope AtomicBool,
    ) -> Vec<ScopedJoinHandle<'scope, Result<u64>>> {
        let (connections, client) = self.client(target);
        (0..connections)
            .map(|number| {
                let client = client(number);
                scope.spawn(move || {
                    become_a_stranger().context("attackers need a user of their own: run this as root")?;
                    let mut bursts = 0;
                    while !is_over.load(Ordering::Acquire) {
                        // Cut off or refused, it comes again.
                        bursts += match client.over {
                            Over::Socket => client.attack(UnixStream::connect(&target.socket), is_over),
                            Over::Tcp => client.attack(TcpStream::connect(target.address), is_over),
                        };
                    }
                    Ok(bursts)
                })
            })
            .collect()
    }

    /// How many connections, and what each of them does.
    fn client(self, target: &Target) -> (usize, impl Fn(usize) -> Client) {
        let (host, lease) = (target.address.to_string(), target.lease.clone());
        let connections = match self {
            Self::Calm => 0,
            Self::Joins | Self::NeverReads | Self::Heartbeats | Self::Http2 => 4,
            Self::WaitsThatClose | Self::Acquires => 2,
            Self::EventStreams => 60,
            Self::Reads => 32,
        };
        let made = move |number: usize| match self {
            Self::Calm => on_socket(|_| Vec::new()),
            Self::Joins => {
                let mut wait = wait();
                wait["operation_id"] = format!("k{number}").into();
                again(&json!({"acquire": wait, "tag": 1}))
            }
            Self::WaitsThatClose => {
                let line = |tag: usize| format!("{}\n", json!({"acquire": wait(), "tag": tag}));
                let all: String = (0..1_000).map(line).collect();
                let stays = Duration::from_millis(50);
                Client { bursts_max: 1, stays, ..on_socket(move |_| all.clone().into_bytes()) }
            }
            Self::Heartbeats => again(&json!({"heartbeat": {"lease_id": lease, "epoch": 9}, "tag": 1})),
            Self::Acquires => on_socket(move |burst| {
                let line = |n: usize| {
                    let name = format!("a/{number}/{burst}/{n}");
                    let body = json!({"resources": [name], "holder": "attacker", "ttl_ms": 60_000});
                    format!("{}\n", json!({"acquire": body, "tag": n}))
                };
                (0..LINES_PER_BURST).map(line).collect::<String>().into_bytes()
            }),
            Self::NeverReads => Client { reads: false, ..again(&json!({"status": {}, "tag": 1})) },
            Self::Http2 => {
                let bytes = http2(&host, "/v1/leases?limit=1000");
                Client { bursts_max: 1, stays: 10 * LOOK_EVERY, ..over_tcp(bytes) }
            }
            Self::EventStreams => {
                Client { bursts_max: 1, stays: FOR_EVER, ..over_tcp(get(&host, &["/v1/events?from=1"])) }
            }
            Self::Reads => {
                let paths =
                    ["/v1/why?resource=held/7", "/v1/leases?limit=1000", "/v1/polling/none", "/metrics"];
                over_tcp(get(&host, &paths))
            }
        };
        (connections, made)
    }
}

/// Gives this thread alone another user, whose limits are not those of the others. It keeps the capabilities: the
/// directory of the socket is closed to strangers.
fn become_a_stranger() -> rustix::io::Result<()> {
    let capabilities = rustix::thread::capabilities(None)?;
    rustix::thread::set_thread_res_uid(None, Uid::from_raw(STRANGER), None)?;
    rustix::thread::set_capabilities(None, capabilities)
}

impl Client {
    /// Does its worst on one connection until that is cut off, or all is over; how many bursts it sent.
    fn attack<S: Stream>(&self, connected: std::io::Result<S>, is_over: &AtomicBool) -> u64 {
        let both = connected.and_then(|stream| {
            stream.limit()?;
            Ok((stream.twin()?, stream))
        });
        let Ok((mut twin, mut stream)) = both else {
            pause(LOOK_EVERY);
            return 0;
        };
        let goes_on = || !is_over.load(Ordering::Acquire);
        std::thread::scope(|scope| {
            if self.reads {
                scope.spawn(move || read_all(&mut twin));
            }
            let mut bursts = 0;
            while goes_on() && bursts < self.bursts_max && stream.write_all(&(self.burst)(bursts)).is_ok() {
                bursts += 1;
            }
            let leaves = now() + self.stays;
            while goes_on() && now() < leaves {
                pause(LOOK_EVERY);
            }
            stream.end();
            bursts
        })
    }
}

/// Reads until the stream ends.
fn read_all(stream: &mut impl Read) {
    let mut bytes = vec![0; 64 << 10];
    while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
}

fn on_socket(burst: impl Fn(u64) -> Vec<u8> + Send + 'static) -> Client {
    let stays = Duration::ZERO;
    Client { burst: Box::new(burst), reads: true, over: Over::Socket, bursts_max: u64::MAX, stays }
}

fn over_tcp(burst: Vec<u8>) -> Client {
    Client { over: Over::Tcp, ..on_socket(move |_| burst.clone()) }
}

/// One line, again and again.
fn again(line: &Value) -> Client {
    let burst = format!("{line}\n").repeat(LINES_PER_BURST).into_bytes();
    on_socket(move |_| burst.clone())
}

fn wait() -> Value {
    json!({"resources": ["held/0"], "holder": "attacker", "wait_ms": 3_600_000})
}

fn get(host: &str, paths: &[&str]) -> Vec<u8> {
    let ask = |path: &&str| format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
    paths.iter().map(ask).collect::<String>().into_bytes()
}

/// Many requests for one path on one connection, whose answers get no more room than a connection begins with.
fn http2(host: &str, path: &str) -> Vec<u8> {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        bytes
    };
    // GET and http by the static table, path and authority as literals (RFC 7541).
    let mut head = vec![0x82, 0x86];
    for (name, value) in [(0x04, path), (0x01, host)] {
        head.extend([name, value.len() as u8]);
        head.extend(value.as_bytes());
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for number in 0..HTTP2_STREAMS {
        bytes.extend(frame(1, 5, 2 * number + 1, &head));
    }
    bytes
}

impl Stream for UnixStream {
    fn twin(&self) -> std::io::Result<Self> {
        self.try_clone()
    }

    fn limit(&self) -> std::io::Result<()> {
        self.set_write_timeout(Some(WRITE_WITHIN))
    }

    fn end(&self) {
        // It may be over already.
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Stream for TcpStream {
    fn twin(&self) -> std::io::Result<Self> {
        self.try_clone()
    }

    fn limit(&self) -> std::io::Result<()> {
        self.set_write_timeout(Some(WRITE_WITHIN))
    }

    fn end(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}
