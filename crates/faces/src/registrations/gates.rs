//! From the lease to the network and back: what is live when the daemon starts is advertised again, what is revoked is
//! withdrawn before it is reclaimed, and when the daemon stops everything says goodbye, or stays for the next start.

use super::book::End;
use super::facts::Facts;
use super::network::{Goodbye, Renamed};
use super::{Live, TRIES_MAX, key};
use crate::dispatch::Faces;
use tenure_api::Error;
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::names::REGISTRATIONS_PREFIX;
use tenure_engine::kernel::{
    Action, Amend, Face, GateReport, LeaseId, LeaseState, Lsn, Reason, Rejection, Token,
};
use tenure_engine::{Answer, Control, LeaseSnapshot, List, Refused, Request, Submit};
use tenure_history::wire_session;

/// Leases read at once.
const PAGE: usize = 500;

impl Faces {
    /// Advertises again what was live when the daemon started. Before anybody is served.
    ///
    /// # Errors
    /// When the engine takes nothing more.
    pub async fn restore_registrations(&self) -> Result<usize, Error> {
        let mut from = LeaseId::new(self.identity().shard, Lsn(0));
        let mut announced = 0;
        loop {
            let resource_prefix = Some(REGISTRATIONS_PREFIX.into());
            let list = List { from, limit: PAGE, resource_prefix, holder: None };
            let (leases, (next, lsn)) = match self.ask_for_itself(Request::List(list)).await {
                Answer::Leases { leases, next, lsn } => (leases, (next, lsn)),
                other => return Err(self.not_that(other, crate::refusal::Asked::AsAnyone)),
            };
            for lease in leases {
                // The engine opens their gates again.
                if let Some((facts, end)) = ending(&lease) {
                    self.registrations().book.remember(lease.id, &facts, end);
                } else if let Some(live) = Live::of(lease) {
                    self.registrations().announce(&live, lsn);
                    announced += 1;
                }
            }
            match next {
                Some(next) => from = next,
                None => return Ok(announced),
            }
        }
    }

    /// Remembers registrations that ended before the daemon started, newest last.
    pub async fn recall_registrations(&self) {
        let book = &self.registrations().book;
        let is_complete = self.each_ended(Face::Registrations, |lease, ended, event, wall_ms| {
            if let Some(facts) = event.change.epitaph().and_then(|was| Facts::decode(&was.face_data)) {
                book.remember(lease, &facts, End { reason: ended.reason, wall_ms });
            }
        });
        if is_complete.await {
            self.registrations().has_recalled();
        }
    }

    /// Withdraws one registration and tells the engine when that is done.
    pub(crate) fn pass_registration_gate(&self, lease: &LeaseSnapshot) {
        let LeaseState::Revoking(_) = &lease.state else { return };
        let (id, handle, registrations) = (lease.id, self.handle().clone(), self.registrations());
        let Some((facts, end)) = ending(lease) else {
            // Its time will run out.
            tracing::warn!(lease = %self.lens().lease_id(id), "a lease has a finalizer that no application runs");
            return;
        };
        if let Some(homes) = registrations.homes() {
            // Whoever advertises it sees the revoke, says goodbye and tells.
            registrations.book.strike(id, &facts, end, || homes.owe(id, &facts));
            return;
        }
        let service = registrations.service(&facts, &lease.members);
        let goodbye =
            registrations.book.strike(id, &facts, end, || registrations.network.withdraw(key(id), service));
        tokio::spawn(async move {
            match goodbye.await {
                Goodbye::Sent | Goodbye::Unneeded(_) => {
                    handle.tell(Control::GateDone { lease: id, report: GateReport::Confirmed });
                }
                // The gate times out; where the daemon stops before, the next one tries again.
                Goodbye::Unsent(error) => {
                    tracing::warn!(name = facts.name(), id = facts.id(), error, "goodbye packet not sent");
                }
            }
        });
    }

    /// Keeps the names that the network has settled on, so that a later daemon neither takes another host's nor says
    /// goodbye for it.
    pub async fn keep_names(self) {
        let Some(mut renames) = self.registrations().network.take_renames() else { return };
        while let Some(renamed) = renames.recv().await {
            self.keep_name(&renamed).await;
        }
    }

    pub(super) async fn keep_name(&self, renamed: &Renamed) {
        for _ in 0..TRIES_MAX {
            let Some(live) = self.read_live(vec![LeaseId(renamed.key)]).await.pop() else { return };
            let given = live.facts.advertised_name(&live.lease.members);
            let name = (given != renamed.name).then(|| renamed.name.clone());
            if name == live.facts.renamed {
                return;
            }
            tracing::info!(
                name = live.facts.name(),
                id = live.facts.id(),
                network = %renamed.name,
                "name conflict: another host uses the service name, so the service got another one"
            );
            let facts = Facts { renamed: name, ..live.facts };
            let amend = Amend {
                token: Token::new(live.lease.id, live.lease.epoch),
                attachment: None,
                face_data: Some(facts.encode()),
            };
            match self.ask(Request::Submit(Submit::now(Action::Amend(amend)))).await {
                Answer::Refused(Refused::Rejected(Rejection::StaleEpoch { .. })) => {}
                _ => return,
            }
        }
    }

    /// Withdraws everything because the daemon stops. Leases stay: what lives is advertised again after the restart.
    pub async fn withdraw_registrations(&self) {
        let leases = self.registrations().book.live();
        let goodbyes = self.registrations().network.close().await;
        for page in leases.chunks(PAGE) {
            for Live { lease, facts } in self.read_live(page.to_vec()).await {
                let unsent = goodbyes.iter().find_map(|(withdrawn, goodbye)| match goodbye {
                    Goodbye::Unsent(error) if *withdrawn == key(lease.id) => Some(error),
                    Goodbye::Sent | Goodbye::Unneeded(_) | Goodbye::Unsent(_) => None,
                });
                if let Some(error) = unsent {
                    tracing::warn!(name = facts.name(), id = facts.id(), error, "goodbye packet not sent");
                }
                log_end(&facts, Reason::Shutdown, lease.policy.session);
            }
        }
    }

    /// Leaves the network without a goodbye because the daemon stops and is to be started again: that start announces
    /// what lives, and says the goodbyes that are owed.
    pub async fn keep_registrations(&self) {
        let services = self.registrations().book.live().len();
        self.registrations().network.leave().await;
        tracing::info!(services, "services stay advertised until the next start");
    }
}

/// What a lease is that is being revoked, and why; `None` where it is not, or is no registration.
pub(super) fn ending(lease: &LeaseSnapshot) -> Option<(Facts, End)> {
    let LeaseState::Revoking(revocation) = &lease.state else { return None };
    let end = End { reason: revocation.reason, wall_ms: read_clocks().wall_ms };
    Some((Facts::decode(&lease.face_data)?, end))
}

/// One line for a registration that is not advertised any more.
pub fn log_end(facts: &Facts, reason: Reason, session: Option<tenure_engine::kernel::SessionId>) {
    let reason = reason.as_str();
    match session.map(wire_session) {
        Some(session) => tracing::info!(
            name = facts.name(),
            id = facts.id(),
            reason = %reason,
            session = %session,
            "Service unregistered:"
        ),
        None => {
            tracing::info!(name = facts.name(), id = facts.id(), reason = %reason, "Service unregistered:");
        }
    }
}
