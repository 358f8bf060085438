//! What the pieces say of themselves.

use crate::desk::Desk;
use crate::script::{refused, seconds};
use tenure_kernel::*;
use tenure_liveness::*;

#[test]
fn a_retired_lease_is_told_apart_from_an_unknown_one() {
    let mut desk = Desk::new(seconds());
    let (lease, _) = desk.grant(Grant::new(Bundle::one("r"), "a", Policy::heartbeat(90, 30))).unwrap();
    desk.release(lease, Epoch(1)).unwrap();
    let refusal = |desk: &mut Desk| desk.heartbeat(lease, Some(1), None).unwrap_err();
    assert_eq!(refused(&refusal(&mut desk)), "invalid_state released");
    desk.advance_to(Tick(desk.kernel.retention().window_ms + 1));
    assert_eq!(refused(&refusal(&mut desk)), "lease_retired");
    assert_eq!(refused(&desk.acknowledge(lease, 1).unwrap_err()), "lease_retired");
}

#[test]
fn reclaim_has_a_ground_only_when_it_is_safe() {
    let mut desk = Desk::new(seconds());
    let (lease, _) = desk.grant(Grant::new(Bundle::one("r"), "a", Policy::heartbeat(90, 30))).unwrap();
    let ground = |desk: &Desk| {
        let view = desk.kernel.live(lease).unwrap();
        (desk.liveness.reclaim_ground(view, desk.now), desk.liveness.reclaim_in_ms(view, desk.now))
    };
    assert_eq!(ground(&desk), (None, None));
    desk.revoke(lease, ReclaimBy::Operator).unwrap();
    assert_eq!(ground(&desk), (None, Some(90)));
    desk.advance_to(Tick(89));
    assert_eq!(ground(&desk), (None, Some(1)));
    desk.advance_to(Tick(90));
    assert_eq!(ground(&desk), (Some(ReclaimGround::PromiseOver), Some(0)));
    desk.acknowledge(lease, 2).unwrap();
    assert_eq!(ground(&desk), (Some(ReclaimGround::Acknowledged), Some(0)));
}

#[test]
fn a_copy_is_a_copy() {
    let mut desk = Desk::new(seconds());
    let (lease, _) = desk.grant(Grant::new(Bundle::one("r"), "a", Policy::heartbeat(90, 30))).unwrap();
    let mut copy = desk.clone();
    copy.advance_to(Tick(500));
    assert!(!copy.is_live(lease));
    assert!(desk.is_live(lease));
    assert_eq!(desk.view(lease).standing, Some(Standing::Alive));
}
