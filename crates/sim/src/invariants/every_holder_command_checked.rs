//! Every holder command is checked against (lease_id, epoch): a stale holder is refused, always, and every
//! change of authority raises the epoch. (kernel.md §2, §6; DESIGN P3)

use super::{Said, Scene, Verdict};
use crate::ledger::Recorded;
use crate::violation::Violation;
use tenure_engine::{Answer, Out, Request};
use tenure_kernel::{Action, Change, Epoch, LeaseId};

const NAME: &str = "every_holder_command_checked";

pub(super) fn event(scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
    let (lease, epoch) = match &recorded.event.change {
        Change::Rebound(rebound) => (rebound.lease, rebound.epoch),
        Change::Revoked(revoked) => (revoked.lease, revoked.epoch),
        Change::Released(released) => (released.was.lease, released.was.epoch),
        Change::Expired(expired) => (expired.was.lease, expired.was.epoch),
        _ => return Ok(()),
    };
    match scene.story.leases.get(&lease) {
        Some(told) if epoch <= told.epoch => {
            let kind = recorded.event.change.kind().as_str();
            Err(Violation::new(NAME, format!("lease {lease} was {kind} and its epoch stayed {epoch}")))
        }
        Some(_) | None => Ok(()),
    }
}

pub(super) fn said(scene: &Scene<'_>, said: &Said<'_>) -> Verdict {
    let (Out::Answer(_, answer), Some(ask)) = (said.out, said.ask) else { return Ok(()) };
    match (&ask.request, answer) {
        (Request::Submit(submit), Answer::Lease(carried_out)) if !carried_out.replayed => {
            let Some((lease, presented)) = token(&submit.action) else { return Ok(()) };
            let before = scene.story.leases.get(&lease).and_then(|told| told.epoch_before(carried_out.lsn));
            match before {
                Some(epoch) if epoch != presented => {
                    let text = format!("epoch {presented} was accepted for lease {lease}, which had {epoch}");
                    Err(Violation::new(NAME, text))
                }
                Some(_) | None => Ok(()),
            }
        }
        (
            Request::Heartbeat { lease, epoch, .. }
            | Request::TimelyHeartbeat { lease, epoch: Some(epoch), .. },
            Answer::Renewed { .. },
        ) => match ask.epoch_before {
            Some(before) if *epoch < before => {
                let text = format!(
                    "a heartbeat with epoch {epoch} was accepted for lease {lease}, which had {before}"
                );
                Err(Violation::new(NAME, text))
            }
            Some(_) | None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn token(action: &Action) -> Option<(LeaseId, Epoch)> {
    match action {
        Action::Activate(token) => Some((token.lease, token.epoch)),
        Action::Release(release) => Some((release.token.lease, release.token.epoch)),
        Action::Rebind(rebind) => Some((rebind.token.lease, rebind.token.epoch)),
        Action::Amend(amend) => Some((amend.token.lease, amend.token.epoch)),
        _ => None,
    }
}
