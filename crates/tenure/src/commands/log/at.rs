//! `tenure log at`: the state as it was.

use std::str::FromStr;

use clap::Args;
use serde_json::{Map, Value, json};
use tenure_history::{
    LogTag, Point, StateAt, StateError, WireLease, actor_word, duration, parse_rfc3339, rfc3339, state_at,
    wire_session,
};
use tenure_kernel::{LeaseId, LeaseState, LeaseView, Lsn, PoolView, SessionId, SessionView, Tick};

use super::DataDirectory;
use super::record_json::{evidence_object, payload, reclaim_by};
use crate::failure::{Failure, Words};
use crate::printer::{Printer, counted};
use crate::table::Table;

/// Show the leases, pools and sessions at an LSN or a time
///
/// Rebuilds the state from the newest snapshot before that point, or from the start of the log. A time selects the state
/// after the last frame written up to it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct At {
    /// LSN, time like 2026-02-07T22:15:00Z, or Unix milliseconds
    ///
    /// A number from 100000000000 on is a time in Unix milliseconds, a smaller one is an LSN.
    #[arg(value_name = "LSN|TIME")]
    point: PointArgument,
    #[command(flatten)]
    directory: DataDirectory,
}

const EXAMPLES: &str = "Examples:
  tenure log at 1000 /var/lib/tenure
  tenure log at 2026-02-07T22:15:00Z /var/lib/tenure";

#[derive(Clone, Copy)]
struct PointArgument(Point);

/// No log has so many records, and no clock that was ever set shows a time before it: March 1973.
const UNIX_MS_MIN: u64 = 100_000_000_000;

impl FromStr for PointArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return match text.parse() {
                Ok(number) if number >= UNIX_MS_MIN => Ok(Self(Point::Wall(number))),
                Ok(number) => Ok(Self(Point::Lsn(Lsn(number)))),
                Err(_) => Err(format!("expected an LSN or Unix milliseconds, 0 to {}", u64::MAX)),
            };
        }
        parse_rfc3339(text).map(|wall_ms| Self(Point::Wall(wall_ms))).map_err(|error| error.to_string())
    }
}

impl At {
    pub(super) fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        let log = self.directory.open()?;
        self.directory.mention_writer(printer);
        let state = state_at(&log, self.point.0).map_err(|error| self.failure(&error))?;
        if printer.json() { print_object(printer, &state) } else { print_tables(printer, &state) }
    }

    fn failure(&self, error: &StateError) -> Failure {
        let shown = self.directory.path.display();
        let try_lsn = |lsn: &Lsn| format!("tenure log at {lsn} {shown}");
        let hint = match error {
            StateError::Read(error) => return self.directory.unreadable(error),
            StateError::Replay(error) => return self.directory.unreplayable(error),
            StateError::Trimmed { oldest, .. } => oldest.as_ref().map(try_lsn),
            StateError::Ahead { last } => Some(try_lsn(last)),
            StateError::BeforeLog { began_wall_ms } => {
                Some(format!("tenure log at {} {shown}", rfc3339(*began_wall_ms)))
            }
        };
        Failure::Refused(Words { line: error.to_string(), hint })
    }
}

fn print_tables(printer: &mut Printer, state: &StateAt) -> Result<(), Failure> {
    let kernel = &state.kernel;
    let tag = LogTag::of(&state.identity);
    match state.lsn {
        Lsn(0) => printer.line(format_args!("log {tag} before its first record"))?,
        lsn => printer.line(format_args!("log {tag} after lsn {lsn}, {}", rfc3339(state.wall_ms)))?,
    }

    printer.line(format_args!("\n{}", counted(kernel.live_count() as u64, "lease")))?;
    if kernel.live_count() > 0 {
        let headings = ["ID", "HOLDER", "STATE", "MODE", "EPOCH", "RESOURCES", "AGE", "GRANTED"];
        let mut table = Table::new(&headings);
        for lease in kernel.leases_from(LeaseId(0)) {
            table.row(lease_row(state, lease));
        }
        printer.table(&table)?;
    }
    printer.line(format_args!("\n{}", counted(kernel.pools().count() as u64, "pool")))?;
    if kernel.pools().next().is_some() {
        let mut table = Table::new(&["NAME", "SIZE", "FREE"]);
        for pool in kernel.pools() {
            let removed = if pool.removed { " (removed)" } else { "" };
            table.row(vec![format!("{}{removed}", pool.name), pool.size.to_string(), pool.free.to_string()]);
        }
        printer.table(&table)?;
    }
    let sessions = || kernel.sessions_from(SessionId(0));
    printer.line(format_args!("\n{}", counted(sessions().count() as u64, "session")))?;
    if sessions().next().is_some() {
        let mut table = Table::new(&["ID", "HOLDER", "KEPT BY", "GRACE", "LEASES", "AGE"]);
        for session in sessions() {
            table.row(session_row(state, session));
        }
        printer.table(&table)?;
    }
    Ok(())
}

fn lease_row(state: &StateAt, lease: LeaseView<'_>) -> Vec<String> {
    let (name, note) = match lease.state() {
        LeaseState::Reserved { deadline } => {
            ("reserved", format!(", {} left", duration(deadline.ms_since(state.tick))))
        }
        LeaseState::Active { drained: true, .. } => ("active", ", drained".to_owned()),
        LeaseState::Active { drained: false, .. } => ("active", String::new()),
        LeaseState::Revoking(revocation) => ("revoking", format!(", {}", revocation.reason.as_str())),
    };
    let resources: Vec<&str> = lease.members().map(|member| member.as_str()).collect();
    vec![
        WireLease::new(&state.identity, lease.id()).to_string(),
        lease.holder().to_string(),
        format!("{name}{note}"),
        lease.terms().mode.as_str().to_owned(),
        lease.epoch().to_string(),
        resources.join(", "),
        duration(state.tick.ms_since(lease.granted_tick())),
        rfc3339(lease.granted_wall_ms()),
    ]
}

fn session_row(state: &StateAt, session: SessionView<'_>) -> Vec<String> {
    let kept = match (session.closed(), session.kind().is_connection()) {
        (Some(reason), _) => format!("closed, {}", reason.as_str()),
        (None, true) => session.kind().as_str().to_owned(),
        (None, false) => format!("ttl {}", duration(session.ttl_ms().into())),
    };
    vec![
        wire_session(session.id()),
        session.holder().to_owned(),
        kept,
        duration(session.grace_ms().into()),
        session.lease_count().to_string(),
        duration(state.tick.ms_since(session.opened_tick())),
    ]
}

/// One object, written piece by piece: a state may hold millions of leases.
fn print_object(printer: &mut Printer, state: &StateAt) -> Result<(), Failure> {
    let kernel = &state.kernel;
    let head = json!({
        "tag": LogTag::of(&state.identity).to_string(),
        "lsn": state.lsn.0,
        "tick": state.tick.0,
        "at": (state.lsn > Lsn(0)).then(|| rfc3339(state.wall_ms)),
        "built_on": state.built_on.map(|lsn| lsn.0),
        "ended": kernel.retained_count(),
        "operations": kernel.operation_count(),
        "notices": kernel.notices().count(),
    })
    .to_string();
    printer.piece(head.trim_end_matches('}'))?;
    print_list(printer, "leases", kernel.leases_from(LeaseId(0)).map(|lease| lease_object(state, lease)))?;
    print_list(printer, "pools", kernel.pools().map(pool_object))?;
    let sessions = kernel.sessions_from(SessionId(0));
    print_list(printer, "sessions", sessions.map(|session| session_object(state, session)))?;
    printer.line("}")
}

fn print_list(printer: &mut Printer, name: &str, values: impl Iterator<Item = Value>) -> Result<(), Failure> {
    printer.piece(format_args!(",\"{name}\":["))?;
    for (index, value) in values.enumerate() {
        let comma = if index > 0 { "," } else { "" };
        printer.piece(format_args!("{comma}{value}"))?;
    }
    printer.piece("]")
}

fn lease_object(state: &StateAt, lease: LeaseView<'_>) -> Value {
    let terms = lease.terms();
    let mut deadline = None;
    let mut drained = false;
    let mut revoked = None;
    match lease.state() {
        LeaseState::Reserved { deadline: until } => deadline = Some(time_of(state, *until)),
        LeaseState::Active { drained: asked, .. } => drained = *asked,
        LeaseState::Revoking(revocation) => revoked = Some(revocation),
    }
    let session = lease.session().and_then(|session| state.kernel.session(session));
    let resources: Vec<&str> = lease.members().map(|member| member.as_str()).collect();
    let head = json!({
        "lease_id": WireLease::new(&state.identity, lease.id()).to_string(),
        "holder": lease.holder().as_str(),
        "state": lease.state().name().as_str(),
        "drain_cause": drained.then_some("operator"),
        "mode": terms.mode.as_str(),
        "epoch": lease.epoch().0,
        "fence": lease.fence().0,
        "resources": resources,
        "ttl_ms": terms.ttl_ms,
        "grace_ms": terms.grace_ms,
        "max_lifetime_ms": terms.max_lifetime_ms,
        "granted_at": rfc3339(lease.granted_wall_ms()),
        "deadline": deadline,
        "reason": revoked.map(|revocation| revocation.reason.as_str()),
        "reason_text": revoked.map(|revocation| revocation.text.as_str()).filter(|text| !text.is_empty()),
        "actor": revoked.map(|revocation| actor_word(&revocation.actor)),
        "evidence": revoked.map(|revocation| evidence_object(revocation.evidence)),
        "reclaim_by": revoked.map(|revocation| reclaim_by(revocation.reclaim_by)),
        "session": session.map(|session| wire_session(session.id())),
        "principal": terms.principal.as_str(),
        "face": terms.face.as_str(),
        "changed_lsn": lease.changed_lsn().0,
    });
    let mut object: Map<String, Value> = match head {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    payload(&mut object, Some(lease.attachment()), Some(lease.face_data()));
    Value::Object(object)
}

fn pool_object(pool: PoolView<'_>) -> Value {
    json!({"name": pool.name, "size": pool.size, "free": pool.free, "removed": pool.removed})
}

fn session_object(state: &StateAt, session: SessionView<'_>) -> Value {
    json!({
        "session": wire_session(session.id()),
        "holder": session.holder(),
        "kind": session.kind().as_str(),
        "ttl_ms": session.ttl_ms(),
        "grace_ms": session.grace_ms(),
        "principal": session.principal(),
        "opened_at": time_of(state, session.opened_tick()),
        "closed": session.closed().map(|reason| reason.as_str()),
        "leases": session.lease_count(),
    })
}

/// The wall-clock time of a tick, as far as it can be told from the state's own.
fn time_of(state: &StateAt, tick: Tick) -> String {
    let (earlier, later) = (state.tick.ms_since(tick), tick.ms_since(state.tick));
    rfc3339(state.wall_ms.saturating_sub(earlier).saturating_add(later))
}
