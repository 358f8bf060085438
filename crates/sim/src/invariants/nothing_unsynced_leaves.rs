//! Nothing that rests on an unsynced event leaves the process; the disk's own durable bytes say what is
//! synced, not the engine. (DESIGN P4, decision 2)

use super::{Said, Scene, Verdict};
use crate::network::Ask;
use crate::violation::Violation;
use tenure_engine::{Answer, LeaseFound, LeaseSnapshot, Out, Push, Refused, Request};
use tenure_kernel::{Action, LeaseId, Lsn, Rejection, StateName};

/// Rests on something that was never given to the log.
const NEVER: Lsn = Lsn(u64::MAX);

pub(super) fn said(scene: &Scene<'_>, said: &Said<'_>) -> Verdict {
    let rests_on = match said.out {
        Out::Answer(_, answer) => rests_on(scene, said.ask, answer),
        Out::Push(Push::Lost { lease, epoch, .. }) => {
            known(scene, *lease).map_or(NEVER, |told| told.epoch_since(*epoch).unwrap_or(NEVER))
        }
        Out::Push(Push::Events { events, .. }) => {
            events.iter().map(|event| event.lsn).max().unwrap_or(Lsn(0))
        }
        Out::Push(Push::Lagged { .. } | Push::WatchTrimmed { .. }) => Lsn(0),
        Out::OpenGate(lease) => state_since(scene, *lease, StateName::Revoking),
        Out::SendNotice { ended_lsn, .. } => *ended_lsn,
        Out::Ended(ending) => ending.lsn,
        Out::Followed(followed) => followed.lsn,
        Out::Report(_) => Lsn(0),
    };
    if rests_on.0 <= scene.durable_lsn {
        return Ok(());
    }
    let what = match said.out {
        Out::Answer(_, answer) => format!("{answer:?}"),
        out => format!("{out:?}"),
    };
    let what: String = what.chars().take(200).collect();
    let text = format!("rests on {rests_on}, the disk has {} durably: {what}", scene.durable_lsn);
    Err(Violation::new("nothing_unsynced_leaves", text))
}

fn known<'a>(scene: &Scene<'a>, lease: LeaseId) -> Option<&'a crate::story::Told> {
    scene.story.leases.get(&lease)
}

fn state_since(scene: &Scene<'_>, lease: LeaseId, state: StateName) -> Lsn {
    known(scene, lease).and_then(|told| told.state_since(state)).unwrap_or(NEVER)
}

fn shown(scene: &Scene<'_>, lease: &LeaseSnapshot) -> Lsn {
    known(scene, lease.id).and_then(|told| told.since(lease.epoch, lease.state.name())).unwrap_or(NEVER)
}

fn found(scene: &Scene<'_>, found: &LeaseFound) -> Lsn {
    match found {
        LeaseFound::Live(lease) => shown(scene, lease),
        LeaseFound::Ended { ended, .. } => ended.ended_lsn,
        LeaseFound::JustEnded { was, state, .. } => state_since(scene, was.lease, *state),
        LeaseFound::Retired => Lsn(0),
    }
}

fn rests_on(scene: &Scene<'_>, ask: Option<&Ask>, answer: &Answer) -> Lsn {
    match answer {
        Answer::Lease(answer) => answer.lsn.max(found(scene, &answer.lease)),
        Answer::Done { lsn, .. } => *lsn,
        Answer::Renewed { .. } => match ask.map(|ask| &ask.request) {
            Some(
                Request::Heartbeat { lease, epoch, .. }
                | Request::TimelyHeartbeat { lease, epoch: Some(epoch), .. },
            ) => known(scene, *lease).and_then(|told| told.epoch_since(*epoch)).unwrap_or(NEVER),
            Some(Request::TimelyHeartbeat { lease, epoch: None, .. }) => {
                state_since(scene, *lease, StateName::Active)
            }
            _ => Lsn(0),
        },
        Answer::SessionRenewed { lsn, ended, .. } => {
            ended.iter().flatten().map(|loss| loss.lsn).max().unwrap_or(Lsn(0)).max(*lsn)
        }
        Answer::Read(read) => found(scene, &read.lease),
        Answer::Leases { leases, lsn, .. } => {
            leases.iter().map(|lease| shown(scene, lease)).max().unwrap_or(Lsn(0)).max(*lsn)
        }
        Answer::Resource { lease, lsn, .. } => {
            lease.as_ref().map_or(Lsn(0), |lease| shown(scene, lease)).max(*lsn)
        }
        Answer::Ended { leases, lsn, .. } => {
            leases.iter().map(|(_, ended)| ended.ended_lsn).max().unwrap_or(Lsn(0)).max(*lsn)
        }
        Answer::Pools { lsn, .. }
        | Answer::Session { lsn, .. }
        | Answer::Sessions { lsn, .. }
        | Answer::Waiting { lsn, .. } => *lsn,
        Answer::Checked(checked) => match (checked.lease, checked.epoch) {
            (Some(lease), Some(epoch)) => {
                known(scene, lease).and_then(|told| told.epoch_since(epoch)).unwrap_or(NEVER).max(checked.lsn)
            }
            _ => checked.lsn,
        },
        Answer::Watching { .. } | Answer::ConnectionsKept { .. } | Answer::Probed { .. } => Lsn(0),
        Answer::Status(status) => status.applied_lsn,
        Answer::Refused(refused) => refusal_rests_on(scene, ask, refused),
    }
}

fn refusal_rests_on(scene: &Scene<'_>, ask: Option<&Ask>, refused: &Refused) -> Lsn {
    let rejection = match refused {
        Refused::Rejected(rejection) => rejection,
        Refused::Held(blockers) => {
            let begun = |lease| known(scene, lease).and_then(|told| told.steps.first());
            let rests = blockers.iter().map(|held| begun(held.lease).map_or(NEVER, |step| step.lsn));
            return rests.max().unwrap_or(NEVER);
        }
        _ => return Lsn(0),
    };
    let lease = ask.and_then(|ask| subject(&ask.request));
    match (rejection, lease) {
        (Rejection::StaleEpoch { current }, Some(lease)) => {
            known(scene, lease).and_then(|told| told.epoch_since(*current)).unwrap_or(NEVER)
        }
        (Rejection::InvalidState { state }, Some(lease)) => state_since(scene, lease, *state),
        _ => Lsn(0),
    }
}

fn subject(request: &Request) -> Option<LeaseId> {
    match request {
        Request::Heartbeat { lease, .. }
        | Request::TimelyHeartbeat { lease, .. }
        | Request::Acknowledge { lease, .. } => Some(*lease),
        Request::Submit(submit) => match &*submit.action {
            Action::Activate(token) => Some(token.lease),
            Action::Release(release) => Some(release.token.lease),
            Action::Rebind(rebind) => Some(rebind.token.lease),
            Action::Amend(amend) => Some(amend.token.lease),
            Action::Revoke(revoke) => Some(revoke.lease),
            Action::Reclaim(reclaim) => Some(reclaim.lease),
            Action::Drain(steer) | Action::Revive(steer) => Some(steer.lease),
            _ => None,
        },
        _ => None,
    }
}
