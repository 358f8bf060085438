//! What only a writer may say: true at some instant between question and answer, by when its frames were committed.
//! (cluster.md §3 "Who may answer")

use super::Checks;
use crate::violation::Violation;
use tenure_engine::{Answer, Check, LeaseFound, Request};
use tenure_kernel::{Epoch, LeaseId, Lsn, StateName};

impl Checks {
    /// What is told as true now was true at some instant between question and answer.
    pub(super) fn is_fresh(
        &self,
        now: u64,
        sent: u64,
        request: &Request,
        answer: &Answer,
    ) -> Result<(), Violation> {
        let stale = |text: String| Err(Violation::new("reads_are_fresh", text));
        match (request, answer) {
            (Request::Check(Check::Epoch { lease, epoch }), Answer::Checked(checked)) => {
                let span = self.span(*lease, *epoch, StateName::Active);
                match span {
                    Some((_, Some(end))) if checked.current && end < sent => {
                        stale(format!("epoch {epoch} of lease {lease} was over at {end}, asked at {sent}"))
                    }
                    Some((begin, None)) if !checked.current && begin < sent => stale(format!(
                        "epoch {epoch} of lease {lease} has authority since {begin}, not so it was said"
                    )),
                    None if checked.current => {
                        stale(format!("epoch {epoch} of lease {lease} never had authority"))
                    }
                    _ => Ok(()),
                }
            }
            (Request::Check(Check::Fence { resource, .. }), Answer::Checked(checked)) => {
                let span = checked.lease.zip(checked.epoch);
                match span.and_then(|(lease, epoch)| self.span(lease, epoch, StateName::Active)) {
                    Some((_, Some(end))) if end < sent => {
                        stale(format!("{:?} had {resource} until {end}, asked at {sent}", checked.lease))
                    }
                    _ => Ok(()),
                }
            }
            (Request::Resource(_), Answer::Resource { lease: Some(lease), .. }) => {
                self.shown(sent, lease.id, lease.epoch, lease.state.name())
            }
            (Request::Resource(name), Answer::Resource { lease: None, .. }) => {
                let covering = self.story.covered.get(name).and_then(|lease| self.story.leases.get(lease));
                match covering.and_then(|told| told.steps.first()).map(|step| self.when(step.lsn)) {
                    Some(since) if since < sent => {
                        stale(format!("{name} is held since {since}, asked at {sent}, {now}"))
                    }
                    Some(_) | None => Ok(()),
                }
            }
            (Request::Read(_), Answer::Read(read)) => match &read.lease {
                LeaseFound::Live(lease) => self.shown(sent, lease.id, lease.epoch, lease.state.name()),
                LeaseFound::JustEnded { .. } | LeaseFound::Ended { .. } | LeaseFound::Retired => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn shown(&self, sent: u64, lease: LeaseId, epoch: Epoch, state: StateName) -> Result<(), Violation> {
        match self.span(lease, epoch, state) {
            Some((_, Some(end))) if end < sent => {
                let text = format!("lease {lease} was {} until {end}, asked at {sent}", state.as_str());
                Err(Violation::new("reads_are_fresh", text))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// From when until when a lease stood so, by when its frames were committed.
    fn span(&self, lease: LeaseId, epoch: Epoch, state: StateName) -> Option<(u64, Option<u64>)> {
        let steps = &self.story.leases.get(&lease)?.steps;
        let first = steps.iter().position(|step| step.epoch == epoch && step.state == state)?;
        let end = steps[first..].iter().find(|step| step.epoch != epoch || step.state != state);
        Some((self.when(steps[first].lsn), end.map(|step| self.when(step.lsn))))
    }

    fn when(&self, lsn: Lsn) -> u64 {
        self.committed.range(lsn..).next().map_or(0, |(_, at)| *at)
    }
}
