//! One line in the daemon's log for every lease that ends. When thousands end together the first ones get a
//! line each and the rest are counted: a storm must not drown the log it is told in. Registrations are told one by
//! one: whoever asks why a service disappeared looks here.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use tenure_engine::host::read_clocks;
use tenure_engine::kernel::Face;
use tenure_engine::{Ending, Report};
use tenure_faces::{Ends, Facts, StreamFacts, log_end, log_stream_end};
use tenure_history::{Identity, WireLease};

/// Lines in one second.
const LINES_PER_SECOND_MAX: u64 = 200;
/// How long those that were only counted wait to be told of.
const QUIET: Duration = Duration::from_secs(1);

/// Lines of one second.
#[derive(Default)]
struct Second {
    number: u64,
    lines: u64,
    only_counted: u64,
}

/// Begins to log; ends with the engine.
pub(crate) fn log(ends: Ends, identity: Identity) {
    std::thread::Builder::new()
        .name("tenure-ends".to_owned())
        .spawn(move || {
            let mut second = Second::default();
            loop {
                let next = ends.next_within(QUIET);
                let now = read_clocks().boot_ms / 1_000;
                if now != second.number || next.is_err() {
                    tell_only_counted(second.only_counted + ends.take_unheard());
                    second = Second { number: now, ..Second::default() };
                }
                match next {
                    Ok(ending) => second.tell(&ending, &identity),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                ends.take_reports().for_each(|report| second.report(&report, &identity));
            }
        })
        .expect("invariant: a thread can be started");
}

impl Second {
    fn tell(&mut self, ending: &Ending, identity: &Identity) {
        if ending.policy.face == Face::Registrations
            && let Some(facts) = Facts::decode(&ending.face_data)
        {
            return log_end(&facts, ending.reason, ending.policy.session);
        }
        if self.lines >= LINES_PER_SECOND_MAX {
            self.only_counted += 1;
            return;
        }
        self.lines += 1;
        if ending.policy.face == Face::Streams
            && let Some(facts) = StreamFacts::decode(&ending.face_data)
        {
            return log_stream_end(&facts, ending.reason, &ending.text);
        }
        let resources: Vec<&str> = ending.members.iter().map(|name| name.as_str()).collect();
        tracing::info!(
            lease = %WireLease::new(identity, ending.lease),
            holder = %ending.holder,
            resources = %resources.join(", "),
            reason = ending.reason.as_str(),
            "lease ended"
        );
    }
}

impl Second {
    fn report(&mut self, report: &Report, identity: &Identity) {
        match report {
            Report::DiskLow => {
                tracing::warn!("the disk, or the store of the cluster, is nearly full: grants are rejected")
            }
            Report::DiskOk => tracing::info!("the disk has room again: grants resumed"),
            Report::BreakerOpened { silent, alive } => {
                tracing::warn!(
                    silent,
                    alive,
                    "most holders fell silent at once: the daemon postpones ends (mass-expiry protection)"
                );
            }
            Report::BreakerClosed => tracing::info!("expiry resumed"),
            Report::TaskFailed { task, error } => {
                tracing::warn!(task = task.as_str(), error, "log maintenance failed; retrying");
            }
            Report::TaskRecovered { task } => {
                tracing::info!(task = task.as_str(), "log maintenance works again");
            }
            Report::Stalled { stall, ms } => {
                tracing::warn!(
                    ms,
                    cause = stall.as_str(),
                    "the daemon stalled: holders waited for their answers"
                );
            }
            Report::NoticeGivenUp { .. } if self.lines >= LINES_PER_SECOND_MAX => {}
            Report::NoticeGivenUp { lease } => {
                self.lines += 1;
                let lease = WireLease::new(identity, *lease);
                tracing::warn!(%lease, "dropped the notification of an end: not acknowledged for 24 hours");
            }
        }
    }
}

fn tell_only_counted(count: u64) {
    if count > 0 {
        tracing::info!(leases = count, "more leases ended; see `tenure why` and the events");
    }
}
