//! The full scan: what must hold between the tables, rebuilt the slow way and compared. Runs after every
//! step in tests and in the simulator, on loading a snapshot, and in `tenure log verify`.

use crate::ids::{LeaseId, Lsn};
use crate::kernel::Kernel;
use crate::lease::LeaseState;
use crate::names::{pool_member, split_pool_member};
use crate::tables::register::Where;
use crate::tables::shares::Shares;
use crate::tables::slab::NO_SLOT;
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};

/// A broken invariant and where it was seen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{rule}: {what}")]
pub struct Violation {
    /// The rule, as the documentation states it.
    pub rule: &'static str,
    /// The evidence.
    pub what: String,
}

fn require(holds: bool, rule: &'static str, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { rule, what: what() }) }
}

impl Kernel {
    /// Scans every table.
    ///
    /// # Errors
    /// The first invariant found broken.
    pub fn check_invariants(&self) -> Result<(), Violation> {
        self.check_leases()?;
        self.check_resources()?;
        self.check_schedule()?;
        self.check_pools()?;
        self.check_sessions()?;
        self.check_interned()?;
        self.check_shares()?;
        self.check_retained()
    }

    fn check_leases(&self) -> Result<(), Violation> {
        let mut payload_bytes = 0;
        let mut counts = crate::kernel::Counts::default();
        let mut previous = Lsn(0);
        let mut listed = 0;
        for (lsn, slot) in self.register.live_from(Lsn(0)) {
            let lease = self.leases.get(slot);
            require(lease.is_some_and(|lease| lease.lsn == lsn), "the register lists live leases", || {
                format!("entry {lsn} names slot {slot}")
            })?;
            require(lsn > previous, "the register is in order", || format!("{previous} before {lsn}"))?;
            previous = lsn;
            let lease = &self.leases[slot];
            require(lsn <= self.applied.lsn, "a lease was granted in the past", || format!("lease {lsn}"))?;
            require(self.slot_of(self.lease_id(lsn)) == Some(slot), "every lease is found by id", || {
                format!("lease {lsn}")
            })?;
            payload_bytes += lease.payload_bytes();
            *counts.cell(lease.state.name(), self.policies.get(lease.policy)) += 1;
            listed += 1;
        }
        require(
            listed == self.leases.len() && listed == self.register.live(),
            "every lease is registered",
            || format!("{listed} listed, {} counted, {} live", self.register.live(), self.leases.len()),
        )?;
        require(counts == self.counts, "counts equal a full count", || format!("{:?}", self.counts))?;
        require(payload_bytes == self.payload_bytes, "payload bytes equal a full sum", || {
            format!("{} counted, {payload_bytes} found", self.payload_bytes)
        })
    }

    fn check_resources(&self) -> Result<(), Violation> {
        let mut covered = 0;
        for (slot, lease) in self.leases.iter() {
            for member in lease.more_members() {
                let resource = self.resources.get(*member);
                require(
                    resource.is_some_and(|resource| resource.lease == slot),
                    "a live member belongs to exactly one live lease",
                    || format!("lease {} and resource slot {member}", lease.lsn),
                )?;
            }
            for name in self.members(lease) {
                require(self.covering_slot(name) == Some(slot), "every resource is found by name", || {
                    format!("resource {name}")
                })?;
                covered += 1;
            }
        }
        let more = covered - self.leases.len();
        require(more == self.resources.len(), "a covered resource is a member of its lease", || {
            format!("{more} further members, {} further resources", self.resources.len())
        })?;
        require(self.resource_index.len() == covered, "one record per covered name", || {
            format!("{} indexed, {covered} covered", self.resource_index.len())
        })
    }

    fn check_schedule(&self) -> Result<(), Violation> {
        let expected: BTreeSet<_> = self
            .leases
            .iter()
            .filter_map(|(_, lease)| match lease.state {
                LeaseState::Reserved { deadline } => Some((deadline, lease.lsn)),
                LeaseState::Active { .. } | LeaseState::Revoking(_) => None,
            })
            .collect();
        require(expected == self.scheduled, "reserved means scheduled for expiry", || {
            format!("{expected:?} reserved, {:?} scheduled", self.scheduled)
        })
    }

    fn check_pools(&self) -> Result<(), Violation> {
        for (name, pool) in &self.pools {
            require(pool.free.count() <= pool.size, "a pool has no more free members than members", || {
                format!("pool {name}")
            })?;
            for number in pool.free.iter() {
                require(
                    number <= pool.size && self.covering(&pool_member(name, number)).is_none(),
                    "a free pool member is not held",
                    || format!("{name}/{number}"),
                )?;
            }
            require(!pool.removed || pool.held() > 0, "a removed pool is in use", || name.to_string())?;
        }
        let mut held: BTreeMap<&str, u32> = BTreeMap::new();
        for name in self.leases.iter().flat_map(|(_, lease)| self.members(lease)) {
            if let Some((pool, number)) = split_pool_member(name)
                && self.pools.get(pool).is_some_and(|found| number <= found.size)
            {
                *held.entry(pool).or_default() += 1;
            }
        }
        for (name, pool) in &self.pools {
            let found = held.get(name.as_str()).copied().unwrap_or(0);
            require(pool.held() == found, "members not held are free", || {
                format!("pool {name}: {} counted held, {found} found", pool.held())
            })?;
        }
        Ok(())
    }

    fn check_sessions(&self) -> Result<(), Violation> {
        require(self.session_index.len() == self.sessions.len(), "every session is found by id", || {
            format!("{} indexed, {} known", self.session_index.len(), self.sessions.len())
        })?;
        let mut listed = 0;
        for (id, slot) in &self.session_index {
            let session = &self.sessions[*slot];
            require(session.id == *id, "a session is found under its id", || format!("{id}"))?;
            let mut previous = NO_SLOT;
            let mut count = 0;
            let mut drained = BTreeSet::new();
            let mut graces = BTreeMap::new();
            let mut first_revoking = NO_SLOT;
            let mut at = session.first;
            while at != NO_SLOT {
                let lease = &self.leases[at];
                let revoking = matches!(lease.state, LeaseState::Revoking(_));
                if revoking && first_revoking == NO_SLOT {
                    first_revoking = at;
                }
                let in_order = revoking || first_revoking == NO_SLOT;
                require(in_order, "revoking leases are last in their session", || {
                    format!("lease {}", lease.lsn)
                })?;
                let linked = lease.session.session == *slot && lease.session.previous == previous;
                require(linked, "a session's list is linked both ways", || format!("lease {}", lease.lsn))?;
                if let LeaseState::Active { drained: true, .. } = lease.state {
                    drained.insert(self.lease_id(lease.lsn));
                }
                *graces.entry(self.policies.get(lease.policy).grace_ms).or_default() += 1;
                count += 1;
                previous = at;
                at = lease.session.next;
            }
            listed += count;
            require(
                session.first_revoking == first_revoking,
                "a session knows its first revoking lease",
                || format!("session {id}"),
            )?;
            require(
                session.last == previous && session.leases == count,
                "a session counts its leases",
                || format!("session {id}: {} counted, {count} listed", session.leases),
            )?;
            require(session.graces == graces, "a session counts the graces of its leases", || {
                format!("{id}")
            })?;
            require(session.drained == drained, "a session knows its drained leases", || format!("{id}"))?;
            require(session.closed.is_none() || count > 0, "a closed session has leases left", || {
                format!("session {id}")
            })?;
            let rising = session.losses.iter().map(|loss| loss.lsn).is_sorted();
            require(rising, "losses are in order", || format!("session {id}"))?;
        }
        let with_session = self.leases.iter().filter(|(_, l)| l.session.session != NO_SLOT).count();
        require(listed as usize == with_session, "a lease of a session is on its list", || {
            format!("{listed} listed, {with_session} linked")
        })
    }

    fn check_shares(&self) -> Result<(), Violation> {
        let mut shares = Shares::default();
        for (_, lease) in self.leases.iter() {
            let principal = &self.policies.get(lease.policy).principal;
            shares.change(principal, |share| share.payload_bytes += lease.payload_bytes());
        }
        for (_, session) in self.sessions.iter() {
            shares.change(&session.principal, |share| share.sessions += 1);
        }
        require(shares == self.shares, "each principal's share equals a full sum", || {
            format!("{:?} counted, {shares:?} found", self.shares)
        })
    }

    fn check_interned(&self) -> Result<(), Violation> {
        let mut holders: HashMap<u32, u32, foldhash::fast::FixedState> = HashMap::default();
        let mut policies: HashMap<u32, u32, foldhash::fast::FixedState> = HashMap::default();
        for (_, lease) in self.leases.iter() {
            *holders.entry(lease.holder).or_default() += 1;
            *policies.entry(lease.policy).or_default() += 1;
        }
        let same = self.holders.len() == holders.len()
            && self.holders.iter().all(|(slot, _, uses)| holders.get(&slot) == Some(&uses));
        require(same, "holders are counted by their leases", || format!("{} holders", holders.len()))?;
        let same = self.policies.len() == policies.len()
            && self
                .policies
                .iter()
                .all(|(slot, policy, uses)| policy.session.is_none() && policies.get(&slot) == Some(&uses));
        require(same, "terms are counted by their leases", || format!("{} terms", policies.len()))?;
        let mut principals: BTreeMap<&str, u32> = BTreeMap::new();
        for (_, policy, uses) in self.policies.iter() {
            *principals.entry(&policy.principal).or_default() += uses;
        }
        let same = self.principals.len() == principals.len()
            && self.principals.iter().all(|(_, name, uses)| principals.get(name.as_str()) == Some(&uses));
        require(same, "principals are counted by their leases", || format!("{principals:?}"))
    }

    fn check_retained(&self) -> Result<(), Violation> {
        let mut count = 0;
        for ended in self.retained.iter() {
            let found = match self.register.find(ended.lsn) {
                Some(Where::Ended(key)) => self.retained.get(key, ended.lsn) == Some(ended),
                Some(Where::Live(_)) | None => false,
            };
            require(found, "an ended lease is found by id", || format!("lease {}", ended.lsn))?;
            require(!ended.state.is_live(), "a terminal lease is terminal", || format!("{}", ended.lsn))?;
            count += 1;
        }
        require(count == self.retained.len(), "every ended lease is indexed", || format!("{count}"))?;
        let by_principal: usize = self.operations.principals().map(|(_, count)| count).sum();
        require(by_principal == self.operations.len(), "operations are counted by principal", || {
            format!("{by_principal} counted, {} kept", self.operations.len())
        })?;
        for lease in self.notices.keys() {
            let live = self.live(LeaseId(lease.0)).is_none();
            require(live, "a notice waits for an ended lease", || format!("lease {lease}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Bundle, Member, OpenSession, SessionKind};
    use crate::event::{Change, Event, Granted, Revoked, Steered};
    use crate::ids::{Epoch, SessionId, Stamp, Tick};
    use crate::kernel::{PendingNotice, Resource, Setup};
    use crate::names::Text;
    use crate::policy::{Face, Policy};
    use crate::reason::{Actor, Evidence, Reason, ReclaimBy};
    use crate::rejection::StateName;
    use crate::retained::EndedLease;
    use crate::session::Loss;

    /// Lease 3 on `p/1` and `x`, drained, and lease 4 on `y`, revoking, of session 7; lease 5 reserved.
    fn whole() -> Kernel {
        let grant = |bundle: Bundle, deadline, policy| {
            Change::Granted(Granted {
                holder: "h".into(),
                members: bundle
                    .members
                    .iter()
                    .map(|member| match member {
                        Member::Resource(name) | Member::AnyOf { pool: name, .. } => name.clone(),
                    })
                    .collect(),
                deadline,
                policy,
                face_data: vec![1],
                attachment: Vec::new(),
                wall_ms: 0,
            })
        };
        let session = Policy::session(SessionId(7), 0, 0);
        let changes = [
            Change::PoolDefined { name: "p".into(), size: 3 },
            Change::SessionOpened(OpenSession {
                session: SessionId(7),
                holder: "h".into(),
                kind: SessionKind::Stdin,
                ttl_ms: 0,
                grace_ms: 0,
                principal: "local".into(),
                accepts_handover: None,
            }),
            grant(Bundle::of(&["p/1", "x"]), None, session.clone()),
            grant(Bundle::one("y"), None, session),
            grant(Bundle::one("z"), Some(Tick(9)), Policy::permanent()),
            Change::Drained(Steered {
                lease: LeaseId::new(0, Lsn(3)),
                actor: Actor::Daemon,
                text: Text::default(),
            }),
            Change::Revoked(Revoked {
                lease: LeaseId::new(0, Lsn(4)),
                epoch: Epoch(2),
                reason: Reason::AdminForce,
                text: Text::default(),
                actor: Actor::Daemon,
                evidence: Evidence::None,
                reclaim_by: ReclaimBy::Daemon,
            }),
        ];
        let mut kernel = Kernel::new(Setup::plain());
        for (place, change) in changes.into_iter().enumerate() {
            let at = Stamp { lsn: Lsn(place as u64 + 1), tick: Tick(1) };
            kernel.evolve(at, &Event { operation: None, change });
        }
        kernel.check_invariants().unwrap();
        kernel
    }

    fn slot(kernel: &Kernel, lsn: u64) -> u32 {
        kernel.slot_of(LeaseId::new(0, Lsn(lsn))).unwrap()
    }

    #[track_caller]
    fn breaks(rule: &str, corrupt: impl FnOnce(&mut Kernel)) {
        let mut kernel = whole();
        corrupt(&mut kernel);
        let violation = kernel.check_invariants().expect_err(rule);
        assert_eq!(violation.rule, rule, "{violation}");
    }

    fn ended(lsn: u64) -> EndedLease {
        EndedLease {
            lsn: Lsn(lsn),
            ended_lsn: Lsn(lsn),
            authority_lsn: Lsn(lsn),
            epoch: Epoch(2),
            retire_after: Tick(99),
            state: StateName::Released,
            reason: Reason::Explicit,
            face: Face::Leases,
        }
    }

    #[test]
    fn the_tables_of_leases_are_compared() {
        breaks("the register lists live leases", |kernel| kernel.register.push_live(Lsn(99), 0));
        breaks("the register lists live leases", |kernel| kernel.register.push_live(Lsn(99), 12_345));
        breaks("the register lists live leases", |kernel| {
            // Another live slot under the id.
            let key = kernel.retained.push(ended(5));
            kernel.register.end(Lsn(5), key);
            let other = slot(kernel, 3);
            kernel.register.push_live(Lsn(6), other);
        });
        breaks("a lease was granted in the past", |kernel| kernel.applied.lsn = Lsn(4));
        breaks("every lease is registered", |kernel| {
            let key = kernel.retained.push(ended(5));
            kernel.register.end(Lsn(5), key);
        });
        breaks("counts equal a full count", |kernel| {
            *kernel.counts.cell(StateName::Active, &Policy::permanent()) += 1;
        });
        breaks("payload bytes equal a full sum", |kernel| kernel.payload_bytes += 1);
        breaks("each principal's share equals a full sum", |kernel| {
            kernel.shares.change(&"local".into(), |share| share.sessions += 1);
        });
        breaks("each principal's share equals a full sum", |kernel| {
            kernel.shares.change(&"local".into(), |share| share.payload_bytes += 1);
        });
        breaks("payload bytes equal a full sum", |kernel| kernel.payload_bytes -= 1);
    }

    #[test]
    fn the_tables_of_resources_are_compared() {
        breaks("a live member belongs to exactly one live lease", |kernel| {
            let other = slot(kernel, 4);
            let (resource, _) = kernel.resources.iter().next().unwrap();
            kernel.resources[resource].lease = other;
        });
        breaks("every resource is found by name", |kernel| kernel.resource_index.clear());
        breaks("a covered resource is a member of its lease", |kernel| {
            kernel.resources.insert(Resource { name: "stray".into(), lease: 0 });
        });
        breaks("one record per covered name", |kernel| {
            kernel.reserve_leases(8);
            kernel.resource_index.insert(12, 0, |_| 12);
        });
        breaks("reserved means scheduled for expiry", |kernel| kernel.scheduled.clear());
        breaks("reserved means scheduled for expiry", |kernel| {
            kernel.scheduled.insert((Tick(9), Lsn(3)));
        });
    }

    #[test]
    fn pools_are_compared_with_what_is_held() {
        let pool = |kernel: &mut Kernel, corrupt: fn(&mut crate::pool::Pool)| {
            corrupt(kernel.pools.get_mut("p").unwrap());
        };
        breaks("a pool has no more free members than members", |k| pool(k, |p| p.size = 1));
        breaks("a free pool member is not held", |k| pool(k, |p| p.free.insert(1)));
        breaks("a free pool member is not held", |k| pool(k, |p| p.free.insert(4)));
        breaks("members not held are free", |k| pool(k, |p| p.free.remove(3)));
        breaks("members not held are free", |k| pool(k, |p| p.size = 4));
        breaks("a removed pool is in use", |kernel| {
            kernel.pool_defined(&"q".into(), 2);
            kernel.pools.get_mut("q").unwrap().removed = true;
        });
        let mut kernel = whole();
        kernel.pools.get_mut("p").unwrap().removed = true;
        assert_eq!(kernel.check_invariants(), Ok(()), "a removed pool may still be held");
    }

    #[test]
    fn sessions_are_compared_with_their_leases() {
        let session = |kernel: &mut Kernel, corrupt: fn(&mut crate::session::Session)| {
            let slot = kernel.session_slot(SessionId(7)).unwrap();
            corrupt(&mut kernel.sessions[slot]);
        };
        breaks("every session is found by id", |kernel| {
            kernel.session_index.clear();
        });
        breaks("a session is found under its id", |k| session(k, |s| s.id = SessionId(8)));
        breaks("a session counts its leases", |k| session(k, |s| s.leases += 1));
        breaks("a session counts its leases", |k| session(k, |s| s.last = s.first));
        breaks("a session counts the graces of its leases", |k| session(k, |s| s.graces.clear()));
        breaks("a session knows its drained leases", |k| session(k, |s| s.drained.clear()));
        breaks("a session knows its first revoking lease", |k| {
            session(k, |s| s.first_revoking = NO_SLOT);
        });
        breaks("losses are in order", |k| {
            let loss = Loss { lease: LeaseId(1), reason: Reason::Explicit, lsn: Lsn(1) };
            let slot = k.session_slot(SessionId(7)).unwrap();
            k.sessions[slot].losses.push_back(loss);
        });
        breaks("a session's list is linked both ways", |kernel| {
            let slot = slot(kernel, 4);
            kernel.leases[slot].session.previous = NO_SLOT;
        });
        breaks("a session's list is linked both ways", |kernel| {
            let slot = slot(kernel, 3);
            kernel.leases[slot].session.session = 5;
        });
        breaks("a lease of a session is on its list", |kernel| {
            let slot = slot(kernel, 5);
            kernel.leases[slot].session.session = 0;
        });
        breaks("revoking leases are last in their session", |kernel| {
            let (first, second) = (slot(kernel, 3), slot(kernel, 4));
            let (a, b) = (kernel.leases[first].state.clone(), kernel.leases[second].state.clone());
            kernel.leases[first].state = b;
            kernel.leases[second].state = a;
        });
        breaks("a closed session has leases left", |kernel| {
            let mut copy = kernel.sessions[kernel.session_slot(SessionId(7)).unwrap()].clone();
            copy.id = SessionId(8);
            (copy.first, copy.last, copy.first_revoking, copy.leases) = (NO_SLOT, NO_SLOT, NO_SLOT, 0);
            copy.drained.clear();
            copy.graces.clear();
            copy.closed = Some(Reason::Explicit);
            let slot = kernel.sessions.insert(copy);
            kernel.session_index.insert(SessionId(8), slot);
        });
    }

    #[test]
    fn shared_values_are_counted() {
        breaks("holders are counted by their leases", |kernel| {
            kernel.holders.acquire(&"h".into());
        });
        breaks("holders are counted by their leases", |kernel| {
            kernel.holders.acquire(&"nobody".into());
        });
        breaks("terms are counted by their leases", |kernel| {
            kernel.policies.acquire(&Policy::permanent());
        });
        breaks("terms are counted by their leases", |kernel| {
            kernel.policies.acquire(&Policy::heartbeat(1, 1));
        });
        breaks("terms are counted by their leases", |kernel| {
            let slot = slot(kernel, 5);
            let row = kernel.policies.acquire(&Policy::session(SessionId(9), 0, 0));
            let before = core::mem::replace(&mut kernel.leases[slot].policy, row);
            kernel.policies.release(before);
            *kernel.counts.cell(StateName::Reserved, &Policy::permanent()) -= 1;
            *kernel.counts.cell(StateName::Reserved, &Policy::session(SessionId(9), 0, 0)) += 1;
        });
        breaks("principals are counted by their leases", |kernel| {
            kernel.principals.acquire(&"local".into());
        });
        breaks("principals are counted by their leases", |kernel| {
            kernel.principals.acquire(&"nobody".into());
        });
    }

    #[test]
    fn what_is_remembered_of_ended_leases_is_compared() {
        breaks("a terminal lease is terminal", |kernel| {
            let key = kernel.retained.push(EndedLease { state: StateName::Active, ..ended(90) });
            kernel.register.push_ended(Lsn(90), key);
        });
        breaks("an ended lease is found by id", |kernel| {
            kernel.retained.push(ended(1));
            kernel.retained.push(EndedLease { face: Face::Polling, ..ended(1) });
        });
        breaks("a notice waits for an ended lease", |kernel| {
            let notice = PendingNotice { ended_lsn: Lsn(1), ended_tick: Tick(1) };
            kernel.notices.insert(LeaseId::new(0, Lsn(3)), notice);
        });
        let violation = Violation { rule: "a rule", what: "somewhere".to_owned() };
        assert_eq!(violation.to_string(), "a rule: somewhere");
    }
}
