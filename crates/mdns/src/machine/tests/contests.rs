//! Services whose names other hosts claim again and again: how slowly further names are tried.

use super::*;

/// How often a service whose names are all taken tries the next one within five seconds of the one before.
fn early_tries(services: u128, time: Duration) -> usize {
    let mut world = World::new(1, 7);
    world.stranger = Some(claims_all);
    for key in 1..=services {
        world.advertise(0, key, &format!("wanted {key}"));
    }
    world.run(time);
    let mut tries: BTreeMap<String, Vec<Instant>> = BTreeMap::new();
    for (name, at) in world.probed_at.iter().filter(|(name, _)| name.contains("_http")) {
        let base = name.split([' ', '.']).take(2).collect::<Vec<_>>().join(" ");
        tries.entry(base).or_default().push(*at);
    }
    assert_eq!(tries.len(), usize::try_from(services).expect("few"));
    let mut early = 0;
    for at in tries.values_mut() {
        at.sort_unstable();
        early += at.windows(2).filter(|pair| pair[1] - pair[0] < Duration::from_secs(5)).count();
    }
    early
}

/// Until the fifteenth conflict. A few services made fewer than fifteen in ten seconds once they waited, and then waited
/// no longer.
#[test]
fn contested_services_each_wait_five_seconds_between_names_from_the_fifteenth_conflict_on() {
    for (services, seconds) in [(40, 30), (8, 60), (5, 60), (3, 60)] {
        let early = early_tries(services, Duration::from_secs(seconds));
        assert!(early <= 14, "{services}: {early} names were tried within five seconds of the one before");
    }
}

/// Forty services that have just lost their names, too many at once: the next names wait for five seconds.
fn after_forty_conflicts() -> World {
    let mut world = World::new(1, 7);
    (1..=40).for_each(|key| world.advertise(0, key, &format!("wanted {key}")));
    world.run(Duration::from_secs(10));
    let claims = response((1..=40).map(|key| server_of(&format!("wanted {key}"))).collect());
    // The first has the names probed for again.
    (0..2).for_each(|_| world.hear(&claims));
    world
}

/// Each packet took the next forty names, of which none was asked for, and left forty timers for five seconds.
#[test]
fn names_that_are_claimed_before_they_are_probed_for_are_not_gone_through() {
    let mut world = after_forty_conflicts();
    for number in 2..=50 {
        let claims = (1..=40).map(|key| server_of(&format!("wanted {key} ({number})")));
        world.hear(&response(claims.collect()));
        world.run(Duration::from_millis(10));
        let load = world.hosts[0].machine.load();
        assert!(load.timers <= 40, "{load:?}");
    }
    world.run(Duration::from_secs(20));
    for (key, standing) in &world.hosts[0].standings {
        assert_eq!(standing.name, Some(format!("wanted {key} (2)")));
    }
}

/// The wait of five seconds became one of a second, which is how long the loser of a simultaneous probe waits.
#[test]
fn a_lost_simultaneous_probe_does_not_shorten_the_wait_after_many_conflicts() {
    let mut world = after_forty_conflicts();
    let lost_at = world.now;
    let name = http_name(&["wanted 1 (2)"]);
    let question = Question { name: name.clone(), kind: ANY, wants_unicast: false };
    let authorities = vec![server_of("wanted 1 (2)")];
    world.hear(&Message { questions: vec![question], authorities, ..Message::default() });
    world.run(Duration::from_secs(20));
    let waited = world.probed_at[&name.to_string()] - lost_at;
    assert!(waited >= Duration::from_secs(5), "{waited:?}");
}
