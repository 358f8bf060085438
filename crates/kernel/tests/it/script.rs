//! The script language of the kernel tests: one line a step, `tick command`, and one line out.
//!
//! ```text
//! setup base=100 leases=2                    before the first step: Setup and Limits
//!  0 reserve [r1,r2] holder=alice ttl=100    bundle: name, [name,name], pool*count for any of a pool
//! 10 activate L1 epoch=1                     L1 is the first grant; 7 the lease of position 7; 3/7 in shard 3
//! 11 grant r{i} holder=bob times=20          {i} counts 1 … 20; one line out, with the last outcome
//! ```
//!
//! Out: `tick lsn command → outcome`, `–` where nothing was logged. A holder command without `epoch=` presents
//! the current one. Outcomes name epoch, fence and holder only when the step changed them.
//! After each step the full scan runs, event and state go through their bytes and come back the same,
//! a second kernel fed with the decoded events stays byte-identical, and [`Watch`] looks for broken promises.

use expect_test::Expect;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use tenure_kernel::codec::{FORMAT, decode_event, decode_state, encode_event, encode_state};
use tenure_kernel::*;

/// Runs a script and compares what it printed.
pub(crate) fn check(script: &str, expected: Expect) {
    expected.assert_eq(&run(script));
}

/// Runs a script and returns what it printed.
pub(crate) fn run(script: &str) -> String {
    let lines: Vec<&str> =
        script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let mut setup = Setup::plain();
    let mut runner = None;
    let steps =
        || lines.iter().map(|line| line.split_once(' ').unwrap()).filter(|(first, _)| *first != "setup");
    let tick_width = steps().map(|(tick, _)| tick.len()).max().unwrap_or(0);
    let width = steps().map(|(_, command)| command.trim().chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for line in &lines {
        let (first, command) = line.split_once(' ').expect("tick and command");
        if first == "setup" {
            apply_setup(&mut setup, &Words::new(command));
            continue;
        }
        let runner = runner.get_or_insert_with(|| Runner::new(setup.clone()));
        let step = runner.step(first.parse().expect("a tick"), command.trim());
        let lsn = step.lsn.map_or("–".to_owned(), |lsn| lsn.to_string());
        writeln!(out, "{first:>tick_width$} {lsn:>2} {:width$} → {}", command.trim(), step.outcome).unwrap();
    }
    out
}

/// What one step came to.
pub(crate) struct Step {
    pub(crate) lsn: Option<Lsn>,
    pub(crate) outcome: String,
}

/// A kernel driven by script lines.
pub(crate) struct Runner {
    pub(crate) kernel: Kernel,
    pub(crate) setup: Setup,
    /// Fed with the same events out of their bytes.
    replica: Kernel,
    pub(crate) next_lsn: Lsn,
    /// Ids of grants in order; `L1` is the first.
    pub(crate) granted: Vec<LeaseId>,
    /// Every event with its stamp.
    pub(crate) log: Vec<(Stamp, Event)>,
    watch: Watch,
    scanning: bool,
}

impl Runner {
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            kernel: Kernel::new(setup.clone()),
            replica: Kernel::new(Setup { hashing: Hashing::fixed(u64::MAX), ..setup.clone() }),
            setup,
            next_lsn: Lsn(1),
            granted: Vec::new(),
            log: Vec::new(),
            watch: Watch::default(),
            scanning: true,
        }
    }

    /// Starts from a window that no event of this log set, as a log does whose first record is a config.
    pub(crate) fn preset_window(&mut self, window_ms: u64) {
        let retention = Retention { window_ms, ..Retention::default() };
        let mut kernel = Kernel::new(self.setup.clone());
        let event = Event { operation: None, change: Change::Configured(retention) };
        kernel.evolve(Stamp { lsn: Lsn(1), tick: Tick(0) }, &event);
        let mut bytes = bytes_of(&kernel);
        assert_eq!(bytes[1], 1, "the second byte of a state is its position");
        bytes[1] = 0;
        self.kernel = decode_state(self.setup.clone(), &bytes).unwrap();
        self.replica = self.kernel.clone();
    }

    /// Runs several lines, `tick command` each, whose outcomes do not matter.
    pub(crate) fn prepare(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (tick, command) = line.split_once(' ').unwrap();
            let step = self.step(tick.parse().unwrap(), command.trim());
            assert!(step.lsn.is_some(), "{line} → {}", step.outcome);
        }
    }

    pub(crate) fn step(&mut self, tick: u64, line: &str) -> Step {
        let words = Words::new(line);
        let times = words.get("times").map_or(1, |times| times.parse().unwrap());
        let mut last = None;
        for i in 1..=times {
            let line = line.replace("{i}", &i.to_string());
            // A scan costs as much as there is to scan: of long runs only the last steps are looked at.
            self.scanning = i + 64 > times;
            last = Some(self.one(Tick(tick), &Words::new(&line)));
        }
        last.expect("at least once")
    }

    fn one(&mut self, now: Tick, words: &Words) -> Step {
        let at = Stamp { lsn: self.next_lsn, tick: now };
        let verb = words.verb.as_str();
        if let Some(outcome) = self.query(now, words) {
            return Step { lsn: None, outcome };
        }
        let before = self.scanning.then(|| bytes_of(&self.kernel));
        let event = match verb {
            "expire" => self.kernel.decide_internal(at, &Internal::Expire(self.lease_id(words))),
            "notified" => self.kernel.decide_internal(at, &Internal::Notified(self.lease_id(words))),
            "trim" => {
                let below = Lsn(words.arguments[0].parse().unwrap());
                self.kernel.decide_internal(at, &Internal::Trim(below))
            }
            "configure" => {
                let mut retention = *self.kernel.retention();
                words.set("window", &mut retention.window_ms);
                words.set("leases", &mut retention.leases_max);
                words.set("per_face", &mut retention.leases_per_face_max);
                words.set("operations", &mut retention.operations_per_principal_max);
                self.kernel.decide_internal(at, &Internal::Configure(retention))
            }
            _ => match self.kernel.decide(at, &self.command(words)) {
                Ok(Decision::Event(event)) => Some(event),
                Ok(Decision::Replay(replay)) => {
                    return Step { lsn: None, outcome: format!("replayed {}", self.replayed(&replay)) };
                }
                Err(rejection) => {
                    return Step { lsn: None, outcome: self.refused(&rejection) };
                }
            },
        };
        if let Some(before) = before {
            assert_eq!(before, bytes_of(&self.kernel), "deciding changed the state");
        }
        let Some(event) = event else { return Step { lsn: None, outcome: "nothing".into() } };
        let outcome = self.apply(at, event, words);
        Step { lsn: Some(at.lsn), outcome }
    }

    /// Takes an event over, checks everything, and tells what it changed.
    fn apply(&mut self, at: Stamp, event: Event, words: &Words) -> String {
        let mut encoded = Vec::new();
        encode_event(&event, FORMAT, &mut encoded);
        let decoded = decode_event(&encoded).expect("an encoded event is read");
        assert_eq!(decoded, event);

        let lease = event.change.lease(LeaseId::new(self.setup.shard, at.lsn));
        let before = lease.map(|lease| Glance::of(&self.kernel, lease, at.tick));
        self.kernel.evolve(at, &event);
        self.replica.evolve(at, &decoded);
        self.next_lsn = at.lsn.next();
        if let Change::Granted(_) = event.change {
            self.granted.extend(lease);
        }
        if self.scanning {
            self.scan();
        }
        let after = lease.map(|lease| Glance::of(&self.kernel, lease, at.tick));
        let outcome = describe(&event.change, lease, before.as_ref(), after.as_ref(), words);
        self.log.push((at, event));
        outcome
    }

    fn scan(&mut self) {
        self.kernel.check_invariants().unwrap();
        let bytes = bytes_of(&self.kernel);
        let loaded = decode_state(self.setup.clone(), &bytes).expect("an encoded state is read");
        loaded.check_invariants().unwrap();
        assert_eq!(bytes, bytes_of(&loaded), "a state that went through its bytes is the same");
        assert_eq!(bytes, bytes_of(&self.replica), "a replay gives the same state");
        assert_eq!(self.kernel.counts(), loaded.counts());
        self.watch.look(&self.kernel);
    }

    /// Questions that reach no rule.
    fn query(&mut self, now: Tick, words: &Words) -> Option<String> {
        let first = words.arguments.first().map_or("", String::as_str);
        Some(match words.verb.as_str() {
            "read" => match self.kernel.lease(self.lease_id(words), now) {
                Found::Live(view) => view.state().name().as_str().to_owned(),
                Found::Ended(ended) => ended.state.as_str().to_owned(),
                Found::Retired => "lease_retired".to_owned(),
                Found::NotFound => "lease_not_found".to_owned(),
            },
            "show" => self.show(self.lease_id(words), now),
            "resource" => match self.kernel.covering(first) {
                Some(view) => format!("{} lease {}", view.state().name().as_str(), view.id()),
                None => "available".to_owned(),
            },
            "pools" => {
                let pools = self.kernel.pools().map(|pool| {
                    let removed = if pool.removed { " removed" } else { "" };
                    let holders: Vec<String> =
                        self.kernel.holders_of_pool(pool.name).map(|view| view.id().to_string()).collect();
                    let holders = holders.join(",");
                    format!(
                        "{} size {} free {}{removed} held by [{holders}]",
                        pool.name, pool.size, pool.free
                    )
                });
                list(pools)
            }
            "session" => self.show_session(SessionId(first.parse().unwrap()), words),
            "sessions" => list(self.kernel.sessions_from(SessionId(0)).map(|view| view.id().0.to_string())),
            "leases" => {
                let from = words.get("from").map_or(LeaseId(0), |from| self.parse_lease(from));
                list(self.kernel.leases_from(from).map(|view| view.id().to_string()))
            }
            "notices" => list(self.kernel.notices().map(|(lease, notice)| {
                format!("lease {lease} ended at {} tick {}", notice.ended_lsn, notice.ended_tick)
            })),
            "due" => {
                let due = list(self.kernel.due(now).map(|lease| lease.to_string()));
                let next = self.kernel.next_deadline().map_or("–".to_owned(), |tick| tick.to_string());
                format!("{due} next {next}")
            }
            "kept" => format!(
                "live {} ended {} watermark {} operations {} holders {}",
                self.kernel.live_count(),
                self.kernel.retained_count(),
                self.kernel.watermark(),
                self.kernel.operation_count(),
                self.kernel.holder_count(),
            ),
            "counts" => list(self.kernel.counts().iter().map(|(key, count)| {
                format!("{} {} {}={count}", key.state.as_str(), key.mode.as_str(), key.face.as_str())
            })),
            "restart" => {
                apply_setup(&mut self.setup, words);
                let bytes = bytes_of(&self.kernel);
                self.kernel = decode_state(self.setup.clone(), &bytes).unwrap();
                self.kernel.check_invariants().unwrap();
                "restarted".to_owned()
            }
            _ => return None,
        })
    }

    fn show(&self, lease: LeaseId, now: Tick) -> String {
        match self.kernel.lease(lease, now) {
            Found::Live(view) => {
                let members = list(view.members().map(ToString::to_string));
                let mut out = format!(
                    "{} epoch {} fence {} holder={} {members}",
                    view.state().name().as_str(),
                    view.epoch(),
                    view.fence(),
                    view.holder()
                );
                match view.state() {
                    LeaseState::Reserved { deadline } => write!(out, " deadline {deadline}"),
                    LeaseState::Active { since, drained } => {
                        write!(out, " since {since}{}", if *drained { " drained" } else { "" })
                    }
                    LeaseState::Revoking(revocation) => write!(
                        out,
                        " at {} active_since {} reason={} by {} reclaim by {}",
                        revocation.at,
                        revocation.active_since.map_or("–".into(), |tick| tick.to_string()),
                        revocation.reason.as_str(),
                        actor_word(&revocation.actor),
                        if revocation.reclaim_by == ReclaimBy::Daemon { "daemon" } else { "operator" },
                    ),
                }
                .unwrap();
                let policy = view.policy();
                if let Some(session) = policy.session {
                    write!(out, " session={}", session.0).unwrap();
                }
                write!(
                    out,
                    " principal={} face={} granted {} changed {}",
                    policy.principal,
                    policy.face.as_str(),
                    view.granted_tick(),
                    view.changed_lsn()
                )
                .unwrap();
                let (attachment, face_data) = (view.attachment().len(), view.face_data().len());
                if attachment + face_data > 0 {
                    write!(out, " attach={attachment} data={face_data}").unwrap();
                }
                out
            }
            Found::Ended(ended) => format!(
                "{} epoch {} fence {} reason={} face={} ended at {} until {}",
                ended.state.as_str(),
                ended.epoch,
                self.kernel.fence_of(ended),
                ended.reason.as_str(),
                ended.face.as_str(),
                ended.ended_lsn,
                ended.retire_after
            ),
            Found::Retired => "lease_retired".to_owned(),
            Found::NotFound => "lease_not_found".to_owned(),
        }
    }

    fn show_session(&self, id: SessionId, words: &Words) -> String {
        let Some(view) = self.kernel.session(id) else { return "session_not_found".to_owned() };
        let leases: Vec<String> = self
            .kernel
            .leases_of(id)
            .map(|lease| {
                let mark = if matches!(lease.state(), LeaseState::Revoking(_)) { "!" } else { "" };
                format!("{}{mark}", lease.id())
            })
            .collect();
        let leases = match leases.as_slice() {
            [first, .., last] if leases.len() > 8 => format!("{} from {first} to {last}", leases.len()),
            few => list(few.iter().cloned()),
        };
        let drained = list(view.drained().map(|lease| lease.to_string()));
        // Without `seen=`, all that is remembered.
        let all = || (0..=view.changed_lsn().0).find(|seen| view.losses_after(Lsn(*seen)).is_some());
        let seen = Lsn(words.number("seen").or_else(all).unwrap());
        let losses = match view.losses_after(seen) {
            None => "too many".to_owned(),
            Some(losses) => {
                let losses: Vec<_> = losses.collect();
                if losses.len() > 4 {
                    format!("{} from {} to {}", losses.len(), losses[0].lsn, losses[losses.len() - 1].lsn)
                } else {
                    list(losses.iter().map(|l| format!("{} {} at {}", l.lease, l.reason.as_str(), l.lsn)))
                }
            }
        };
        let state = view.closed().map_or("open".to_owned(), |reason| format!("closed {}", reason.as_str()));
        assert_eq!(view.lease_count() as usize, self.kernel.leases_of(id).count());
        format!("{state} leases {leases} drained {drained} lost {losses} changed {}", view.changed_lsn())
    }

    fn replayed(&self, replay: &Replay) -> String {
        let lease = replay.lease.map_or(String::new(), |lease| format!(" lease {lease}"));
        format!("{}{lease} at {}", replay.kind.as_str(), replay.lsn)
    }

    fn refused(&self, rejection: &Rejection) -> String {
        rejected(rejection)
    }

    fn lease_id(&self, words: &Words) -> LeaseId {
        self.parse_lease(&words.arguments[0])
    }

    fn parse_lease(&self, word: &str) -> LeaseId {
        if let Some(number) = word.strip_prefix('L') {
            return self.granted[number.parse::<usize>().unwrap() - 1];
        }
        match word.split_once('/') {
            Some((shard, lsn)) => LeaseId::new(shard.parse().unwrap(), Lsn(lsn.parse().unwrap())),
            None => LeaseId::new(self.setup.shard, Lsn(word.parse().unwrap())),
        }
    }

    pub(crate) fn command(&self, words: &Words) -> Command {
        let operation = words.get("op").map(|id| {
            let principal = words.get("principal").unwrap_or("local");
            Operation {
                key: u128::from(fold(&format!("{principal} {id}"))) << 1,
                fingerprint: fold(&words.without_operation()),
                keep_ms: words.number("keep").unwrap_or(limits::OPERATION_KEEP_MS_DEFAULT),
                principal: principal.into(),
            }
        });
        Command { operation, action: self.action(words) }
    }

    fn action(&self, words: &Words) -> Action {
        let text = || Text::from(words.get("text").unwrap_or(""));
        let actor = || match words.get("actor") {
            None | Some("daemon") => Actor::Daemon,
            Some("holder") => Actor::Holder,
            Some(principal) => Actor::Operator(principal.into()),
        };
        let epoch = || words.number("epoch").map(Epoch);
        let steer = || Steer {
            lease: self.lease_id(words),
            epoch: epoch(),
            actor: actor(),
            text: text(),
            silent: false,
        };
        let payload = |key: &str| words.number(key).map(|length| vec![7_u8; length as usize]);
        match words.verb.as_str() {
            "reserve" | "grant" => Action::Grant(self.grant(words)),
            "activate" => Action::Activate(self.token(words)),
            "release" => Action::Release(Release { token: self.token(words), text: text() }),
            "rebind" => Action::Rebind(Rebind {
                token: self.token(words),
                holder: words.get("to").map(Text::from),
                policy: words.has_policy().then(|| words.policy()),
                attachment: payload("attach"),
                face_data: payload("data"),
            }),
            "amend" => Action::Amend(Amend {
                token: self.token(words),
                attachment: payload("attach"),
                face_data: payload("data"),
            }),
            "revoke" => Action::Revoke(Revoke {
                lease: self.lease_id(words),
                epoch: epoch(),
                reason: words.reason(Reason::AdminForce),
                text: text(),
                actor: actor(),
                evidence: match words.number("silent") {
                    None => Evidence::None,
                    Some(tick) => Evidence::Silence { last_seen: Tick(tick), promised_until: Tick(tick + 1) },
                },
                reclaim_by: match words.get("by") {
                    Some("operator") => ReclaimBy::Operator,
                    _ => ReclaimBy::Daemon,
                },
            }),
            "reclaim" => Action::Reclaim(Reclaim {
                lease: self.lease_id(words),
                epoch: epoch(),
                actor: actor(),
                ground: ReclaimGround::PromiseOver,
                gate: GateReport::None,
            }),
            "drain" => Action::Drain(steer()),
            "revive" => Action::Revive(steer()),
            "pool" => Action::DefinePool {
                name: words.arguments[0].as_str().into(),
                size: words.arguments[1].parse().unwrap(),
            },
            "unpool" => Action::RemovePool {
                name: words.arguments[0].as_str().into(),
                force: words.arguments.get(1).is_some_and(|word| word == "force"),
            },
            "open" => Action::OpenSession(OpenSession {
                session: SessionId(words.arguments[0].parse().unwrap()),
                holder: words.get("holder").unwrap_or("host").into(),
                kind: match words.get("kind") {
                    Some("stdin") => SessionKind::Stdin,
                    Some("by_hand") => SessionKind::ByHand,
                    _ => SessionKind::Connection,
                },
                ttl_ms: 0,
                grace_ms: 5000,
                principal: words.get("principal").unwrap_or("local").into(),
                accepts_handover: None,
            }),
            "close" => Action::CloseSession {
                session: SessionId(words.arguments[0].parse().unwrap()),
                reason: words.reason(Reason::Explicit),
            },
            other => panic!("no command {other}"),
        }
    }

    fn grant(&self, words: &Words) -> Grant {
        let start = match words.number("ttl") {
            Some(ttl_ms) if words.verb == "reserve" => Start::Reserved { ttl_ms },
            _ => Start::Active,
        };
        let length = |key: &str| vec![1_u8; words.number(key).unwrap_or(0) as usize];
        Grant {
            start,
            policy: words.policy(),
            face_data: length("data"),
            attachment: length("attach"),
            take_over: words.get("take_over").map(|lease| self.parse_lease(lease)),
            alternatives: words.get("or").map_or(Vec::new(), |all| all.split('|').map(bundle).collect()),
            wall_ms: words.number("wall").unwrap_or(0),
            ..Grant::new(
                bundle(&words.arguments[0]),
                words.get("holder").unwrap_or("host"),
                Policy::permanent(),
            )
        }
    }

    fn token(&self, words: &Words) -> Token {
        let lease = self.lease_id(words);
        let current = self.kernel.live(lease).map_or(Epoch::FIRST, LeaseView::epoch);
        let epoch = words.number("epoch").map_or(current, Epoch);
        Token { lease, epoch, holder: words.get("holder").map(Text::from) }
    }
}

/// What the promises say about any two moments: one live authority per resource, fences that rise from one
/// holder of a resource to the next, and no way back from an end.
#[derive(Default)]
pub(crate) struct Watch {
    fences: BTreeMap<Text, (LeaseId, Fence)>,
    ended: BTreeSet<LeaseId>,
    live: BTreeMap<LeaseId, (StateName, Epoch, Vec<Text>)>,
}

impl Watch {
    pub(crate) fn look(&mut self, kernel: &Kernel) {
        let mut covered = BTreeSet::new();
        let mut live = BTreeMap::new();
        for view in kernel.leases_from(LeaseId(0)) {
            let id = view.id();
            assert!(!self.ended.contains(&id), "lease {id} came back from its end");
            let members: Vec<Text> = view.members().cloned().collect();
            for name in &members {
                assert!(covered.insert(name.clone()), "{name} has two leases");
                assert_eq!(kernel.covering(name).map(LeaseView::id), Some(id));
                let now = (id, view.fence());
                let before = self.fences.insert(name.clone(), now).unwrap_or(now);
                assert!(before == now || before.1 < now.1, "fence of {name} fell: {before:?} to {now:?}");
            }
            let state = view.state().name();
            if let Some((was, epoch, held)) = self.live.get(&id) {
                assert_eq!(*held, members, "the members of lease {id} changed");
                assert!(*epoch <= view.epoch(), "the epoch of lease {id} fell");
                assert!(*was <= state, "lease {id} went from {was:?} to {state:?}");
                let rises = u64::from(*was != state && state == StateName::Revoking);
                assert!(view.epoch().0 >= epoch.0 + rises, "a revoke kept the epoch of lease {id}");
            }
            live.insert(id, (state, view.epoch(), members));
        }
        for (id, (was, ..)) in &self.live {
            if !live.contains_key(id) {
                let Found::Ended(ended) = kernel.lease(*id, Tick(0)) else {
                    self.ended.insert(*id);
                    continue;
                };
                let straight = matches!(
                    (was, ended.state),
                    (StateName::Revoking, StateName::Revoked)
                        | (StateName::Reserved | StateName::Active, StateName::Released)
                        | (StateName::Reserved, StateName::Expired)
                );
                assert!(straight, "lease {id} went from {was:?} to {:?}", ended.state);
                self.ended.insert(*id);
            }
        }
        self.live = live;
    }
}

/// What a step may change of a lease.
#[derive(PartialEq)]
struct Glance {
    state: String,
    epoch: Option<Epoch>,
    fence: Option<Fence>,
    holder: Option<Text>,
}

impl Glance {
    fn of(kernel: &Kernel, lease: LeaseId, now: Tick) -> Self {
        match kernel.lease(lease, now) {
            Found::Live(view) => Self {
                state: view.state().name().as_str().to_owned(),
                epoch: Some(view.epoch()),
                fence: Some(view.fence()),
                holder: Some(view.holder().clone()),
            },
            Found::Ended(ended) => Self {
                state: ended.state.as_str().to_owned(),
                epoch: Some(ended.epoch),
                fence: Some(kernel.fence_of(ended)),
                holder: None,
            },
            Found::Retired => Self::nothing("retired"),
            Found::NotFound => Self::nothing("none"),
        }
    }

    fn nothing(state: &str) -> Self {
        Self { state: state.to_owned(), epoch: None, fence: None, holder: None }
    }
}

fn describe(
    change: &Change,
    lease: Option<LeaseId>,
    before: Option<&Glance>,
    after: Option<&Glance>,
    words: &Words,
) -> String {
    let id = lease.map_or(String::new(), |lease| lease.to_string());
    match change {
        Change::Granted(granted) => {
            let after = after.unwrap();
            let (epoch, fence) = (after.epoch.unwrap(), after.fence.unwrap());
            let mut out = format!("granted lease {id} epoch {epoch} fence {fence}");
            if let Some(deadline) = granted.deadline {
                write!(out, " deadline {deadline}").unwrap();
            }
            if words.line.contains('*') || words.get("or").is_some() {
                write!(out, " {}", list(granted.members.iter().map(ToString::to_string))).unwrap();
            }
            return out;
        }
        Change::SessionOpened(_) => return "opened".to_owned(),
        Change::SessionClosed { .. } => return "closed".to_owned(),
        Change::PoolDefined { size, .. } => return format!("size {size}"),
        Change::PoolRemoved { .. } => return "removed".to_owned(),
        Change::Trimmed { .. } | Change::Configured(_) | Change::Notified { .. } => {
            return change.kind().as_str().to_owned();
        }
        _ => {}
    }
    let (before, after) = (before.unwrap(), after.unwrap());
    let mut out = match change {
        Change::Rebound(rebound) if rebound.taken_over => format!("took over lease {id}"),
        Change::Rebound(_) | Change::Amended(_) | Change::Drained(_) | Change::Revived(_) => {
            change.kind().as_str().to_owned()
        }
        _ => after.state.clone(),
    };
    if after.epoch != before.epoch
        && let Some(epoch) = after.epoch
    {
        write!(out, " epoch {epoch}").unwrap();
    }
    if after.fence != before.fence
        && let Some(fence) = after.fence
    {
        write!(out, " fence {fence}").unwrap();
    }
    if after.holder != before.holder
        && let Some(holder) = &after.holder
    {
        write!(out, " holder {holder}").unwrap();
    }
    out
}

/// What was rejected, as a script writes it: `StaleEpoch { .. }` is `stale_epoch`.
pub(crate) fn code(rejection: &Rejection) -> String {
    let shown = format!("{rejection:?}");
    let name = shown.split(|letter: char| !letter.is_alphanumeric()).next().unwrap();
    let mut code = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !code.is_empty() {
            code.push('_');
        }
        code.push(letter.to_ascii_lowercase());
    }
    code
}

/// A rejection in one line: its code and what it says besides.
pub(crate) fn rejected(rejection: &Rejection) -> String {
    let code = code(rejection);
    match rejection {
        Rejection::TooLarge { field } => format!("{code} {field:?}"),
        Rejection::InvalidName { name, fault } => format!("{code} '{name}' {}", fault.as_str()),
        Rejection::DuplicateMember { name } => format!("{code} {name}"),
        Rejection::PoolNotFound { pool } => format!("{code} {pool}"),
        Rejection::SessionNotFound { session } | Rejection::SessionExists { session } => {
            format!("{code} {}", session.0)
        }
        Rejection::ResourceHeld(held) => format!("{code} {} by lease {}", held.resource, held.lease),
        Rejection::PoolExhausted { pool, wanted, free } => {
            format!("{code} {pool} wanted {wanted} free {free}")
        }
        Rejection::CapacityExceeded { capacity, .. } => format!("{code} {capacity:?}"),
        Rejection::StaleEpoch { current } => format!("{code} current={current}"),
        Rejection::InvalidState { state } => format!("{code} {}", state.as_str()),
        Rejection::DeadlinePassed { deadline } => format!("{code} {deadline}"),
        Rejection::PoolInUse { held } => format!("{code} held {held}"),
        Rejection::OperationConflict
        | Rejection::BundleEmpty
        | Rejection::BundleTooLarge
        | Rejection::TtlOutOfRange
        | Rejection::LeaseNotFound
        | Rejection::LeaseRetired
        | Rejection::HolderMismatch
        | Rejection::AlreadyDraining
        | Rejection::NotDraining => code,
    }
}

/// A script line taken apart.
pub(crate) struct Words {
    line: String,
    pub(crate) verb: String,
    pub(crate) arguments: Vec<String>,
    options: BTreeMap<String, String>,
}

impl Words {
    pub(crate) fn new(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let mut verb = words.next().unwrap_or("").to_owned();
        let (mut arguments, mut options) = (Vec::new(), BTreeMap::new());
        if let Some((key, value)) = verb.split_once('=') {
            options.insert(key.to_owned(), value.to_owned());
            verb = String::new();
        }
        for word in words {
            match word.split_once('=') {
                Some((key, value)) => drop(options.insert(key.to_owned(), value.to_owned())),
                None => arguments.push(word.to_owned()),
            }
        }
        Self { line: line.to_owned(), verb, arguments, options }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.get(key).map(|value| value.replace('_', "").parse().unwrap_or_else(|_| panic!("{key}={value}")))
    }

    fn set(&self, key: &str, field: &mut u64) {
        if let Some(value) = self.number(key) {
            *field = value;
        }
    }

    fn reason(&self, otherwise: Reason) -> Reason {
        self.get("reason").map_or(otherwise, |word| {
            Reason::ALL.into_iter().find(|reason| reason.as_str() == word).expect("a reason")
        })
    }

    fn has_policy(&self) -> bool {
        ["session", "principal", "face", "notice", "mode"].iter().any(|key| self.get(key).is_some())
    }

    fn policy(&self) -> Policy {
        let mut policy = match self.get("mode") {
            Some("heartbeat") => Policy::heartbeat(1000, 500),
            _ => Policy::permanent(),
        };
        if let Some(session) = self.number("session") {
            policy = Policy::session(SessionId(session), 0, 5000);
        }
        if let Some(principal) = self.get("principal") {
            policy.principal = principal.into();
        }
        if let Some(word) = self.get("face") {
            policy.face = Face::ALL.into_iter().find(|face| face.as_str() == word).expect("a face");
        }
        policy.notice = self.get("notice").is_some();
        policy
    }

    fn without_operation(&self) -> String {
        let kept = self.line.split_whitespace().filter(|w| !w.starts_with("op=") && !w.starts_with("keep="));
        kept.collect::<Vec<_>>().join(" ")
    }
}

pub(crate) fn bundle(word: &str) -> Bundle {
    let inner = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).unwrap_or(word);
    if inner.is_empty() {
        return Bundle::default();
    }
    let members = inner.split(',').map(|name| match name.split_once('*') {
        Some((pool, count)) => Member::AnyOf { pool: pool.into(), count: count.parse().unwrap() },
        None => Member::Resource(name.into()),
    });
    Bundle { members: members.collect() }
}

pub(crate) fn bytes_of(kernel: &Kernel) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_state(kernel, &mut |piece| bytes.extend_from_slice(piece));
    bytes
}

fn apply_setup(setup: &mut Setup, words: &Words) {
    words.set("shard", &mut setup.shard);
    words.set("base", &mut setup.fence_base);
    let mut seed = 0;
    words.set("seed", &mut seed);
    setup.hashing = Hashing::fixed(seed);
    let limits = &mut setup.limits;
    words.set("leases", &mut limits.leases_max);
    words.set("per_principal", &mut limits.leases_per_principal_max);
    words.set("pools", &mut limits.pools_max);
    words.set("sessions", &mut limits.sessions_max);
    words.set("sessions_each", &mut limits.sessions_per_principal_max);
    words.set("bytes", &mut limits.attachment_bytes_max);
    words.set("bytes_each", &mut limits.attachment_bytes_per_principal_max);
    words.set("notices", &mut limits.notices_max);
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn actor_word(actor: &Actor) -> &str {
    match actor {
        Actor::Holder => "holder",
        Actor::Daemon => "daemon",
        Actor::Operator(principal) => principal,
    }
}

/// FNV-1a: a fingerprint that needs no library.
fn fold(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
