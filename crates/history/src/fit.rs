//! Whether an event can follow a state. `Kernel::evolve` stops the process when one cannot, which is right for a daemon
//! and wrong for a tool that is asked what is the matter; so the tools ask here first.

use std::fmt;

use tenure_kernel::limits::POOL_SIZE_MAX;
use tenure_kernel::{Change, Epitaph, Event, Kernel, LeaseId, LeaseView, SessionId, Stamp, StateName};

/// Why an event cannot follow the state before it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Misfit(String);

fn misfit(why: impl fmt::Display) -> Result<(), Misfit> {
    Err(Misfit(why.to_string()))
}

const RESERVED: &[StateName] = &[StateName::Reserved];
const ACTIVE: &[StateName] = &[StateName::Active];
const WITH_AUTHORITY: &[StateName] = &[StateName::Reserved, StateName::Active];
const REVOKING: &[StateName] = &[StateName::Revoking];

/// Checks everything that `Kernel::evolve` takes for granted.
pub(crate) fn check(kernel: &Kernel, at: Stamp, event: &Event) -> Result<(), Misfit> {
    if at.lsn <= kernel.applied().lsn {
        return misfit(format_args!("its lsn is not after {}", kernel.applied().lsn));
    }
    if at.tick < kernel.applied().tick {
        return misfit(format_args!("its tick {} is before {}", at.tick, kernel.applied().tick));
    }
    match &event.change {
        Change::Granted(granted) => {
            members_free(kernel, &granted.members)?;
            session_known(kernel, granted.policy.session)
        }
        Change::Activated { lease } => live(kernel, *lease, RESERVED).map(drop),
        Change::Rebound(rebound) => {
            live(kernel, rebound.lease, ACTIVE)?;
            session_known(kernel, rebound.policy.as_ref().and_then(|policy| policy.session))
        }
        Change::Amended(amended) => live(kernel, amended.lease, WITH_AUTHORITY).map(drop),
        Change::Drained(steered) | Change::Revived(steered) => live(kernel, steered.lease, ACTIVE).map(drop),
        Change::Released(released) => ends(kernel, &released.was, WITH_AUTHORITY),
        Change::Revoked(revoked) => live(kernel, revoked.lease, WITH_AUTHORITY).map(drop),
        Change::Reclaimed(reclaimed) => ends(kernel, &reclaimed.was, REVOKING),
        Change::Expired(expired) => ends(kernel, &expired.was, RESERVED),
        Change::SessionOpened(open) => match kernel.session(open.session) {
            Some(_) => misfit(format_args!("session {} is open already", open.session)),
            None => Ok(()),
        },
        Change::SessionClosed { session, .. } => session_known(kernel, Some(*session)),
        Change::PoolDefined { name, size } if *size > POOL_SIZE_MAX => {
            misfit(format_args!("pool {name:?} of {size} members is too large"))
        }
        Change::PoolRemoved { name } if kernel.pool(name).is_none() => {
            misfit(format_args!("there is no pool {name:?}"))
        }
        Change::Notified { lease } if !kernel.notices().any(|(waiting, _)| waiting == *lease) => {
            misfit(format_args!("no notification of lease {lease} is pending"))
        }
        Change::PoolDefined { .. }
        | Change::PoolRemoved { .. }
        | Change::Notified { .. }
        | Change::Trimmed { .. }
        | Change::Configured(_) => Ok(()),
    }
}

fn live<'a>(kernel: &'a Kernel, lease: LeaseId, states: &[StateName]) -> Result<LeaseView<'a>, Misfit> {
    let Some(view) = kernel.live(lease) else {
        return Err(Misfit(format!("lease {lease} is not live")));
    };
    let state = view.state().name();
    if states.contains(&state) {
        Ok(view)
    } else {
        Err(Misfit(format!("lease {lease} is {}", state.as_str())))
    }
}

fn ends(kernel: &Kernel, was: &Epitaph, states: &[StateName]) -> Result<(), Misfit> {
    let view = live(kernel, was.lease, states)?;
    if *view.holder() != was.holder {
        return misfit(format_args!(
            "lease {} is held by {:?}, not {:?}",
            was.lease,
            view.holder(),
            was.holder
        ));
    }
    if !view.members().eq(was.members.iter()) {
        return misfit(format_args!("lease {} does not cover the resources that its end names", was.lease));
    }
    Ok(())
}

fn members_free(kernel: &Kernel, members: &[tenure_kernel::Text]) -> Result<(), Misfit> {
    if members.is_empty() {
        return misfit("it covers no resource");
    }
    for (index, name) in members.iter().enumerate() {
        if let Some(holding) = kernel.covering(name) {
            return misfit(format_args!("{name:?} is held by lease {}", holding.id()));
        }
        if members[..index].contains(name) {
            return misfit(format_args!("it names {name:?} twice"));
        }
    }
    Ok(())
}

fn session_known(kernel: &Kernel, session: Option<SessionId>) -> Result<(), Misfit> {
    match session {
        Some(session) if kernel.session(session).is_none() => {
            misfit(format_args!("there is no session {session}"))
        }
        Some(_) | None => Ok(()),
    }
}
