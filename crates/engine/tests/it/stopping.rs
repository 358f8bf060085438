//! A daemon that was told to stop: what is held stays held, what is ending goes on.

use crate::desk::tell;
use expect_test::expect;

#[test]
fn nobody_ends_for_silence_while_the_daemon_stops() {
    expect![[r#"
        0      conn <- done
        0      frame 1.1 at 1: session_opened, granted, granted, granted
        0      alice <- lease 2 active [a] alice epoch 1 fence 2
        0      bob <- lease 3 active [b] bob epoch 1 fence 3 valid 994
        0      gated <- lease 4 active [c] gated epoch 1 fence 4
        0      frame 1.2 at 5: revoked, note gate_opened
        0      gate of lease 4
        0      gated <- lease 4 revoking (explicit) [c] gated epoch 2 fence 4
        3000   frame 1.3 at 7: reclaimed
        9000   list <- leases [2, 3] at 7
    "#]]
    .assert_eq(&tell(
        "conn: connect 7 grace=0
         alice: grant a session=7 grace=0
         bob: grant b ttl=1000 grace=0
         gated: grant c ttl=5000 gate at_once
         settle
         gated: release gated
         settle
         word: stopping
         gone: disconnect 7
         settle
         until 3000
         done: gate gated
         settle
         until 9000
         list: list
         settle",
    ));
}
