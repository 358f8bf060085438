//! The end of a run. Faults stop, every client dies: within a bound everything they held must be free again.
//! Then everything is asked for once more, and one last power cut must lose nothing.

use crate::disk::Loss;
use crate::happening::Happening;
use crate::invariants::deaths_end_in_bound;
use crate::network::{Call, Purpose};
use crate::operator::{reclaim, revoke};
use crate::profile::Faults;
use crate::violation::Violation;
use crate::world::{Break, World};
use tenure_engine::{Answer, Control, Request, Submit, Ticket};
use tenure_kernel::{Action, Bundle, Grant, Mode, Policy, ReclaimBy, StateName};

impl World {
    pub(crate) fn heal(&mut self) -> Result<(), Break> {
        self.line(format_args!("healing begins: no more faults, every client dies"));
        self.healing = true;
        self.faults = Faults::none();
        self.disk.disarm();
        self.disk.leave_room(None);
        if self.daemon.is_none() {
            self.disk.process_died();
        }
        if let Some(daemon) = &mut self.daemon {
            daemon.stalled_until = 0;
            daemon.turn_at = None;
        }
        for client in 0..self.clients.len() {
            // In order, behind what was sent before.
            if let Some(connection) = self.clients[client].connection.clone() {
                self.close_noticed(client, &connection);
                self.clients[client].connection = None;
            }
            self.clients[client].dead = true;
        }
        if self.daemon.is_none() {
            self.at(0, Happening::Start);
        }
        self.turn_in(0);
        self.cancel_waits();
        // A start may find rot and be tried again; requests on their way still arrive.
        for _ in 0..2 {
            let soon = self.now + 5_000;
            self.run_until(soon)?;
            self.cancel_waits();
            self.end_what_never_ends();
        }
        let until = self.now + deaths_end_in_bound::bound_ms(&self.profile);
        self.run_until(until)?;
        deaths_end_in_bound::nothing_is_held(&self.scene())?;
        Ok(())
    }

    /// The dead wait for nothing any more.
    fn cancel_waits(&mut self) {
        let Some(daemon) = &self.daemon else { return };
        let waits = |request: &Request| matches!(request, Request::Submit(submit) if submit.wait_ms > 0);
        let tickets: Vec<Ticket> =
            daemon.asks.iter().filter(|(_, ask)| waits(&ask.request)).map(|(ticket, _)| *ticket).collect();
        for ticket in tickets {
            self.told(Control::Cancel(ticket));
        }
    }

    /// Permanent leases and those left to the operator end only by the operator.
    fn end_what_never_ends(&mut self) {
        let orders: Vec<Action> = self
            .story
            .live()
            .filter_map(|told| match told.state {
                StateName::Active if told.policy.mode == Mode::Permanent => {
                    Some(revoke(told.id, None, ReclaimBy::Daemon))
                }
                StateName::Revoking if told.left_to_operator => Some(reclaim(told.id, None)),
                _ => None,
            })
            .collect();
        for action in orders {
            self.order_action(action, true);
        }
    }

    /// Everything can be had again, and nothing of it is lost.
    pub(crate) fn look_once_more(&mut self) -> Result<(), Break> {
        let names: Vec<String> = (0..self.profile.resources).map(|number| format!("r{number}")).collect();
        let pools: Vec<(String, u32)> =
            self.story.pools.iter().map(|(name, size)| (name.to_string(), *size)).collect();
        let bundles = names
            .iter()
            .map(|name| Bundle::one(name))
            .chain(pools.iter().map(|(name, size)| Bundle::any_of(name, *size)));
        for bundle in bundles {
            let grant = Grant::new(bundle, "probe", Policy::permanent());
            let request = Request::Submit(Submit::now(Action::Grant(grant)));
            self.probes_left += 1;
            self.host_call(request, Purpose::Probe);
        }
        let until = self.now + 5_000 + 4 * self.profile.sync_ms_max;
        self.run_until(until)?;
        deaths_end_in_bound::all_probes_answered(self.probes_left)?;
        self.line(format_args!("a last power cut"));
        self.end_incarnation();
        self.disk.power_cut(Loss::Lost, &mut self.random);
        self.start()?;
        let until = self.now + 1_000;
        self.run_until(until)
    }

    pub(crate) fn probed(&mut self, call: &Call, answer: &Answer) -> Result<(), Violation> {
        self.probes_left -= 1;
        deaths_end_in_bound::probe_was_granted(&call.request, answer)
    }
}
