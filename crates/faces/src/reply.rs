//! The engine's answers as replies. What ended a while ago is told by the event that ended it.

use crate::ask::Shape;
use crate::call::Reply;
use crate::dispatch::Faces;
use crate::events::told_end;
use crate::show::{Ended, Lens};
use crate::status;
use tenure_api::{self as api, Error, ErrorCode, LeaseQuery};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::{EndedLease, Lsn};
use tenure_engine::{Answer, LeaseFound, LeaseSnapshot, PoolSnapshot, WaiterSnapshot};
use tenure_history::wire_session;

impl Faces {
    pub(crate) async fn reply(&self, shape: Shape, answer: Answer) -> Result<Reply, Error> {
        let lens = self.lens();
        if is_told_by_log(&answer) {
            return self.reply_from_log(&lens, shape, answer).await;
        }
        self.reply_now(&lens, shape, answer)
    }

    /// The reply to what ended a while ago.
    pub(crate) async fn reply_from_log(
        &self,
        lens: &Lens<'_>,
        shape: Shape,
        answer: Answer,
    ) -> Result<Reply, Error> {
        let (found, lsn, replayed, waiters) = match answer {
            Answer::Lease(given) => (given.lease, given.lsn, given.replayed, None),
            Answer::Read(read) => {
                let waiters = holders(&read.waiters);
                (read.lease, read.lsn, false, Some(waiters))
            }
            other => return self.reply_now(lens, shape, other),
        };
        let LeaseFound::Ended { ended, fence, .. } = found else {
            return Err(self.not_that(Answer::Done { lsn, replayed }, shape.about()));
        };
        let EndedLease { ended_lsn, epoch, .. } = ended;
        let (event, wall_ms) = self.logged(ended_lsn).await.ok_or_else(retired)?;
        let told = told_end(&event.change).ok_or_else(retired)?;
        let lease = lens.ended(&Ended { fence, ended_wall_ms: wall_ms, ..told }, lsn);
        Ok(Reply::Lease(Box::new(api::Lease { epoch: epoch.0, replayed, waiters, ..lease })))
    }

    /// The reply to what needs no log to be told.
    pub(crate) fn reply_now(&self, lens: &Lens<'_>, shape: Shape, answer: Answer) -> Result<Reply, Error> {
        let answer = match answer {
            Answer::Refused(refused) => return Err(self.refused(&refused, shape.about())),
            answer => answer,
        };
        Ok(match (shape, answer) {
            (Shape::Lease(_), Answer::Lease(given)) => {
                let mut lease = found(lens, &given.lease, given.lsn)?;
                lease.replayed = given.replayed;
                Reply::Lease(lease)
            }
            (Shape::Lease(_), Answer::Read(read)) => {
                let mut lease = found(lens, &read.lease, read.lsn)?;
                lease.waiters = Some(holders(&read.waiters));
                Reply::Lease(lease)
            }
            (
                Shape::Renewed { lease, epoch },
                Answer::Renewed { valid_ms, remaining_ms, draining, lsn, .. },
            ) => Reply::Renewed(api::Renewed {
                lease_id: lens.lease_id(lease),
                epoch,
                valid_ms,
                remaining_ms,
                draining,
                server_time: lens.now(),
                lsn: lsn.0,
            }),
            (Shape::Leases(query), Answer::Leases { leases, next, lsn }) => {
                let shown = leases.iter().map(|lease| lens.lease(lease, lsn));
                Reply::Leases(api::LeaseList {
                    leases: shown.filter(|lease| matches(&query, lease)).collect(),
                    next_cursor: next.map(|next| lens.lease_id(next)),
                    lsn: lsn.0,
                })
            }
            (Shape::Resources(prefix), Answer::Leases { leases, next, lsn }) => {
                let held = leases.iter().flat_map(|lease| resources(lens, lease, &prefix, lsn));
                Reply::Resources(api::ResourceList {
                    resources: held.collect(),
                    next_cursor: next.map(|next| lens.lease_id(next)),
                    lsn: lsn.0,
                })
            }
            (Shape::Resource(name), Answer::Resource { lease, waiters, lsn }) => {
                let waiters = Some(holders(&waiters));
                Reply::Resource(resource(lens, name, lease.as_deref(), waiters, lsn))
            }
            (Shape::Session(seen), Answer::Session { session, .. }) if !seen.includes(&session.principal) => {
                let message = format!("session {} belongs to another principal", wire_session(session.id));
                return Err(Error::new(ErrorCode::Forbidden, message));
            }
            (Shape::Session(_), Answer::Session { session, lsn }) => {
                Reply::Session(lens.session(&session, lsn))
            }
            (Shape::Sessions(seen), Answer::Sessions { sessions, next, lsn }) => {
                let shown = sessions.iter().filter(|session| seen.includes(&session.principal));
                Reply::Sessions(api::SessionList {
                    sessions: shown.map(|session| lens.session(session, lsn)).collect(),
                    next_cursor: next.map(wire_session),
                    lsn: lsn.0,
                })
            }
            (Shape::SessionRenewed(session), Answer::SessionRenewed { lsn, valid_ms, ended, draining }) => {
                Reply::SessionRenewed(api::SessionRenewed {
                    session: wire_session(session),
                    lsn: lsn.0,
                    valid_ms,
                    ended: ended.map(|ended| {
                        let lost = ended.iter().map(|loss| api::EndedLease {
                            lease_id: lens.lease_id(loss.lease),
                            reason: loss.reason.as_str().to_owned(),
                        });
                        lost.collect()
                    }),
                    draining: draining.iter().map(|lease| lens.lease_id(*lease)).collect(),
                    server_time: lens.now(),
                })
            }
            (Shape::SessionEnd(session), Answer::Done { lsn, .. }) => {
                Reply::SessionEnd(api::SessionEnd { session: wire_session(session), lsn: lsn.0 })
            }
            (Shape::Pools, Answer::Pools { pools, lsn }) => Reply::Pools(api::PoolList {
                pools: pools.iter().map(|pool| shown_pool(pool, lsn)).collect(),
                next_cursor: None,
                lsn: lsn.0,
            }),
            (Shape::Pool(name), Answer::Pools { pools, lsn }) => {
                let found = pools.iter().find(|pool| pool.name == name).ok_or_else(|| {
                    let message = format!("pool {name:?} does not exist");
                    Error::new(ErrorCode::PoolNotFound, message).with("pool", name.as_str())
                })?;
                Reply::Pool(shown_pool(found, lsn))
            }
            (Shape::Checked, Answer::Checked(checked)) => Reply::Checked(api::CheckAnswer {
                current: checked.current,
                lease_id: checked.lease.map(|lease| lens.lease_id(lease)),
                holder: checked.holder.map(|holder| holder.to_string()),
                epoch: checked.epoch.map(|epoch| epoch.0),
                fence: checked.fence.map(|fence| fence.0),
                lsn: checked.lsn.0,
            }),
            (Shape::Status, Answer::Status(found)) => {
                let vitals = self.vitals();
                let (now, snapshot) = (read_clocks().boot_ms, self.last_snapshot());
                let mut shown = status::shown(lens, &vitals, &found, now, snapshot, self.memory());
                // The daemon's own watch is nobody's.
                shown.watches = shown.watches.saturating_sub(self.streams().watches());
                shown.mdns = self.network_health().0.words;
                shown.notifications_dropped = self.streams().book.counters.notices_dropped();
                Reply::Status(Box::new(shown))
            }
            (Shape::BreakerReset, Answer::Done { lsn, .. }) => {
                Reply::BreakerReset(api::BreakerReset { lsn: lsn.0 })
            }
            (shape, answer) => return Err(self.not_that(answer, shape.about())),
        })
    }
}

/// Whether only the log still knows what is asked for.
pub(crate) fn is_told_by_log(answer: &Answer) -> bool {
    match answer {
        Answer::Lease(given) => matches!(given.lease, LeaseFound::Ended { .. }),
        Answer::Read(read) => matches!(read.lease, LeaseFound::Ended { .. }),
        _ => false,
    }
}

fn retired() -> Error {
    Error::new(ErrorCode::LeaseRetired, "the lease ended, and its details are not kept any more")
}

/// A lease as it is shown.
fn found(lens: &Lens<'_>, found: &LeaseFound, lsn: Lsn) -> Result<Box<api::Lease>, Error> {
    match found {
        LeaseFound::Live(lease) => Ok(Box::new(lens.lease(lease, lsn))),
        LeaseFound::JustEnded { was, state, reason, text, fence, wall_ms } => {
            let ended =
                Ended { was, state: *state, reason: *reason, text, fence: *fence, ended_wall_ms: *wall_ms };
            Ok(Box::new(lens.ended(&ended, lsn)))
        }
        LeaseFound::Ended { .. } => unreachable!("invariant: what the log tells is asked of the log"),
        LeaseFound::Retired => Err(retired()),
    }
}

fn matches(query: &LeaseQuery, lease: &api::Lease) -> bool {
    query.state.is_none_or(|state| lease.state == state)
        && query.liveness.is_none_or(|liveness| lease.liveness == Some(liveness))
        && query.mode.is_none_or(|mode| lease.mode == mode)
        && query.application.is_none_or(|wanted| lease.application == wanted)
}

fn resources<'a>(
    lens: &'a Lens<'_>,
    lease: &'a LeaseSnapshot,
    prefix: &'a str,
    lsn: Lsn,
) -> impl Iterator<Item = api::Resource> + 'a {
    let names = lease.members.iter().filter(move |name| name.starts_with(prefix));
    names.map(move |name| resource(lens, name.to_string(), Some(lease), None, lsn))
}

fn holders(waiters: &[WaiterSnapshot]) -> Vec<String> {
    waiters.iter().map(|waiter| waiter.holder.to_string()).collect()
}

fn resource(
    lens: &Lens<'_>,
    name: String,
    lease: Option<&LeaseSnapshot>,
    waiters: Option<Vec<String>>,
    lsn: Lsn,
) -> api::Resource {
    let shown = lease.map(|lease| lens.lease(lease, lsn));
    api::Resource {
        name,
        lease_id: shown.as_ref().map(|lease| lease.lease_id.clone()),
        holder: shown.as_ref().map(|lease| lease.holder.clone()),
        epoch: shown.as_ref().map(|lease| lease.epoch),
        fence: shown.as_ref().map(|lease| lease.fence),
        remaining_ms: shown.as_ref().and_then(|lease| lease.remaining_ms),
        since: shown.map(|lease| lease.granted_at),
        waiters,
        lsn: lsn.0,
    }
}

fn shown_pool(pool: &PoolSnapshot, lsn: Lsn) -> api::Pool {
    api::Pool {
        name: pool.name.to_string(),
        size: pool.size,
        free: pool.free,
        removed: pool.removed,
        lsn: lsn.0,
    }
}
