//! Leases of pollers are told of as they change, without a watch, and before the answer to what changed them.

use crate::desk::tell;
use expect_test::expect;

#[test]
fn every_change_of_a_pollers_lease_is_told_once_it_is_durable_and_nobody_elses() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      followed at 1 in new hands: lease 1 active [poll/g/a] p epoch 1 fence 1 valid 89549
        0      p <- lease 1 active [poll/g/a] p epoch 1 fence 1 valid 89549
        0      other <- lease 2 active [b] other epoch 1 fence 2 valid 89549
        0      frame 1.2 at 3: amended, rebound, amended
        0      followed at 3: lease 1 active [poll/g/a] p epoch 1 fence 1 valid 89549
        0      amend <- lease 1 active [poll/g/a] p epoch 1 fence 1 valid 89549
        0      followed at 4 in new hands: lease 1 active [poll/g/a] bob epoch 2 fence 4 valid 89549
        0      moved <- lease 1 active [poll/g/a] bob epoch 2 fence 4 valid 89549
        0      also <- lease 2 active [b] other epoch 1 fence 2 valid 89549
        0      frame 1.3 at 6: draining
        0      followed at 6: lease 1 active drained [poll/g/a] bob epoch 2 fence 4 valid 89549
        0      drain <- lease 1 active drained [poll/g/a] bob epoch 2 fence 4 valid 89549
        0      frame 1.4 at 7: revived
        0      followed at 7: lease 1 active [poll/g/a] bob epoch 2 fence 4 valid 89549
        0      back <- lease 1 active [poll/g/a] bob epoch 2 fence 4 valid 89549
        0      frame 1.5 at 8: revoked
        0      followed at 8: lease 1 revoking (admin_force) [poll/g/a] bob epoch 3 fence 4
        0      gone <- lease 1 revoking (admin_force) [poll/g/a] bob epoch 3 fence 4
        0      frame 1.6 at 9: released
        0      free <- lease 2 released (explicit) epoch 2
        60000  frame 1.7 at 10: tick
        90000  frame 1.8 at 11: reclaimed
    "#]]
    .assert_eq(&tell(
        "p: grant poll/g/a face=polling
         other: grant b
         turn
         sync
         amend: amend p
         moved: rebind p holder=bob
         also: amend other
         settle
         drain: drain p
         settle
         back: revive p
         settle
         gone: revoke p
         settle
         free: release other
         settle
         until 95000",
    ));
}
