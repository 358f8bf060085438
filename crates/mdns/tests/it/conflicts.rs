//! Two engines that want one name, on loopback.

use tenure_mdns::{Goodbye, Service};

use crate::loopback::{
    free_port, http, service, start, wait_advertised, wait_removed, wait_resolved, wait_until,
};
use crate::observer::Observer;

async fn the_second_one_gets(name: &str, second_name: &str) {
    let port = free_port();
    let (observer, first, second) = (Observer::new(port), start(port), start(port));
    let listener = start(port);
    first.advertise(1, service(name, 1));
    wait_advertised(&first, 1).await;
    second.advertise(2, service(name, 2));
    wait_until("another name", || second.standing(2).name.as_deref() == Some(second_name)).await;
    wait_advertised(&second, 2).await;
    assert_eq!(first.standing(1).name.as_deref(), Some(name));
    let mut browse = listener.browse(http());
    assert_eq!(wait_resolved(&mut listener.browse(http()), name).await.port, Some(1));
    assert_eq!(wait_resolved(&mut browse, second_name).await.port, Some(2));
    // An update stays under the new name.
    second.advertise(2, Service { port: 3, ..service(name, 2) });
    while wait_resolved(&mut browse, second_name).await.port != Some(3) {}
    assert_eq!(second.standing(2).name.as_deref(), Some(second_name));
    assert_eq!(second.withdraw(2, service(name, 2)).await, Goodbye::Sent);
    wait_removed(&mut browse, second_name).await;
    wait_until("goodbyes under the new name", || observer.goodbyes(second_name) == 2).await;
    assert_eq!(observer.goodbyes(name), 0, "the first one's name was never withdrawn");
    // The engine does not tell of the conflict again; the next one under that name is renamed nevertheless.
    second.advertise(4, service(name, 4));
    wait_until("another name", || second.standing(4).name.as_deref() == Some(second_name)).await;
    assert!(first.standing(1).advertised);
}

#[tokio::test]
async fn a_name_that_is_taken_gets_a_number_which_is_reported() {
    the_second_one_gets("stone", "stone (2)").await;
}

#[tokio::test]
async fn a_taken_name_with_capitals_gets_a_number_too() {
    the_second_one_gets("Büro Süd", "Büro Süd (2)").await;
}

#[tokio::test]
async fn a_taken_name_with_dots_gets_a_number_too() {
    the_second_one_gets("Dot.ted", "Dot.ted (2)").await;
}

#[tokio::test]
async fn a_taken_name_of_sixty_three_bytes_is_cut_at_a_character_for_its_number() {
    let name = format!("{}ü", "x".repeat(61));
    the_second_one_gets(&name, &format!("{} (2)", "x".repeat(59))).await;
}

#[tokio::test]
async fn withdrawing_while_probing_for_another_hosts_name_does_not_withdraw_the_other_host() {
    let port = free_port();
    let (observer, first, second) = (Observer::new(port), start(port), start(port));
    first.advertise(1, service("mine", 1));
    wait_advertised(&first, 1).await;
    // Before the first probe, and after it.
    second.advertise(2, service("mine", 2));
    assert!(matches!(second.withdraw(2, service("mine", 2)).await, Goodbye::Unneeded(_)));
    assert_eq!(observer.goodbyes("mine"), 0);
    let third = start(port);
    let before = observer.probes("mine");
    third.advertise(3, service("mine", 3));
    wait_until("a probe", || observer.probes("mine") > before).await;
    assert!(matches!(third.withdraw(3, service("mine", 3)).await, Goodbye::Unneeded(_)));
    assert_eq!(observer.goodbyes("mine"), 0);
    assert!(first.standing(1).advertised);
}
