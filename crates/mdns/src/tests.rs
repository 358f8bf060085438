//! The machine breaks; what was advertised, found and withdrawn goes on with the next one. On loopback with a private port.

use core::time::Duration;
use std::net::UdpSocket;

use crate::board::Condition;
use crate::service::Service;
use crate::service::tests::service;
use crate::{Browse, Goodbye, Interface, Mdns, Options, Sighting, StartError, Wanted};

const LIMIT: Duration = Duration::from_secs(20);

fn free_port() -> u16 {
    UdpSocket::bind("0.0.0.0:0").expect("a port").local_addr().expect("bound").port()
}

fn start(port: u16) -> Mdns {
    Mdns::start(Options { interfaces: vec![Interface::Loopback], port }).expect("an engine")
}

fn on_its_host(name: &str) -> Service {
    Service { host: format!("host-{}", name.replace('.', "")).to_lowercase(), ..service(name) }
}

async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let look = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, look).await.is_ok(), "not within {LIMIT:?}: {what}");
}

async fn wait_for(browse: &mut Browse, what: &str, is_meant: impl Fn(&Sighting) -> bool) {
    let look = async { while !is_meant(&browse.next().await.expect("the browse goes on")) {} };
    assert!(tokio::time::timeout(LIMIT, look).await.is_ok(), "not within {LIMIT:?}: {what}");
}

fn is_resolved(name: &str) -> impl Fn(&Sighting) -> bool {
    move |sighting| matches!(sighting, Sighting::Resolved(record) if record.name == name)
}

fn is_removed(wanted: &str) -> impl Fn(&Sighting) -> bool {
    move |sighting| matches!(sighting, Sighting::Removed { name, .. } if name == wanted)
}

fn http() -> Wanted {
    Wanted::Type("_http._tcp".to_owned())
}

#[tokio::test]
async fn everything_comes_back_after_the_machine_broke() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let (mut own, mut other) = (ours.browse(http()), theirs.browse(http()));
    for (key, name) in [(1, "plain"), (2, "Dot.ted")] {
        ours.advertise(key, on_its_host(name));
        wait_for(&mut own, name, is_resolved(name)).await;
        wait_for(&mut other, name, is_resolved(name)).await;
    }
    ours.break_down();
    wait_until("the engine was started again", || ours.health().restarts == 1).await;
    assert_eq!(ours.health().condition, Condition::Up);
    wait_until("both are advertised again", || ours.standing(1).advertised && ours.standing(2).advertised)
        .await;
    // The browse that began with the first machine finds new services.
    theirs.advertise(3, on_its_host("later"));
    wait_for(&mut own, "later", is_resolved("later")).await;
    assert_eq!(ours.withdraw(2, on_its_host("Dot.ted")).await, Goodbye::Sent);
    wait_for(&mut other, "the end of Dot.ted", is_removed("Dot.ted")).await;
    assert!(ours.standing(1).advertised);
}

#[tokio::test]
async fn a_withdrawal_that_the_machine_broke_under_is_said_by_the_next_one() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let mut other = theirs.browse(http());
    ours.advertise(1, on_its_host("ghost"));
    wait_for(&mut other, "ghost", is_resolved("ghost")).await;
    ours.break_down();
    assert_eq!(ours.withdraw(1, on_its_host("ghost")).await, Goodbye::Sent);
    assert_eq!(ours.health().restarts, 1);
    wait_for(&mut other, "the end of the ghost", is_removed("ghost")).await;
}

#[tokio::test]
async fn a_machine_that_breaks_again_and_again_is_down_for_longer_and_longer_but_not_for_ever() {
    let ours = start(free_port());
    ours.advertise(1, on_its_host("stubborn"));
    for times in 1..=4 {
        ours.break_down();
        wait_until("it is down", || matches!(ours.health().condition, Condition::Down { .. })).await;
        assert!(!ours.standing(1).advertised);
        wait_until("it was started again", || ours.health().restarts == times).await;
    }
    wait_until("it is advertised", || ours.standing(1).advertised).await;
}

#[tokio::test]
async fn closing_says_goodbye_even_if_the_machine_has_just_broken() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let mut other = theirs.browse(http());
    ours.advertise(1, on_its_host("last"));
    wait_for(&mut other, "last", is_resolved("last")).await;
    ours.break_down();
    assert_eq!(ours.close().await, [(1, Goodbye::Sent)]);
    wait_for(&mut other, "the end of the last", is_removed("last")).await;
}

#[tokio::test]
async fn who_looks_right_after_the_last_listener_left_is_told_everything() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let mut other = theirs.browse(http());
    ours.advertise(1, on_its_host("there"));
    wait_for(&mut other, "there", is_resolved("there")).await;
    for _ in 0..50 {
        // The thread hears of both at once, and finds a listener who was told nothing.
        drop(other);
        other = theirs.browse(http());
        wait_for(&mut other, "there again", is_resolved("there")).await;
    }
}

#[tokio::test]
async fn leaving_says_nothing_and_the_next_process_goes_on() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let mut other = theirs.browse(http());
    ours.advertise(1, on_its_host("kept"));
    wait_for(&mut other, "kept", is_resolved("kept")).await;
    ours.leave().await;
    let again = start(port);
    again.advertise(1, on_its_host("kept"));
    again.advertise(2, on_its_host("later"));
    let is_later = is_resolved("later");
    wait_for(&mut other, "later", |sighting| {
        assert!(!is_removed("kept")(sighting), "{sighting:?}");
        is_later(sighting)
    })
    .await;
    assert_eq!(again.standing(1).name.as_deref(), Some("kept"));
}

/// The time asleep did not count: what had run out was shown for as long as if the machine had been awake.
#[tokio::test]
async fn what_ran_out_while_the_machine_slept_is_gone_when_it_wakes() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let mut browse = ours.browse(http());
    theirs.advertise(1, on_its_host("silent"));
    wait_for(&mut browse, "silent", is_resolved("silent")).await;
    theirs.leave().await;
    ours.advertise(2, on_its_host("stays"));
    wait_for(&mut browse, "stays", is_resolved("stays")).await;
    // Longer than a pointer lives.
    ours.sleep(Duration::from_secs(4_600));
    wait_for(&mut browse, "the end of the silent one", is_removed("silent")).await;
    wait_for(&mut ours.browse(http()), "what stays", is_resolved("stays")).await;
}

#[test]
fn a_port_that_cannot_be_had_is_an_error_at_once() {
    let taken = UdpSocket::bind("0.0.0.0:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port();
    let started = Mdns::start(Options { interfaces: Vec::new(), port });
    assert!(matches!(started, Err(StartError::Engine(error)) if error.contains("cannot use port")));
}
