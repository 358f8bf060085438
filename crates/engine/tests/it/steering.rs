//! What the view of a lease shows, what `drain` answers and what `revive` answers never contradict each other, whatever keeps
//! the lease and however it came to drain (`leases.md` §1).

use crate::desk::{Desk, tell};
use crate::words::code;
use expect_test::expect;
use tenure_engine::{Answer, LeaseFound};
use tenure_liveness::Standing;

const KEPT: [(&str, &str); 3] = [
    ("heartbeats", "alice: grant a ttl=5000 grace=600000"),
    ("a session by hand", "s5: open 5 ttl=5000 grace=600000\n alice: grant a session=5"),
    ("a connection", "c6: connect 6 grace=600000\n alice: grant a session=6 grace=600000"),
];

const STATES: [(&str, &str); 6] = [
    ("alive", ""),
    ("silent", "c6: disconnect 6\n until 6000"),
    ("drained", "root: drain alice"),
    ("drained, then silent", "root: drain alice\n settle\n c6: disconnect 6\n until 6000"),
    ("drained and revived", "root: drain alice\n settle\n root: revive alice"),
    ("restarted", "settle\n restart\n until 6000"),
];

#[test]
fn view_drain_and_revive_agree_about_every_lease() {
    let mut wrong = Vec::new();
    for (kept, grant) in KEPT {
        for (state, lines) in STATES {
            let ask = |verb: &str| {
                let mut desk = Desk::new();
                desk.play(&format!("{grant}\n settle\n {lines}\n settle\n asked: {verb} alice\n settle"));
                desk.answers.remove("asked").unwrap()
            };
            let Answer::Read(read) = ask("read") else { panic!("shown") };
            let LeaseFound::Live(live) = &read.lease else { panic!("live") };
            let is_draining = matches!(live.liveness.standing, Some(Standing::Draining(_)));
            let [drain, revive] = ["drain", "revive"].map(|verb| match ask(verb) {
                Answer::Refused(refused) => code(&refused),
                _ => "done".to_owned(),
            });
            let agrees = if is_draining {
                drain == "already_draining" && matches!(revive.as_str(), "done" | "no_liveness")
            } else {
                drain == "done" && revive == "not_draining"
            };
            if !agrees {
                wrong
                    .push(format!("{kept}, {state}: draining {is_draining}, drain {drain}, revive {revive}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_its_session_brings_a_silent_sessions_lease_back() {
    expect![[r#"
        0      frame 1.1 at 1: session_opened, granted, granted
        0      s5 <- done
        0      alice <- lease 2 active [a] alice epoch 1 fence 2 valid 4974
        0      bob <- lease 3 active [b] bob epoch 1 fence 3 valid 4974
        0      frame 1.2 at 4: draining
        0      root <- lease 3 active drained [b] bob epoch 1 fence 3 valid 4974
        5250   frame 1.3 at 5: note draining
        6000   root <- already_draining
        6000   root <- no_liveness
        6000   frame 1.4 at 6: revived
        6000   root <- lease 3 active draining [b] bob epoch 1 fence 3 valid 0
        6000   alice <- lease 2 active draining [a] alice epoch 1 fence 2 valid 0
        6000   bob <- lease 3 active draining [b] bob epoch 1 fence 3 valid 0
        6000   s5 <- renewed lsn 6 valid 4974 ended [] draining []
        6000   alice <- lease 2 active [a] alice epoch 1 fence 2 valid 4974
        6000   bob <- lease 3 active [b] bob epoch 1 fence 3 valid 4974
    "#]]
    .assert_eq(&tell(
        "s5: open 5 ttl=5000 grace=60000
         alice: grant a session=5
         bob: grant b session=5
         settle
         root: drain bob
         settle
         until 6000
         root: drain alice
         root: revive alice
         root: revive bob
         settle
         alice: read alice
         bob: read bob
         settle
         s5: beat 5
         settle
         alice: read alice
         bob: read bob
         settle",
    ));
}

#[test]
fn a_proof_for_another_name_is_none() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      one <- renewed valid 89549 left 90000
        0      two <- holder_mismatch
        0      frame 1.2 at 2: rebound
        0      bob <- lease 1 active [a] bob epoch 2 fence 2 valid 89549
        0      old <- holder_mismatch
        0      new <- renewed valid 89549 left 90000
        0      frame 1.3 at 3: revoked
        0      root <- lease 1 revoking (admin_force) [a] bob epoch 3 fence 2
        0      old <- holder_mismatch
        0      new <- lease 1 revoking (admin_force) [a] bob epoch 3 fence 2
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         settle
         one: heartbeat alice as=alice
         two: heartbeat alice as=bob
         settle
         bob: rebind alice
         settle
         old: heartbeat alice epoch=2 as=alice
         new: heartbeat alice epoch=2 as=bob
         settle
         root: revoke alice
         settle
         old: acknowledge alice as=alice
         new: acknowledge alice as=bob
         settle",
    ));
}
