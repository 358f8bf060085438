//! Sessions as the kernel keeps them: their leases, what they lost, how they end.

use crate::script::{Runner, check};
use expect_test::expect;
use std::num::NonZeroU32;
use tenure_kernel::*;

#[test]
fn a_session_remembers_what_it_lost_without_asking() {
    check(
        " 0 open 7
          1 grant a holder=x session=7
          1 grant b holder=x session=7
          1 reserve c holder=x session=7 ttl=5
          2 revoke L1 reason=session_expired
          2 release L2
          6 expire L3
          6 session 7 seen=1
          6 session 7 seen=5
          6 session 7 seen=7
          7 reclaim L1
          7 session 7
          7 session 7 seen=0",
        expect![[r#"
              0  1 open 7                             → opened
              1  2 grant a holder=x session=7         → granted lease 2 epoch 1 fence 2
              1  3 grant b holder=x session=7         → granted lease 3 epoch 1 fence 3
              1  4 reserve c holder=x session=7 ttl=5 → granted lease 4 epoch 1 fence 4 deadline 6
              2  5 revoke L1 reason=session_expired   → revoking epoch 2
              2  6 release L2                         → released epoch 2
              6  7 expire L3                          → expired epoch 2
              6  – session 7 seen=1                   → open leases [2!] drained [] lost [2 session_expired at 5,4 reservation_expired at 7] changed 7
              6  – session 7 seen=5                   → open leases [2!] drained [] lost [4 reservation_expired at 7] changed 7
              6  – session 7 seen=7                   → open leases [2!] drained [] lost [] changed 7
              7  8 reclaim L1                         → revoked
              7  – session 7                          → open leases [] drained [] lost [2 session_expired at 5,4 reservation_expired at 7] changed 7
              7  – session 7 seen=0                   → open leases [] drained [] lost too many changed 7
        "#]],
    );
}

#[test]
fn more_losses_than_are_remembered_are_told_as_such() {
    check(
        " 0 open 7
          1 grant r{i} holder=x session=7 times=1025
          1 session 7
          2 revoke L{i} times=1024
          2 session 7 seen=1
          2 session 7 seen=1026
          2 session 7 seen=1027
          3 revoke L1025
          3 session 7 seen=1
          3 session 7 seen=1026
          3 session 7 seen=1027
          3 session 7 seen=2050
          3 session 7 seen=2051",
        expect![[r#"
            0  1 open 7                                   → opened
            1 1026 grant r{i} holder=x session=7 times=1025 → granted lease 1026 epoch 1 fence 1026
            1  – session 7                                → open leases 1025 from 2 to 1026 drained [] lost [] changed 1
            2 2050 revoke L{i} times=1024                   → revoking epoch 2
            2  – session 7 seen=1                         → open leases 1025 from 1026 to 1025! drained [] lost 1024 from 1027 to 2050 changed 2050
            2  – session 7 seen=1026                      → open leases 1025 from 1026 to 1025! drained [] lost 1024 from 1027 to 2050 changed 2050
            2  – session 7 seen=1027                      → open leases 1025 from 1026 to 1025! drained [] lost 1023 from 1028 to 2050 changed 2050
            3 2051 revoke L1025                             → revoking epoch 2
            3  – session 7 seen=1                         → open leases 1025 from 2! to 1026! drained [] lost too many changed 2051
            3  – session 7 seen=1026                      → open leases 1025 from 2! to 1026! drained [] lost too many changed 2051
            3  – session 7 seen=1027                      → open leases 1025 from 2! to 1026! drained [] lost 1024 from 1028 to 2051 changed 2051
            3  – session 7 seen=2050                      → open leases 1025 from 2! to 1026! drained [] lost [1026 admin_force at 2051] changed 2051
            3  – session 7 seen=2051                      → open leases 1025 from 2! to 1026! drained [] lost [] changed 2051
        "#]],
    );
}

#[test]
fn revoking_leases_stand_last_even_behind_later_grants() {
    // A grant after a revoke once stood behind the revoking lease until the next restart.
    check(
        " 0 open 7
          0 open 8
          1 grant a holder=x session=7
          1 grant b holder=x session=7
          1 grant c holder=x session=7
          2 revoke L1
          2 session 7
          3 grant d holder=x session=7
          3 session 7
          3 restart
          3 session 7
          4 grant e holder=x session=8
          4 rebind L5 session=7
          4 session 7
          4 session 8
          5 revoke L3
          5 session 7
          6 reclaim L1
          6 session 7
          6 grant f holder=x session=7
          6 session 7
          7 reclaim L3
          7 grant g holder=x session=7
          7 session 7",
        expect![[r#"
            0  1 open 7                     → opened
            0  2 open 8                     → opened
            1  3 grant a holder=x session=7 → granted lease 3 epoch 1 fence 3
            1  4 grant b holder=x session=7 → granted lease 4 epoch 1 fence 4
            1  5 grant c holder=x session=7 → granted lease 5 epoch 1 fence 5
            2  6 revoke L1                  → revoking epoch 2
            2  – session 7                  → open leases [4,5,3!] drained [] lost [3 admin_force at 6] changed 6
            3  7 grant d holder=x session=7 → granted lease 7 epoch 1 fence 7
            3  – session 7                  → open leases [4,5,7,3!] drained [] lost [3 admin_force at 6] changed 6
            3  – restart                    → restarted
            3  – session 7                  → open leases [4,5,7,3!] drained [] lost [3 admin_force at 6] changed 6
            4  8 grant e holder=x session=8 → granted lease 8 epoch 1 fence 8
            4  9 rebind L5 session=7        → rebound epoch 2 fence 9
            4  – session 7                  → open leases [4,5,7,8,3!] drained [] lost [3 admin_force at 6] changed 9
            4  – session 8                  → open leases [] drained [] lost [8 rebalanced at 9] changed 9
            5 10 revoke L3                  → revoking epoch 2
            5  – session 7                  → open leases [4,7,8,3!,5!] drained [] lost [3 admin_force at 6,5 admin_force at 10] changed 10
            6 11 reclaim L1                 → revoked
            6  – session 7                  → open leases [4,7,8,5!] drained [] lost [3 admin_force at 6,5 admin_force at 10] changed 10
            6 12 grant f holder=x session=7 → granted lease 12 epoch 1 fence 12
            6  – session 7                  → open leases [4,7,8,12,5!] drained [] lost [3 admin_force at 6,5 admin_force at 10] changed 10
            7 13 reclaim L3                 → revoked
            7 14 grant g holder=x session=7 → granted lease 14 epoch 1 fence 14
            7  – session 7                  → open leases [4,7,8,12,14] drained [] lost [3 admin_force at 6,5 admin_force at 10] changed 10
        "#]],
    );
}

#[test]
fn a_session_lists_its_drained_leases() {
    check(
        " 0 open 7
          0 open 8
          1 grant a holder=x session=7
          1 grant b holder=x session=7
          2 drain L2
          2 drain L1
          2 session 7
          2 restart
          2 session 7
          3 revive L1
          3 session 7
          4 rebind L2 session=8
          4 session 7
          4 session 8
          5 rebind L2 principal=p
          5 session 8
          5 show L2
          6 rebind L2 session=7
          6 revoke L2
          6 session 7",
        expect![[r#"
            0  1 open 7                     → opened
            0  2 open 8                     → opened
            1  3 grant a holder=x session=7 → granted lease 3 epoch 1 fence 3
            1  4 grant b holder=x session=7 → granted lease 4 epoch 1 fence 4
            2  5 drain L2                   → draining
            2  6 drain L1                   → draining
            2  – session 7                  → open leases [3,4] drained [3,4] lost [] changed 6
            2  – restart                    → restarted
            2  – session 7                  → open leases [3,4] drained [3,4] lost [] changed 6
            3  7 revive L1                  → revived
            3  – session 7                  → open leases [3,4] drained [4] lost [] changed 7
            4  8 rebind L2 session=8        → rebound epoch 2 fence 8
            4  – session 7                  → open leases [3] drained [] lost [4 rebalanced at 8] changed 8
            4  – session 8                  → open leases [4] drained [4] lost [] changed 8
            5  9 rebind L2 principal=p      → rebound epoch 3 fence 9
            5  – session 8                  → open leases [] drained [] lost [4 rebalanced at 9] changed 9
            5  – show L2                    → active epoch 3 fence 9 holder=x [b] since 1 drained principal=p face=leases granted 1 changed 9
            6 10 rebind L2 session=7        → rebound epoch 4 fence 10
            6 11 revoke L2                  → revoking epoch 5
            6  – session 7                  → open leases [3,4!] drained [] lost [4 rebalanced at 8,4 admin_force at 11] changed 11
        "#]],
    );
}

#[test]
fn a_closed_session_stays_until_its_last_lease_is_gone() {
    check(
        " 0 open 7
          0 open 8
          1 grant a holder=x session=7
          1 grant b holder=x session=7
          1 grant c holder=x session=7
          2 close 7 reason=session_expired
          2 session 7
          2 grant d holder=x session=7
          2 close 7
          2 open 7
          2 rebind L1 session=7
          3 release L1
          3 session 7
          4 revoke L2
          4 reclaim L2
          4 session 7
          5 rebind L3 session=8
          5 session 7
          5 sessions
          6 open 7
          6 session 7",
        expect![[r#"
            0  1 open 7                         → opened
            0  2 open 8                         → opened
            1  3 grant a holder=x session=7     → granted lease 3 epoch 1 fence 3
            1  4 grant b holder=x session=7     → granted lease 4 epoch 1 fence 4
            1  5 grant c holder=x session=7     → granted lease 5 epoch 1 fence 5
            2  6 close 7 reason=session_expired → closed
            2  – session 7                      → closed session_expired leases [3,4,5] drained [] lost [] changed 6
            2  – grant d holder=x session=7     → session_not_found 7
            2  – close 7                        → session_not_found 7
            2  – open 7                         → session_exists 7
            2  – rebind L1 session=7            → session_not_found 7
            3  7 release L1                     → released epoch 2
            3  – session 7                      → closed session_expired leases [4,5] drained [] lost [] changed 6
            4  8 revoke L2                      → revoking epoch 2
            4  9 reclaim L2                     → revoked
            4  – session 7                      → closed session_expired leases [5] drained [] lost [4 admin_force at 8] changed 8
            5 10 rebind L3 session=8            → rebound epoch 2 fence 10
            5  – session 7                      → session_not_found
            5  – sessions                       → [8]
            6 11 open 7                         → opened
            6  – session 7                      → open leases [] drained [] lost [] changed 11
        "#]],
    );
}

#[test]
fn an_empty_session_is_gone_when_it_closes() {
    check(
        " 0 open 7
          1 open 7
          1 close 8
          2 close 7
          2 session 7
          2 close 7
          3 open 7",
        expect![[r#"
              0  1 open 7    → opened
              1  – open 7    → session_exists 7
              1  – close 8   → session_not_found 8
              2  2 close 7   → closed
              2  – session 7 → session_not_found
              2  – close 7   → session_not_found 7
              3  3 open 7    → opened
        "#]],
    );
}

#[test]
fn a_rebind_within_a_session_loses_nothing() {
    check(
        " 0 open 7
          1 grant a holder=x session=7
          1 grant b holder=x session=7
          2 rebind L1 session=7 to=y
          2 rebind L1 to=z
          2 session 7",
        expect![[r#"
              0  1 open 7                     → opened
              1  2 grant a holder=x session=7 → granted lease 2 epoch 1 fence 2
              1  3 grant b holder=x session=7 → granted lease 3 epoch 1 fence 3
              2  4 rebind L1 session=7 to=y   → rebound epoch 2 fence 4 holder y
              2  5 rebind L1 to=z             → rebound epoch 3 fence 5 holder z
              2  – session 7                  → open leases [2,3] drained [] lost [] changed 1
        "#]],
    );
}

#[test]
fn a_rebind_needs_an_open_session() {
    check(
        " 0 grant a holder=x
          1 rebind L1 session=7
          2 open 7
          2 rebind L1 session=7
          2 session 7
          3 close 7
          3 rebind L1 session=7
          3 rebind L1 to=y
          3 session 7 seen=2",
        expect![[r#"
            0  1 grant a holder=x    → granted lease 1 epoch 1 fence 1
            1  – rebind L1 session=7 → session_not_found 7
            2  2 open 7              → opened
            2  3 rebind L1 session=7 → rebound epoch 2 fence 3
            2  – session 7           → open leases [1] drained [] lost [] changed 3
            3  4 close 7             → closed
            3  – rebind L1 session=7 → session_not_found 7
            3  5 rebind L1 to=y      → rebound epoch 3 fence 5 holder y
            3  – session 7 seen=2    → closed explicit leases [1] drained [] lost [] changed 4
        "#]],
    );
}

#[test]
fn what_opened_a_session_is_kept() {
    let mut runner = Runner::new(Setup::plain());
    runner.prepare("9 open 7 holder=x kind=by_hand principal=p");
    let view = runner.kernel.session(SessionId(7)).unwrap();
    assert_eq!((view.id(), view.holder(), view.principal()), (SessionId(7), "x", "p"));
    assert_eq!((view.kind(), view.ttl_ms(), view.grace_ms()), (SessionKind::ByHand, 0, 5000));
    assert_eq!((view.opened_tick(), view.changed_lsn()), (Tick(9), Lsn(1)));
    assert_eq!((view.closed(), view.lease_count()), (None, 0));
    assert_eq!(runner.kernel.leases_of(SessionId(8)).count(), 0);
    assert!(!SessionKind::ByHand.is_connection());
    assert!(SessionKind::Connection.is_connection() && SessionKind::Stdin.is_connection());
}

#[test]
fn what_keeps_a_session_follows_from_its_kind_and_its_ttl() {
    let node = |ttl_ms| Kept::NodeConnection { ttl_ms: NonZeroU32::new(ttl_ms).unwrap() };
    let table = [
        (SessionKind::Connection, 0, Kept::Connection),
        (SessionKind::Connection, 1, node(1)),
        (SessionKind::Connection, u32::MAX, node(u32::MAX)),
        (SessionKind::Stdin, 0, Kept::Connection),
        (SessionKind::Stdin, 10_000, node(10_000)),
        (SessionKind::ByHand, 0, Kept::Heartbeat { ttl_ms: 0 }),
        (SessionKind::ByHand, 10_000, Kept::Heartbeat { ttl_ms: 10_000 }),
    ];
    let mut kernel = Kernel::new(Setup::plain());
    for (lsn, (kind, ttl_ms, kept)) in (1..).zip(table) {
        let open = OpenSession {
            session: SessionId(lsn),
            holder: "x".into(),
            kind,
            ttl_ms,
            grace_ms: 0,
            principal: "p".into(),
            accepts_handover: None,
        };
        assert_eq!(open.kept(), kept, "{kind:?} {ttl_ms}");
        assert_eq!(kept.is_connection(), kind.is_connection(), "{kind:?} {ttl_ms}");
        let event = Event { operation: None, change: Change::SessionOpened(open) };
        kernel.evolve(Stamp { lsn: Lsn(lsn), tick: Tick(0) }, &event);
        assert_eq!(kernel.session(SessionId(lsn)).unwrap().kept(), kept, "{kind:?} {ttl_ms}");
    }
}

#[test]
fn sessions_are_listed_in_order_of_id() {
    let mut runner = Runner::new(Setup::plain());
    runner.prepare("0 open 9\n0 open 3\n0 open 5");
    let from = |id| runner.kernel.sessions_from(SessionId(id)).map(|s| s.id().0).collect::<Vec<_>>();
    assert_eq!(from(0), [3, 5, 9]);
    assert_eq!(from(4), [5, 9]);
    assert_eq!(from(9), [9]);
    assert!(from(10).is_empty());
}
