//! After revoke, reclaim never before the promise ran out, the holder acknowledged or gave the lease back itself; rule
//! `at_once` and an operator's force excepted, both recorded. A release frees nothing that a former holder counts on.
//! (kernel.md §6; leases.md §1 "Promise")

use super::{Scene, Verdict};
use crate::ledger::Recorded;
use crate::violation::Violation;
use tenure_kernel::{Change, Epoch, LeaseId, Mode, ReclaimGround, ReclaimRule, Reclaimed, StateName, Tick};

const NAME: &str = "promise_or_acknowledge";

pub(super) fn event(scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
    if let Change::Released(released) = &recorded.event.change {
        return nobody_counts_on(scene, released.was.lease);
    }
    let Change::Reclaimed(reclaimed) = &recorded.event.change else { return Ok(()) };
    let lease = reclaimed.was.lease;
    let wrong = |text: &str| Err(Violation::new(NAME, format!("lease {lease} was reclaimed {text}")));
    if reclaimed.ground != ReclaimGround::Forced {
        nobody_counts_on(scene, lease)?;
        let delay_ms = u64::from(reclaimed.was.policy.reclaim_delay_ms);
        let revoked = scene.story.leases.get(&lease).map_or(Tick(0), |told| told.revoked_tick);
        // After a restart the delay counts anew.
        if recorded.tick.ms_since(revoked) < delay_ms || since_revoke(scene, lease) < delay_ms {
            return wrong("before its delay");
        }
    }
    match reclaimed.ground {
        ReclaimGround::PromiseOver => promise_over(scene, reclaimed),
        ReclaimGround::Acknowledged if acknowledged(scene, lease) => Ok(()),
        ReclaimGround::Acknowledged => wrong("as acknowledged, which nobody did"),
        ReclaimGround::AtOnce if reclaimed.was.policy.reclaim_rule == ReclaimRule::AtOnce => Ok(()),
        ReclaimGround::AtOnce => wrong("at once, which its rule does not allow"),
        ReclaimGround::Forced if scene.memory.forced.contains(&lease) => Ok(()),
        ReclaimGround::Forced => wrong("by force, which nobody asked for"),
    }
}

fn acknowledged(scene: &Scene<'_>, lease: LeaseId) -> bool {
    if scene.story.leases.get(&lease).is_some_and(|told| told.given_back) {
        return true;
    }
    // Under the epoch of the revoke, or the one held before it.
    let revoked = scene.memory.revoked.get(&lease).copied().unwrap_or(0);
    let under = scene.story.leases.get(&lease).map_or(Epoch(0), |told| told.epoch);
    let said = scene.memory.acknowledged.range((lease, Epoch(0))..=(lease, under));
    said.filter(|((_, epoch), _)| epoch.0 + 1 >= under.0).any(|(_, at)| *at >= revoked)
}

/// Whether everybody who held the lease has stopped or cannot count on it any more, a former holder included.
fn nobody_counts_on(scene: &Scene<'_>, lease: LeaseId) -> Verdict {
    let believer = scene.clients.iter().find(|client| {
        let believes = |hand: &crate::clients::Hand| {
            hand.lease == lease && hand.tag == scene.tag && hand.acts(scene.aged)
        };
        !client.dead && client.hands.iter().any(believes)
    });
    if let Some(client) = believer {
        let text = format!("lease {lease} was freed while {} still counts on it", client.name);
        return Err(Violation::new(NAME, text));
    }
    Ok(())
}

/// How long ago the lease was revoked or, where that is later, the daemon started.
fn since_revoke(scene: &Scene<'_>, lease: LeaseId) -> u64 {
    let revoked = scene.memory.revoked.get(&lease).copied().unwrap_or(0);
    scene.aged.saturating_sub(revoked.max(scene.memory.started))
}

fn promise_over(scene: &Scene<'_>, reclaimed: &Reclaimed) -> Verdict {
    let lease = reclaimed.was.lease;
    let policy = &reclaimed.was.policy;
    let since_revoke = since_revoke(scene, lease);
    // The holder of an open connection has until the timeout; so has that of a permanent lease.
    let open = policy.session.is_some_and(|session| scene.memory.is_open(session));
    let waits = match policy.mode {
        Mode::Session => open,
        Mode::Permanent => true,
        Mode::Heartbeat => false,
    };
    let told = scene.story.leases.get(&lease);
    let was_active = told.is_some_and(|told| told.state_since(StateName::Active).is_some());
    // Where the holder has stopped, or its rule says at once, only the promise to a former holder can be waited for.
    let former = told.is_some_and(|told| told.formers_until(scene.memory.began) > told.revoked_tick);
    let has_stopped = former && (acknowledged(scene, lease) || policy.reclaim_rule == ReclaimRule::AtOnce);
    let timeout = scene.profile.engine.liveness.revoke_timeout_ms;
    if waits && was_active && !has_stopped && since_revoke < timeout {
        let text =
            format!("lease {lease} was reclaimed {since_revoke} ms after its revoke, its holder still there");
        return Err(Violation::new(NAME, text));
    }
    Ok(())
}
