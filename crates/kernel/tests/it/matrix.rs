//! Which command is legal in which state: every pair, driven and printed. Compare with contract §2.

use crate::script::{Runner, check};
use expect_test::expect;
use std::fmt::Write as _;
use tenure_kernel::Setup;

const STATES: [(&str, &str); 9] = [
    ("reserved", "10 reserve r holder=a ttl=100"),
    ("active", "10 grant r holder=a"),
    ("active drained", "10 grant r holder=a\n10 drain L1"),
    ("revoking", "10 grant r holder=a\n10 revoke L1"),
    ("released", "10 grant r holder=a\n10 release L1"),
    ("expired", "10 reserve r holder=a ttl=5\n15 expire L1"),
    ("revoked", "10 grant r holder=a\n10 revoke L1\n10 reclaim L1"),
    ("retired", "1 configure window=1\n10 grant r holder=a\n10 release L1\n12 grant other holder=a"),
    ("never existed", "10 grant other holder=a"),
];

const COMMANDS: [&str; 9] =
    ["activate", "release", "revoke", "reclaim", "expire", "rebind", "amend", "drain", "revive"];

/// The table for commands decided at `tick`; reservations end at 110.
fn matrix(tick: u64) -> String {
    let mut out = String::new();
    write!(out, "{:14}", "").unwrap();
    for command in COMMANDS {
        write!(out, " | {command:32}").unwrap();
    }
    out.push('\n');
    for (state, way) in STATES {
        write!(out, "{state:14}").unwrap();
        for command in COMMANDS {
            let mut runner = Runner::new(Setup::plain());
            runner.prepare(way);
            let lease = if state == "never existed" { "99" } else { "L1" };
            let extra = if command == "rebind" { " to=b" } else { "" };
            let step = runner.step(tick, &format!("{command} {lease}{extra}"));
            write!(out, " | {:32}", step.outcome).unwrap();
            assert_eq!(step.lsn.is_none(), refused(&step.outcome), "{state} {command}");
        }
        out.push('\n');
    }
    out.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn refused(outcome: &str) -> bool {
    outcome == "nothing"
        || ["invalid", "lease_", "already", "not_dr", "deadline"].iter().any(|word| outcome.starts_with(word))
}

#[test]
fn every_command_in_every_state_before_the_deadline() {
    expect![[r#"
                       | activate                         | release                          | revoke                           | reclaim                          | expire                           | rebind                           | amend                            | drain                            | revive
        reserved       | active                           | released epoch 2                 | revoking epoch 2                 | invalid_state reserved           | nothing                          | invalid_state reserved           | amended                          | invalid_state reserved           | invalid_state reserved
        active         | invalid_state active             | released epoch 2                 | revoking epoch 2                 | invalid_state active             | nothing                          | rebound epoch 2 fence 2 holder b | amended                          | draining                         | not_draining
        active drained | invalid_state active             | released epoch 2                 | revoking epoch 2                 | invalid_state active             | nothing                          | rebound epoch 2 fence 3 holder b | amended                          | already_draining                 | revived
        revoking       | invalid_state revoking           | invalid_state revoking           | invalid_state revoking           | revoked                          | nothing                          | invalid_state revoking           | invalid_state revoking           | invalid_state revoking           | invalid_state revoking
        released       | invalid_state released           | invalid_state released           | invalid_state released           | invalid_state released           | nothing                          | invalid_state released           | invalid_state released           | invalid_state released           | invalid_state released
        expired        | invalid_state expired            | invalid_state expired            | invalid_state expired            | invalid_state expired            | nothing                          | invalid_state expired            | invalid_state expired            | invalid_state expired            | invalid_state expired
        revoked        | invalid_state revoked            | invalid_state revoked            | invalid_state revoked            | invalid_state revoked            | nothing                          | invalid_state revoked            | invalid_state revoked            | invalid_state revoked            | invalid_state revoked
        retired        | lease_retired                    | lease_retired                    | lease_retired                    | lease_retired                    | nothing                          | lease_retired                    | lease_retired                    | lease_retired                    | lease_retired
        never existed  | lease_not_found                  | lease_not_found                  | lease_not_found                  | lease_not_found                  | nothing                          | lease_not_found                  | lease_not_found                  | lease_not_found                  | lease_not_found
    "#]].assert_eq(&matrix(20));
}

#[test]
fn every_command_in_every_state_once_the_deadline_came() {
    expect![[r#"
                       | activate                         | release                          | revoke                           | reclaim                          | expire                           | rebind                           | amend                            | drain                            | revive
        reserved       | deadline_passed 110              | released epoch 2                 | revoking epoch 2                 | invalid_state reserved           | expired epoch 2                  | invalid_state reserved           | amended                          | invalid_state reserved           | invalid_state reserved
        active         | invalid_state active             | released epoch 2                 | revoking epoch 2                 | invalid_state active             | nothing                          | rebound epoch 2 fence 2 holder b | amended                          | draining                         | not_draining
        active drained | invalid_state active             | released epoch 2                 | revoking epoch 2                 | invalid_state active             | nothing                          | rebound epoch 2 fence 3 holder b | amended                          | already_draining                 | revived
        revoking       | invalid_state revoking           | invalid_state revoking           | invalid_state revoking           | revoked                          | nothing                          | invalid_state revoking           | invalid_state revoking           | invalid_state revoking           | invalid_state revoking
        released       | invalid_state released           | invalid_state released           | invalid_state released           | invalid_state released           | nothing                          | invalid_state released           | invalid_state released           | invalid_state released           | invalid_state released
        expired        | invalid_state expired            | invalid_state expired            | invalid_state expired            | invalid_state expired            | nothing                          | invalid_state expired            | invalid_state expired            | invalid_state expired            | invalid_state expired
        revoked        | invalid_state revoked            | invalid_state revoked            | invalid_state revoked            | invalid_state revoked            | nothing                          | invalid_state revoked            | invalid_state revoked            | invalid_state revoked            | invalid_state revoked
        retired        | lease_retired                    | lease_retired                    | lease_retired                    | lease_retired                    | nothing                          | lease_retired                    | lease_retired                    | lease_retired                    | lease_retired
        never existed  | lease_not_found                  | lease_not_found                  | lease_not_found                  | lease_not_found                  | nothing                          | lease_not_found                  | lease_not_found                  | lease_not_found                  | lease_not_found
    "#]].assert_eq(&matrix(110));
}

#[test]
fn a_deadline_divides_at_its_very_tick() {
    check(
        "  0 reserve a holder=x ttl=10
           0 reserve b holder=x ttl=10
           9 expire L1
           9 due
           9 activate L1
          10 due
          10 activate L2
          10 expire L1
          10 expire L2
          10 due
          10 activate L2",
        expect![[r#"
              0  1 reserve a holder=x ttl=10 → granted lease 1 epoch 1 fence 1 deadline 10
              0  2 reserve b holder=x ttl=10 → granted lease 2 epoch 1 fence 2 deadline 10
              9  – expire L1                 → nothing
              9  – due                       → [] next 10
              9  3 activate L1               → active
             10  – due                       → [2] next 10
             10  – activate L2               → deadline_passed 10
             10  – expire L1                 → nothing
             10  4 expire L2                 → expired epoch 2
             10  – due                       → [] next –
             10  – activate L2               → invalid_state expired
        "#]],
    );
}
