//! What operators ask about registrations. They may name one by the beginning of its id.

use super::book::ByPrefix;
use super::{Facts, Live, key};
use crate::call::Reply;
use crate::caller::Caller;
use crate::dispatch::Faces;
use crate::leases::{self, Order};
use crate::show::{Terms, mode, standing, unheard_since};
use tenure_api::{self as api, Error, ErrorCode};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::{LeaseId, Mode};
use tenure_engine::{Answer, LeaseFound, Request, Submit};
use tenure_history::{rfc3339, wire_session};

/// Shortest beginning of an id.
const PREFIX_MIN: usize = 2;
/// Leases read at once.
const PAGE: usize = 500;

impl Faces {
    pub(crate) async fn registration_status(&self) -> Result<Reply, Error> {
        let mut counts = api::RegistrationCounts::default();
        for live in self.all_registrations().await? {
            counts.total += 1;
            counts.permanent += u64::from(live.lease.policy.mode == Mode::Permanent);
            if live.is_draining() {
                counts.draining += 1;
            } else {
                counts.alive += 1;
            }
        }
        let (vitals, health) = (self.vitals(), self.registrations().network.health());
        Ok(Reply::RegistrationStatus(api::DaemonStatus {
            version: vitals.version,
            uptime_secs: read_clocks().boot_ms.saturating_sub(vitals.started_boot_ms) / 1_000,
            platform: std::env::consts::OS.to_owned(),
            registrations: counts,
            pid: std::process::id(),
            http: vitals.http,
            ipc: vitals.socket,
            interfaces: health.interfaces,
            mdns: health.words,
        }))
    }

    /// Every live registration, by name.
    pub(crate) async fn list_registrations(&self) -> Result<Reply, Error> {
        let live = self.all_registrations().await?;
        let mut shown: Vec<api::AdminRegistration> = live.iter().map(|live| self.shown(live)).collect();
        shown.sort_by(|a, b| (&a.name, &a.service_type, &a.id).cmp(&(&b.name, &b.service_type, &b.id)));
        Ok(Reply::Registrations(shown))
    }

    pub(crate) async fn inspect_registration(&self, prefix: &str) -> Result<Reply, Error> {
        let (id, lease) = self.registration(prefix)?;
        let live = self.live_registration(&id, lease).await?;
        Ok(Reply::Registration(Box::new(self.shown(&live))))
    }

    /// Drains, revives or ends a registration in the name of an operator.
    pub(crate) async fn order_registration(
        &self,
        caller: &Caller,
        order: Order,
        prefix: &str,
        operation_id: Option<String>,
    ) -> Result<Reply, Error> {
        let operation = leases::operation_on(caller, operation_id, &(order.as_str(), prefix))?;
        let found = self.registration(prefix);
        let (id, lease) = match &found {
            Ok((id, lease)) => (id.clone(), *lease),
            Err(_) if operation.is_some() => (prefix.to_ascii_lowercase(), self.no_lease()),
            Err(error) => return Err(error.clone()),
        };
        let submit = leases::order(caller, order, lease, api::OperatorCall::default())?;
        match self.ask(Request::Submit(Submit { operation, ..submit })).await {
            Answer::Lease(given) => {
                let id = self.id_of(given.lease).await.unwrap_or(id);
                Ok(match order {
                    Order::Drain => Reply::RegistrationDrained(api::RegistrationDrained { drained: id }),
                    Order::Revive => Reply::RegistrationRevived(api::RegistrationRevived { revived: id }),
                    Order::Revoke | Order::Reclaim => {
                        Reply::Unregistered(api::Unregistered { unregistered: id })
                    }
                })
            }
            other => match found {
                Ok(_) => Err(self.unless_gone(other, &id, lease).await),
                Err(error) => Err(error),
            },
        }
    }

    /// The whole id of the registration that a lease is or was.
    async fn id_of(&self, lease: LeaseFound) -> Option<String> {
        let facts = match lease {
            LeaseFound::Live(live) => Facts::decode(&live.face_data),
            LeaseFound::JustEnded { was, .. } => Facts::decode(&was.face_data),
            LeaseFound::Ended { ended, .. } => {
                let event = self.logged_event(ended.ended_lsn).await?;
                Facts::decode(&event.change.epitaph()?.face_data)
            }
            LeaseFound::Retired => None,
        };
        facts.map(|facts| facts.id)
    }

    async fn all_registrations(&self) -> Result<Vec<Live>, Error> {
        let leases = self.registrations().book.live();
        if leases.is_empty() {
            self.may_answer().await?;
        }
        let mut all = Vec::with_capacity(leases.len());
        for page in leases.chunks(PAGE) {
            all.extend(self.read_registrations(page.to_vec()).await?);
        }
        Ok(all)
    }

    /// The one live registration whose id begins so.
    fn registration(&self, prefix: &str) -> Result<(String, LeaseId), Error> {
        let prefix = prefix.to_ascii_lowercase();
        if prefix.len() < PREFIX_MIN {
            let message = format!("an id needs at least {PREFIX_MIN} characters");
            return Err(Error::new(ErrorCode::InvalidRequest, message));
        }
        match self.registrations().book.find_by_prefix(&prefix) {
            ByPrefix::One(id, lease) => Ok((id, lease)),
            ByPrefix::None => Err(self.gone(&prefix)),
            ByPrefix::Many(ids) => {
                let message = format!("several ids begin with {prefix:?}: {}", ids.join(", "));
                Err(Error::new(ErrorCode::AmbiguousId, message).with("matches", ids))
            }
        }
    }

    fn shown(&self, live: &Live) -> api::AdminRegistration {
        let Live { lease, facts } = live;
        let lens = self.lens();
        let network = self.registrations().network.standing(key(lease.id));
        let (terms, described) = (Terms::of(&lease.policy), &facts.described);
        let own_ttl = terms.ttl_ms.filter(|_| lease.policy.mode == Mode::Heartbeat);
        let remaining_ms = lease.liveness.deadline.map(|deadline| deadline.ms_since(lease.now));
        api::AdminRegistration {
            id: facts.id.clone(),
            name: described.name.clone(),
            service_type: described.service_type.as_str().to_owned(),
            port: described.port,
            mode: mode(lease.policy.mode),
            state: standing(lease.liveness.standing).0.unwrap_or(api::Liveness::Alive),
            lease_secs: own_ttl.map(|ms| ms / 1_000),
            remaining_secs: remaining_ms.map(|ms| ms / 1_000),
            grace_secs: terms.grace_ms.unwrap_or(0) / 1_000,
            session_id: lease.policy.session.map(wire_session),
            registered_at: rfc3339(lease.granted_wall_ms),
            last_seen: lease.liveness.last_seen.map(|at| rfc3339(lease.wall_of(at))),
            unheard_since: unheard_since(lease),
            txt: described.txt.clone(),
            ip: described.ip,
            lease_id: lens.lease_id(lease.id),
            epoch: lease.epoch.0,
            advertised: match self.registrations().homes() {
                Some(homes) => homes.advertises(facts, network.advertised),
                None => network.advertised,
            },
            advertised_name: network.name.unwrap_or_else(|| facts.network_name(&lease.members)),
            last_error: network.last_error,
        }
    }
}
