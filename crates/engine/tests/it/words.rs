//! The words of a script, as requests. Leases and waiting requests are called by the name under which they
//! were asked for; options are `key=value` or a bare word, in any order after what the verb needs.

use crate::desk::Desk;
use std::collections::BTreeMap;
use tenure_engine::{Check, Control, Keeper, List, OperationId, Refused, Request, Submit, TakeOver};
use tenure_kernel::{
    Action, Actor, Amend, Bundle, Epoch, Evidence, Face, Fence, GateReport, Grant, LeaseId, Lsn, Member,
    OpenSession, Policy, Reason, Rebind, Reclaim, ReclaimBy, ReclaimGround, ReclaimRule, Release, Revoke,
    SessionId, SessionKind, Start, Steer, Text, Token,
};
use tenure_liveness::Refusal;
use tenure_log::Identity;

/// What was refused, as a script writes it: `StaleEpoch { .. }` is `stale_epoch`.
pub(crate) fn code(refused: &Refused) -> String {
    let shown = match refused {
        // Scripts call these as their callers do.
        Refused::Held(_) | Refused::Queued { .. } => return "resource_held".to_owned(),
        Refused::ConnectionOpen => return "not_draining".to_owned(),
        Refused::Trimmed { .. } => return "lsn_trimmed".to_owned(),
        Refused::Rejected(rejection) | Refused::Liveness(Refusal::Rejected(rejection)) => {
            format!("{rejection:?}")
        }
        Refused::Liveness(refusal) => format!("{refusal:?}"),
        _ => format!("{refused:?}"),
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

/// What follows the verb.
struct Words<'a> {
    plain: Vec<&'a str>,
    options: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn new(words: impl Iterator<Item = &'a str>) -> Self {
        let mut found = Self { plain: Vec::new(), options: BTreeMap::new() };
        for word in words {
            match word.split_once('=') {
                Some((key, value)) => {
                    found.options.insert(key, value);
                }
                None => found.plain.push(word),
            }
        }
        found
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.options.get(key).map(|value| value.parse().unwrap())
    }

    fn has(&self, word: &str) -> bool {
        self.plain.contains(&word)
    }

    fn first(&self) -> &'a str {
        self.plain.first().copied().unwrap_or_else(|| panic!("a word is missing"))
    }
}

/// A fact, if the verb names one: nothing answers it.
pub(crate) fn control(desk: &Desk, told: &str) -> Option<Control> {
    let mut words = told.split_whitespace();
    let verb = words.next().expect("a verb");
    let words = Words::new(words);
    Some(match verb {
        "stopping" => Control::Stopping,
        "disconnect" => Control::ConnectionClosed(session(&words)),
        "gate" => Control::GateDone { lease: lease(desk, &words), report: GateReport::Confirmed },
        "notified" => Control::NoticeDone(lease(desk, &words)),
        "cancel" => Control::Cancel(desk.ticket(words.first())),
        "abandon" => Control::Abandoned(lease(desk, &words)),
        "more" => Control::WatchMore {
            watch: desk.ticket(words.first()),
            room: words.number("room").unwrap_or(1000) as usize,
        },
        "unwatch" => Control::WatchEnd(desk.ticket(words.first())),
        _ => return None,
    })
}

pub(crate) fn request(desk: &Desk, name: &str, asked: &str) -> Request {
    let mut words = asked.split_whitespace();
    let verb = words.next().expect("a verb");
    let words = Words::new(words);
    let keeper = match (verb, words.number("to").map(SessionId)) {
        ("resume", _) => Some(Keeper::Connection),
        ("rebind", Some(session)) => Some(Keeper::Session(session)),
        ("handover", Some(session)) => Some(Keeper::Handover(session)),
        _ => None,
    };
    let submit = |action| Request::Submit(Submit { keeper, ..command(&words, action) });
    match verb {
        "grant" => {
            let submit = command(&words, Action::Grant(grant(desk, name, &words)));
            Request::Submit(Submit { take_over: offers(desk, &words), ..submit })
        }
        "activate" => submit(Action::Activate(token(desk, &words))),
        "release" => submit(Action::Release(Release { token: token(desk, &words), text: Text::default() })),
        "amend" => submit(Action::Amend(Amend {
            token: token(desk, &words),
            attachment: Some(padding(&words, "pad")),
            face_data: None,
        })),
        "rebind" | "resume" | "handover" => submit(Action::Rebind(Rebind {
            token: token(desk, &words),
            holder: (verb == "rebind").then(|| words.options.get("holder").copied().unwrap_or(name).into()),
            policy: ["session", "ttl"]
                .into_iter()
                .any(|word| words.options.contains_key(word))
                .then(|| policy(&words)),
            attachment: None,
            face_data: None,
        })),
        "revoke" => submit(Action::Revoke(Revoke {
            lease: lease(desk, &words),
            epoch: None,
            reason: Reason::AdminForce,
            text: Text::default(),
            actor: operator(),
            evidence: Evidence::None,
            reclaim_by: if words.has("keep") { ReclaimBy::Operator } else { ReclaimBy::Daemon },
        })),
        "reclaim" => submit(Action::Reclaim(Reclaim {
            lease: lease(desk, &words),
            epoch: None,
            actor: operator(),
            ground: ReclaimGround::Forced,
            gate: GateReport::None,
        })),
        "drain" => submit(Action::Drain(steer(desk, &words))),
        "revive" => submit(Action::Revive(steer(desk, &words))),
        "pool" => {
            let size = words.number("size").expect("a size");
            submit(Action::DefinePool { name: words.first().into(), size: size as u32 })
        }
        "remove" => submit(Action::RemovePool { name: words.first().into(), force: words.has("force") }),
        "open" => submit(Action::OpenSession(OpenSession {
            session: session(&words),
            holder: name.into(),
            kind: SessionKind::ByHand,
            ttl_ms: words.number("ttl").unwrap_or(90_000) as u32,
            grace_ms: grace(&words),
            principal: words.options.get("principal").copied().unwrap_or("local").into(),
            accepts_handover: words.options.get("accepts").map(|prefix| (*prefix).into()),
        })),
        "close" => submit(Action::CloseSession { session: session(&words), reason: Reason::Explicit }),
        "heartbeat" => {
            let lease = lease(desk, &words);
            let via = words.number("via").map(SessionId);
            let epoch = epoch(desk, &words, lease);
            held_as(&words, Request::Heartbeat { lease, epoch, via, asker: asker(&words) })
        }
        "timely" => {
            let (lease, asker) = (lease(desk, &words), asker(&words));
            Request::TimelyHeartbeat { lease, epoch: words.number("epoch").map(Epoch), asker }
        }
        "place" => Request::Waiting(desk.ticket(words.first())),
        "beat" => Request::SessionHeartbeat {
            session: session(&words),
            seen: Lsn(words.number("seen").unwrap_or(0)),
            asker: asker(&words),
        },
        "connect" => Request::ConnectionOpened(OpenSession {
            session: session(&words),
            holder: name.into(),
            kind: SessionKind::Connection,
            ttl_ms: 0,
            grace_ms: grace(&words),
            principal: "local".into(),
            accepts_handover: None,
        }),
        "kept" => {
            Request::ConnectionsTold { open: vec![session(&words)], gone: Vec::new(), left: Vec::new() }
        }
        "gone" => {
            Request::ConnectionsTold { open: Vec::new(), gone: vec![session(&words)], left: Vec::new() }
        }
        "left" => {
            let left = vec![session(&words)];
            Request::ConnectionsTold { open: Vec::new(), gone: left.clone(), left }
        }
        "acknowledge" => {
            let lease = lease(desk, &words);
            let epoch = epoch(desk, &words, lease);
            held_as(&words, Request::Acknowledge { lease, epoch, asker: asker(&words) })
        }
        "ended" => Request::Ended { face: Face::Leases, from: Lsn(words.number("from").unwrap_or(0)) },
        "reset" => Request::ResetBreaker,
        "trim" => Request::Trim(Lsn(words.number("below").expect("a position"))),
        "read" => Request::Read(lease(desk, &words)),
        "list" => Request::List(List {
            from: LeaseId(0),
            limit: words.number("limit").unwrap_or(100) as usize,
            resource_prefix: words.options.get("prefix").map(|prefix| (*prefix).into()),
            holder: words.options.get("holder").map(|holder| (*holder).into()),
        }),
        "resource" => Request::Resource(words.first().into()),
        "pools" => Request::Pools,
        "sessions" => {
            let limit = words.number("limit").unwrap_or(100) as usize;
            Request::Sessions { from: SessionId(0), limit }
        }
        "check" => match words.number("fence") {
            Some(fence) => Request::Check(Check::Fence {
                resource: words.first().into(),
                fence: Fence(identity(desk).fence_base + fence),
            }),
            None => {
                let lease = lease(desk, &words);
                Request::Check(Check::Epoch { lease, epoch: epoch(desk, &words, lease) })
            }
        },
        "watch" => Request::Watch { from: Lsn(words.number("from").unwrap_or(1)) },
        "status" => Request::Status,
        _ => panic!("no such verb: {verb}"),
    }
}

/// `as=alice`: it counts only if the lease is held in this name.
fn held_as(words: &Words<'_>, request: Request) -> Request {
    match words.options.get("as") {
        Some(holder) => Request::HeldAs { holder: (*holder).into(), request: Box::new(request) },
        None => request,
    }
}

fn command(words: &Words<'_>, action: Action) -> Submit {
    let operation = words
        .options
        .get("op")
        .map(|id| {
            let principal = asker(words).unwrap_or("local".into());
            OperationId::new(principal, (*id).into(), words.number("keep").unwrap_or(600_000))
        })
        .map(|operation| OperationId {
            asked: words.number("asked"),
            tries_again: words.has("tries_again"),
            ..operation
        });
    Submit {
        operation,
        wait_ms: words.number("wait").unwrap_or(0),
        force: words.has("force"),
        asker: asker(words),
        via: words.number("via").map(SessionId),
        opening: opening(words),
        ..Submit::now(action)
    }
}

/// `grant a,b` takes two resources, `grant 2*p` any two of a pool, `grant a,2*p` both.
fn grant(desk: &Desk, name: &str, words: &Words<'_>) -> Grant {
    let holder = words.options.get("holder").copied().unwrap_or(name);
    let mut grant = Grant::new(bundle(words.first()), holder, policy(words));
    if let Some(ttl_ms) = words.number("reserve") {
        grant.start = Start::Reserved { ttl_ms };
    }
    grant.attachment = padding(words, "pad");
    grant.face_data = padding(words, "data");
    if let Some(alternatives) = words.options.get("or") {
        grant.alternatives = alternatives.split('|').map(bundle).collect();
    }
    grant.take_over = words.options.get("over").map(|lease| desk.lease(lease));
    grant
}

/// `overs=alice|bob`: the first of them that drains is taken over.
fn offers(desk: &Desk, words: &Words<'_>) -> Vec<TakeOver> {
    let names = words.options.get("overs").into_iter().flat_map(|names| names.split('|'));
    names.map(|name| TakeOver { lease: desk.lease(name), face_data: padding(words, "data") }).collect()
}

fn policy(words: &Words<'_>) -> Policy {
    let ttl_ms = words.number("ttl").unwrap_or(90_000) as u32;
    let mut policy = match words.number("session") {
        Some(session) => Policy::session(SessionId(session), word(words), grace(words)),
        None if words.has("permanent") => Policy::permanent(),
        None => Policy::heartbeat(ttl_ms, grace(words)),
    };
    policy.max_lifetime_ms = words.number("life").unwrap_or(0);
    policy.reclaim_delay_ms = words.number("delay").unwrap_or(0) as u32;
    policy.gate = words.has("gate");
    policy.notice = words.has("notice");
    if words.has("at_once") {
        policy.reclaim_rule = ReclaimRule::AtOnce;
    }
    if let Some(principal) = words.options.get("principal") {
        policy.principal = (*principal).into();
    }
    if let Some(face) = words.options.get("face") {
        policy.face = Face::ALL.into_iter().find(|known| known.as_str() == *face).expect("a face");
    }
    policy
}

fn bundle(words: &str) -> Bundle {
    let members = words.split(',').map(|word| match word.split_once('*') {
        Some((count, pool)) => Member::AnyOf { pool: pool.into(), count: count.parse().unwrap() },
        None => Member::Resource(word.into()),
    });
    Bundle { members: members.collect() }
}

fn grace(words: &Words<'_>) -> u32 {
    words.number("grace").unwrap_or(30_000) as u32
}

/// How long a node's word lasts for the connection that asks.
fn word(words: &Words<'_>) -> u32 {
    words.number("word").unwrap_or(0) as u32
}

/// The connection that asks, if it is open at another node.
fn opening(words: &Words<'_>) -> Option<Box<OpenSession>> {
    let session = words.number("session").or(words.number("via")).filter(|_| word(words) > 0)?;
    let session = SessionId(session);
    Some(Box::new(OpenSession {
        session,
        holder: "local".into(),
        kind: SessionKind::Connection,
        ttl_ms: word(words),
        grace_ms: 30_000,
        principal: "local".into(),
        accepts_handover: None,
    }))
}

fn padding(words: &Words<'_>, key: &str) -> Vec<u8> {
    vec![b'x'; words.number(key).unwrap_or(0) as usize]
}

/// A lease by the name it was granted under, or by its position: `#7`.
fn lease(desk: &Desk, words: &Words<'_>) -> LeaseId {
    match words.first().strip_prefix('#') {
        Some(position) => LeaseId(position.parse().unwrap()),
        None => desk.lease(words.first()),
    }
}

fn epoch(desk: &Desk, words: &Words<'_>, lease: LeaseId) -> Epoch {
    words.number("epoch").map_or_else(|| desk.epoch(lease), Epoch)
}

fn token(desk: &Desk, words: &Words<'_>) -> Token {
    let lease = lease(desk, words);
    Token::new(lease, epoch(desk, words, lease))
}

fn session(words: &Words<'_>) -> SessionId {
    SessionId(words.first().parse().unwrap())
}

fn steer(desk: &Desk, words: &Words<'_>) -> Steer {
    Steer { lease: lease(desk, words), epoch: None, actor: operator(), text: Text::default(), silent: false }
}

fn operator() -> Actor {
    Actor::Operator("root".into())
}

fn identity(desk: &Desk) -> Identity {
    use tenure_log::OrderedLog;
    desk.log.identity()
}

fn asker(words: &Words<'_>) -> Option<Text> {
    words.options.get("asker").map(|asker| (*asker).into())
}
