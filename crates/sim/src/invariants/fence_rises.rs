//! The fence of successive holders of one resource strictly rises, across restarts, wipes and restores.
//! (kernel.md §6; DESIGN decision 4)

use super::{Said, Scene, Verdict};
use crate::violation::Violation;
use std::collections::BTreeMap;
use tenure_engine::{Answer, LeaseFound, LeaseSnapshot, Out};
use tenure_kernel::{Epoch, Fence, LeaseId, LeaseState, Text};

/// The highest fence anybody was told, by resource.
#[derive(Default)]
pub(super) struct Fences(BTreeMap<Text, Shown>);

#[derive(Clone, Copy)]
struct Shown {
    fence: Fence,
    tag: u32,
    lease: LeaseId,
    epoch: Epoch,
}

impl Fences {
    pub(super) fn said(&mut self, scene: &Scene<'_>, said: &Said<'_>) -> Verdict {
        let Out::Answer(_, answer) = said.out else { return Ok(()) };
        match answer {
            Answer::Lease(answer) => self.found(scene, &answer.lease),
            Answer::Read(read) => self.found(scene, &read.lease),
            Answer::Leases { leases, .. } => leases.iter().try_for_each(|lease| self.shown(scene, lease)),
            Answer::Resource { lease: Some(lease), .. } => self.shown(scene, lease),
            _ => Ok(()),
        }
    }

    fn found(&mut self, scene: &Scene<'_>, found: &LeaseFound) -> Verdict {
        match found {
            LeaseFound::Live(lease) => self.shown(scene, lease),
            LeaseFound::JustEnded { .. } | LeaseFound::Ended { .. } | LeaseFound::Retired => Ok(()),
        }
    }

    fn shown(&mut self, scene: &Scene<'_>, lease: &LeaseSnapshot) -> Verdict {
        // A revoke raises the epoch, not the fence: nobody new may act.
        if let LeaseState::Revoking(_) = lease.state {
            return Ok(());
        }
        let now = Shown { fence: lease.fence, tag: scene.tag, lease: lease.id, epoch: lease.epoch };
        for name in &lease.members {
            if let Some(before) = self.0.get(name) {
                let same = before.tag == now.tag && before.lease == now.lease && before.epoch == now.epoch;
                // The same token may be given again after the one legal loss; then its fence is higher.
                let rises = if same { now.fence >= before.fence } else { now.fence > before.fence };
                // An answer to an old question may still show the holder before.
                let older = before.tag == now.tag && now.fence < before.fence && now.lease <= before.lease;
                if !rises && !older {
                    let text = format!(
                        "{name}: lease {} epoch {} has fence {} after lease {} epoch {} had {}",
                        now.lease, now.epoch, now.fence, before.lease, before.epoch, before.fence
                    );
                    return Err(Violation::new("fence_rises", text));
                }
                if older {
                    continue;
                }
            }
            self.0.insert(name.clone(), now);
        }
        Ok(())
    }
}
