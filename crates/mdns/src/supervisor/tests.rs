//! The engine dies behind the supervisor's back, by its own end and by a panic; on loopback with a private port.

use core::time::Duration;
use std::net::UdpSocket;

use crate::board::Condition;
use crate::engine::Engine;
use crate::service::Service;
use crate::service::tests::service;
use crate::{Browse, Goodbye, Interface, Mdns, Options, Sighting, Wanted};

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

async fn everything_comes_back_after(disturb: fn(&Engine)) {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let (mut own, mut other) = (ours.browse(http()), theirs.browse(http()));
    for (key, name) in [(1, "plain"), (2, "Dot.ted")] {
        ours.advertise(key, on_its_host(name));
        wait_for(&mut own, name, is_resolved(name)).await;
        wait_for(&mut other, name, is_resolved(name)).await;
    }
    ours.disturb(disturb);
    wait_until("the engine was started again", || ours.health().restarts == 1).await;
    assert_eq!(ours.health().condition, Condition::Up);
    wait_until("both are advertised again", || ours.standing(1).advertised && ours.standing(2).advertised)
        .await;
    // What is new is found by the browse that began with the first engine.
    theirs.advertise(3, on_its_host("later"));
    wait_for(&mut own, "later", is_resolved("later")).await;
    // And what was announced by the first engine can be withdrawn by the second.
    assert_eq!(ours.withdraw(2, on_its_host("Dot.ted")).await, Goodbye::Sent);
    wait_for(&mut other, "the end of Dot.ted", is_removed("Dot.ted")).await;
    assert!(ours.standing(1).advertised);
}

#[tokio::test]
async fn everything_comes_back_after_the_thread_has_ended() {
    everything_comes_back_after(|engine| drop(engine.end())).await;
}

#[tokio::test]
async fn everything_comes_back_after_the_thread_has_panicked() {
    everything_comes_back_after(Engine::break_down).await;
}

#[tokio::test]
async fn a_withdrawal_while_the_thread_is_dead_is_said_by_the_next_one() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let mut other = theirs.browse(http());
    ours.advertise(1, on_its_host("ghost"));
    wait_for(&mut other, "ghost", is_resolved("ghost")).await;
    // A panic says no goodbye, so that the removal can only come from the second engine.
    ours.disturb(Engine::break_down);
    let goodbye = ours.withdraw(1, on_its_host("ghost"));
    assert_eq!(goodbye.await, Goodbye::Sent);
    assert_eq!(ours.health().restarts, 1);
    wait_for(&mut other, "the end of the ghost", is_removed("ghost")).await;
}

#[tokio::test]
async fn an_engine_that_dies_again_and_again_is_down_for_longer_and_longer_but_not_for_ever() {
    let ours = start(free_port());
    ours.advertise(1, on_its_host("stubborn"));
    for times in 1..=4 {
        ours.disturb(Engine::break_down);
        wait_until("it is down", || matches!(ours.health().condition, Condition::Down { .. })).await;
        assert!(!ours.standing(1).advertised);
        wait_until("it was started again", || ours.health().restarts == times).await;
    }
    wait_until("it is advertised", || ours.standing(1).advertised).await;
}

#[tokio::test]
async fn closing_says_goodbye_even_if_the_thread_has_just_died() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let mut other = theirs.browse(http());
    ours.advertise(1, on_its_host("last"));
    wait_for(&mut other, "last", is_resolved("last")).await;
    ours.disturb(Engine::break_down);
    assert_eq!(ours.close().await, [(1, Goodbye::Sent)]);
    wait_for(&mut other, "the end of the last", is_removed("last")).await;
}

#[tokio::test]
async fn services_with_dots_are_asked_for_by_their_labels() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let mut browse = theirs.browse(http());
    ours.advertise(1, on_its_host("Dot.ted"));
    wait_for(&mut browse, "Dot.ted", is_resolved("Dot.ted")).await;
    let locals = crate::interface::in_use(&[Interface::Loopback]);
    let mut ear = crate::ear::Ear::open(&locals, port).expect("an ear");
    theirs.ask_now();
    let asked = async {
        let is_meant = |(name, kind): &(crate::wire::Name, u16)| {
            *kind == crate::wire::SRV && name.key() == "dot\\.ted._http._tcp.local."
        };
        while !ear.next().await.questions.iter().any(is_meant) {}
    };
    assert!(tokio::time::timeout(LIMIT, asked).await.is_ok());
}

#[tokio::test]
async fn an_engine_is_replaced_without_anyone_noticing() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let (mut own, mut other) = (ours.browse(http()), theirs.browse(http()));
    for (key, name) in [(1, "plain"), (2, "Dot.ted"), (3, "Goes")] {
        ours.advertise(key, on_its_host(name));
        wait_for(&mut own, name, is_resolved(name)).await;
        wait_for(&mut other, name, is_resolved(name)).await;
    }
    ours.replace_engine();
    assert_eq!(ours.withdraw(3, on_its_host("Goes")).await, Goodbye::Sent);
    wait_for(&mut other, "the end of Goes", is_removed("Goes")).await;
    assert_eq!(ours.health().restarts, 0);
    ours.advertise(4, on_its_host("later"));
    let is_later = is_resolved("later");
    wait_for(&mut other, "later", |sighting| {
        assert!(!matches!(sighting, Sighting::Removed { .. }), "{sighting:?}");
        is_later(sighting)
    })
    .await;
    assert!(ours.standing(1).advertised && ours.standing(2).advertised);
}
