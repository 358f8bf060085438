//! Seed: leases and admin. The wire of registrations over HTTP and lines, reconnection, reasons, the command line, the
//! breadcrumb.

use std::collections::BTreeSet;

use tenure_api::ErrorCode;

use super::stage::Stage;
use crate::registrations::ways::{NO_GRACE, Registry, SHORT, id, service};
use crate::wire::daemon::Served;

/// What drains is still there when a command on a busy machine gets to it.
const PATIENT: &[&str] = &["--mdns-http-grace", "1h", "--mdns-stdin-grace", "1h"];

#[test]
fn every_transport_has_its_default() {
    Stage::daemon(&[]).play("leases_and_admin/defaults.txt");
}

#[test]
fn the_verbs_of_the_wire() {
    Stage::daemon(&[]).play("leases_and_admin/verbs.txt");
}

#[test]
fn the_routes_of_operators() {
    Stage::daemon(&[]).play("leases_and_admin/admin_routes.txt");
}

#[test]
fn the_commands_of_operators() {
    Stage::daemon(PATIENT).play("leases_and_admin/admin_commands.txt");
}

#[test]
fn errors_have_a_code_and_a_status() {
    Stage::daemon(&[]).play("leases_and_admin/errors.txt");
}

/// The seed's table; not every one can be had from a sound daemon.
#[test]
fn every_code_has_its_status() {
    for (code, status) in [
        ("already_draining", 409),
        ("not_draining", 409),
        ("ambiguous_id", 400),
        ("invalid_type", 400),
        ("not_found", 404),
        ("resolve_timeout", 504),
        ("daemon_error", 500),
        ("io_error", 500),
    ] {
        let known = ErrorCode::from_wire(code);
        assert_eq!(known.map(ErrorCode::http_status), Some(status), "{code}");
    }
}

#[test]
fn a_registrant_that_reconnects_gets_its_old_id() {
    Stage::daemon(&[]).play("leases_and_admin/reconnecting.txt");
}

#[test]
fn services_are_browsed_resolved_and_subscribed_to() {
    Stage::daemon(&[]).play("leases_and_admin/discovering.txt");
}

#[test]
fn every_end_is_logged_with_its_reason() {
    Stage::daemon(NO_GRACE).play("leases_and_admin/reasons.txt");
}

#[test]
fn a_lease_that_is_missed_ends_as_heartbeat_expired() {
    Stage::daemon(SHORT).play("leases_and_admin/expiring.txt");
}

#[test]
fn a_breadcrumb_says_where_the_daemon_is() {
    Stage::daemon(&[]).play("leases_and_admin/breadcrumb.txt");
}

#[test]
fn the_seeds_spelling_starts_a_daemon() {
    Stage::desk().play("leases_and_admin/daemon_flag.txt");
}

#[test]
fn without_a_daemon_admin_commands_fail_fast() {
    Stage::desk().play("leases_and_admin/no_daemon.txt");
}

#[test]
fn a_command_that_registers_unregisters_when_it_is_interrupted() {
    Stage::daemon(&[]).play("leases_and_admin/client_mode.txt");
}

#[test]
fn a_beginning_of_an_id_is_enough_while_it_is_unambiguous() {
    let stage = Stage::daemon(PATIENT).play("leases_and_admin/registered.txt");
    let beginning = stage.value("app")[..3].to_owned();
    stage.name("beginning", &beginning).play("leases_and_admin/beginnings.txt");
}

#[test]
fn a_beginning_of_several_ids_is_refused() {
    let stage = Stage::daemon(&[]);
    let beginning = ambiguous_beginning(stage.served());
    stage.name("beginning", &beginning).play("leases_and_admin/ambiguous.txt");
}

/// Registers until two ids begin alike, and gives that beginning.
fn ambiguous_beginning(daemon: &Served) -> String {
    let mut seen = BTreeSet::new();
    for number in 0..1_000 {
        let registered = daemon.register(service(&format!("service {number}")));
        let beginning = id(&registered)[..2].to_owned();
        if !seen.insert(beginning.clone()) {
            return beginning;
        }
    }
    panic!("ids are not random");
}
