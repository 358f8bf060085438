//! Seed: lease kernel decisions. One lease over several resources, fenced by its epoch, revoked in two stages.

use super::stage::Stage;

#[test]
fn a_bundle_is_granted_whole_or_not_at_all() {
    Stage::daemon(&[]).play("lease_kernel/bundles.txt");
}

#[test]
fn a_revoke_withdraws_authority_and_a_reclaim_frees() {
    Stage::daemon(&[]).play("lease_kernel/revoking.txt");
}

#[test]
fn every_state_of_the_lifecycle() {
    Stage::daemon(&[]).play("lease_kernel/states.txt");
}

#[test]
fn the_same_over_lines() {
    Stage::daemon(&[]).play("lease_kernel/lines.txt");
}

#[test]
fn the_same_on_the_command_line() {
    Stage::daemon(&[]).play("lease_kernel/commands.txt");
}
