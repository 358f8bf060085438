//! Seed: session lease semantics. Sessions of `/api/v3`, their fields, their end, metrics, log fields and settings.

use std::fs;

use super::stage::Stage;
use crate::daemon::Daemon;
use crate::streams::ways::{SHORT, prepared};

#[test]
fn a_session_says_until_when_it_is_valid() {
    Stage::of(prepared(&[], &[])).play("session_leases/fields.txt");
}

#[test]
fn a_session_whose_lease_passed_is_stopped() {
    Stage::of(prepared(SHORT, &[])).play("session_leases/expiring.txt");
}

#[test]
fn its_end_is_an_object_in_a_structured_log() {
    Stage::of(prepared(SHORT, &["--log-format", "json"])).play("session_leases/log_fields.txt");
}

#[test]
fn its_problems_have_one_form() {
    Stage::of(prepared(&[], &[])).play("session_leases/problems.txt");
}

#[test]
fn its_settings_have_the_names_and_defaults_of_the_seed() {
    let daemon =
        Daemon::prepared(&["--config", "DIR/tenure.toml"]).with_variable("TENURE_SESSIONS_POOLS", "tuner=4");
    let settings =
        "[sessions]\nlease_ttl = \"60s\"\nheartbeat_interval = 5\nexpiry_check_interval = \"10s\"\n";
    fs::write(daemon.path("tenure.toml"), settings).unwrap();
    Stage::of(daemon).play("session_leases/settings.txt");
}
