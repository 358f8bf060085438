//! Packets that no proper peer would send: the daemon lives on, answers and tells as before.

use std::process::Command;

use serde_json::json;

use super::peers::feed::{LIMIT, Process};
use super::peers::{Change, Service};
use super::stage::{HTTP, SmallStage, inspect, post, wait_advertised};
use super::streams::Stream;
use crate::faults::random::Random;
use crate::run_support::wait_until;

const SEED: u64 = 5_353;
const PACKETS: usize = 3_000;

/// Sends each line of hexadecimal digits on its standard input as a packet: to all, and to one address.
const SENDER: &str = "import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)
s.bind((sys.argv[1], 5353))
for line in sys.stdin:
    for to in ('224.0.0.251', sys.argv[2]): s.sendto(bytes.fromhex(line), (to, 5353))
print('sent', flush=True)";

/// A name of labels, ended.
fn name(labels: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in labels {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

fn header(is_response: bool, counts: [u16; 4]) -> Vec<u8> {
    let mut bytes = vec![0, 0, if is_response { 0x84 } else { 0 }, 0];
    counts.iter().for_each(|count| bytes.extend(count.to_be_bytes()));
    bytes
}

fn record(name: &[u8], kind: u16, length: Option<u16>, value: &[u8]) -> Vec<u8> {
    let mut bytes = name.to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0x80, 1, 0, 0, 0, 120]);
    bytes.extend(length.unwrap_or(value.len() as u16).to_be_bytes());
    bytes.extend(value);
    bytes
}

/// One proper announcement of a service, to be broken.
fn announcement() -> Vec<u8> {
    let service_type = name(&["_http", "_tcp", "local"]);
    let instance = name(&["wrong", "_http", "_tcp", "local"]);
    let host = name(&["wrong", "local"]);
    let mut location = vec![0, 0, 0, 0, 0, 80];
    location.extend(&host);
    let mut bytes = header(true, [0, 4, 0, 0]);
    bytes.extend(record(&service_type, 12, None, &instance));
    bytes.extend(record(&instance, 33, None, &location));
    bytes.extend(record(&instance, 16, None, b"\x04path"));
    bytes.extend(record(&host, 1, None, &[10, 0, 0, 1]));
    bytes
}

/// Claims of a name and of those that would follow it.
fn claims(label: &str) -> Vec<u8> {
    const NAMES: u16 = 20;
    let mut location = vec![0, 0, 0, 0, 0, 80];
    location.extend(name(&["claimant", "local"]));
    let mut bytes = header(true, [0, NAMES, 0, 0]);
    for number in 1..=NAMES {
        let label = if number == 1 { label.to_owned() } else { format!("{label} ({number})") };
        bytes.extend(record(&name(&[&label, "_http", "_tcp", "local"]), 33, None, &location));
    }
    bytes
}

/// What has a shape, and a mistake in it.
fn shaped(random: &mut Random) -> Vec<u8> {
    let service_type = name(&["_http", "_tcp", "local"]);
    let with = |is_response: bool, counts: [u16; 4], rest: &[u8]| {
        [header(is_response, counts), rest.to_vec()].concat()
    };
    let instance = name(&["wrong", "_http", "_tcp", "local"]);
    match random.below(14) {
        // Counts that nothing follows.
        0 => with(true, [u16::MAX; 4], &[]),
        1 => with(false, [u16::MAX; 4], &service_type),
        // A name that points to itself, ahead, or back and forth.
        2 => with(true, [0, 1, 0, 0], &record(&[0xc0, 12], 12, None, &[0xc0, 12])),
        3 => with(false, [1, 0, 0, 0], &[0xc0, 14, 0xc0, 12, 0, 12, 0, 1]),
        4 => with(true, [0, 1, 0, 0], &record(&service_type, 12, None, &[0xff, 0xff])),
        5 => with(true, [0, 1, 0, 0], &record(&service_type, 12, None, &[1, b'a', 0xc0, 40])),
        // Labels that are too long, or cut off.
        6 => with(false, [1, 0, 0, 0], &[&[0x7f_u8][..], &[b'x'; 127], &[0, 0, 12, 0, 1]].concat()),
        7 => with(false, [1, 0, 0, 0], &[5, b'_', b'h', b't']),
        8 => with(true, [0, 1, 0, 0], &record(&name(&["x"; 200]), 12, None, &instance)),
        // Values shorter or longer than they say.
        9 => with(true, [0, 1, 0, 0], &record(&instance, 33, Some(200), &[0, 0, 0, 0])),
        10 => with(true, [0, 1, 0, 0], &record(&instance, 33, None, &[0, 0, 0])),
        11 => with(true, [0, 1, 0, 0], &record(&name(&["wrong", "local"]), 1, None, &[10, 0])),
        12 => with(true, [0, 1, 0, 0], &record(&instance, 16, None, &[255, b'a', b'='])),
        // Names that are no text, no service, or nothing.
        _ => {
            let bytes = random.bytes(20);
            let target = [&[20_u8][..], &bytes, &service_type].concat();
            with(
                true,
                [0, 2, 0, 0],
                &[record(&service_type, 12, None, &target), record(&service_type, 12, None, &[0])].concat(),
            )
        }
    }
}

fn packet(random: &mut Random) -> Vec<u8> {
    match random.below(4) {
        0 => {
            let length = random.below(600) as usize;
            random.bytes(length)
        }
        1 => {
            let mut bytes = announcement();
            for _ in 0..=random.below(8) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
            bytes
        }
        2 => {
            let mut bytes = announcement();
            bytes.truncate(random.below(bytes.len() as u64) as usize);
            bytes
        }
        _ => shaped(random),
    }
}

/// Returns when all have been sent, from the peer's host.
fn send(stage: &SmallStage, packets: impl Iterator<Item = Vec<u8>>) {
    let mut command: Command = stage.theirs().command("python3");
    command.args(["-c", SENDER, &stage.theirs().address().to_string(), &stage.ours().address().to_string()]);
    let mut sender = Process::start_plain(command);
    for packet in packets {
        let line: String = packet.iter().map(|byte| format!("{byte:02x}")).collect();
        sender.tell(&line);
    }
    sender.hang_up();
    assert_eq!(sender.said().all(), ["sent"]);
}

#[test]
fn a_host_that_claims_our_names_two_hundred_times_writes_few_lines_of_log() {
    let stage = SmallStage::begin_with(&[]);
    let ours = post(&stage.daemon, &json!({"name": "wanted", "type": HTTP, "port": 1, "lease": 0}));
    wait_advertised(&stage.daemon, &ours);
    let before = stage.daemon.said().lines().count();
    send(&stage, (0..200).map(|_| claims("wanted")));
    wait_until("another name", 2 * LIMIT, || {
        let shown = inspect(&stage.daemon, &ours);
        shown["advertised"] == true && shown["advertised_name"] != "wanted"
    });
    // It still hears and answers.
    post(&stage.daemon, &json!({"name": "later", "type": HTTP, "port": 2}));
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, "later"), LIMIT);
    let said = stage.daemon.said();
    let lines: Vec<&str> = said.lines().skip(before).collect();
    assert!(lines.iter().any(|line| line.contains("name conflict")), "{said}");
    assert!(lines.len() <= 20, "{} lines: {said}", lines.len());
}

#[test]
fn the_daemon_outlives_garbage_and_still_answers() {
    let mut stage = SmallStage::begin_with(&[]);
    let browse = Stream::events(&stage.daemon, "/v1/mdns/browse?type=_http._tcp");
    let _types = Stream::events(&stage.daemon, "/v1/mdns/browse");
    post(&stage.daemon, &json!({"name": "steady", "type": HTTP, "port": 1}));
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, "steady"), LIMIT);

    let mut random = Random::new(SEED);
    send(&stage, (0..PACKETS).map(|_| packet(&mut random)));

    // It hears what is proper, tells it, answers, and can be asked for more.
    stage.zeroconf.register(&Service { name: "proper", service_type: HTTP, port: 9, txt: &[] });
    assert_eq!(browse.wait_found("proper")["port"], 9);
    assert_eq!(stage.zeroconf.resolve("steady", HTTP, LIMIT).unwrap().port, Some(1));
    post(&stage.daemon, &json!({"name": "later", "type": HTTP, "port": 2}));
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, "later"), LIMIT);
    let said = stage.daemon.said();
    assert!(!said.contains("panicked"), "{said}");
    let status = stage.daemon.http_over_socket().get("/v1/mdns/admin/status").json();
    assert!(status["mdns"].as_str().unwrap().starts_with("up"), "{status}");
}
