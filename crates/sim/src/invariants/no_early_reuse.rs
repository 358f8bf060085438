//! Reuse late, never early: nobody gets a resource while a living holder's own clock says that its promise
//! still runs, unless it gave the lease up. (DESIGN P2, decision 6; leases.md §1 "Promise")

use super::{Scene, Verdict};
use crate::ledger::Recorded;
use crate::violation::Violation;
use tenure_kernel::{Change, LeaseId, Text};

pub(super) fn event(scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
    match &recorded.event.change {
        Change::Granted(granted) => check(scene, LeaseId::new(0, recorded.lsn), &granted.members, false),
        Change::Rebound(rebound) if rebound.taken_over => match scene.story.leases.get(&rebound.lease) {
            Some(told) => check(scene, rebound.lease, &told.members, true),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn check(scene: &Scene<'_>, lease: LeaseId, members: &[Text], own: bool) -> Verdict {
    for client in scene.clients.iter().filter(|client| !client.dead) {
        for hand in &client.hands {
            if !hand.acts(scene.aged) || hand.tag != scene.tag || scene.memory.forced.contains(&hand.lease) {
                continue;
            }
            if (hand.lease == lease) != own {
                continue;
            }
            if let Some(name) = hand.members.iter().find(|name| members.contains(name)) {
                let left = hand.valid_until.unwrap_or(0) - scene.aged;
                let text = format!(
                    "{name} went to lease {lease} while {} acts on it by lease {} for {left} ms more",
                    client.name, hand.lease
                );
                return Err(Violation::new("no_early_reuse", text));
            }
        }
    }
    Ok(())
}
