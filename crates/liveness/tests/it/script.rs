//! The script language of the liveness tests: one line a step, `tick command`.
//!
//! ```text
//!   0 grant r1 holder=a heartbeat ttl=90 grace=30     also: permanent, session=7, reserve=20, life=, delay=,
//!                                                     at_once, principal=, face=, data=, attach=, take_over=L1
//!  50 heartbeat L1                                    L1 is the first grant; epoch= and via= where they matter
//!  60 open 7 ttl=90 grace=30 | connect 8 grace=30     a session by hand, a connection; word=10: it is open at another
//!                                                     node, which says `keep 8`
//! ```
//!
//! The harness sleeps from deadline to deadline as an engine would. Out: one line per command with its outcome,
//! and under it, with the tick at which it happened, every effect and event. One tick stands for a second:
//! [`seconds`] is the default configuration in that unit. The kernel's full scan runs after every event.

use crate::desk::{Desk, Happened};
use expect_test::Expect;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tenure_kernel::*;
use tenure_liveness::*;

/// The default configuration with a second for a tick.
pub(crate) fn seconds() -> LivenessConfig {
    let LivenessConfig { revoke_timeout_ms, restart_grace_ms_min, breaker } = LivenessConfig::default();
    let breaker =
        BreakerConfig { window_ms: breaker.window_ms / 1000, hold_ms: breaker.hold_ms / 1000, ..breaker };
    LivenessConfig {
        revoke_timeout_ms: revoke_timeout_ms / 1000,
        restart_grace_ms_min: restart_grace_ms_min / 1000,
        breaker,
    }
}

/// Runs a script and compares what it printed.
pub(crate) fn check(script: &str, expected: Expect) {
    expected.assert_eq(&run(script));
}

/// Runs a script and returns what it printed.
pub(crate) fn run(script: &str) -> String {
    let mut runner = Runner { desk: Desk::new(seconds()), out: String::new() };
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (tick, command) = line.split_once(' ').expect("tick and command");
        runner.step(tick.parse().expect("a tick"), command.trim());
    }
    runner.out
}

struct Runner {
    desk: Desk,
    out: String,
}

impl Runner {
    fn step(&mut self, tick: u64, line: &str) {
        self.desk.advance_to(Tick(tick));
        self.tell();
        let words = Words::new(line);
        let outcome = self.one(&words).unwrap_or_else(|refusal| refused(&refusal));
        let arrow = if outcome.is_empty() { "" } else { " → " };
        writeln!(self.out, "{tick:<3} {line}{arrow}{outcome}").unwrap();
        self.tell();
        self.desk.turn();
        self.tell();
    }

    fn tell(&mut self) {
        for happened in self.desk.take_happened() {
            let (tick, what) = match &happened {
                Happened::Event(at, event) => (at.tick, self.event(event, at.lsn)),
                Happened::Effect(tick, effect) => (*tick, self.effect(effect)),
            };
            writeln!(self.out, "    {tick:>3} {what}").unwrap();
        }
    }

    fn one(&mut self, words: &Words) -> Result<String, Refusal> {
        let desk = &mut self.desk;
        Ok(match words.verb.as_str() {
            "wait" => String::new(),
            "grant" => {
                let grant = words.grant(desk);
                let (lease, valid_ms) = desk.grant(grant)?;
                format!("{} valid {}", name(desk, lease), or_none(valid_ms))
            }
            "activate" => {
                let lease = words.lease(desk);
                let epoch = desk.kernel.live(lease).map_or(Epoch(1), LeaseView::epoch);
                desk.decide(Action::Activate(Token::new(lease, epoch)))?;
                format!("valid {}", or_none(desk.valid_ms(lease)))
            }
            "release" => {
                let lease = words.lease(desk);
                let epoch = desk.kernel.live(lease).map_or(Epoch(1), LeaseView::epoch);
                desk.release(lease, epoch)?;
                String::new()
            }
            "rebind" => {
                let lease = words.lease(desk);
                let policy = words.has_policy().then(|| words.policy(desk));
                let valid_ms = desk.rebind(lease, words.get("holder"), policy)?;
                format!("valid {}", or_none(valid_ms))
            }
            "heartbeat" => {
                let renewal =
                    desk.heartbeat(words.lease(desk), words.number("epoch"), words.number("via"))?;
                renewed(&renewal)
            }
            "open" => {
                let (ttl, grace) = (words.ms("ttl"), words.ms("grace"));
                desk.open_by_hand(words.session(), ttl, grace, "local");
                let standing = desk.liveness.session(SessionId(words.session()), desk.now);
                format!("valid {}", or_none(standing.and_then(|standing| standing.valid_ms)))
            }
            "beat" => {
                let renewal = desk.session_heartbeat(words.session())?;
                let view = desk.kernel.session(SessionId(words.session())).unwrap();
                let seen = Lsn(words.number("seen").unwrap_or(view.changed_lsn().0));
                let ended = view.losses_after(seen).map_or("too many".to_owned(), |losses| {
                    list(losses.map(|l| format!("{} {}", name(desk, l.lease), l.reason.as_str())))
                });
                let drained = list(view.drained().map(|lease| name(desk, lease)));
                let lsn = desk.next_lsn.0 - 1;
                format!("{} lsn {lsn} ended {ended} draining {drained}", renewed(&renewal))
            }
            "delete" => {
                desk.delete_session(words.session())?;
                String::new()
            }
            "connect" | "stdin" => {
                let kind = if words.verb == "stdin" { SessionKind::Stdin } else { SessionKind::Connection };
                let grace_ms = words.ms("grace");
                match words.number("word") {
                    Some(word) => {
                        desk.connect_elsewhere(words.session(), kind, u32::try_from(word).unwrap(), grace_ms);
                    }
                    None => desk.connect(words.session(), kind, grace_ms),
                }
                String::new()
            }
            "keep" => if desk.keep(words.session()) { "heard" } else { "unknown" }.to_owned(),
            "close" => {
                desk.disconnect(words.session());
                String::new()
            }
            "leave" => {
                desk.leave(words.session());
                String::new()
            }
            "acknowledge" => {
                desk.acknowledge(words.lease(desk), words.number("epoch").expect("epoch="))?;
                "acknowledged".to_owned()
            }
            "drain" => {
                desk.drain(words.lease(desk))?;
                String::new()
            }
            "revive" => {
                desk.revive(words.lease(desk))?;
                String::new()
            }
            "revoke" => {
                let by = if words.has("by_operator") { ReclaimBy::Operator } else { ReclaimBy::Daemon };
                desk.revoke(words.lease(desk), by)?;
                String::new()
            }
            "reclaim" => {
                desk.reclaim(words.lease(desk), words.has("force"))?;
                String::new()
            }
            "restart" => {
                desk.restart();
                String::new()
            }
            _ => self.query(words),
        })
    }

    /// Reading never makes a promise, and never changes anything.
    fn query(&mut self, words: &Words) -> String {
        let desk = &self.desk;
        let before = format!("{:?}", desk.liveness);
        let answer = match words.verb.as_str() {
            "show" => {
                let Some(view) = desk.kernel.live(words.lease(desk)) else { return "ended".to_owned() };
                let seen = desk.liveness.view(view, desk.now);
                let standing = standing(seen.standing);
                let reclaim = desk
                    .liveness
                    .reclaim_in_ms(view, desk.now)
                    .map_or(String::new(), |ms| format!(" reclaim in {ms}"));
                format!(
                    "{} {standing} seen {} deadline {} valid {}{reclaim}",
                    view.state().name().as_str(),
                    seen_at(seen.last_seen, seen.counts_from),
                    or_none(seen.deadline),
                    or_none(seen.valid_ms)
                )
            }
            "session" => match desk.liveness.session(SessionId(words.session()), desk.now) {
                Some(seen) => format!(
                    "{} seen {} deadline {} valid {}",
                    standing(Some(seen.standing)),
                    seen_at(seen.last_seen, seen.counts_from),
                    or_none(seen.deadline),
                    or_none(seen.valid_ms)
                ),
                None => "unknown".to_owned(),
            },
            "counts" => list(desk.kernel.counts().iter().map(|(key, count)| {
                format!("{} {} {}={count}", key.state.as_str(), key.mode.as_str(), key.face.as_str())
            })),
            "standings" => list(desk.kernel.leases_from(LeaseId(0)).map(|view| {
                format!("{} {}", name(desk, view.id()), standing(desk.liveness.view(view, desk.now).standing))
            })),
            "attachment" => {
                let view = desk.kernel.live(words.lease(desk)).expect("a live lease");
                format!(
                    "'{}' data '{}' holder {}",
                    text(view.attachment()),
                    text(view.face_data()),
                    view.holder()
                )
            }
            "next" => or_none(desk.next_deadline()),
            other => panic!("no verb '{other}'"),
        };
        assert_eq!(before, format!("{:?}", desk.liveness), "a view changed something");
        answer
    }

    fn event(&self, event: &Event, lsn: Lsn) -> String {
        let kind = event.change.kind().as_str();
        let id = event.change.lease(LeaseId::new(0, lsn));
        let who = id.map_or(String::new(), |lease| name(&self.desk, lease));
        let epoch = id.and_then(|lease| self.desk.kernel.live(lease)).map(LeaseView::epoch);
        match &event.change {
            Change::Granted(granted) => {
                let reserved = granted.deadline.map_or(String::new(), |tick| format!(" until {tick}"));
                format!("{who} {kind} {} to {}{reserved}", names(&granted.members), granted.holder)
            }
            Change::Activated { .. } | Change::Drained(_) | Change::Revived(_) | Change::Amended(_) => {
                format!("{who} {kind}")
            }
            Change::Rebound(rebound) => {
                let taken = if rebound.taken_over { " taken over" } else { "" };
                let session = rebound.policy.as_ref().and_then(|policy| policy.session);
                let session = session.map_or(String::new(), |session| format!(" session {}", session.0));
                let attachment = rebound.attachment.as_deref().filter(|bytes| !bytes.is_empty());
                let attachment = attachment.map_or(String::new(), |a| format!(" attachment '{}'", text(a)));
                format!(
                    "{who} {kind} to {}{session} epoch {}{taken}{attachment}",
                    rebound.holder, rebound.epoch
                )
            }
            Change::Revoked(revoked) => {
                let words = if revoked.text.is_empty() { "" } else { " " };
                let actor = match &revoked.actor {
                    Actor::Holder => "holder",
                    Actor::Daemon => "daemon",
                    Actor::Operator(principal) => principal,
                };
                format!(
                    "{who} {kind} by {actor} {}{words}{} epoch {}",
                    revoked.reason.as_str(),
                    revoked.text,
                    revoked.epoch
                )
            }
            Change::Reclaimed(reclaimed) => {
                format!(
                    "{who} {kind} {} {:?}{}",
                    reclaimed.reason.as_str(),
                    reclaimed.ground,
                    was(&reclaimed.was)
                )
            }
            Change::Released(released) => format!("{who} {kind}{}", was(&released.was)),
            Change::Expired(expired) => format!("{who} {kind}{}", was(&expired.was)),
            Change::SessionOpened(open) => format!("session {} opened", open.session.0),
            Change::SessionClosed { session, reason } => {
                format!("session {} closed {}", session.0, reason.as_str())
            }
            Change::PoolDefined { .. }
            | Change::PoolRemoved { .. }
            | Change::Notified { .. }
            | Change::Trimmed { .. }
            | Change::Configured(_) => format!("{kind} {epoch:?}"),
        }
    }

    fn effect(&self, effect: &Effect) -> String {
        let subject = |subject: &Subject| match subject {
            Subject::Lease(lease) => name(&self.desk, *lease),
            Subject::Session(session) => format!("session {}", session.0),
        };
        match effect {
            Effect::Silent { subject: who, last_seen, until } => {
                format!("~ {} silent, seen {last_seen}, until {until}", subject(who))
            }
            Effect::Returned { subject: who } => format!("~ {} returned", subject(who)),
            Effect::LeaseOver { lease, reason, evidence } => {
                format!("~ {} over {}, {}", name(&self.desk, *lease), reason.as_str(), seen(evidence))
            }
            Effect::SessionOver(over) => {
                let end = if over.closes { "over" } else { "over in part" };
                let (session, grace) = (over.session.0, over.grace_ms);
                format!("~ session {session} {end}, grace {grace}, {}", seen(&over.evidence))
            }
            Effect::ReclaimDue { lease, ground } => {
                format!("~ {} due for reclaim, {ground:?}", name(&self.desk, *lease))
            }
            Effect::BreakerOpened { silent, alive } => format!("~ breaker opened, {silent} of {alive}"),
            Effect::BreakerClosed => "~ breaker closed".to_owned(),
        }
    }
}

/// What was refused, as a script writes it: `StaleEpoch { .. }` is `stale_epoch`.
pub(crate) fn code(refusal: &Refusal) -> String {
    let shown = match refusal {
        Refusal::Rejected(rejection) => format!("{rejection:?}"),
        Refusal::NoLiveness | Refusal::PermanentLease | Refusal::SessionNotFound | Refusal::NotYet { .. } => {
            format!("{refusal:?}")
        }
    };
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

/// A refusal in one line: its code and what it says besides.
pub(crate) fn refused(refusal: &Refusal) -> String {
    let code = code(refusal);
    match refusal {
        Refusal::NotYet { remaining_ms } => format!("{code} {remaining_ms}"),
        Refusal::Rejected(Rejection::StaleEpoch { current }) => format!("{code} current={current}"),
        Refusal::Rejected(Rejection::InvalidState { state }) => format!("{code} {}", state.as_str()),
        Refusal::Rejected(_) | Refusal::NoLiveness | Refusal::PermanentLease | Refusal::SessionNotFound => {
            code
        }
    }
}

fn renewed(renewal: &Renewal) -> String {
    let mut out = format!("valid {} margin {}", or_none(renewal.valid_ms), or_none(renewal.margin_ms));
    if renewal.draining {
        out.push_str(" draining");
    }
    if renewal.returned {
        out.push_str(" returned");
    }
    out
}

fn standing(standing: Option<Standing>) -> &'static str {
    match standing {
        Some(Standing::Alive) => "alive",
        Some(Standing::Draining(DrainCause::Silence)) => "draining(silence)",
        Some(Standing::Draining(DrainCause::Operator)) => "draining(operator)",
        None => "–",
    }
}

fn seen(evidence: &Evidence) -> String {
    match evidence {
        Evidence::None => "nothing seen".to_owned(),
        Evidence::Silence { last_seen, promised_until } => {
            format!("seen {last_seen}, promised until {promised_until}")
        }
        Evidence::Disconnected { at } => format!("disconnected at {at}"),
        Evidence::Lifetime { since } => format!("active since {since}"),
        Evidence::Drained { since } => format!("drained since {since}"),
    }
}

/// What the goodbye needs: who held what, under which terms, and the face's bytes.
fn was(was: &Epitaph) -> String {
    let mut out = format!(" {} of {}", names(&was.members), was.holder);
    if was.policy.face != Face::Leases {
        write!(out, " {} {}", was.policy.face.as_str(), was.policy.mode.as_str()).unwrap();
    }
    if !was.face_data.is_empty() {
        write!(out, " data '{}'", text(&was.face_data)).unwrap();
    }
    out
}

fn name(desk: &Desk, lease: LeaseId) -> String {
    match desk.granted.iter().position(|granted| *granted == lease) {
        Some(index) => format!("L{}", index + 1),
        None => format!("lease {lease}"),
    }
}

fn names(members: &[Text]) -> String {
    members.join(",")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn or_none(value: Option<impl ToString>) -> String {
    value.map_or("–".to_owned(), |value| value.to_string())
}

/// When it was last heard, or since when it is waited for.
fn seen_at(last_seen: Option<Tick>, counts_from: Tick) -> String {
    last_seen.map_or(format!("– since {counts_from}"), |at| at.to_string())
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// A script line taken apart.
struct Words {
    verb: String,
    arguments: Vec<String>,
    options: BTreeMap<String, String>,
}

impl Words {
    fn new(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap_or("").to_owned();
        let (mut arguments, mut options) = (Vec::new(), BTreeMap::new());
        for word in words {
            match word.split_once('=') {
                Some((key, value)) => drop(options.insert(key.to_owned(), value.to_owned())),
                None => arguments.push(word.to_owned()),
            }
        }
        Self { verb, arguments, options }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }

    fn has(&self, word: &str) -> bool {
        self.arguments.iter().any(|argument| argument == word)
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.get(key).map(|value| value.parse().unwrap_or_else(|_| panic!("{key}={value}")))
    }

    fn ms(&self, key: &str) -> u32 {
        self.number(key).map_or(0, |value| value as u32)
    }

    fn session(&self) -> u64 {
        self.arguments[0].parse().expect("a session")
    }

    fn lease(&self, desk: &Desk) -> LeaseId {
        parse_lease(&self.arguments[0], desk)
    }

    fn has_policy(&self) -> bool {
        self.has("heartbeat") || self.has("permanent") || self.get("session").is_some()
    }

    fn policy(&self, desk: &mut Desk) -> Policy {
        let (ttl_ms, grace_ms) = (self.ms("ttl"), self.ms("grace"));
        let mut policy = if let Some(session) = self.number("session") {
            let session = SessionId(session);
            desk.log_connection(Some(session)).unwrap();
            let kept_by = desk.kernel.session(session);
            let ttl_ms = kept_by.map_or(0, SessionView::ttl_ms);
            let of_session = kept_by.map_or(0, SessionView::grace_ms);
            let grace_ms = self.number("grace").map_or(of_session, |grace| grace as u32);
            Policy::session(session, ttl_ms, grace_ms)
        } else if self.has("heartbeat") {
            Policy::heartbeat(ttl_ms, grace_ms)
        } else {
            assert!(self.has("permanent"), "a mode");
            Policy::permanent()
        };
        policy.max_lifetime_ms = self.number("life").unwrap_or(0);
        policy.reclaim_delay_ms = self.ms("delay");
        if self.has("at_once") {
            policy.reclaim_rule = ReclaimRule::AtOnce;
        }
        if let Some(principal) = self.get("principal") {
            policy.principal = principal.into();
        }
        if let Some(word) = self.get("face") {
            policy.face = Face::ALL.into_iter().find(|face| face.as_str() == word).expect("a face");
        }
        policy
    }

    fn grant(&self, desk: &mut Desk) -> Grant {
        let members: Vec<&str> = self.arguments[0].split(',').collect();
        let mut grant =
            Grant::new(Bundle::of(&members), self.get("holder").unwrap_or("a"), self.policy(desk));
        if let Some(ttl_ms) = self.number("reserve") {
            grant.start = Start::Reserved { ttl_ms };
        }
        grant.take_over = self.get("take_over").map(|word| parse_lease(word, desk));
        grant.face_data = self.get("data").unwrap_or("").as_bytes().to_vec();
        grant.attachment = self.get("attach").unwrap_or("").as_bytes().to_vec();
        grant
    }
}

fn parse_lease(word: &str, desk: &Desk) -> LeaseId {
    match word.strip_prefix('L') {
        Some(number) => desk.granted[number.parse::<usize>().expect("L1, L2, …") - 1],
        None => LeaseId(word.parse().expect("a position")),
    }
}
