//! One command, one outcome: taking a draining lease over, and trying bundles in order.

use crate::script::check;
use expect_test::expect;

#[test]
fn take_over_rebinds_the_named_lease_if_it_holds_the_members() {
    check(
        " 0 grant [a,b] holder=x attach=3 data=2
          1 grant [a,b] holder=y attach=5 take_over=L1 principal=q
          1 show L1
          2 grant b holder=z take_over=L1 data=9
          2 show L1",
        expect![[r#"
              0  1 grant [a,b] holder=x attach=3 data=2                   → granted lease 1 epoch 1 fence 1
              1  2 grant [a,b] holder=y attach=5 take_over=L1 principal=q → took over lease 1 epoch 2 fence 2 holder y
              1  – show L1                                                → active epoch 2 fence 2 holder=y [a,b] since 0 principal=q face=leases granted 0 changed 2 attach=5 data=2
              2  3 grant b holder=z take_over=L1 data=9                   → took over lease 1 epoch 3 fence 3 holder z
              2  – show L1                                                → active epoch 3 fence 3 holder=z [a,b] since 0 principal=local face=leases granted 0 changed 3 attach=0 data=9
        "#]],
    );
}

#[test]
fn take_over_of_a_lease_that_does_not_hold_all_members_is_an_ordinary_grant() {
    check(
        " 0 grant a holder=x
          1 grant [a,c] holder=y take_over=L1
          1 grant c holder=y take_over=L1
          2 pool p 2
          2 grant p*1 holder=y take_over=L1
          2 grant [a,p*1] holder=y take_over=L1",
        expect![[r#"
              0  1 grant a holder=x                    → granted lease 1 epoch 1 fence 1
              1  – grant [a,c] holder=y take_over=L1   → resource_held a by lease 1
              1  2 grant c holder=y take_over=L1       → granted lease 2 epoch 1 fence 2
              2  3 pool p 2                            → size 2
              2  4 grant p*1 holder=y take_over=L1     → granted lease 4 epoch 1 fence 4 [p/1]
              2  – grant [a,p*1] holder=y take_over=L1 → resource_held a by lease 1
        "#]],
    );
}

#[test]
fn take_over_needs_a_lease_in_use() {
    check(
        " 0 reserve a holder=x ttl=50
          1 grant a holder=y take_over=L1
          2 revoke L1
          2 grant a holder=y take_over=L1
          3 reclaim L1
          3 grant a holder=y take_over=L1
          4 grant b holder=y take_over=99
          4 grant c holder=y take_over=7/1",
        expect![[r#"
              0  1 reserve a holder=x ttl=50      → granted lease 1 epoch 1 fence 1 deadline 50
              1  – grant a holder=y take_over=L1  → resource_held a by lease 1
              2  2 revoke L1                      → revoking epoch 2
              2  – grant a holder=y take_over=L1  → resource_held a by lease 1
              3  3 reclaim L1                     → revoked
              3  4 grant a holder=y take_over=L1  → granted lease 4 epoch 1 fence 4
              4  5 grant b holder=y take_over=99  → granted lease 5 epoch 1 fence 5
              4  6 grant c holder=y take_over=7/1 → granted lease 6 epoch 1 fence 6
        "#]],
    );
}

#[test]
fn take_over_keeps_an_operators_drain_and_tells_the_old_session() {
    check(
        " 0 open 1
          0 open 2
          0 grant a holder=x session=1
          1 drain L1
          1 session 1
          2 grant a holder=y session=2 take_over=L1
          2 show L1
          2 session 1
          2 session 2 seen=2",
        expect![[r#"
            0  1 open 1                                  → opened
            0  2 open 2                                  → opened
            0  3 grant a holder=x session=1              → granted lease 3 epoch 1 fence 3
            1  4 drain L1                                → draining
            1  – session 1                               → open leases [3] drained [3] lost [] changed 4
            2  5 grant a holder=y session=2 take_over=L1 → took over lease 3 epoch 2 fence 5 holder y
            2  – show L1                                 → active epoch 2 fence 5 holder=y [a] since 0 drained session=2 principal=local face=leases granted 0 changed 5
            2  – session 1                               → open leases [] drained [] lost [3 rebalanced at 5] changed 5
            2  – session 2 seen=2                        → open leases [3] drained [3] lost [] changed 5
        "#]],
    );
}

#[test]
fn take_over_counts_its_payload_like_any_rebind() {
    // It once let a payload in that a grant or a rebind would have been refused.
    check(
        "setup bytes=10
         0 grant a holder=x attach=6
         1 grant a holder=y attach=11 take_over=L1
         1 rebind L1 attach=11
         2 grant a holder=y attach=4 data=7 take_over=L1
         2 grant a holder=y attach=3 data=7 take_over=L1
         2 show L1",
        expect![[r#"
              0  1 grant a holder=x attach=6                     → granted lease 1 epoch 1 fence 1
              1  – grant a holder=y attach=11 take_over=L1       → capacity_exceeded AttachmentBytes
              1  – rebind L1 attach=11                           → capacity_exceeded AttachmentBytes
              2  – grant a holder=y attach=4 data=7 take_over=L1 → capacity_exceeded AttachmentBytes
              2  2 grant a holder=y attach=3 data=7 take_over=L1 → took over lease 1 epoch 2 fence 2 holder y
              2  – show L1                                       → active epoch 2 fence 2 holder=y [a] since 0 principal=local face=leases granted 0 changed 2 attach=3 data=7
        "#]],
    );
}

#[test]
fn the_first_free_alternative_is_granted() {
    check(
        " 0 grant a holder=x
          1 grant a holder=y or=b|c
          2 grant a holder=z or=b|[c,d]|e
          3 grant a holder=w or=b|[e,c]
          4 grant free holder=w or=other
          4 pool p 1
          5 grant a holder=v or=p*2|[p*1,f]
          6 grant b holder=v or=p*1
          6 grant p*1 holder=v or=b|q2",
        expect![[r#"
              0  1 grant a holder=x                → granted lease 1 epoch 1 fence 1
              1  2 grant a holder=y or=b|c         → granted lease 2 epoch 1 fence 2 [b]
              2  3 grant a holder=z or=b|[c,d]|e   → granted lease 3 epoch 1 fence 3 [c,d]
              3  – grant a holder=w or=b|[e,c]     → resource_held a by lease 1
              4  4 grant free holder=w or=other    → granted lease 4 epoch 1 fence 4 [free]
              4  5 pool p 1                        → size 1
              5  6 grant a holder=v or=p*2|[p*1,f] → granted lease 6 epoch 1 fence 6 [p/1,f]
              6  – grant b holder=v or=p*1         → resource_held b by lease 2
              6  7 grant p*1 holder=v or=b|q2      → granted lease 7 epoch 1 fence 7 [q2]
        "#]],
    );
}

#[test]
fn an_alternative_may_be_free_only_as_a_whole() {
    check(
        " 0 grant [a,z] holder=x
          1 grant a holder=y or=[b,z]|[b,c]
          1 resource b
          1 resource c",
        expect![[r#"
              0  1 grant [a,z] holder=x            → granted lease 1 epoch 1 fence 1
              1  2 grant a holder=y or=[b,z]|[b,c] → granted lease 2 epoch 1 fence 2 [b,c]
              1  – resource b                      → active lease 2
              1  – resource c                      → active lease 2
        "#]],
    );
}
