//! Which of its targets a poller reports to the group, and when: those on its list that are nobody's for a third of a
//! ttl, and those it holds whose polls fail. Nothing is written while nothing changes, and not more often than once in
//! a ttl.

use super::{Control, Wake};
use crate::store::{Store, TargetName};
use core::time::Duration;
use tenure_api::{PollerReport, ReportedTargets};
use tenure_client::clock::BootInstant;

/// What the store was told last.
pub(super) struct Reporting {
    last: PollerReport,
    not_before: BootInstant,
}

impl Reporting {
    /// One who joins has reported nothing.
    pub(super) fn begin(now: BootInstant) -> Self {
        Self { last: PollerReport::default(), not_before: now }
    }

    /// When this is to be reported; `None`: it was.
    fn due(&self, report: &PollerReport) -> Option<BootInstant> {
        (*report != self.last).then_some(self.not_before)
    }

    fn tried(&mut self, report: PollerReport, is_told: bool, now: BootInstant, ttl: Duration) {
        self.not_before = now.after(if is_told { ttl } else { ttl / 3 });
        if is_told {
            self.last = report;
        }
    }
}

impl<S: Store> Control<S> {
    /// Reports what has changed. A report that does not arrive is no reason to stop: the next one may.
    pub(super) async fn report(&mut self, targets: &[TargetName], wake: &mut Wake) {
        let now = BootInstant::now();
        let report = self.to_report(targets, wake, now);
        match self.reporting.due(&report) {
            None => return,
            Some(due) if due > now => return wake.by(due),
            Some(_) => {}
        }
        let told = self.shared.store.report(&report).await;
        if !matches!(told, Ok(false)) {
            self.shared.counters.asked_store();
        }
        if let Err(error) = &told {
            tracing::debug!(group = self.shared.group, %error, "the report was not published");
        }
        self.reporting.tried(report, told.is_ok(), now, self.shared.membership.ttl);
    }

    fn to_report(&self, targets: &[TargetName], wake: &mut Wake, now: BootInstant) -> PollerReport {
        let holdings = self.shared.holdings();
        let is_listed = |target: &TargetName| targets.binary_search(target).is_ok();
        let mut unowned: Vec<&TargetName> = Vec::new();
        for (target, since) in self.orphans.iter() {
            if holdings.get(target).is_some() || !is_listed(target) {
                continue;
            }
            let from = since.after(self.shared.membership.ttl / 3);
            match from <= now {
                true => unowned.push(target),
                false => wake.by(from),
            }
        }
        unowned.sort();
        PollerReport {
            unowned: ReportedTargets::of(unowned.into_iter().map(|target| &**target)),
            failing: ReportedTargets::of(holdings.failing().into_iter().map(|target| &**target)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn report(unowned: &[&str]) -> PollerReport {
        PollerReport { unowned: ReportedTargets::of(unowned.iter().copied()), ..PollerReport::default() }
    }

    #[test]
    fn what_changes_is_reported_once_and_not_more_often_than_once_in_a_ttl() {
        let start = BootInstant::now();
        let mut reporting = Reporting::begin(start);
        assert_eq!(reporting.due(&report(&[])), None, "nothing to say");
        assert_eq!(reporting.due(&report(&["a"])), Some(start), "the first is reported at once");
        reporting.tried(report(&["a"]), true, start, TTL);
        assert_eq!(reporting.due(&report(&["a"])), None);
        assert_eq!(reporting.due(&report(&["b"])), Some(start.after(TTL)));
        let later = start.after(TTL);
        reporting.tried(report(&["b"]), false, later, TTL);
        assert_eq!(reporting.due(&report(&["b"])), Some(later.after(TTL / 3)), "it did not arrive");
    }
}
