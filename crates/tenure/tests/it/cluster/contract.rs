//! Every application at a follower, and while the leader changes between the requests: scripts that other modules wrote for
//! one daemon, as they are. What they expect of one daemon, they expect of a cluster.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::stage::{Leader, with_followers};
use crate::run_support::boot_ms;
use crate::{polling_http, registrations, run_lease, streams, wire};

/// The scripts of one file.
struct File {
    name: &'static str,
    text: &'static str,
    scripts: &'static [(&'static str, fn())],
}

macro_rules! scripts {
    ($($area:ident::$file:ident: $scripts:tt,)*) => {
        &[$(File {
            name: concat!(stringify!($area), "::", stringify!($file)),
            text: include_str!(concat!("../", stringify!($area), "/", stringify!($file), ".rs")),
            scripts: scripts!(in $area::$file: $scripts),
        }),*]
    };
    (in $($module:ident)::+: [$($script:ident),* $(,)?]) => {
        scripts!(named ($($module)::+) [$($script),*])
    };
    (named $module:tt [$($script:ident),*]) => {
        &[$((stringify!($script), scripts!(path $module $script))),*]
    };
    (path ($($module:ident)::+) $script:ident) => { $($module)::+::$script };
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
    registrations::beating: [
        a_heartbeat_over_http_renews_the_lease,
        a_heartbeat_moves_last_seen,
        a_heartbeat_over_lines_is_the_id_alone,
        a_registration_of_a_connection_beats_on_that_connection_only,
        an_operators_drain_is_told_to_those_who_beat,
    ],
    registrations::ending: [
        unregistering_over_http_ends_it_with_reason_explicit,
        unregistering_over_lines_ends_it_with_reason_explicit,
        a_standard_input_that_ends_drains_and_ends_what_it_registered,
        the_end_of_a_session_drains_all_it_registered_and_nothing_else,
        without_grace_a_dropped_connection_ends_what_it_had_at_once,
    ],
    registrations::coming_back: [
        a_registrant_that_comes_back_gets_its_id_back,
        nothing_is_withdrawn_when_a_registrant_comes_back,
        an_end_with_an_epoch_is_of_that_epoch_alone,
        a_registration_may_move_from_one_transport_to_another,
        the_oldest_of_several_is_come_back_to_first,
        only_one_of_many_comes_back_to_the_same_registration,
        a_lease_of_a_registration_is_resumed_like_any_other,
        a_repeated_key_finds_what_was_taken_over,
    ],
    registrations::terms: [
        over_http_a_heartbeat_within_90_seconds_keeps_it,
        over_standard_input_the_connection_keeps_it_with_less_grace,
        a_lease_of_0_is_permanent_from_every_transport,
        graces_and_the_lease_over_http_are_configured,
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
    streams::ending: [
        a_delete_stops_the_session_and_its_slot_is_free_at_once,
        an_intent_to_stop_is_accepted_with_the_session,
        a_client_that_gives_up_says_why,
        a_session_that_is_starting_is_stopped_and_failed_like_any_other,
        what_ended_stays_readable_with_all_it_was,
    ],
    streams::queueing: [
        who_waits_is_accepted_at_once_and_told_its_place,
        who_waits_for_what_is_free_has_it_at_once,
        a_slot_that_comes_free_goes_to_the_first_and_the_others_move_up,
        who_waited_with_a_start_timeout_is_starting_from_then_on,
        who_does_not_wait_never_overtakes_who_does,
        queues_of_different_pools_do_not_meet,
        a_heartbeat_in_the_queue_says_how_long_the_place_is_kept,
        who_queues_can_leave_and_the_others_move_up,
        the_queue_is_listed_in_its_order,
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
    polling_http::freeing: [
        a_release_says_in_its_own_words_why_a_target_came_free,
        a_target_that_is_no_more_is_not_missed,
        closing_a_session_is_a_shutdown,
        what_ends_together_is_free_together_and_bookkeeping_is_no_target,
    ],
    polling_http::reporting: [
        groups_are_listed_with_their_numbers,
    ],
};

/// `tenure run`.
const RUN: &[File] = &[File {
    name: "run_lease",
    text: include_str!("../run_lease.rs"),
    scripts: scripts!(in run_lease: [
        exit_code_input_output_and_environment_are_the_commands_own,
        the_lease_is_held_meanwhile_and_released_at_once,
        members_of_a_pool_are_named_in_the_environment,
        a_command_that_cannot_be_run_frees_the_lease,
        dying_of_a_signal_is_told_as_shells_do_and_frees_the_lease,
        what_a_command_leaves_behind_is_ended_before_the_lease_is_released,
        a_stopped_supervisor_does_not_keep_the_command_running,
        a_killed_supervisor_does_not_keep_the_command_running,
        a_revoked_lease_ends_the_command_and_frees_the_resource_at_once,
        a_drain_is_told_once_and_the_command_may_end_by_itself,
        who_only_wants_a_warning_gets_one,
        an_interrupted_wait_runs_nothing_and_takes_nothing,
    ]),
}];

/// Scripts of these files that only a daemon alone plays, and why: record 0089.
const ALONE: &[(&str, &[&str])] = &[
    (
        "it restarts the daemon: other modules of `cluster` restart nodes",
        &[
            "a_queue_is_in_memory_only",
            "a_target_that_no_poller_asks_for_any_more_is_not_unowned",
            "without_a_daemon_nothing_is_run",
            "a_daemon_that_comes_back_in_time_is_hardly_noticed",
            "a_daemon_that_stays_away_ends_the_command_before_the_promise_ends",
            "a_frozen_daemon_ends_the_command_before_the_promise_ends",
            "a_wait_survives_the_restart_of_the_daemon",
        ],
    ),
    (
        "log lines and metrics are those of one process",
        &[
            "a_thousand_registrations_of_a_connection_that_dies_end_together",
            "a_life_without_ends_writes_no_line",
            "a_name_cannot_forge_a_line_of_the_log",
            "where_programs_read_the_log_an_end_is_one_object",
            "a_target_that_nobody_ever_held_is_unowned_while_a_poller_asks_for_it",
            "targets_whose_polls_fail_are_shown_and_counted",
        ],
    ),
    (
        "credentials and malformed input: no node treats them otherwise than a daemon alone",
        &[
            "a_command_finds_credentials_only_if_it_should",
            "wrong_usage_is_told_before_anything_is_asked",
            "with_credentials_only_the_same_principal_comes_back_to_it",
            "a_huge_lease_is_refused_and_harms_nothing",
            "giving_up_takes_a_reason_of_bounded_length",
        ],
    ),
    (
        "it is about crowds and limits: `load.rs` has crowds, under faults",
        &[
            "a_connection_that_does_not_read_its_browse_is_noticed_when_it_goes",
            "ids_are_never_given_twice",
            "beyond_the_history_window_it_is_unknown",
            "a_full_queue_is_an_answer",
        ],
    ),
    (
        "a node renews what its connections keep, so such a registration has some seconds left where it has no end alone",
        &["over_the_socket_the_connection_keeps_it"],
    ),
    (
        "only the command and its guardian are in it: the daemon is asked nothing more",
        &[
            "signals_are_passed_on_and_the_end_is_waited_for",
            "ignored_signals_stay_ignored",
            "a_killed_guardian_takes_everything_with_it",
            "a_stopped_guardian_is_replaced_by_the_supervisor_in_time",
        ],
    ),
    (
        "another script of the file makes the same call on the same way: each costs a cluster",
        &[
            "an_unknown_id_is_not_found_on_every_transport",
            "registrants_need_the_exact_id",
            "a_wait_of_nothing_is_no_wait",
            "heartbeats_keep_a_registration_beyond_its_lease_and_grace",
            "a_registration_over_http_is_kept_over_lines_by_the_same_principal",
            "a_permanent_registration_may_beat_and_stays_permanent",
            "a_stale_epoch_is_refused_and_renews_nothing",
            "a_heartbeat_brings_a_silent_registration_back",
            "a_registration_of_another_connection_of_the_same_principal_may_be_unregistered",
            "a_dropped_connection_drains_at_once_and_ends_after_its_grace",
            "silence_over_http_drains_then_ends_with_reason_heartbeat_expired",
            "permanent_registrations_and_open_sessions_outlast_every_lease_and_grace",
            "an_operator_ends_any_registration_with_reason_admin_force",
            "from_the_first_moment_on_a_registrant_is_told_why_it_ended",
            "what_an_operator_drained_ends_with_reason_admin_force",
            "a_registrant_that_is_killed_during_a_browse_is_noticed",
            "a_registrant_that_comes_back_may_spell_name_and_type_otherwise",
            "another_name_or_type_is_another_registration",
            "names_are_one_whatever_their_capitals",
            "silence_over_http_is_come_back_from_by_registering_again",
            "the_requested_name_counts_not_the_advertised_one",
            "what_an_operator_drained_is_come_back_to_and_stays_draining",
            "a_registrant_that_comes_back_may_have_another_address",
            "asking_for_permanence_does_not_undo_an_operators_drain",
            "a_lease_over_http_is_how_long_a_heartbeat_lasts",
            "a_lease_over_lines_stays_with_the_session_and_the_answer_says_so",
            "lease_secs_is_another_word_for_lease",
            "an_answer_has_what_the_contract_lists",
            "an_operator_sees_all_that_the_contract_lists",
            "what_ended_answers_every_holder_call_with_how",
            "the_longest_life_ends_the_most_lively_session",
            "silence_hands_the_slot_to_who_waits",
            "when_the_wait_is_over_it_has_failed",
            "a_slot_that_comes_when_the_wait_is_over_is_given_or_stays_free",
            "a_place_is_kept_by_heartbeats_and_lost_by_silence",
            "a_dead_pollers_targets_are_nobodys_until_they_are_taken",
            "a_target_that_an_operator_took_away_is_nobodys_once_it_is_safe",
        ],
    ),
];

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
    (
        "a_registration_may_move_from_one_transport_to_another",
        "a draining lease gets a full ttl from the next leader, and its name is free only when it drains again",
    ),
    (
        "who_waits_is_accepted_at_once_and_told_its_place",
        "a queue of slot sessions ends with its leader: record 0077",
    ),
    ("a_slot_that_comes_free_goes_to_the_first_and_the_others_move_up", "the same"),
    ("who_does_not_wait_never_overtakes_who_does", "the same"),
    ("a_heartbeat_in_the_queue_says_how_long_the_place_is_kept", "the same"),
    ("who_queues_can_leave_and_the_others_move_up", "the same"),
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

#[test]
fn commands_at_a_follower_run_as_they_do_alone() {
    play(RUN, Leader::Stays);
}

#[test]
fn commands_over_changes_of_leader_run_as_they_do_alone() {
    play(RUN, Leader::Changes);
}

/// A script that is written later is run here too, or has a reason.
#[test]
fn every_script_of_these_files_is_listed() {
    let files = || [LEASES, REGISTRATIONS, SLOT_SESSIONS, POLLING, RUN].into_iter().flatten();
    for file in files() {
        let tests = file.text.matches("#[test]\n").count();
        let is_in = |name: &&&str| file.text.contains(&format!("#[test]\nfn {name}()"));
        let alone = ALONE.iter().flat_map(|(_, names)| *names).filter(is_in).count();
        assert_eq!(file.scripts.len() + alone, tests, "list every test of {} in this file", file.name);
    }
    for (reason, names) in ALONE {
        let is_there = |name: &&str| files().any(|file| file.text.contains(&format!("#[test]\nfn {name}()")));
        assert!(names.iter().all(is_there) && !reason.is_empty(), "no script of these files: {names:?}");
    }
    for (name, reason) in NOT_AT_A_FOLLOWER.iter().chain(NOT_OVER_CHANGES_OF_LEADER) {
        let is_known = files().any(|file| file.scripts.iter().any(|(script, _)| script == name));
        assert!(is_known && !reason.is_empty(), "{name} is no script");
    }
}
