//! The peers themselves: that Avahi, zeroconf and the sniffer agree with each other in networks of the tests' own,
//! and how each of them ends. What they do here the tests of the product rely on.

use std::fs;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::peers::avahi::{Avahi, unescaped};
use crate::peers::feed::{monotonic_ns, wait_until};
use crate::peers::netns::{Host, INTERFACE, Lan, is_running};
use crate::peers::zeroconf::{Record, Sniffer, Zeroconf};
use crate::peers::{Change, Seen, Service};

/// Far more than any of it takes on an idle machine.
const SOON: Duration = Duration::from_secs(20);
/// Longer than any goodbye takes to arrive and be believed.
const LONG_ENOUGH: Duration = Duration::from_secs(4);

const HTTP: &str = "_http._tcp";
const WEB: Service<'static> =
    Service { name: "web", service_type: HTTP, port: 8080, txt: &[b"path=/x", b"flag"] };

fn two() -> Lan {
    Lan::new(&["alpha", "beta"])
}

/// zeroconf and a sniffer on a host, browsing for HTTP.
fn audience(host: &Host) -> (Zeroconf, Sniffer) {
    let sniffer = Sniffer::start(host);
    let mut zeroconf = Zeroconf::start(host);
    zeroconf.browse(HTTP);
    (zeroconf, sniffer)
}

#[test]
fn zeroconf_sees_what_avahi_publishes_and_that_it_ends() {
    let lan = two();
    let avahi = Avahi::start(lan.host("alpha"));
    let (zeroconf, sniffer) = audience(lan.host("beta"));
    let before = monotonic_ns();
    let mut publisher = avahi.publish(&WEB);
    assert_eq!(publisher.name(), "web");
    let added = zeroconf.wait_for(|seen| seen.is(Change::Added, "web"), SOON);
    assert_eq!(added.service_type, HTTP);
    assert_eq!(added.host.as_deref(), Some("alpha.local"));
    assert_eq!(added.port, Some(8080));
    assert_eq!(added.addresses, [IpAddr::V4(lan.host("alpha").address())]);
    assert_eq!(added.txt_text(), ["path=/x", "flag"]);
    let named = zeroconf.events().into_iter().find(|seen| seen.is(Change::Named, "web")).unwrap();
    assert!(before < named.at_ns && named.at_ns <= added.at_ns && added.at_ns < monotonic_ns());

    publisher.end();
    zeroconf.wait_for(|seen| seen.is(Change::Removed, "web"), SOON);
    sniffer.wait_for(Record::is_goodbye, SOON);
    assert!(
        sniffer.goodbyes().iter().all(|name| name == "web._http._tcp.local."),
        "{:?}",
        sniffer.goodbyes()
    );
    assert_eq!(sniffer.broken(), [""; 0]);
    assert!(sniffer.records().iter().all(|record| record.source != IpAddr::from([127, 0, 0, 1])));
}

#[test]
fn avahi_says_goodbye_for_a_publisher_that_was_killed() {
    let lan = two();
    let avahi = Avahi::start(lan.host("alpha"));
    let (zeroconf, sniffer) = audience(lan.host("beta"));
    let mut publisher = avahi.publish(&WEB);
    zeroconf.wait_for(|seen| seen.is(Change::Added, "web"), SOON);
    assert!(is_running(publisher.pid()));
    publisher.kill();
    zeroconf.wait_for(|seen| seen.is(Change::Removed, "web"), SOON);
    sniffer.wait_for(Record::is_goodbye, SOON);
}

#[test]
fn an_avahi_that_is_killed_leaves_a_ghost_and_one_that_ends_does_not() {
    let lan = Lan::new(&["alpha", "beta", "gamma"]);
    let mut killed = Avahi::start(lan.host("alpha"));
    let mut ended = Avahi::start(lan.host("beta"));
    let (zeroconf, sniffer) = audience(lan.host("gamma"));
    let _ghost = killed.publish(&Service { name: "ghost", ..WEB });
    let _web = ended.publish(&WEB);
    for name in ["ghost", "web"] {
        zeroconf.wait_for(|seen| seen.is(Change::Added, name), SOON);
    }
    killed.daemon().kill();
    ended.daemon().end();
    zeroconf.wait_for(|seen| seen.is(Change::Removed, "web"), SOON);
    assert_eq!(zeroconf.watch_since(0, |seen| seen.is(Change::Removed, "ghost"), LONG_ENOUGH), None);
    assert!(!sniffer.goodbyes().contains(&"ghost._http._tcp.local.".to_owned()));
}

#[test]
fn avahi_sees_what_zeroconf_registers_changes_and_withdraws() {
    let lan = two();
    let mut zeroconf = Zeroconf::start(lan.host("alpha"));
    let mut avahi = Avahi::start(lan.host("beta"));
    let mut other = Zeroconf::start(lan.host("beta"));
    avahi.browse(HTTP);
    other.browse(HTTP);
    zeroconf.register(&WEB);
    let added = avahi.wait_for(|seen| seen.is(Change::Added, "web"), SOON);
    assert!(avahi.events().iter().any(|seen| seen.is(Change::Named, "web")));
    assert_eq!((added.host.as_deref(), added.port), (Some("alpha.local"), Some(8080)));
    assert_eq!(added.addresses, [IpAddr::V4(lan.host("alpha").address())]);
    assert_eq!(added.txt_text(), ["path=/x", "flag"]);

    other.wait_for(|seen| seen.is(Change::Added, "web"), SOON);
    zeroconf.update(&Service { port: 8081, txt: &[b"path=/y"], ..WEB });
    let is_changed = |port| move |seen: &Seen| seen.port == Some(port) && seen.txt_text() == ["path=/y"];
    let updated = other.wait_for(is_changed(8081), SOON);
    assert_eq!(updated.change, Change::Updated);
    let mark = avahi.mark();
    zeroconf.unregister("web", HTTP);
    avahi.wait_for_since(mark, |seen| seen.is(Change::Removed, "web"), SOON);
    other.wait_for(|seen| seen.is(Change::Removed, "web"), SOON);
}

#[test]
fn a_zeroconf_that_quits_says_goodbye_and_one_that_is_killed_does_not() {
    let lan = two();
    let mut quitting = Zeroconf::start(lan.host("alpha"));
    let mut killed = Zeroconf::start(lan.host("alpha"));
    let mut avahi = Avahi::start(lan.host("beta"));
    avahi.browse(HTTP);
    quitting.register(&WEB);
    killed.register(&Service { name: "ghost", ..WEB });
    for name in ["ghost", "web"] {
        avahi.wait_for(|seen| seen.is(Change::Added, name), SOON);
    }
    killed.process().kill();
    quitting.quit();
    avahi.wait_for(|seen| seen.is(Change::Removed, "web"), SOON);
    assert_eq!(avahi.watch_since(0, |seen| seen.is(Change::Removed, "ghost"), LONG_ENOUGH), None);
}

#[test]
fn any_name_and_any_bytes_come_through() {
    let lan = two();
    let mut avahi = Avahi::start(lan.host("alpha"));
    let (zeroconf, sniffer) = audience(lan.host("beta"));
    avahi.browse(HTTP);
    let name = "Kölner \"Web\" v1.2; a\\b";
    let txt: &[&[u8]] = &[b"q=\"z\"\\", b"bin=\x01\xff;", b"none", b"empty="];
    let mut publisher = avahi.publish(&Service { name, service_type: HTTP, port: 1, txt });
    let by_zeroconf = zeroconf.wait_for(|seen| seen.is(Change::Added, name), SOON);
    let by_avahi = avahi.wait_for(|seen| seen.is(Change::Added, name), SOON);
    assert_eq!(by_zeroconf.txt, txt);
    assert_eq!(by_avahi.txt, txt);
    publisher.end();
    sniffer.wait_for(Record::is_goodbye, SOON);
    assert_eq!(sniffer.goodbyes()[0], format!("{name}._http._tcp.local."));
}

#[test]
fn what_avahi_escapes_is_read() {
    assert_eq!(unescaped(r"My\032\034a\034\.b\\\195\169"), "My \"a\".b\\é".as_bytes());
    assert_eq!(unescaped(r"\"), b"");
    assert_eq!(unescaped(r"\09"), b"09");
}

#[test]
fn two_avahis_settle_a_conflict() {
    let lan = two();
    let first = Avahi::start(lan.host("alpha"));
    let second = Avahi::start(lan.host("beta"));
    let of_first = first.publish(&WEB);
    let of_second = second.publish(&WEB);
    assert_eq!((of_first.name().as_str(), of_second.name().as_str()), ("web", "web #2"));
}

#[test]
fn types_and_single_instances_can_be_asked_for() {
    let lan = two();
    let avahi = Avahi::start(lan.host("alpha"));
    let _web = avahi.publish(&WEB);
    let _printer = avahi.publish(&Service { name: "paper", service_type: "_ipp._tcp", ..WEB });
    let mut zeroconf = Zeroconf::start(lan.host("beta"));
    assert_eq!(zeroconf.types(2), [HTTP, "_ipp._tcp"]);
    let paper = zeroconf.resolve("paper", "_ipp._tcp", SOON).unwrap();
    assert_eq!(paper.port, Some(8080));
    assert_eq!(zeroconf.resolve("nobody", "_ipp._tcp", Duration::from_millis(500)), None);
}

#[test]
fn both_families_are_spoken_where_there_are_both() {
    let lan = Lan::with_ipv6(&["alpha", "beta"]);
    let avahi = Avahi::start(lan.host("alpha"));
    let (zeroconf, sniffer) = audience(lan.host("beta"));
    let _web = avahi.publish(&WEB);
    let address6 = IpAddr::V6(lan.host("alpha").address6().unwrap());
    let added = zeroconf.wait_for(|seen| seen.name == "web" && seen.addresses.contains(&address6), SOON);
    assert!(added.addresses.contains(&IpAddr::V4(lan.host("alpha").address())));
    sniffer.wait_for(|record| record.source.is_ipv6(), SOON);
}

#[test]
fn a_host_that_is_cut_off_hears_nothing_until_it_is_healed() {
    let lan = Lan::new(&["alpha", "beta", "gamma"]);
    let avahi = Avahi::start(lan.host("alpha"));
    let (near, _) = audience(lan.host("beta"));
    let (far, sniffer) = audience(lan.host("gamma"));
    lan.cut(lan.host("gamma"));
    let _web = avahi.publish(&WEB);
    near.wait_for(|seen| seen.is(Change::Added, "web"), SOON);
    assert_eq!(far.watch_since(0, |seen| seen.name == "web", Duration::from_secs(2)), None);
    assert!(sniffer.records().iter().all(|record| record.name != "web._http._tcp.local."));
    let mut show = lan.host("gamma").command("ip");
    let link = show.args(["-oneline", "link", "show", INTERFACE]).output().unwrap();
    assert!(String::from_utf8_lossy(&link.stdout).contains("LOWER_UP"), "it does not notice");
    lan.heal(lan.host("gamma"));
    let _later = avahi.publish(&Service { name: "later", ..WEB });
    far.wait_for_since(0, |seen| seen.is(Change::Added, "later"), SOON);
}

#[test]
fn a_link_that_went_down_comes_back_with_its_address() {
    let lan = Lan::with_ipv6(&["alpha", "beta"]);
    let (alpha, beta) = (lan.host("alpha"), lan.host("beta"));
    alpha.link_down();
    let reaches = |address: IpAddr| {
        let mut ping = beta.command("python3");
        // A refused connection is an answer; an unreachable host is none.
        let script = "import socket, sys\ns = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)\n\
            s.settimeout(2)\ntry: s.connect((sys.argv[1], 9))\nexcept ConnectionRefusedError: print('reached')\n\
            except OSError: pass";
        let output = ping.args(["-c", script, &address.to_string()]).output().unwrap();
        output.stdout == b"reached\n"
    };
    let addresses = [IpAddr::V4(alpha.address()), IpAddr::V6(alpha.address6().unwrap())];
    assert!(!addresses.iter().any(|address| reaches(*address)));
    alpha.link_up();
    // A neighbour that did not answer is not asked for again at once.
    for address in addresses {
        wait_until("the host is reached", SOON, || reaches(address));
    }
    let avahi = Avahi::start(alpha);
    let (zeroconf, _) = audience(beta);
    let _web = avahi.publish(&WEB);
    zeroconf.wait_for(|seen| seen.is(Change::Added, "web"), SOON);
}

#[test]
fn a_suspended_peer_is_silent_and_goes_on() {
    let lan = two();
    let mut zeroconf = Zeroconf::start(lan.host("alpha"));
    let avahi = Avahi::start(lan.host("beta"));
    zeroconf.browse(HTTP);
    zeroconf.process().suspend();
    let mark = zeroconf.mark();
    let _web = avahi.publish(&WEB);
    assert_eq!(zeroconf.watch_since(mark, |_| true, Duration::from_secs(1)), None);
    zeroconf.process().resume();
    zeroconf.wait_for_since(mark, |seen| seen.is(Change::Added, "web"), SOON);
}

#[test]
fn what_runs_on_a_host_has_its_own_pid_and_ends_with_the_network() {
    let lan = Lan::new(&["solitary"]);
    let mut command = lan.host("solitary").command("cat");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Once it answers, the program has taken the place of those that started it.
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    assert_eq!(fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap(), "cat\n");
    let names =
        || fs::read_dir("/run/netns").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let prefix = format!("tenure-test-{}-", std::process::id());
    let host = names().find(|name| name.starts_with(&prefix) && name.ends_with("-solitary")).unwrap();
    let of_lan = host.strip_suffix("solitary").unwrap();
    assert_eq!(names().filter(|name| name.starts_with(of_lan)).count(), 2, "the host and the switch");
    drop(lan);
    assert_eq!(names().filter(|name| name.starts_with(of_lan)).count(), 0);
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn what_a_dead_test_left_behind_is_removed() {
    let mut gone = Command::new("true").spawn().unwrap();
    let name = format!("tenure-test-{}-0-alpha", gone.id());
    gone.wait().unwrap();
    assert!(Command::new("ip").args(["netns", "add", &name]).status().unwrap().success());
    let mut left =
        Command::new("ip").args(["netns", "exec", &name, "cat"]).stdin(Stdio::piped()).spawn().unwrap();
    let _lan = Lan::new(&["alpha"]);
    assert!(!Path::new("/run/netns").join(&name).exists());
    left.wait().unwrap();
}
