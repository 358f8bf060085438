//! What an operator does: pools, drains, revives, revokes, reclaims, now and then with force, now and then
//! to the wrong lease.

use crate::happening::Happening;
use crate::network::{Call, Caller, Purpose};
use crate::world::World;
use tenure_engine::{Control, OperationId, Request, Submit, Ticket};
use tenure_kernel::{
    Action, Actor, Epoch, Evidence, GateReport, LeaseId, Reason, Reclaim, ReclaimBy, ReclaimGround, Revoke,
    StateName, Steer, Text,
};

const PRINCIPAL: Text = Text::const_new("admin");

impl World {
    pub(crate) fn operator_acts(&mut self) {
        if self.healing {
            return;
        }
        let wait_max = if self.profile.is_slow { 2 * self.profile.act_ms_max } else { 1_500 };
        let wait = self.random.within(100..=wait_max);
        self.at(wait, Happening::OperatorActs);
        if self.profile.pools > 0 && self.random.chance(400) {
            return self.steer_pools();
        }
        if !self.profile.work.operator {
            return;
        }
        let live: Vec<(LeaseId, Epoch, StateName)> =
            self.story.live().map(|told| (told.id, told.epoch, told.state)).collect();
        let Some(index) = self.random.index(live.len()) else { return };
        let (lease, epoch, state) = live[index];
        let epoch = match self.random.below(4) {
            0 => Some(epoch),
            1 => Some(Epoch(self.random.within(1..=epoch.0))),
            _ => None,
        };
        let steer = || Steer {
            lease,
            epoch,
            actor: Actor::Operator(PRINCIPAL),
            text: Text::default(),
            silent: false,
        };
        let (action, force) = match (self.random.below(10), state) {
            (0..3, StateName::Active) => (Action::Drain(steer()), false),
            (3..5, StateName::Active) => (Action::Revive(steer()), false),
            (5..=7, StateName::Active | StateName::Reserved) => {
                let reclaim_by =
                    if self.random.chance(700) { ReclaimBy::Daemon } else { ReclaimBy::Operator };
                (revoke(lease, epoch, reclaim_by), false)
            }
            (9, _) => return self.order(Request::ResetBreaker),
            _ => (reclaim(lease, epoch), self.random.chance(150)),
        };
        self.order_action(action, force);
    }

    fn steer_pools(&mut self) {
        let name: Text = format!("pool{}", self.random.below(self.profile.pools)).into();
        let action = match self.random.below(10) {
            0 => Action::RemovePool { name, force: self.random.chance(500) },
            _ => Action::DefinePool { name, size: self.random.within(1..=4) as u32 },
        };
        self.order_action(action, false);
    }

    pub(crate) fn order_action(&mut self, action: Action, force: bool) {
        let number = self.next_operation;
        self.next_operation += 1;
        let operation = self
            .random
            .chance(400)
            .then(|| OperationId::new(PRINCIPAL, format!("op{number}").into(), 10 * 60 * 1000));
        self.order(Request::Submit(Submit { operation, force, ..Submit::now(action) }));
    }

    pub(crate) fn order(&mut self, request: Request) {
        let tag = Some(self.tag());
        self.send(Call {
            caller: Caller::Operator,
            request,
            tag,
            via: None,
            purpose: Purpose::Other,
            tries: 0,
            settled: false,
        });
    }

    /// A watcher has read what it was given.
    pub(crate) fn watch_more(&mut self, watch: Ticket) {
        let goes_on = self.random.chance(900);
        self.told(if goes_on { Control::WatchMore { watch, room: 50 } } else { Control::WatchEnd(watch) });
    }
}

pub(crate) fn revoke(lease: LeaseId, epoch: Option<Epoch>, reclaim_by: ReclaimBy) -> Action {
    Action::Revoke(Revoke {
        lease,
        epoch,
        reason: Reason::AdminForce,
        text: Text::default(),
        actor: Actor::Operator(PRINCIPAL),
        evidence: Evidence::None,
        reclaim_by,
    })
}

pub(crate) fn reclaim(lease: LeaseId, epoch: Option<Epoch>) -> Action {
    Action::Reclaim(Reclaim {
        lease,
        epoch,
        actor: Actor::Operator(PRINCIPAL),
        ground: ReclaimGround::Forced,
        gate: GateReport::None,
    })
}
