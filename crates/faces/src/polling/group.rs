//! One group as the book knows it: its pollers, its targets and who holds them, what operators said, what is nobody's.
//! Everything stands in leases; how alive their holders are is not known here.

use super::why::LeftFor;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure_api::{PollName, PollerFacts, PollerStatus};
use tenure_engine::LeaseSnapshot;
use tenure_engine::kernel::{Epoch, Fence, LeaseId, LeaseState, Lsn, SessionId, Text};

/// Between a fixed name and what tells two runs under it apart.
const MARK: char = '~';
/// What a run that is expected back leaves its targets to.
const ABSENT: &str = "~absent";

/// Things of a group by name. What is in it is shared: a group that somebody looks at is copied when it changes, by
/// the engine's writer.
pub(crate) type Names<T> = BTreeMap<Arc<str>, Arc<T>>;

/// A group. Whoever shows it keeps the one it got.
#[derive(Clone, Default)]
pub(crate) struct Group {
    pub(crate) pollers: Names<Held>,
    pub(crate) targets: Names<Held>,
    pub(crate) cordons: Names<Held>,
    pub(crate) pins: Names<Held>,
    /// Targets that nobody has.
    pub(crate) free: Names<Free>,
    /// Position of the newest change.
    pub(crate) generation: Lsn,
    /// Another one after every change, of all groups together.
    pub(crate) version: u64,
}

/// Something of a group that a lease covers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) lease: LeaseId,
    pub(crate) epoch: Epoch,
    pub(crate) fence: Fence,
    pub(crate) holder: Text,
    /// What keeps the lease; `None` where it keeps itself.
    pub(crate) session: Option<SessionId>,
    pub(crate) ttl_ms: u32,
    pub(crate) grace_ms: u32,
    pub(crate) phase: Phase,
    /// Since when its holder has it, for people; `None` where only the log knows.
    pub(crate) acquired_wall_ms: Option<u64>,
    /// Of bookkeeping alone: a target's own is nobody's business here.
    pub(crate) attachment: Vec<u8>,
}

/// What a lease is about to become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// To go on.
    Kept,
    /// To end after its grace, on an operator's word.
    Drained,
    /// To end.
    Revoking,
}

/// A target that came free.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Free {
    pub(crate) since_wall_ms: u64,
    pub(crate) last_holder: Text,
    pub(crate) left_for: LeftFor,
    /// Position of the end.
    pub(crate) lsn: Lsn,
}

/// A poller that is a member.
pub(crate) struct Poller<'a> {
    pub(crate) name: &'a str,
    /// Who holds its membership: this run of it.
    pub(crate) instance: &'a str,
    pub(crate) facts: PollerFacts,
    pub(crate) held: &'a Held,
    pub(crate) is_cordoned: bool,
}

impl Held {
    /// A lease as it is. `acquired_wall_ms` is told where its holder was not the first.
    pub(crate) fn of(lease: &LeaseSnapshot, acquired_wall_ms: Option<u64>, name: &PollName) -> Self {
        let phase = match lease.state {
            LeaseState::Active { drained: true, .. } => Phase::Drained,
            LeaseState::Reserved { .. } | LeaseState::Active { drained: false, .. } => Phase::Kept,
            LeaseState::Revoking(_) => Phase::Revoking,
        };
        Self {
            lease: lease.id,
            epoch: lease.epoch,
            fence: lease.fence,
            holder: lease.holder.clone(),
            session: lease.policy.session,
            ttl_ms: lease.policy.ttl_ms,
            grace_ms: lease.policy.grace_ms,
            phase,
            acquired_wall_ms,
            attachment: match name {
                PollName::Target(_) => Vec::new(),
                PollName::Poller(_) | PollName::Cordon(_) | PollName::Pin(_) => lease.attachment.clone(),
            },
        }
    }
}

impl Group {
    /// Where things of this kind stand, and under which name.
    pub(crate) fn place<'a>(&mut self, name: &'a PollName) -> (&mut Names<Held>, &'a str) {
        match name {
            PollName::Target(name) => (&mut self.targets, name),
            PollName::Poller(name) => (&mut self.pollers, name),
            PollName::Cordon(name) => (&mut self.cordons, name),
            PollName::Pin(name) => (&mut self.pins, name),
        }
    }

    pub(crate) fn held(&self, name: &PollName) -> Option<&Held> {
        let found = match name {
            PollName::Target(name) => self.targets.get(name.as_str()),
            PollName::Poller(name) => self.pollers.get(name.as_str()),
            PollName::Cordon(name) => self.cordons.get(name.as_str()),
            PollName::Pin(name) => self.pins.get(name.as_str()),
        };
        found.map(|held| &**held)
    }

    pub(crate) fn is_empty(&self) -> bool {
        let held = [&self.pollers, &self.targets, &self.cordons, &self.pins];
        held.iter().all(|names| names.is_empty()) && self.free.is_empty()
    }

    /// Members, in order of name.
    pub(crate) fn members(&self) -> impl Iterator<Item = Poller<'_>> {
        self.pollers.iter().map(|(name, held)| self.poller(name, held))
    }

    fn poller<'a>(&'a self, name: &'a str, held: &'a Held) -> Poller<'a> {
        let facts = facts(held);
        Poller { name, instance: &held.holder, facts, held, is_cordoned: self.cordons.contains_key(name) }
    }

    /// The member of that name or instance.
    pub(crate) fn find(&self, poller: &str) -> Option<Poller<'_>> {
        let by_name = self.pollers.get_key_value(poller);
        let is_it = |held: &Held| held.holder == poller || facts(held).instance == poller;
        let found = by_name.or_else(|| self.pollers.iter().find(|(_, held)| is_it(held)));
        found.map(|(name, held)| self.poller(name, held))
    }

    /// Whether the poller that has something is on its way out.
    pub(crate) fn is_leaving(&self, holder: &str) -> bool {
        let membership = self.pollers.get(poller_name(holder));
        membership.is_some_and(|held| facts(held).status == PollerStatus::Leaving)
    }

    /// The poller that a target is pinned to, by name.
    pub(crate) fn pinned_to(&self, target: &str) -> Option<String> {
        self.pins.get(target).and_then(|held| read_pin(&held.attachment))
    }
}

impl Poller<'_> {
    pub(crate) fn status(&self) -> PollerStatus {
        match self.facts.status {
            // Word of mouth of the run before it does not count: who is away is known by what holds its place.
            _ if is_absent(self.instance) => PollerStatus::Absent,
            _ if self.is_cordoned => PollerStatus::Cordoned,
            status => status,
        }
    }

    /// Whether it counts when targets are shared out. One that is away does not, and neither has anybody its targets.
    pub(crate) fn counts(&self) -> bool {
        self.status() != PollerStatus::Absent && self.held.phase != Phase::Revoking
    }

    /// How much it is to have then.
    pub(crate) fn share(&self) -> u32 {
        match self.status() {
            PollerStatus::Online | PollerStatus::Joining => self.facts.weight,
            PollerStatus::Leaving | PollerStatus::Absent | PollerStatus::Cordoned => 0,
        }
    }
}

/// Whether somebody only keeps the place of a poller that is away.
pub(crate) fn is_absent(instance: &str) -> bool {
    instance.ends_with(ABSENT)
}

/// The name that assignment goes by: an instance without what tells its runs apart.
pub(crate) fn poller_name(instance: &str) -> &str {
    instance.rsplit_once(MARK).map_or(instance, |(name, _)| name)
}

/// What a poller tells of itself; whoever tells nothing is no poller, and gets nothing.
fn facts(membership: &Held) -> PollerFacts {
    serde_json::from_slice(&membership.attachment).unwrap_or_else(|_| PollerFacts {
        instance: membership.holder.to_string(),
        weight: 0,
        status: PollerStatus::Online,
        fixed_name: false,
        is_new: false,
        report: None,
    })
}

/// What is attached to a pin.
#[derive(serde::Serialize, serde::Deserialize)]
struct Pin {
    poller: String,
}

pub(crate) fn write_pin(poller: &str) -> Vec<u8> {
    let pin = Pin { poller: poller.to_owned() };
    serde_json::to_vec(&pin).expect("invariant: a name can be written")
}

pub(crate) fn read_pin(attachment: &[u8]) -> Option<String> {
    serde_json::from_slice::<Pin>(attachment).ok().map(|pin| pin.poller)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_without_its_run_is_a_name() {
        assert_eq!(poller_name("kitchen~1f00ba11"), "kitchen");
        assert_eq!(poller_name("kitchen~absent"), "kitchen");
        assert_eq!(poller_name("host-123-1f00ba11"), "host-123-1f00ba11");
    }

    #[test]
    fn a_pin_is_read_as_it_was_written() {
        assert_eq!(read_pin(&write_pin("kit\"chen")).as_deref(), Some("kit\"chen"));
        assert_eq!(read_pin(b""), None);
    }
}
