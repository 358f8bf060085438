//! Seed: registration leases. Three modes, each with its proof of life; states; what an operator does.

use super::stage::Stage;
use crate::registrations::ways::SHORT;

#[test]
fn a_registration_has_the_lease_mode_of_its_transport() {
    Stage::daemon(&[]).play("registration_leases/modes.txt");
}

#[test]
fn a_missed_heartbeat_drains_and_a_heartbeat_brings_back() {
    // A lease of a second is missed soon; a grace of an hour is never over here.
    Stage::daemon(&["--mdns-http-lease", "1s", "--mdns-http-grace", "1h"])
        .play("registration_leases/draining.txt");
}

#[test]
fn what_is_not_heard_of_again_is_removed() {
    Stage::daemon(SHORT).play("registration_leases/expiring.txt");
}

#[test]
fn an_operator_sees_everything_and_overrides_it() {
    Stage::daemon(&["--mdns-http-grace", "1h"]).play("registration_leases/operator.txt");
}
