//! Redis as a store, beside older programs where it has to be. Every change is one script that checks who holds what
//! it touches; time is the server's for others and, from before the question, ours for ourselves.
//!
//! Redis replicates later than it answers: after a failover two pollers may both believe for up to one ttl that a
//! target is theirs. The fence, which rises all the same, is what protects whatever they write to.

mod address;
mod ear;
mod keys;
mod link;
mod operator;
mod scripts;
mod seen;

use super::{
    HeldTarget, LeaseKey, Loss, Membership, Outcome, ReleaseReason, Renewal, SeenMember, SeenOwner, Store,
    StoreError, TargetName, View, Wanted,
};
use crate::instance::Instance;
use address::Address;
use core::fmt;
use core::time::Duration;
use ear::Ear;
use keys::{Keys, TARGET_BYTES_MAX};
pub(crate) use link::{Link, Where};
use scripts::Lua;
use seen::{About, Answer, Asked, Listed, Seen};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_api::{PollerFacts, PollerStatus};
use tenure_assignment::Hash;
use tenure_client::clock::{BootInstant, wait_until};

/// Targets in one script, so that nobody else waits long for the server.
const TARGETS_PER_SCRIPT: usize = 1_000;
/// How long one call may take before a poller says it.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Ends of memberships are counted late, by as long as an answer takes.
const DEATH_SLACK: Duration = Duration::from_millis(100);
/// A name that is waited for is not asked for more often than this.
const NAME_PAUSE: Duration = Duration::from_millis(50);

/// Connection and group settings of a [`RedisStore`].
///
/// `url` is one of
/// - `redis://[user[:password]@]host[:port][/db]`, with TLS `rediss://…`;
/// - `unix:///path[?db=N&user=U&pass=P]` or `redis+unix://…`;
/// - `redis-sentinel://[user[:password]@]host[:port][,host[:port]]…/SERVICE[/db]`, with TLS `rediss-sentinel://…`;
///   user and password are for the server, `?sentinel_user=U&sentinel_password=P` for the Sentinels;
/// - `redis-cluster://[user[:password]@]host[:port][,host[:port]]…`, with TLS `rediss-cluster://…`.
///
/// Percent-encode every character of a user, password or service that is not a letter or digit.
#[derive(Clone)]
pub struct RedisOptions {
    /// The address.
    pub url: String,
    /// The group; `default` shares its keys with older programs.
    pub group: String,
    /// The prefix of all keys [default: derived from the group].
    pub prefix: Option<String>,
    /// The hash of the assignment. With [`Hash::Fnv1a`] each read also scans for older programs.
    pub hash: Hash,
    /// CA certificates, PEM [default: the system's].
    pub ca_pem: Option<Vec<u8>>,
    /// The client certificate, PEM.
    pub client_cert_pem: Option<Vec<u8>>,
    /// The client certificate's key, PEM.
    pub client_key_pem: Option<Vec<u8>>,
    /// The timeout of a call before a poller has joined, and for operators.
    pub call_timeout: Duration,
}

impl RedisOptions {
    /// Settings for the group `default` at this address.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            group: "default".to_owned(),
            prefix: None,
            hash: Hash::Xxh64,
            ca_pem: None,
            client_cert_pem: None,
            client_key_pem: None,
            call_timeout: CALL_TIMEOUT,
        }
    }
}

/// Passwords and keys are not shown.
impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("group", &self.group)
            .field("prefix", &self.prefix)
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

/// Why options cannot be followed.
#[derive(Debug)]
struct Impossible(String);

/// Redis, version 6 or later, for one poller of one group, or for an operator.
///
/// The Redis user must be allowed to run scripts (`EVALSHA`, `EVAL`) that read and write the group's keys (`~poll:*`),
/// and to use the channel `poll:changed` (`&poll:*`); without the channel, pollers notice changes at their next read.
pub struct RedisStore {
    link: Arc<Link>,
    group: String,
    keys: Keys,
    hash: Hash,
    call_timeout: Duration,
    ear: Ear,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    membership: Option<Membership>,
    /// Of one that waits for its name, or whose answer was lost.
    joining: Option<Membership>,
    status: PollerStatus,
    /// When it has lived for a ttl.
    proven_at: Option<BootInstant>,
    /// Members that were seen last, with the end of their time unless they renew, and how many have died.
    members: BTreeMap<Instance, BootInstant>,
    deaths: u64,
    /// What was seen last, without the times in it, and since when by the server's clock.
    last: Option<(Fingerprint, u64)>,
}

/// What a view shows that can change without time passing.
#[derive(PartialEq, Eq)]
struct Fingerprint {
    members: Vec<SeenMember>,
    owners: BTreeMap<TargetName, (Instance, Option<u64>)>,
    pins: BTreeMap<TargetName, String>,
}

/// A way to the Redis that the options name.
pub(crate) fn link(options: &RedisOptions) -> Result<Link, StoreError> {
    let (address, name) = Address::read(options)?;
    Ok(Link::new(address, name))
}

impl RedisStore {
    /// Creates a store from options. It opens no connection yet.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if the options are invalid.
    pub fn open(options: &RedisOptions) -> Result<Self, StoreError> {
        let link = link(options)?;
        let keys = Keys::new(&options.group, options.prefix.as_deref(), link.is_cluster(), options.hash)?;
        Ok(Self {
            link: Arc::new(link),
            group: options.group.clone(),
            keys,
            hash: options.hash,
            call_timeout: options.call_timeout,
            ear: Ear::new(),
            inner: Mutex::default(),
        })
    }

    /// Like [`RedisStore::open`], and waits for an answer of the server.
    ///
    /// # Errors
    /// [`StoreError`] if the server does not answer or rejects the user.
    pub async fn connect(options: &RedisOptions) -> Result<Self, StoreError> {
        let store = Self::open(options)?;
        store.observe(&[]).await?;
        Ok(store)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn member(&self) -> Result<Membership, StoreError> {
        self.inner().membership.clone().ok_or_else(not_member)
    }

    /// Runs a script for an instance, about some targets.
    async fn run(&self, script: &Lua, call: Call<'_>) -> Result<Vec<String>, StoreError> {
        let mut keys = self.keys.head(call.instance.as_str());
        keys.extend(call.targets.iter().map(|target| self.keys.lease(target)));
        keys.extend(call.targets.iter().map(|target| self.keys.fence(target)));
        let arguments = call.with_head(self.keys.channel());
        let answer = self.link.run(script, &keys, &arguments).await?;
        self.link.read(answer)
    }

    /// The same for a member. `NotMember` if it is none any more.
    async fn run_as_member(&self, script: &Lua, call: Call<'_>) -> Result<Vec<String>, StoreError> {
        let answer = self.run(script, call).await?;
        if answer == ["-"] { Err(not_member()) } else { Ok(answer) }
    }

    /// Becomes a member, or says who is in the way, until when, and how long that is.
    async fn try_join(&self, membership: &Membership) -> Result<Vec<Rival>, StoreError> {
        let instance = &membership.instance;
        let name = instance.name();
        let mark = if instance.has_fixed_name() { format!("{name}~") } else { String::new() };
        let arguments = vec![
            mark,
            about(membership, instance, self.inner().status, true),
            about(membership, instance, PollerStatus::Joining, true),
            Instance::absent(name).to_string(),
        ];
        let call = Call { instance, ttl: membership.ttl, targets: &[], arguments };
        let answer = self.link.within(membership.join_timeout(), self.run(&scripts::JOIN, call)).await?;
        let rival = |rival: &[String]| Rival {
            instance: rival[0].clone(),
            till: rival[1].clone(),
            left: Duration::from_millis(rival[2].parse().unwrap_or(0)),
        };
        Ok(answer.chunks_exact(3).map(rival).collect())
    }

    /// Ends a membership and what is left to whoever stands for it.
    async fn go(
        &self,
        membership: &Membership,
        leases: &[HeldTarget],
        window: Option<Duration>,
    ) -> Result<(), StoreError> {
        let absent = Instance::absent(membership.instance.name());
        let stand_in = Membership { ttl: window.unwrap_or_default(), ..membership.clone() };
        let facts = about(&stand_in, &absent, PollerStatus::Absent, false);
        let window = window.map_or_else(String::new, |window| millis(window).to_string());
        let mut chunks: Vec<&[HeldTarget]> = leases.chunks(TARGETS_PER_SCRIPT).collect();
        if chunks.is_empty() {
            chunks.push(&[]);
        }
        let count = chunks.len();
        for (number, chunk) in chunks.into_iter().enumerate() {
            let last = if number + 1 == count { "last" } else { "" };
            let mut arguments = vec![window.clone(), absent.to_string(), facts.clone(), last.to_owned()];
            arguments.extend(fences(chunk));
            let targets: Vec<&str> = chunk.iter().map(|lease| &*lease.target).collect();
            let call =
                Call { instance: &membership.instance, ttl: membership.ttl, targets: &targets, arguments };
            self.run(&scripts::LEAVE, call).await?;
        }
        Ok(())
    }

    /// What is seen, with members that only a scan finds.
    async fn look(
        &self,
        targets: &[TargetName],
        own: Option<&Instance>,
        older: Vec<Listed>,
    ) -> Result<View, StoreError> {
        let nobody = Instance::from_text("");
        let mut chunks = targets.chunks(TARGETS_PER_SCRIPT);
        let first = chunks.next().unwrap_or_default();
        let (mut answer, asked) = self.look_at(first, own.unwrap_or(&nobody), "all").await?;
        let known: BTreeSet<Instance> = answer.members.iter().map(|listed| listed.instance.clone()).collect();
        answer.members.extend(older.into_iter().filter(|older| !known.contains(&older.instance)));
        let deaths = self.deaths(&answer.members, asked);
        let mut seen = Seen::begin(own, &mut answer, asked);
        seen.add(first, &answer, asked);
        let now_us = answer.now_us;
        for chunk in chunks {
            let (answer, asked) = self.look_at(chunk, own.unwrap_or(&nobody), "").await?;
            seen.add(chunk, &answer, asked);
        }
        let mut view = seen.view;
        view.deaths = deaths;
        view.generation = self.generation(&view, now_us);
        Ok(view)
    }

    async fn look_at(
        &self,
        targets: &[TargetName],
        instance: &Instance,
        what: &str,
    ) -> Result<(Answer, Asked), StoreError> {
        let mut keys = self.keys.head(instance.as_str());
        keys.extend(targets.iter().map(|target| self.keys.lease(target)));
        keys.extend(targets.iter().map(|target| self.keys.fence(target)));
        let call = Call { instance, ttl: Duration::ZERO, targets: &[], arguments: vec![what.to_owned()] };
        let sent = BootInstant::now();
        let answer = self.link.run(&scripts::OBSERVE, &keys, &call.with_head(self.keys.channel())).await?;
        let answered = BootInstant::now();
        let lists: Vec<Vec<String>> = self.link.read(answer)?;
        let answer = Answer::read(&lists).ok_or_else(|| {
            StoreError::Rejected(format!(
                "redis at {}: the keys of the group were not written by Tenure",
                self.link.name()
            ))
        })?;
        Ok((answer, Asked { sent, answered }))
    }

    /// Programs that know nothing of the set of members, where pollers are to know of them.
    async fn older_peers(&self) -> Result<Vec<Listed>, StoreError> {
        if self.hash == Hash::Fnv1a { self.scan_for_older().await } else { Ok(Vec::new()) }
    }

    async fn scan_for_older(&self) -> Result<Vec<Listed>, StoreError> {
        let start = self.keys.node("");
        let found: BTreeSet<String> =
            self.link.scan(&self.keys.nodes(), Where::With(&start)).await?.into_iter().collect();
        let mut members = Vec::new();
        for key in found {
            let answer = self.link.ask(redis::cmd("PTTL").arg(&key)).await?;
            let left: i64 = self.link.read(answer)?;
            let (Some(instance), Ok(left)) = (key.strip_prefix(&start), u64::try_from(left)) else {
                continue;
            };
            members.push(Listed {
                instance: Instance::from_text(instance),
                left: Duration::from_millis(left),
                about: None,
            });
        }
        Ok(members)
    }

    /// How many members have died: who leaves is gone before its time is over.
    fn deaths(&self, listed: &[Listed], asked: Asked) -> u64 {
        let end = |listed: &Listed| (listed.instance.clone(), asked.answered.after(listed.left));
        let now: BTreeMap<Instance, BootInstant> = listed.iter().map(end).collect();
        let mut inner = self.inner();
        let before = core::mem::replace(&mut inner.members, now);
        let is_dead = |(instance, end): &(&Instance, &BootInstant)| {
            !instance.is_absent()
                && !inner.members.contains_key(*instance)
                && asked.answered.after(DEATH_SLACK) >= **end
        };
        let died = before.iter().filter(is_dead).count();
        inner.deaths += died as u64;
        inner.deaths
    }

    /// Since when things have been as they are, as far as this process has seen: rises with every change.
    fn generation(&self, view: &View, now_us: u64) -> u64 {
        let owner = |seen: &SeenOwner| (seen.instance.clone(), seen.fence);
        let seen = Fingerprint {
            members: view.members.clone(),
            owners: view.owners.iter().map(|(target, seen)| (target.clone(), owner(seen))).collect(),
            pins: view.pins.clone(),
        };
        let mut inner = self.inner();
        let generation = match &inner.last {
            Some((last, since)) if *last == seen => *since,
            Some((_, since)) => now_us.max(since + 1),
            None => now_us,
        };
        inner.last = Some((seen, generation));
        generation
    }
}

/// What a script is told beside its keys' prefix.
struct Call<'a> {
    instance: &'a Instance,
    ttl: Duration,
    targets: &'a [&'a str],
    arguments: Vec<String>,
}

impl Call<'_> {
    fn with_head(&self, channel: String) -> Vec<String> {
        let mut all = vec![channel, self.instance.to_string(), millis(self.ttl).to_string()];
        all.extend(self.arguments.iter().cloned());
        all
    }
}

/// Another run under the same name.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Rival {
    instance: String,
    /// By the server's clock; higher after each renewal.
    till: String,
    left: Duration,
}

impl Store for RedisStore {
    fn group(&self) -> &str {
        &self.group
    }

    async fn join(&self, membership: &Membership) -> Result<(), StoreError> {
        self.ear.is_of(membership.instance.as_str());
        self.ear.start(&self.link, &self.keys.channel());
        self.inner().joining = Some(membership.clone());
        let mut known: Option<BTreeMap<String, String>> = None;
        loop {
            self.ear.looks();
            let rivals = self.try_join(membership).await?;
            let Some(longest) = rivals.iter().map(|rival| rival.left).max() else {
                let mut inner = self.inner();
                inner.joining = None;
                inner.membership = Some(membership.clone());
                inner.proven_at = Some(BootInstant::now().after(membership.ttl));
                return Ok(());
            };
            let is_alive = |known: &BTreeMap<String, String>, rival: &Rival| {
                known.get(&rival.instance) != Some(&rival.till)
            };
            let alive = known.as_ref().and_then(|known| rivals.iter().find(|rival| is_alive(known, rival)));
            if let Some(alive) = alive {
                let told = format!(
                    "another run of poller {:?} is alive: {} renewed its membership",
                    membership.instance.name(),
                    alive.instance
                );
                self.link.within(membership.join_timeout(), self.go(membership, &[], None)).await?;
                self.inner().joining = None;
                return Err(StoreError::NameTaken(told));
            }
            known.get_or_insert_with(|| {
                rivals.iter().map(|rival| (rival.instance.clone(), rival.till.clone())).collect()
            });
            let over = BootInstant::now().after(longest + Duration::from_millis(1));
            tokio::select! {
                () = wait_until(over) => {}
                () = self.ear.hears() => tokio::time::sleep(NAME_PAUSE).await,
            }
        }
    }

    async fn renew(&self, leases: &[HeldTarget]) -> Result<Renewal, StoreError> {
        let member = self.member()?;
        let targets: Vec<&str> = leases.iter().map(|lease| &*lease.target).collect();
        let arguments = fences(leases).collect();
        let call = Call { instance: &member.instance, ttl: member.ttl, targets: &targets, arguments };
        let sent = BootInstant::now();
        let renewing = self.run_as_member(&scripts::RENEW, call);
        let answer = self.link.within(member.call_timeout, renewing).await?;
        let loss = |lost: &[String]| {
            let lease = leases.get(lost[0].parse::<usize>().ok()?.checked_sub(1)?)?;
            let reason = match lost[1].as_str() {
                "" => "it had expired".to_owned(),
                holder if holder == member.instance.as_str() => "a later grant replaced it".to_owned(),
                holder => format!("{holder} holds it"),
            };
            Some(Loss { target: lease.target.clone(), fence: lease.fence, reason })
        };
        Ok(Renewal {
            valid_until: (!leases.is_empty()).then(|| member.valid_until(sent)),
            lost: answer.chunks_exact(2).filter_map(loss).collect(),
        })
    }

    async fn observe(&self, targets: &[TargetName]) -> Result<View, StoreError> {
        self.ear.looks();
        let member = self.inner().membership.clone();
        let limit = member.as_ref().map_or(self.call_timeout, |member| member.call_timeout);
        let own = member.as_ref().map(|member| &member.instance);
        let looking = async { self.look(targets, own, self.older_peers().await?).await };
        self.link.within(limit, looking).await
    }

    async fn changed(&self) {
        self.ear.start(&self.link, &self.keys.channel());
        self.ear.hears().await;
    }

    async fn acquire(&self, wanted: &[Wanted]) -> Result<Vec<Outcome<HeldTarget>>, StoreError> {
        let member = self.member()?;
        let absent = Instance::absent(member.instance.name()).to_string();
        let acquiring = async {
            let mut outcomes = Vec::with_capacity(wanted.len());
            for chunk in wanted.chunks(TARGETS_PER_SCRIPT) {
                let possible: Vec<&Wanted> =
                    chunk.iter().filter(|wanted| cannot_be(&wanted.target).is_none()).collect();
                let targets: Vec<&str> = possible.iter().map(|wanted| &*wanted.target).collect();
                let mut arguments = vec![absent.clone()];
                let back = |wanted: &&Wanted| if wanted.reserved.is_some() { "back" } else { "" }.to_owned();
                arguments.extend(possible.iter().map(back));
                let call = Call { instance: &member.instance, ttl: member.ttl, targets: &targets, arguments };
                let sent = BootInstant::now();
                let answer = self.run_as_member(&scripts::ACQUIRE, call).await?;
                let mut answers = answer.chunks_exact(2);
                for Wanted { target, .. } in chunk {
                    if let Some(why) = cannot_be(target) {
                        outcomes.push(Outcome::InvalidTarget(why));
                        continue;
                    }
                    let answer = answers.next().unwrap_or_default();
                    outcomes.push(taken(target, answer, member.valid_until(sent)));
                }
            }
            Ok(outcomes)
        };
        self.link.within(member.call_timeout, acquiring).await
    }

    fn adopt(&self, target: &TargetName, seen: &SeenOwner) -> Option<HeldTarget> {
        let member = self.member().ok()?;
        let valid_until = seen.ends_at?.before(member.margin());
        if seen.instance != member.instance || valid_until <= BootInstant::now() {
            return None;
        }
        Some(HeldTarget { target: target.clone(), fence: seen.fence?, valid_until, key: LeaseKey::default() })
    }

    async fn release(&self, leases: &[HeldTarget], reason: ReleaseReason) -> Result<(), StoreError> {
        let member = self.member()?;
        let releasing = async {
            for chunk in leases.chunks(TARGETS_PER_SCRIPT) {
                let targets: Vec<&str> = chunk.iter().map(|lease| &*lease.target).collect();
                let mut arguments = vec![reason.as_str().to_owned()];
                arguments.extend(fences(chunk));
                let call = Call { instance: &member.instance, ttl: member.ttl, targets: &targets, arguments };
                self.run(&scripts::RELEASE, call).await?;
            }
            Ok(())
        };
        self.link.within(member.call_timeout, releasing).await
    }

    async fn hand_over(
        &self,
        leases: &[(HeldTarget, SeenMember)],
        reason: ReleaseReason,
    ) -> Result<Vec<Outcome<()>>, StoreError> {
        let member = self.member()?;
        let handing_over = async {
            let mut outcomes = Vec::with_capacity(leases.len());
            for chunk in leases.chunks(TARGETS_PER_SCRIPT) {
                let takers: Vec<&(HeldTarget, SeenMember)> =
                    chunk.iter().filter(|(_, successor)| successor.takes_handovers).collect();
                let targets: Vec<&str> = takers.iter().map(|(lease, _)| &*lease.target).collect();
                let mut arguments = vec![reason.as_str().to_owned()];
                arguments.extend(takers.iter().map(|(lease, _)| lease.fence.to_string()));
                arguments.extend(takers.iter().map(|(_, successor)| successor.instance.to_string()));
                let call = Call { instance: &member.instance, ttl: member.ttl, targets: &targets, arguments };
                let answer = self.run(&scripts::HAND_OVER, call).await?;
                let mut answers = answer.chunks_exact(2);
                for (_, successor) in chunk {
                    outcomes.push(match successor.takes_handovers {
                        true => given(answers.next().unwrap_or_default()),
                        false => {
                            Outcome::Declined(format!("{} does not accept handovers", successor.instance))
                        }
                    });
                }
            }
            Ok(outcomes)
        };
        self.link.within(member.call_timeout, handing_over).await
    }

    async fn publish_status(&self, status: PollerStatus) -> Result<(), StoreError> {
        let member = self.member()?;
        let is_new = {
            let mut inner = self.inner();
            inner.status = status;
            inner.proven_at.is_some_and(|proven_at| BootInstant::now() < proven_at)
        };
        // One that leaves hands over next, and says that: if everybody looked now, the handover would be seen later.
        let how = if status == PollerStatus::Leaving { "quietly" } else { "" };
        let arguments = vec![about(&member, &member.instance, status, is_new), how.to_owned()];
        let call = Call { instance: &member.instance, ttl: member.ttl, targets: &[], arguments };
        self.link.within(member.call_timeout, self.run_as_member(&scripts::TELL, call)).await.map(drop)
    }

    async fn leave(&self, leases: &[HeldTarget], window: Option<Duration>) -> Result<(), StoreError> {
        let member = {
            let inner = self.inner();
            inner.membership.clone().or_else(|| inner.joining.clone()).ok_or_else(not_member)?
        };
        self.link.within(member.call_timeout, self.go(&member, leases, window)).await?;
        let mut inner = self.inner();
        (inner.membership, inner.joining) = (None, None);
        inner.status = PollerStatus::default();
        Ok(())
    }
}

fn taken(target: &TargetName, answer: &[String], valid_until: BootInstant) -> Outcome<HeldTarget> {
    match answer {
        [word, fence] if word == "1" => match fence.parse() {
            Ok(fence) => Outcome::Done(HeldTarget {
                target: target.clone(),
                fence,
                valid_until,
                key: LeaseKey::default(),
            }),
            Err(_) => Outcome::InvalidTarget(format!("its fence is {fence:?}, which is not a number")),
        },
        [word, holder] if word == "0" => Outcome::Rejected(format!("{holder} holds it")),
        _ => Outcome::InvalidTarget("its fencing token has reached the highest value".to_owned()),
    }
}

fn given(answer: &[String]) -> Outcome<()> {
    match answer {
        [word, _] if word == "1" => Outcome::Done(()),
        [word, holder] if word == "0" && holder.is_empty() => Outcome::Rejected("it had expired".to_owned()),
        [word, holder] if word == "0" => {
            Outcome::Rejected(format!("{holder} holds it, or a later grant replaced it"))
        }
        [word, successor] if word == "?" => {
            Outcome::Declined(format!("{successor} is not a member any more"))
        }
        _ => Outcome::Declined("its fencing token has reached the highest value".to_owned()),
    }
}

/// Why nothing can be a target by that name; `None` if something can.
fn cannot_be(target: &str) -> Option<String> {
    match target.len() {
        0 => Some("the name of the target is empty".to_owned()),
        1..=TARGET_BYTES_MAX => None,
        _ => Some(format!("the name of a target has at most {TARGET_BYTES_MAX} bytes")),
    }
}

fn about(membership: &Membership, instance: &Instance, status: PollerStatus, is_new: bool) -> String {
    let facts = PollerFacts {
        instance: instance.to_string(),
        weight: membership.weight,
        status,
        fixed_name: instance.has_fixed_name(),
        is_new,
        report: None,
    };
    let about = About { facts, ttl_ms: millis(membership.ttl) };
    serde_json::to_string(&about).expect("invariant: facts can be written as JSON")
}

fn fences(leases: &[HeldTarget]) -> impl Iterator<Item = String> {
    leases.iter().map(|lease| lease.fence.to_string())
}

fn not_member() -> StoreError {
    StoreError::NotMember("this poller is not a member of its group".to_owned())
}

/// At least one: Redis knows no shorter time.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1)
}
