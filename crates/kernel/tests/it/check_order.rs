//! The order of checks is part of the contract. Each line of a table fails one check later than the line
//! above it, and would fail all the later ones too.

use crate::script::{Runner, check, rejected};
use expect_test::{Expect, expect};
use std::fmt::Write as _;
use tenure_kernel::*;

/// A full house: one lease allowed and taken, one pool of one with its member held, one old operation.
fn full_house() -> Runner {
    let mut setup = Setup::plain();
    setup.limits.leases_max = 2;
    let mut runner = Runner::new(setup);
    runner.prepare(
        "0 pool p 1
         0 grant held holder=alice op=used
         0 grant p*1 holder=bob",
    );
    runner
}

fn table(runner: &Runner, rows: Vec<(&str, Command)>, expected: Expect) {
    let at = Stamp { lsn: runner.next_lsn, tick: Tick(5) };
    let mut out = String::new();
    for (row, command) in rows {
        let outcome = match runner.kernel.decide(at, &command) {
            Ok(Decision::Event(event)) => event.change.kind().as_str().to_owned(),
            Ok(Decision::Replay(_)) => "replayed".to_owned(),
            Err(rejection) => rejected(&rejection),
        };
        writeln!(out, "{row:34} → {outcome}").unwrap();
    }
    expected.assert_eq(&out);
}

#[test]
fn a_grant_is_refused_by_the_first_check_that_fails() {
    let runner = full_house();
    let (_, remembered) = &runner.log[1];
    let used = remembered.operation.clone().unwrap();

    // Everything is wrong with this one; each row mends what the row above it fell over.
    let mut members: Vec<Member> = (0..65).map(|_| Member::Resource("a//b".into())).collect();
    members.push(Member::AnyOf { pool: "p".into(), count: 0 });
    let mut grant = Grant {
        start: Start::Reserved { ttl_ms: 0 },
        face_data: vec![0; 4097],
        attachment: vec![0; 4097],
        ..Grant::new(Bundle { members: members.into() }, "", Policy::session(SessionId(9), 0, 0))
    };
    grant.policy.principal = "p".repeat(257).into();

    let mut rows = Vec::new();
    let operation = |fingerprint, key: u128| {
        Some(Operation { fingerprint, key, principal: "q".repeat(257).into(), ..used.clone() })
    };
    let bad = |grant: &Grant| Action::Grant(grant.clone());
    let same = Command { operation: operation(used.fingerprint, used.key), action: bad(&grant) };
    rows.push(("the same operation", same));
    let other = Command { operation: operation(used.fingerprint + 1, used.key), action: bad(&grant) };
    rows.push(("its id for another command", other));
    let fresh = Command { operation: operation(0, used.key + 1), action: bad(&grant) };
    rows.push(("a fresh id of a long principal", fresh));

    let mut push = |row, grant: &Grant| rows.push((row, Command::plain(bad(grant))));
    push("no operation", &grant);
    grant.attachment = vec![0; 4096];
    push("attachment mended", &grant);
    grant.face_data = vec![0; 4096];
    push("face data mended", &grant);
    grant.holder = "h".repeat(129).into();
    push("holder not empty", &grant);
    grant.holder = "h".repeat(128).into();
    push("holder mended", &grant);
    grant.policy.principal = "p".repeat(256).into();
    push("principal mended", &grant);
    grant.bundle.members.pop();
    push("nothing counts zero", &grant);
    grant.bundle.members.truncate(64);
    grant.alternatives = vec![Bundle::default(); 33];
    push("64 members, empty alternatives", &grant);
    grant.alternatives = vec![Bundle::of(&["x", "x"]); 33];
    push("33 alternatives", &grant);
    grant.alternatives.pop();
    push("32 alternatives", &grant);
    grant.bundle = Bundle::of(&["free", "free"]);
    grant.alternatives[31] = Bundle::one("mdns/printer");
    push("names mended but for one", &grant);
    grant.alternatives[31] = Bundle::one("x");
    push("names mended", &grant);
    grant.bundle = Bundle::one("held");
    push("first bundle distinct", &grant);
    grant.alternatives = vec![Bundle::any_of("none", 1)];
    push("all distinct", &grant);
    grant.start = Start::Reserved { ttl_ms: 86_400_001 };
    push("one tick over a day", &grant);
    grant.start = Start::Reserved { ttl_ms: 86_400_000 };
    push("a day", &grant);
    grant.alternatives = vec![Bundle::any_of("p", 1)];
    push("pool known", &grant);
    grant.policy.session = None;
    push("session mended", &grant);
    grant.bundle.members = vec![
        Member::Resource("free".into()),
        Member::AnyOf { pool: "p".into(), count: 1 },
        Member::Resource("held".into()),
    ]
    .into();
    push("the pool stands before the held", &grant);
    grant.bundle = Bundle::of(&["free"]);
    push("free", &grant);

    table(
        &runner,
        rows,
        expect![[r#"
        the same operation                 → replayed
        its id for another command         → operation_conflict
        a fresh id of a long principal     → too_large Principal
        no operation                       → too_large Attachment
        attachment mended                  → too_large FaceData
        face data mended                   → invalid_name '' is empty
        holder not empty                   → too_large Holder
        holder mended                      → too_large Principal
        principal mended                   → bundle_empty
        nothing counts zero                → bundle_too_large
        64 members, empty alternatives     → bundle_empty
        33 alternatives                    → bundle_too_large
        32 alternatives                    → invalid_name 'a//b' has an empty segment
        names mended but for one           → invalid_name 'mdns/printer' lies under a prefix reserved to registrations
        names mended                       → duplicate_member free
        first bundle distinct              → duplicate_member x
        all distinct                       → ttl_out_of_range
        one tick over a day                → ttl_out_of_range
        a day                              → pool_not_found none
        pool known                         → session_not_found 9
        session mended                     → resource_held held by lease 2
        the pool stands before the held    → pool_exhausted p wanted 1 free 0
        free                               → capacity_exceeded Leases
    "#]],
    );
}

#[test]
fn a_holder_command_is_refused_by_the_first_check_that_fails() {
    check(
        "  0 configure window=3
           0 grant gone holder=alice
           0 release L1
           4 grant a holder=alice
           4 revoke L2
           4 reserve b holder=alice ttl=6
           4 activate 99 holder=bob epoch=9
           4 activate L1 holder=bob epoch=9
           4 activate L2 holder=bob epoch=9
           4 activate L2 holder=alice epoch=9
           4 activate L2 holder=alice epoch=2
          10 activate L3 holder=bob epoch=9
          10 activate L3 holder=alice epoch=9
          10 activate L3 holder=alice epoch=1
           # The same chain for the others.
          10 release L1 holder=bob epoch=9
          10 release L2 holder=bob epoch=9
          10 release L2 holder=alice epoch=9
          10 release L2 holder=alice epoch=2
          10 rebind 99 holder=bob epoch=9
          10 rebind L1 holder=bob epoch=9
          10 rebind L2 holder=bob epoch=9
          10 rebind L2 holder=alice epoch=1
          10 rebind L2 holder=alice epoch=2 session=4
          10 amend 99 holder=bob epoch=9
          10 amend L1 holder=bob epoch=9
          10 amend L2 holder=bob epoch=9
          10 amend L2 holder=alice epoch=3
          10 amend L2 holder=alice epoch=2",
        expect![[r#"
              0  1 configure window=3                       → configured
              0  2 grant gone holder=alice                  → granted lease 2 epoch 1 fence 2
              0  3 release L1                               → released epoch 2
              4  4 grant a holder=alice                     → granted lease 4 epoch 1 fence 4
              4  5 revoke L2                                → revoking epoch 2
              4  6 reserve b holder=alice ttl=6             → granted lease 6 epoch 1 fence 6 deadline 10
              4  – activate 99 holder=bob epoch=9           → lease_not_found
              4  – activate L1 holder=bob epoch=9           → lease_retired
              4  – activate L2 holder=bob epoch=9           → holder_mismatch
              4  – activate L2 holder=alice epoch=9         → stale_epoch current=2
              4  – activate L2 holder=alice epoch=2         → invalid_state revoking
             10  – activate L3 holder=bob epoch=9           → holder_mismatch
             10  – activate L3 holder=alice epoch=9         → stale_epoch current=1
             10  – activate L3 holder=alice epoch=1         → deadline_passed 10
             10  – release L1 holder=bob epoch=9            → lease_retired
             10  – release L2 holder=bob epoch=9            → holder_mismatch
             10  – release L2 holder=alice epoch=9          → stale_epoch current=2
             10  – release L2 holder=alice epoch=2          → invalid_state revoking
             10  – rebind 99 holder=bob epoch=9             → lease_not_found
             10  – rebind L1 holder=bob epoch=9             → lease_retired
             10  – rebind L2 holder=bob epoch=9             → holder_mismatch
             10  – rebind L2 holder=alice epoch=1           → stale_epoch current=2
             10  – rebind L2 holder=alice epoch=2 session=4 → invalid_state revoking
             10  – amend 99 holder=bob epoch=9              → lease_not_found
             10  – amend L1 holder=bob epoch=9              → lease_retired
             10  – amend L2 holder=bob epoch=9              → holder_mismatch
             10  – amend L2 holder=alice epoch=3            → stale_epoch current=2
             10  – amend L2 holder=alice epoch=2            → invalid_state revoking
        "#]],
    );
}

#[test]
fn a_control_command_compares_an_epoch_only_where_one_is_given() {
    check(
        " 0 grant a holder=alice
          1 revoke L1 epoch=2
          1 reclaim L1 epoch=2
          1 drain L1 epoch=2
          1 revive L1 epoch=2
          1 drain L1 epoch=1
          1 drain L1
          1 revive L1 epoch=1
          1 revive L1
          2 revoke L1 epoch=1
          3 revoke L1 epoch=1
          3 revoke L1
          3 reclaim L1 epoch=1
          3 reclaim L1 epoch=2
          4 revoke L1 epoch=2",
        expect![[r#"
              0  1 grant a holder=alice → granted lease 1 epoch 1 fence 1
              1  – revoke L1 epoch=2    → stale_epoch current=1
              1  – reclaim L1 epoch=2   → stale_epoch current=1
              1  – drain L1 epoch=2     → stale_epoch current=1
              1  – revive L1 epoch=2    → stale_epoch current=1
              1  2 drain L1 epoch=1     → draining
              1  – drain L1             → already_draining
              1  3 revive L1 epoch=1    → revived
              1  – revive L1            → not_draining
              2  4 revoke L1 epoch=1    → revoking epoch 2
              3  – revoke L1 epoch=1    → stale_epoch current=2
              3  – revoke L1            → invalid_state revoking
              3  – reclaim L1 epoch=1   → stale_epoch current=2
              3  5 reclaim L1 epoch=2   → revoked
              4  – revoke L1 epoch=2    → invalid_state revoked
        "#]],
    );
}

#[test]
fn a_rejection_says_whether_the_lease_has_moved_or_is_gone() {
    let name = || Text::from("r");
    let (holder, since) = (Text::from("a"), Tick(0));
    let neither = [
        Rejection::OperationConflict,
        Rejection::TooLarge { field: Field::Holder },
        Rejection::BundleEmpty,
        Rejection::BundleTooLarge,
        Rejection::InvalidName { name: name(), fault: NameFault::Empty },
        Rejection::DuplicateMember { name: name() },
        Rejection::TtlOutOfRange,
        Rejection::PoolNotFound { pool: name() },
        Rejection::SessionNotFound { session: SessionId(1) },
        Rejection::SessionExists { session: SessionId(1) },
        Rejection::ResourceHeld(Held { resource: name(), lease: LeaseId(1), holder, since }),
        Rejection::PoolExhausted { pool: name(), wanted: 2, free: 1 },
        Rejection::CapacityExceeded { capacity: Capacity::Leases, max: 1 },
        Rejection::HolderMismatch,
        Rejection::AlreadyDraining,
        Rejection::NotDraining,
        Rejection::PoolInUse { held: 1 },
    ];
    let moved = [
        Rejection::StaleEpoch { current: Epoch(2) },
        Rejection::InvalidState { state: StateName::Released },
        Rejection::DeadlinePassed { deadline: Tick(1) },
    ];
    let gone = [Rejection::LeaseNotFound, Rejection::LeaseRetired];
    for (rejections, expected) in
        [(neither.as_slice(), (false, false)), (&moved, (true, false)), (&gone, (true, true))]
    {
        for rejection in rejections {
            assert_eq!((rejection.has_moved(), rejection.is_gone()), expected, "{rejection:?}");
        }
    }
}
