//! Pools: any n of a name, lowest free first; growing, shrinking, removing.

use crate::script::{Runner, check};
use expect_test::expect;
use tenure_kernel::*;

#[test]
fn the_lowest_free_members_are_taken_first() {
    check(
        " 0 pool p 5
          0 grant p*2 holder=a
          0 grant p*2 holder=b
          1 release L1
          1 grant p*3 holder=c
          1 pools
          2 grant p*1 holder=d
          3 release L2
          3 grant p*3 holder=d
          3 grant p*1 holder=d",
        expect![[r#"
              0  1 pool p 5           → size 5
              0  2 grant p*2 holder=a → granted lease 2 epoch 1 fence 2 [p/1,p/2]
              0  3 grant p*2 holder=b → granted lease 3 epoch 1 fence 3 [p/3,p/4]
              1  4 release L1         → released epoch 2
              1  5 grant p*3 holder=c → granted lease 5 epoch 1 fence 5 [p/1,p/2,p/5]
              1  – pools              → [p size 5 free 0 held by [5,5,3,3,5]]
              2  – grant p*1 holder=d → pool_exhausted p wanted 1 free 0
              3  6 release L2         → released epoch 2
              3  – grant p*3 holder=d → pool_exhausted p wanted 3 free 2
              3  7 grant p*1 holder=d → granted lease 7 epoch 1 fence 7 [p/3]
        "#]],
    );
}

#[test]
fn a_bundle_may_mix_named_members_and_any_of() {
    check(
        " 0 pool p 4
          0 pool q 1
          0 grant [p*2,p/1,x,q*1] holder=a
          0 grant [p*1,p/3] holder=b
          0 grant [p/4,p*1] holder=b
          0 grant [p/2,p*1] holder=b
          1 release L1
          1 grant [p/2,p*2] holder=b
          1 pools",
        expect![[r#"
              0  1 pool p 4                       → size 4
              0  2 pool q 1                       → size 1
              0  3 grant [p*2,p/1,x,q*1] holder=a → granted lease 3 epoch 1 fence 3 [p/2,p/3,p/1,x,q/1]
              0  – grant [p*1,p/3] holder=b       → resource_held p/3 by lease 3
              0  – grant [p/4,p*1] holder=b       → pool_exhausted p wanted 1 free 0
              0  – grant [p/2,p*1] holder=b       → resource_held p/2 by lease 3
              1  4 release L1                     → released epoch 2
              1  5 grant [p/2,p*2] holder=b       → granted lease 5 epoch 1 fence 5 [p/2,p/1,p/3]
              1  – pools                          → [p size 4 free 1 held by [5,5,5],q size 1 free 1 held by []]
        "#]],
    );
}

#[test]
fn shrinking_removes_free_members_and_dooms_held_ones() {
    check(
        " 0 pool p 4
          0 grant [p/2] holder=a
          0 grant [p/4] holder=b
          1 pool p 1
          1 pools
          1 grant p*2 holder=c
          1 grant p/4 holder=c
          2 release L2
          2 pools
          2 pool p 2
          2 pools
          3 release L1
          3 pools",
        expect![[r#"
              0  1 pool p 4             → size 4
              0  2 grant [p/2] holder=a → granted lease 2 epoch 1 fence 2
              0  3 grant [p/4] holder=b → granted lease 3 epoch 1 fence 3
              1  4 pool p 1             → size 1
              1  – pools                → [p size 1 free 1 held by []]
              1  – grant p*2 holder=c   → pool_exhausted p wanted 2 free 1
              1  – grant p/4 holder=c   → resource_held p/4 by lease 3
              2  5 release L2           → released epoch 2
              2  – pools                → [p size 1 free 1 held by []]
              2  6 pool p 2             → size 2
              2  – pools                → [p size 2 free 1 held by [2]]
              3  7 release L1           → released epoch 2
              3  – pools                → [p size 2 free 2 held by []]
        "#]],
    );
}

#[test]
fn regrowing_takes_doomed_members_back() {
    check(
        " 0 pool p 3
          0 grant p*3 holder=a
          1 pool p 0
          1 pools
          2 pool p 5
          2 pools
          3 revoke L1
          3 pools
          4 reclaim L1
          4 pools
          4 grant p*5 holder=b",
        expect![[r#"
              0  1 pool p 3           → size 3
              0  2 grant p*3 holder=a → granted lease 2 epoch 1 fence 2 [p/1,p/2,p/3]
              1  3 pool p 0           → size 0
              1  – pools              → [p size 0 free 0 held by []]
              2  4 pool p 5           → size 5
              2  – pools              → [p size 5 free 2 held by [2,2,2]]
              3  5 revoke L1          → revoking epoch 2
              3  – pools              → [p size 5 free 2 held by [2,2,2]]
              4  6 reclaim L1         → revoked
              4  – pools              → [p size 5 free 5 held by []]
              4  7 grant p*5 holder=b → granted lease 7 epoch 1 fence 7 [p/1,p/2,p/3,p/4,p/5]
        "#]],
    );
}

#[test]
fn a_member_held_as_an_ordinary_resource_joins_when_the_pool_reaches_it() {
    check(
        " 0 grant p/2 holder=a
          0 grant p/02 holder=b
          0 pool p 1
          0 pools
          1 pool p 3
          1 pools
          1 grant p*2 holder=c
          1 grant p*1 holder=d
          2 release L1
          2 grant p*1 holder=d
          3 release L2
          3 pools",
        expect![[r#"
              0  1 grant p/2 holder=a  → granted lease 1 epoch 1 fence 1
              0  2 grant p/02 holder=b → granted lease 2 epoch 1 fence 2
              0  3 pool p 1            → size 1
              0  – pools               → [p size 1 free 1 held by []]
              1  4 pool p 3            → size 3
              1  – pools               → [p size 3 free 2 held by [1]]
              1  5 grant p*2 holder=c  → granted lease 5 epoch 1 fence 5 [p/1,p/3]
              1  – grant p*1 holder=d  → pool_exhausted p wanted 1 free 0
              2  6 release L1          → released epoch 2
              2  7 grant p*1 holder=d  → granted lease 7 epoch 1 fence 7 [p/2]
              3  8 release L2          → released epoch 2
              3  – pools               → [p size 3 free 0 held by [5,7,5]]
        "#]],
    );
}

#[test]
fn a_pool_in_use_is_removed_only_by_force() {
    check(
        " 0 pool p 2
          0 grant p*1 holder=a
          0 grant p*1 holder=b
          1 unpool p
          1 unpool p force
          1 pools
          1 grant p*1 holder=c
          1 unpool p force
          1 pool p 4
          2 revoke L1 reason=pool_removed
          2 reclaim L1
          2 pools
          3 release L2
          3 pools
          3 pool p 1
          4 unpool p
          4 unpool p",
        expect![[r#"
              0  1 pool p 2                      → size 2
              0  2 grant p*1 holder=a            → granted lease 2 epoch 1 fence 2 [p/1]
              0  3 grant p*1 holder=b            → granted lease 3 epoch 1 fence 3 [p/2]
              1  – unpool p                      → pool_in_use held 2
              1  4 unpool p force                → removed
              1  – pools                         → [p size 2 free 0 removed held by [2,3]]
              1  – grant p*1 holder=c            → pool_not_found p
              1  – unpool p force                → pool_not_found p
              1  – pool p 4                      → pool_in_use held 2
              2  5 revoke L1 reason=pool_removed → revoking epoch 2
              2  6 reclaim L1                    → revoked
              2  – pools                         → [p size 2 free 1 removed held by [3]]
              3  7 release L2                    → released epoch 2
              3  – pools                         → []
              3  8 pool p 1                      → size 1
              4  9 unpool p                      → removed
              4  – unpool p                      → pool_not_found p
        "#]],
    );
}

#[test]
fn a_pool_whose_held_members_are_all_doomed_is_not_in_use() {
    check(
        " 0 pool p 2
          0 grant p/2 holder=a
          1 pool p 1
          1 unpool p
          1 pools
          2 pool p 2
          2 pools
          3 unpool p
          4 unpool p force
          5 release L1
          5 pools",
        expect![[r#"
              0  1 pool p 2           → size 2
              0  2 grant p/2 holder=a → granted lease 2 epoch 1 fence 2
              1  3 pool p 1           → size 1
              1  4 unpool p           → removed
              1  – pools              → []
              2  5 pool p 2           → size 2
              2  – pools              → [p size 2 free 1 held by [2]]
              3  – unpool p           → pool_in_use held 1
              4  6 unpool p force     → removed
              5  7 release L1         → released epoch 2
              5  – pools              → []
        "#]],
    );
}

#[test]
fn a_lease_on_several_members_stands_once_for_each() {
    check(
        " 0 pool p 4
          0 grant p*2 holder=a
          0 grant p*1 holder=b
          0 pools",
        expect![[r#"
              0  1 pool p 4           → size 4
              0  2 grant p*2 holder=a → granted lease 2 epoch 1 fence 2 [p/1,p/2]
              0  3 grant p*1 holder=b → granted lease 3 epoch 1 fence 3 [p/3]
              0  – pools              → [p size 4 free 1 held by [2,2,3]]
        "#]],
    );
}

#[test]
fn names_that_only_look_like_members_are_not() {
    check(
        " 0 pool p 3
          0 grant [p/01,p/0,p/1x,p/99999,p/1/1,p] holder=a
          0 pools
          1 release L1
          1 pools",
        expect![[r#"
              0  1 pool p 3                                       → size 3
              0  2 grant [p/01,p/0,p/1x,p/99999,p/1/1,p] holder=a → granted lease 2 epoch 1 fence 2
              0  – pools                                          → [p size 3 free 3 held by []]
              1  3 release L1                                     → released epoch 2
              1  – pools                                          → [p size 3 free 3 held by []]
        "#]],
    );
}

#[test]
fn the_largest_pool_works_to_its_last_member() {
    let mut runner = Runner::new(Setup::plain());
    assert_eq!(runner.step(0, "pool p 65537").outcome, "too_large PoolSize");
    assert_eq!(runner.step(0, "pool p 65536").outcome, "size 65536");
    assert!(runner.step(0, "grant [p/65536] holder=a").lsn.is_some());
    assert_eq!(runner.kernel.pool("p").unwrap().free, 65_535);
    assert!(runner.step(0, "grant [p*64] holder=a").lsn.is_some());
    assert_eq!(runner.step(0, "grant [p*65] holder=a").outcome, "bundle_too_large");
    runner.prepare("1 release L1");
    assert_eq!(runner.kernel.pool("p").unwrap().free, 65_536 - 64);
    assert_eq!(runner.kernel.holders_of_pool("p").count(), 64);
    assert_eq!(runner.kernel.holders_of_pool("none").count(), 0);
    assert!(runner.kernel.pool("none").is_none());
}

#[test]
fn pool_names_are_names_and_their_members_too() {
    let mut runner = Runner::new(Setup::plain());
    let longest = "p".repeat(255 - "/65536".len());
    assert_eq!(runner.step(0, &format!("pool {longest} 1")).outcome, "size 1");
    assert!(runner.step(0, &format!("pool {longest}p 1")).outcome.starts_with("invalid_name"));
    check(
        " 0 pool a//b 1
          0 pool ../b 1
          0 pool mdns/x 1
          0 pool mdns 1
          0 pool mdnsx 1
          0 pool x/mdns 1",
        // A pool `mdns` once handed out `mdns/1` to any face.
        expect![[r#"
              0  – pool a//b 1   → invalid_name 'a//b' has an empty segment
              0  – pool ../b 1   → invalid_name '../b' has a segment '.' or '..'
              0  – pool mdns/x 1 → invalid_name 'mdns/x' lies under a prefix reserved to registrations
              0  – pool mdns 1   → invalid_name 'mdns' lies under a prefix reserved to registrations
              0  1 pool mdnsx 1  → size 1
              0  2 pool x/mdns 1 → size 1
        "#]],
    );
}
