//! Liveness: heartbeats of single leases among 10,000, looked up in lots as the engine does.

use crate::kernel::{Asked, LIVE, grant};
use crate::{HotPath, Round, scattered};
use tenure_kernel::{Epoch, LeaseId, Tick};
use tenure_liveness::{Liveness, LivenessConfig};

const BEATS: usize = 3_200;
/// Looked at together before they are worked on.
const AHEAD: usize = 32;

pub(crate) const QUICK: HotPath = HotPath {
    name: "liveness: heartbeat, 10,000 live",
    operations: BEATS,
    prepare: || {
        let mut asked = Asked::new();
        let mut liveness = Liveness::new(LivenessConfig::default(), Tick(0));
        let mut leases = Vec::with_capacity(LIVE);
        for number in 0..LIVE {
            let (at, event) = asked.ask(&grant(number))?;
            liveness.follow(&asked.kernel, at, &event);
            leases.push(LeaseId::new(0, at.lsn));
        }
        let order: Vec<LeaseId> = scattered(LIVE).take(BEATS).map(|number| leases[number]).collect();
        let (mut slots, mut effects) = (Vec::with_capacity(AHEAD), Vec::new());
        let round: Round = Box::new(move || {
            for lot in order.chunks(AHEAD) {
                asked.kernel.find(lot, &mut slots);
                liveness.warm(&slots);
                for (lease, slot) in lot.iter().zip(&slots) {
                    let quick = slot.and_then(|slot| liveness.quick_heartbeat(slot, Tick(5), Epoch::FIRST));
                    let renewed = quick.is_some()
                        || liveness
                            .heartbeat(&asked.kernel, Tick(5), *lease, Epoch::FIRST, None, &mut effects)
                            .is_ok();
                    assert!(renewed, "invariant: it is held");
                }
            }
        });
        Ok(round)
    },
};
