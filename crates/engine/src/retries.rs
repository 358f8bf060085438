//! What makes a retry harmless beside the kernel's memory of outcomes: operations still in flight are
//! joined, an interrupted wait keeps its place for a moment, and refusals are remembered for a minute.

use crate::answer::Refused;
use crate::engine::Engine;
use crate::hands::as_local;
use crate::quota::Quota;
use crate::request::{Keeper, OperationId, Submit, Ticket};
use crate::waiters::{Standing, Try};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, VecDeque};
use tenure_kernel::codec::encode_action;
use tenure_kernel::{
    Action, Actor, Grant, Lsn, Operation, Rebind, Reclaim, Revoke, Steer, Text, Tick, canonical_fingerprint,
};

/// How long a refusal is remembered.
const REFUSAL_KEEP_MS: u64 = 60_000;
/// The same where it passes by itself: shorter than the wait that the error advises.
const PASSING_KEEP_MS: u64 = 5_000;
/// The same where a connection is likely gone already, and noticed in a moment.
const CONNECTION_OPEN_KEEP_MS: u64 = 100;
/// Refusals remembered at most; the oldest go first.
const REFUSALS_MAX: usize = 100_000;
/// Tries of one operation that wait together, the first included.
pub(crate) const TRIES_MAX: usize = 16;
/// How long an interrupted wait keeps its place.
const PLACE_KEEP_MS: u64 = 10_000;
/// Places kept at most; the oldest go first.
const PLACES_MAX: usize = 10_000;
/// Entries that one call forgets: more than it adds, so that what is over goes, and few, however many are over at once.
const FORGOTTEN_PER_CALL: usize = 4;

#[derive(Default)]
pub(crate) struct Retries {
    /// Operations that wait for a bundle: who else asks for the same.
    in_flight: BTreeMap<u128, Joined>,
    /// Which operation those others joined.
    joined: BTreeMap<Ticket, u128>,
    quota: Quota,
    /// Waits that were interrupted and may be asked again. Nobody waits there: nobody is held up.
    interrupted: Kept<Interrupted>,
    refused: Kept<Remembered>,
}

/// What is remembered of operations for a while, a bounded number of them.
struct Kept<T> {
    by_key: BTreeMap<u128, (Tick, T)>,
    /// In order of arrival. A key that came again stands here twice; its first place no longer counts.
    by_age: VecDeque<(Tick, u128)>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), by_age: VecDeque::new() }
    }
}

impl<T> Kept<T> {
    fn get(&self, key: u128, now: Tick) -> Option<&T> {
        self.by_key.get(&key).filter(|(until, _)| now < *until).map(|(_, kept)| kept)
    }

    fn take(&mut self, key: u128, now: Tick) -> Option<T> {
        self.by_key.remove(&key).filter(|(until, _)| now < *until).map(|(_, kept)| kept)
    }

    /// Keeps one more, and forgets a few of those whose time is over, or the oldest where there are `max`.
    fn keep(&mut self, key: u128, value: T, until: Tick, now: Tick, max: usize) {
        for _ in 0..FORGOTTEN_PER_CALL {
            let full = self.by_age.len() >= max;
            let Some((at, oldest)) = self.by_age.front().copied().filter(|(at, _)| full || *at <= now) else {
                break;
            };
            self.by_age.pop_front();
            if self.by_key.get(&oldest).is_some_and(|(until, _)| *until == at) {
                self.by_key.remove(&oldest);
            }
        }
        self.by_key.insert(key, (until, value));
        self.by_age.push_back((until, key));
    }
}

struct Joined {
    fingerprint: u64,
    /// In order of arrival, fewer than [`TRIES_MAX`].
    others: VecDeque<Try>,
}

struct Interrupted {
    fingerprint: u64,
    standing: Standing,
}

struct Remembered {
    fingerprint: u64,
    refused: Refused,
    /// What the refusal rests on; told again, it rests on the same.
    depends_on: Lsn,
}

/// What is known of an operation.
pub(crate) enum Known {
    /// Nothing.
    New,
    /// Another request under the same id waits; this one may join it for the same answer.
    InFlight,
    /// It was refused a moment ago, resting on what stands at this position.
    Refused(Refused, Lsn),
    /// The id is in use for another command.
    Conflict,
}

impl Retries {
    pub(crate) fn look_up(&self, operation: &Operation, now: Tick) -> Known {
        if let Some(joined) = self.in_flight.get(&operation.key) {
            let same = joined.fingerprint == operation.fingerprint;
            return if same { Known::InFlight } else { Known::Conflict };
        }
        match self.refused.get(operation.key, now) {
            Some(found) if found.fingerprint == operation.fingerprint => {
                Known::Refused(found.refused.clone(), found.depends_on)
            }
            Some(_) => Known::Conflict,
            None => Known::New,
        }
    }

    /// The operation waits; later tries join it. Returns where it stood, if it was interrupted a moment ago.
    pub(crate) fn waits(&mut self, operation: &Operation, now: Tick) -> Option<Standing> {
        let joined = Joined { fingerprint: operation.fingerprint, others: VecDeque::new() };
        self.in_flight.insert(operation.key, joined);
        let found = self.interrupted.take(operation.key, now)?;
        (found.fingerprint == operation.fingerprint).then_some(found.standing)
    }

    /// A further try of an operation that waits. `false`: there are enough of them.
    pub(crate) fn join(&mut self, operation: &Operation, request: Try) -> bool {
        let Some(joined) = self.in_flight.get_mut(&operation.key) else { return false };
        let room = joined.others.len() + 1 < TRIES_MAX;
        if room {
            self.joined.insert(request.ticket, operation.key);
            self.quota.add(&request);
            joined.others.push_back(request);
        }
        room
    }

    /// How many joined.
    pub(crate) fn joined(&self) -> usize {
        self.joined.len()
    }

    /// How many of one principal joined.
    pub(crate) fn joined_of(&self, principal: Option<&Text>) -> usize {
        self.quota.of(principal)
    }

    /// The operation has its outcome: who else is to be told. The first asker is not among them.
    pub(crate) fn settled(&mut self, operation: &Operation) -> impl Iterator<Item = Try> + use<> {
        let others = self.in_flight.remove(&operation.key).map(|joined| joined.others).unwrap_or_default();
        for other in &others {
            self.joined.remove(&other.ticket);
            self.quota.remove(other);
        }
        others.into_iter()
    }

    /// One who had joined has gone; the wait goes on for the others. `false`: nobody had joined so.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) -> bool {
        let Some(key) = self.joined.remove(&ticket) else { return false };
        if let Some(joined) = self.in_flight.get_mut(&key) {
            let (quota, others) = (&mut self.quota, &mut joined.others);
            others.retain(|other| {
                let stays = other.ticket != ticket;
                if !stays {
                    quota.remove(other);
                }
                stays
            });
        }
        true
    }

    /// Everyone who had joined; nobody will be served any more.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Ticket> {
        self.in_flight.clear();
        self.quota = Quota::default();
        core::mem::take(&mut self.joined).into_keys()
    }

    /// The first asker has gone: the try in whose name the wait goes on.
    pub(crate) fn heir(&mut self, operation: &Operation) -> Option<Try> {
        let heir = self.in_flight.get_mut(&operation.key)?.others.pop_front()?;
        self.joined.remove(&heir.ticket);
        self.quota.remove(&heir);
        Some(heir)
    }

    /// The last asker has gone before it had an outcome: its place is kept for a moment.
    pub(crate) fn interrupted(&mut self, operation: &Operation, standing: Standing, now: Tick) {
        self.in_flight.remove(&operation.key);
        let interrupted = Interrupted { fingerprint: operation.fingerprint, standing };
        self.interrupted.keep(operation.key, interrupted, now.after_ms(PLACE_KEEP_MS), now, PLACES_MAX);
    }

    pub(crate) fn refused(&mut self, operation: &Operation, refused: &Refused, depends_on: Lsn, now: Tick) {
        let until = now.after_ms(match refused {
            Refused::DiskLow => PASSING_KEEP_MS,
            // Over as soon as the connection is noticed to be gone.
            Refused::ConnectionOpen => CONNECTION_OPEN_KEEP_MS,
            Refused::NotYet { remaining_ms } => PASSING_KEEP_MS.min(*remaining_ms),
            Refused::Rejected(_)
            | Refused::Held(_)
            | Refused::Forbidden
            | Refused::Liveness(_)
            | Refused::Queued { .. }
            | Refused::WaitTimeout
            | Refused::TooManyWaiters { .. }
            | Refused::Overloaded { .. }
            | Refused::Cancelled
            | Refused::Trimmed { .. }
            | Refused::OutcomeUnknown
            | Refused::NotLeader
            | Refused::ShuttingDown => REFUSAL_KEEP_MS,
        });
        let (fingerprint, refused) = (operation.fingerprint, refused.clone());
        let remembered = Remembered { fingerprint, refused, depends_on };
        self.refused.keep(operation.key, remembered, until, now, REFUSALS_MAX);
    }
}

impl Engine {
    /// The kernel's identity of an operation: who, under which id, and what was asked.
    pub(crate) fn identify(&self, operation: &OperationId, submit: &Submit) -> Operation {
        let action = self.without_connection(submit);
        self.earlier_as_local(operation, submit, &action).unwrap_or_else(|| {
            let key = operation_key(&operation.principal, &operation.id);
            identity(operation, key, &operation.principal, submit, &action)
        })
    }

    /// A user may have been `local` when it asked first: its retry finds what was done then.
    fn earlier_as_local(
        &self,
        operation: &OperationId,
        submit: &Submit,
        action: &Action,
    ) -> Option<Operation> {
        let local = as_local(&operation.principal)?;
        let key = operation_key(&local, &operation.id);
        self.kernel.remembered(key, self.tick)?;
        let mut action = action.clone();
        rename_principal(&mut action, &operation.principal, &local);
        let earlier = identity(operation, key, &local, submit, &action);
        matches!(self.kernel.replay(&earlier, self.tick), Ok(Some(_))).then_some(earlier)
    }
}

fn identity(
    operation: &OperationId,
    key: u128,
    principal: &str,
    submit: &Submit,
    action: &Action,
) -> Operation {
    let fingerprint = match operation.asked {
        Some(asked) => canonical_fingerprint(asked),
        None => fingerprint(action, submit.keeper, submit.force),
    };
    Operation { key, fingerprint, keep_ms: operation.keep_ms, principal: principal.into() }
}

fn operation_key(principal: &str, id: &str) -> u128 {
    let mut named = Sha256::new();
    named.update((principal.len() as u64).to_le_bytes());
    named.update(principal.as_bytes());
    named.update(id.as_bytes());
    let key: [u8; 32] = named.finalize().into();
    u128::from_le_bytes(key[..16].try_into().expect("invariant: a digest has 32 bytes"))
}

/// What another principal would have asked.
fn rename_principal(action: &mut Action, from: &str, to: &str) {
    let rename = |principal: &mut Text| {
        if *principal == from {
            *principal = to.into();
        }
    };
    match action {
        Action::Grant(Grant { policy, .. }) | Action::Rebind(Rebind { policy: Some(policy), .. }) => {
            rename(&mut policy.principal);
        }
        Action::Revoke(Revoke { actor: Actor::Operator(principal), .. })
        | Action::Reclaim(Reclaim { actor: Actor::Operator(principal), .. })
        | Action::Drain(Steer { actor: Actor::Operator(principal), .. })
        | Action::Revive(Steer { actor: Actor::Operator(principal), .. }) => rename(principal),
        Action::OpenSession(open) => rename(&mut open.principal),
        Action::Rebind(_)
        | Action::Revoke(_)
        | Action::Reclaim(_)
        | Action::Drain(_)
        | Action::Revive(_)
        | Action::Activate(_)
        | Action::Release(_)
        | Action::Amend(_)
        | Action::DefinePool { .. }
        | Action::RemovePool { .. }
        | Action::CloseSession { .. } => {}
    }
}

/// Stands for what was asked, in this process and in every later one; `docs/internals/formats/operations.md` has the bytes.
fn fingerprint(action: &Action, keeper: Option<Keeper>, force: bool) -> u64 {
    let mut bytes = Vec::with_capacity(128);
    encode_action(action, &mut bytes);
    bytes.push(u8::from(force));
    let (code, session) = match keeper {
        None => (0, None),
        Some(Keeper::Connection) => (1, None),
        Some(Keeper::Session(session)) => (2, Some(session)),
        Some(Keeper::Handover(session)) => (3, Some(session)),
    };
    bytes.push(code);
    bytes.extend(session.into_iter().flat_map(|session| session.0.to_le_bytes()));
    let digest: [u8; 32] = Sha256::digest(&bytes).into();
    canonical_fingerprint(u64::from_le_bytes(
        digest[..8].try_into().expect("invariant: a digest has 32 bytes"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_kernel::{
        Amend, Bundle, Epoch, Grant, LeaseId, OpenSession, Policy, Rebind, SessionId, SessionKind, Token,
    };

    fn refused_operation(number: usize) -> Operation {
        Operation { key: number as u128, fingerprint: 7, keep_ms: 0, principal: "uid:1".into() }
    }

    // The first refusal after a quiet minute forgot all of up to 100,000 earlier ones in one step of a turn.
    #[test]
    fn what_is_over_is_forgotten_a_few_at_a_time() {
        const REFUSED: usize = 1_000;
        let mut retries = Retries::default();
        for n in 0..REFUSED {
            retries.refused(&refused_operation(n), &Refused::Forbidden, Lsn(0), Tick(0));
        }
        let later = Tick(REFUSAL_KEEP_MS);
        let mut calls = 0;
        while retries.refused.by_age.front().is_some_and(|(until, _)| *until <= later) {
            let before = retries.refused.by_age.len();
            retries.refused(&refused_operation(REFUSED + calls), &Refused::Forbidden, Lsn(0), later);
            let forgotten = before + 1 - retries.refused.by_age.len();
            assert!(forgotten <= FORGOTTEN_PER_CALL, "one call forgot {forgotten}");
            calls += 1;
            assert!(calls < REFUSED, "what is over stays");
        }
        assert_eq!(retries.refused.by_key.len(), calls);
        assert!(matches!(retries.look_up(&refused_operation(0), later), Known::New));
        assert!(matches!(retries.look_up(&refused_operation(REFUSED), later), Known::Refused(..)));
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let mut kept = Kept::default();
        for n in 0..20 {
            kept.keep(n, n, Tick(100), Tick(0), 10);
            assert!(kept.by_age.len() <= 10 && kept.by_key.len() <= 10);
        }
        assert_eq!((kept.get(9, Tick(0)), kept.get(19, Tick(0))), (None, Some(&19)));
        // Asked again, it counts from then on; its first place takes nothing along.
        kept.keep(19, 1, Tick(300), Tick(50), 10);
        for n in 100..109 {
            kept.keep(n, n, Tick(400), Tick(200), 10);
        }
        assert_eq!(kept.get(19, Tick(200)), Some(&1));
        assert_eq!(kept.take(19, Tick(300)), None, "its time is over");
    }

    /// They are in logs: one that changes makes every retry across an upgrade a conflict. A new layout needs a new version.
    #[test]
    fn fingerprints_never_change() {
        let token = || Token::new(LeaseId(7), Epoch(2));
        let rebind = || Action::Rebind(Rebind::keeping(token()));
        let grant = Grant::new(Bundle::of(&["a", "b"]), "alice", Policy::heartbeat(90_000, 30_000));
        let amend = Amend { token: token(), attachment: Some(b"1".to_vec()), face_data: None };
        let open = OpenSession {
            session: SessionId(1),
            holder: "h".into(),
            kind: SessionKind::ByHand,
            ttl_ms: 1_000,
            grace_ms: 0,
            principal: "local".into(),
            accepts_handover: None,
        };
        let known = [
            (Action::Grant(grant), None, false, 0x6670_0185_03fd_5ade_u64),
            (Action::Activate(token()), None, false, 0x6670_0194_9f04_641b),
            (Action::Amend(amend), None, false, 0x6670_01ad_effd_e94b),
            (rebind(), None, false, 0x6670_01a8_2fba_3ddd),
            (rebind(), Some(Keeper::Connection), false, 0x6670_01c1_6bd8_cf13),
            (rebind(), Some(Keeper::Session(SessionId(9))), false, 0x6670_019b_bf5e_98a8),
            (rebind(), Some(Keeper::Handover(SessionId(9))), false, 0x6670_01b5_358e_fe93),
            (Action::RemovePool { name: "p".into(), force: true }, None, false, 0x6670_01da_672e_73b2),
            (Action::OpenSession(open), None, true, 0x6670_01ae_0367_ac9c),
        ];
        let made: Vec<String> = known
            .iter()
            .map(|(action, keeper, force, _)| format!("{:#018x}", fingerprint(action, *keeper, *force)))
            .collect();
        let known: Vec<String> = known.iter().map(|known| format!("{:#018x}", known.3)).collect();
        assert_eq!(made, known);
    }
}
