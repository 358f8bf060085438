//! Every application at a follower, and while the leader changes between the requests: scripts that other modules wrote for
//! one daemon, as they are. What they expect of one daemon, they expect of a cluster.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::stage::{Leader, with_followers};
use crate::run_support::boot_ms;
use crate::{polling_http, registrations, streams, wire};

/// The scripts of one file.
struct File {
    name: &'static str,
    text: &'static str,
    scripts: &'static [(&'static str, fn())],
}

macro_rules! scripts {
    ($($area:ident::$file:ident: [$($script:ident),* $(,)?],)*) => {
        &[$(File {
            name: concat!(stringify!($area), "::", stringify!($file)),
            text: include_str!(concat!("../", stringify!($area), "/", stringify!($file), ".rs")),
            scripts: &[$((stringify!($script), $area::$file::$script)),*],
        }),*]
    };
}

/// Every call about leases, over HTTP and over lines.
const LEASES: &[File] = scripts! {
    wire::contract_leases: [
        a_lease_lives_and_is_given_back,
        a_conflict_names_who_is_in_the_way,
        a_stale_epoch_is_refused_with_the_current_one,
        an_operation_id_makes_a_retry_harmless,
        a_reservation_is_activated_or_runs_out,
        a_revoked_lease_is_reclaimed_when_that_is_safe,
        an_operator_drains_and_revives,
        a_permanent_lease_ends_only_by_hand,
        a_guarded_store_asks_what_is_current,
        the_story_of_a_lease_is_told,
        leases_are_listed_in_order_and_by_page,
    ],
    wire::contract_queues: [
        a_bundle_is_taken_whole_or_not_at_all,
        a_pool_gives_any_of_its_members,
        who_waits_is_served_in_order,
        who_waits_for_a_bundle_is_not_overtaken_for_parts_of_it,
        a_wait_has_an_end,
    ],
    wire::contract_faults: [
        durations_out_of_range_are_refused,
        contradictions_are_refused,
        names_that_are_not_acceptable_are_refused,
        ids_of_another_log_are_known_nowhere,
        ids_of_another_log_name_no_lease_in_any_call,
        unknown_fields_are_named,
        what_is_too_large_is_refused,
    ],
};

/// Registrations, over HTTP and over lines.
const REGISTRATIONS: &[File] = scripts! {
    registrations::native: [
        a_registration_is_a_lease_of_its_own_face,
        its_lease_covers_the_advertised_name_in_lower_case_and_encoded,
        names_of_registrations_are_refused_to_native_grants,
        a_native_release_is_an_unregister,
        a_native_release_over_lines_is_an_unregister_too,
        a_native_revoke_ends_the_registration,
        a_native_drain_and_revive_show_here_and_the_other_way_round,
        a_native_heartbeat_keeps_a_registration,
        the_life_of_a_registration_is_on_the_stream_of_events,
        the_attachment_of_a_registration_is_not_its_payload,
        the_status_counts_registrations_by_face,
        a_replayed_native_operation_id_does_not_meet_a_registration,
    ],
    registrations::operating: [
        the_list_is_a_bare_array_sorted_by_name,
        the_status_counts_by_state_and_says_where_the_daemon_is,
        a_prefix_that_begins_one_id_only_stands_for_it,
        a_prefix_that_begins_several_ids_is_refused_with_all_of_them,
        a_prefix_of_one_character_is_refused,
        a_drain_waits_for_the_grace_and_a_revive_takes_it_back,
        a_permanent_registration_is_not_drained,
        a_registration_whose_connection_is_gone_is_not_revived,
        a_silent_heartbeat_registration_is_revived_for_one_more_lease,
        unknown_ids_are_not_found,
        every_other_spelling_of_a_path_does_the_same,
        why_tells_the_story_of_a_registration_by_its_id,
        why_goes_on_over_a_take_over,
    ],
};

/// Sessions of `/api/v3`.
const SLOT_SESSIONS: &[File] = scripts! {
    streams::starting: [
        an_intent_to_start_is_accepted_with_the_whole_session,
        what_was_asked_comes_back_on_every_look,
        every_session_has_an_id_and_a_slot_of_its_own,
        the_holder_is_the_client_or_else_the_principal,
        several_slots_are_taken_together,
        a_pool_is_named_or_the_configured_one,
        resources_by_name_stand_instead_of_slots_or_beside_them,
        the_slot_is_taken_when_the_intent_is_answered,
        fences_of_a_slot_rise_from_session_to_session,
        with_a_start_timeout_it_must_be_activated,
        while_starting_a_heartbeat_is_acknowledged_and_moves_nothing,
        who_is_not_activated_in_time_has_failed_and_its_slot_is_free,
        an_activate_at_the_start_deadline_counts_or_the_slot_is_free,
        a_session_that_runs_is_not_harmed_by_another_activate,
        sessions_are_started_over_the_socket_too,
    ],
};

/// Groups of pollers, as the tests are pollers by hand.
const POLLING: &[File] = scripts! {
    polling_http::steering: [
        a_target_that_is_moved_should_be_there_and_is_pinned_once_it_is,
        a_target_that_nobody_has_can_be_moved,
        who_is_not_there_is_refused_with_those_who_are,
        what_is_not_understood_is_refused,
        nothing_is_moved_to_one_that_takes_nothing,
        a_cordoned_poller_should_have_nothing_until_it_is_uncordoned,
        where_everybody_is_cordoned_nobody_should_have_anything,
        what_was_said_of_a_drawn_name_ends_with_it_and_of_a_fixed_one_stays,
        a_cordon_whose_poller_is_gone_can_be_taken_back,
        a_pin_can_be_taken_back_when_target_and_poller_are_gone,
        a_key_makes_a_retry_harmless,
        operators_who_speak_at_once_are_heard_one_after_the_other,
        an_operator_may_end_a_word_natively_and_it_is_gone_at_once,
    ],
};

/// Scripts that are about one daemon, and why a follower need not be like it.
const NOT_AT_A_FOLLOWER: &[(&str, &str)] = &[
    ("the_holder_is_the_client_or_else_the_principal", "a user of a node has the name of its machine too"),
    (
        "the_status_counts_by_state_and_says_where_the_daemon_is",
        "the status is that of the leader, its process and its addresses too",
    ),
];

/// Scripts that a follower keeps to, and a change of leader does not, by decision.
const NOT_OVER_CHANGES_OF_LEADER: &[(&str, &str)] = &[
    (
        "a_revoked_lease_is_reclaimed_when_that_is_safe",
        "a leader that resigns before it reclaims forgets who acknowledged: the next waits for the validity",
    ),
    ("who_waits_is_served_in_order", "those who wait ask the next leader again, each in its own time"),
    ("who_waits_for_a_bundle_is_not_overtaken_for_parts_of_it", "the same: until then they do not wait"),
    (
        "a_registration_whose_connection_is_gone_is_not_revived",
        "the next leader gives a session that fell silent a full term, as a restart does",
    ),
    ("a_native_release_is_an_unregister", "a stream of /v1/events may end with a change of leader"),
    ("the_life_of_a_registration_is_on_the_stream_of_events", "the same"),
    (
        "every_other_spelling_of_a_path_does_the_same",
        "a view says that nothing was heard since a change of leader",
    ),
    ("while_starting_a_heartbeat_is_acknowledged_and_moves_nothing", "the deadline of a start begins again"),
];

/// Plays all that run there; tells of every one that failed.
#[expect(clippy::print_stdout, reason = "a failed run shows it, and who looks for the time")]
#[track_caller]
fn play(files: &[File], leader: Leader) {
    let left_out = |name: &str| {
        let is_in = |reasons: &[(&str, &str)]| reasons.iter().any(|(script, _)| *script == name);
        is_in(NOT_AT_A_FOLLOWER) || leader == Leader::Changes && is_in(NOT_OVER_CHANGES_OF_LEADER)
    };
    let mut failed = Vec::new();
    let resigned = with_followers(leader, || {
        for file in files {
            for (name, script) in file.scripts.iter().filter(|(name, _)| !left_out(name)) {
                let begun_ms = boot_ms();
                let outcome = catch_unwind(AssertUnwindSafe(script));
                let word = if outcome.is_ok() { "as alone" } else { "FAILED" };
                println!("{}::{name}: {word} after {} ms", file.name, boot_ms() - begun_ms);
                if outcome.is_err() {
                    failed.push(format!("{}::{name}", file.name));
                }
            }
        }
    });
    assert!(failed.is_empty(), "not as at a daemon alone: {failed:#?}");
    assert_eq!(resigned > 0, leader == Leader::Changes, "{resigned} resignations");
}

#[test]
fn leases_at_a_follower_are_as_they_are_alone() {
    play(LEASES, Leader::Stays);
}

#[test]
fn leases_over_changes_of_leader_are_as_they_are_alone() {
    play(LEASES, Leader::Changes);
}

#[test]
fn registrations_at_a_follower_are_as_they_are_alone() {
    play(REGISTRATIONS, Leader::Stays);
}

#[test]
fn registrations_over_changes_of_leader_are_as_they_are_alone() {
    play(REGISTRATIONS, Leader::Changes);
}

#[test]
fn slot_sessions_at_a_follower_are_as_they_are_alone() {
    play(SLOT_SESSIONS, Leader::Stays);
}

#[test]
fn slot_sessions_over_changes_of_leader_are_as_they_are_alone() {
    play(SLOT_SESSIONS, Leader::Changes);
}

#[test]
fn groups_of_pollers_at_a_follower_are_as_they_are_alone() {
    play(POLLING, Leader::Stays);
}

#[test]
fn groups_of_pollers_over_changes_of_leader_are_as_they_are_alone() {
    play(POLLING, Leader::Changes);
}

/// A script that is written later is run here too, or has a reason.
#[test]
fn every_script_of_these_files_is_listed() {
    let files = || [LEASES, REGISTRATIONS, SLOT_SESSIONS, POLLING].into_iter().flatten();
    for file in files() {
        let tests = file.text.matches("#[test]\n").count();
        assert_eq!(file.scripts.len(), tests, "list every test of {} in this file", file.name);
    }
    for (name, reason) in NOT_AT_A_FOLLOWER.iter().chain(NOT_OVER_CHANGES_OF_LEADER) {
        let is_known = files().any(|file| file.scripts.iter().any(|(script, _)| script == name));
        assert!(is_known && !reason.is_empty(), "{name} is no script");
    }
}
