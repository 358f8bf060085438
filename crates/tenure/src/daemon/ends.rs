//! One line in the daemon's log for every lease that ends. When thousands end together the first ones get a
//! line each and the rest are counted: a storm must not drown the log it is told in.

use tenure_engine::host::read_clocks;
use tenure_engine::kernel::Face;
use tenure_faces::{Ends, Facts, log_end};
use tenure_history::{Identity, WireLease};

/// Lines in one second.
const LINES_PER_SECOND_MAX: u64 = 200;

/// Begins to log; ends with the engine.
pub(crate) fn log(ends: Ends, identity: Identity) {
    std::thread::Builder::new()
        .name("tenure-ends".to_owned())
        .spawn(move || {
            let (mut second, mut lines, mut uncounted) = (0, 0, 0);
            while let Some(ending) = ends.next() {
                let now = read_clocks().boot_ms / 1_000;
                if now != second {
                    tell_uncounted(uncounted + ends.take_unheard());
                    (second, lines, uncounted) = (now, 0, 0);
                }
                if lines >= LINES_PER_SECOND_MAX {
                    uncounted += 1;
                    continue;
                }
                lines += 1;
                if ending.policy.face == Face::Registrations
                    && let Some(facts) = Facts::decode(&ending.face_data)
                {
                    log_end(&facts, ending.reason, ending.policy.session);
                    continue;
                }
                let resources: Vec<&str> = ending.members.iter().map(|name| name.as_str()).collect();
                tracing::info!(
                    lease = %WireLease::new(&identity, ending.lease),
                    holder = %ending.holder,
                    resources = %resources.join(", "),
                    reason = ending.reason.as_str(),
                    "lease ended"
                );
            }
            tell_uncounted(uncounted + ends.take_unheard());
        })
        .expect("invariant: a thread can be started");
}

fn tell_uncounted(count: u64) {
    if count > 0 {
        tracing::info!(leases = count, "more leases ended; `tenure why` and the events tell of each");
    }
}
