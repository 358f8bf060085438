//! What operators say to a group: where a target is to be, and who is to have none. Their word is a lease that only
//! this face makes; pollers read it with everything else. It ends with the poller it is about, unless that one comes
//! back under its name: then it stays until it is taken back.

use super::check_group;
use super::group::{Group, Held, Phase, Poller, poller_name, write_pin};
use crate::call::Reply;
use crate::caller::Caller;
use crate::dispatch::Faces;
use crate::refusal::Asked;
use crate::streams::{named_after, operation};
use std::sync::Arc;
use tenure_api::{self as api, Error, ErrorCode, PollName, PollerStatus};
use tenure_engine::kernel::{
    Action, Bundle, Epoch, Face, Grant, Lsn, Member, Policy, Rebind, ReclaimRule, Release, Text, Token,
};
use tenure_engine::{Answer, OperationId, Request, Submit};

/// Pollers that are named to whoever asked for one that is not there.
const NAMED_MAX: usize = 20;

/// What an operator says of one thing.
struct Word {
    resource: String,
    attachment: Vec<u8>,
    policy: Policy,
    operation: Option<OperationId>,
}

impl Faces {
    pub(crate) async fn move_target(
        &self,
        caller: &Caller,
        group: &str,
        body: api::MoveTarget,
        operation_id: Option<String>,
    ) -> Result<Reply, Error> {
        check_group(group)?;
        let operation = operation(caller, operation_id, &("move", group, &body))?;
        let _one_by_one = self.polling().steering.lock().await;
        let found = self.known_group(group);
        let owner_id = found.targets.get(body.target.as_str()).map(|held| held.holder.to_string());
        if let Some(lsn) = self.done_before(operation.as_ref()).await {
            let poller = body.poller.as_deref().map(|poller| poller_name(poller).to_owned());
            let (group, target) = (group.to_owned(), body.target);
            return Ok(Reply::Moved(api::Moved { group, target, poller, owner_id, lsn: lsn.0 }));
        }
        let name = PollName::Pin(body.target.clone());
        let resource = resource(&name, group, "target")?;
        let target = body.target.as_str();
        let poller = match &body.poller {
            None => None,
            Some(poller) => {
                let poller = member(&found, group, poller)?;
                check_takes_targets(&poller, group)?;
                if !found.knows(target) {
                    let message = format!("group {group:?} has no target {target:?}: no poller lists it");
                    return Err(Error::new(ErrorCode::NotFound, message).with("target", target));
                }
                Some(poller)
            }
        };
        let lsn = match &poller {
            Some(poller) => {
                let attachment = write_pin(poller.name);
                let policy = policy_of(caller, poller);
                let word = Word { resource, attachment, policy, operation };
                self.say(caller, found.held(&name), word).await?
            }
            None => self.take_back(found.held(&name), operation, "unpinned").await?,
        };
        let poller = poller.map(|poller| poller.name.to_owned());
        if let Some(lsn) = lsn {
            let to = poller.as_deref().unwrap_or("unpinned");
            tracing::info!(%group, %target, %to, principal = %caller.principal, at = lsn.0, "target moved");
        }
        Ok(Reply::Moved(api::Moved {
            group: group.to_owned(),
            target: body.target.clone(),
            poller,
            owner_id,
            lsn: self.as_of(lsn).await?,
        }))
    }

    pub(crate) async fn cordon_poller(
        &self,
        caller: &Caller,
        group: &str,
        body: api::CordonPoller,
        operation_id: Option<String>,
    ) -> Result<Reply, Error> {
        check_group(group)?;
        let operation = operation(caller, operation_id, &("cordon", group, &body))?;
        let _one_by_one = self.polling().steering.lock().await;
        let found = self.known_group(group);
        if let Some(lsn) = self.done_before(operation.as_ref()).await {
            return self.cordoned(&found, group, poller_name(&body.poller), true, Some(lsn)).await;
        }
        let poller = member(&found, group, &body.poller)?;
        let name = PollName::Cordon(poller.name.to_owned());
        let resource = resource(&name, group, "poller")?;
        let word = Word { resource, attachment: Vec::new(), policy: policy_of(caller, &poller), operation };
        let lsn = self.say(caller, found.held(&name), word).await?;
        if let Some(lsn) = lsn {
            tracing::info!(%group, poller = %poller.name, principal = %caller.principal, at = lsn.0, "poller cordoned");
        }
        self.cordoned(&found, group, poller.name, true, lsn).await
    }

    pub(crate) async fn uncordon_poller(
        &self,
        caller: &Caller,
        group: &str,
        body: api::CordonPoller,
        operation_id: Option<String>,
    ) -> Result<Reply, Error> {
        check_group(group)?;
        let operation = operation(caller, operation_id, &("uncordon", group, &body))?;
        let _one_by_one = self.polling().steering.lock().await;
        let found = self.known_group(group);
        if let Some(lsn) = self.done_before(operation.as_ref()).await {
            return self.cordoned(&found, group, poller_name(&body.poller), false, Some(lsn)).await;
        }
        // A cordon may outlive its poller, which is expected back.
        let asked = poller_name(&body.poller);
        let is_kept = |name: &str| found.cordons.contains_key(name);
        let poller = match member(&found, group, &body.poller) {
            Ok(poller) => poller.name.to_owned(),
            Err(_) if is_kept(&body.poller) => body.poller.clone(),
            Err(_) if is_kept(asked) => asked.to_owned(),
            Err(error) => return Err(error),
        };
        let name = PollName::Cordon(poller.clone());
        let lsn = self.take_back(found.held(&name), operation, "takes targets again").await?;
        if let Some(lsn) = lsn {
            tracing::info!(%group, %poller, principal = %caller.principal, at = lsn.0, "poller uncordoned");
        }
        self.cordoned(&found, group, &poller, false, lsn).await
    }

    async fn cordoned(
        &self,
        found: &Group,
        group: &str,
        poller: &str,
        cordoned: bool,
        lsn: Option<Lsn>,
    ) -> Result<Reply, Error> {
        let owned = found.targets.values().filter(|held| poller_name(&held.holder) == poller).count() as u64;
        let (group, poller, lsn) = (group.to_owned(), poller.to_owned(), self.as_of(lsn).await?);
        Ok(Reply::Cordoned(api::Cordoned { group, poller, cordoned, owned, lsn }))
    }

    /// The present position, if an earlier try of this operation was carried out: the group may have changed since, because
    /// it was.
    async fn done_before(&self, operation: Option<&OperationId>) -> Option<Lsn> {
        let operation = Some(operation?.clone());
        let token = Token::new(self.no_lease(), Epoch(0));
        let nothing = Action::Release(Release { token, text: Text::default() });
        match self.ask(Request::Submit(Submit { operation, ..Submit::now(nothing) })).await {
            Answer::Lease(given) if given.replayed => Some(given.lsn),
            _ => None,
        }
    }

    fn known_group(&self, group: &str) -> Arc<Group> {
        self.polling().book.group(group).0.unwrap_or_default()
    }

    /// The position of what was done, or of now where nothing had to be.
    async fn as_of(&self, done: Option<Lsn>) -> Result<u64, Error> {
        match done {
            Some(lsn) => Ok(lsn.0),
            None => Ok(self.synced_lsn().await?.0),
        }
    }

    /// Sees to it that a word is said; `None` where it was.
    async fn say(&self, caller: &Caller, said: Option<&Held>, word: Word) -> Result<Option<Lsn>, Error> {
        let Word { resource, attachment, policy, operation } = word;
        let holder = named_after(&caller.principal);
        let is_the_same = |said: &Held| {
            said.phase == Phase::Kept && said.attachment == attachment && said.session == policy.session
        };
        let action = match said {
            Some(said) if is_the_same(said) => return Ok(None),
            Some(said) if said.phase != Phase::Revoking => {
                let token = Token::new(said.lease, said.epoch);
                let (holder, policy, attachment) = (Some(holder), Some(policy), Some(attachment));
                Action::Rebind(Rebind { token, holder, policy, attachment, face_data: None })
            }
            Some(_) | None => {
                let bundle = Bundle { members: [Member::Resource(resource.into())].into() };
                Action::Grant(Grant { attachment, ..Grant::new(bundle, &holder, policy) })
            }
        };
        self.carry_out(Submit { operation, ..Submit::now(action) }).await
    }

    /// Takes a word back; `None` where there was none.
    async fn take_back(
        &self,
        said: Option<&Held>,
        operation: Option<OperationId>,
        text: &'static str,
    ) -> Result<Option<Lsn>, Error> {
        let Some(said) = said.filter(|said| said.phase != Phase::Revoking) else { return Ok(None) };
        let token = Token::new(said.lease, said.epoch);
        let action = Action::Release(Release { token, text: Text::const_new(text) });
        self.carry_out(Submit { operation, ..Submit::now(action) }).await
    }

    /// Where it was done; `None` if an earlier try did it.
    async fn carry_out(&self, submit: Submit) -> Result<Option<Lsn>, Error> {
        match self.ask(Request::Submit(submit)).await {
            Answer::Lease(given) => Ok((!given.replayed).then_some(given.lsn)),
            other => Err(self.not_that(other, Asked::AsAnyone)),
        }
    }
}

/// The resource of something that was asked about by name.
fn resource(name: &PollName, group: &str, field: &str) -> Result<String, Error> {
    name.resource(group)
        .map_err(|error| Error::new(ErrorCode::InvalidRequest, error.to_string()).with("field", field))
}

/// The poller that is meant.
fn member<'a>(found: &'a Group, group: &str, poller: &str) -> Result<Poller<'a>, Error> {
    found.find(poller).ok_or_else(|| {
        let names: Vec<&str> = found.pollers.keys().take(NAMED_MAX).map(|name| &**name).collect();
        let more = found.pollers.len() - names.len();
        let living = match (names.is_empty(), more) {
            (true, _) => "the group has no poller".to_owned(),
            (false, 0) => format!("its pollers are {}", names.join(", ")),
            (false, more) => format!("its pollers are {} and {more} more", names.join(", ")),
        };
        let message = format!("group {group:?} has no poller {poller:?}; {living}");
        Error::new(ErrorCode::NotFound, message).with("pollers", names)
    })
}

fn check_takes_targets(poller: &Poller<'_>, group: &str) -> Result<(), Error> {
    let why = match poller.status() {
        PollerStatus::Online | PollerStatus::Joining => return Ok(()),
        PollerStatus::Cordoned => {
            format!("is cordoned: it gets no targets until POST /v1/polling/{group}/uncordon")
        }
        PollerStatus::Leaving => "is leaving and hands over its targets".to_owned(),
        PollerStatus::Absent => "is absent: the target would have no poller until it returns".to_owned(),
    };
    let message = format!("poller {:?} {why}", poller.name);
    Err(Error::new(ErrorCode::InvalidState, message).with("poller", poller.name))
}

/// How long a word about a poller holds: as long as the poller, unless that comes back under its name.
fn policy_of(caller: &Caller, poller: &Poller<'_>) -> Policy {
    let held = poller.held;
    let terms = match held.session.filter(|_| !poller.facts.fixed_name) {
        Some(session) => Policy::session(session, held.ttl_ms, held.grace_ms),
        None => Policy::permanent(),
    };
    Policy {
        face: Face::Polling,
        principal: caller.principal.clone(),
        // Nobody acts on it: it can go the moment an operator says so.
        reclaim_rule: ReclaimRule::AtOnce,
        ..terms
    }
}
