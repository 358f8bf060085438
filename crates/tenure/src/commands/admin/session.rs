//! `tenure admin session`: sessions by hand.

use clap::{Args, Subcommand};
use tenure_api::{
    LeaseQuery, OpenSession, Session as SessionView, SessionEnd, SessionHeartbeat, SessionList,
    SessionRenewed,
};
use tenure_client::{Method, operation_id};

use crate::caller::user_at_host;
use crate::commands::arguments::{GRACE_BY_HAND, TTL_BY_HAND, grace, ttl};
use crate::commands::listing::Extent;
use crate::confirm::Consent;
use crate::connect::{Daemon, read, route};
use crate::duration::Span;
use crate::failure::Failure;
use crate::printer::{Printer, counted};
use crate::show::{session_page, session_renewed_page, session_table};

/// Manage sessions: groups of leases that one heartbeat renews
#[derive(Args)]
#[command(after_help = SESSION_EXAMPLES)]
pub(super) struct Session {
    #[command(subcommand)]
    command: SessionCommand,
}

const SESSION_EXAMPLES: &str = "Examples:
  tenure admin session open --ttl 60s
  tenure lease acquire printer --session s:0000002c
  tenure admin session heartbeat s:0000002c";

#[derive(Subcommand)]
enum SessionCommand {
    Ls(List),
    Show(Show),
    Open(Open),
    Heartbeat(Heartbeat),
    Close(Close),
}

/// List sessions and connections
#[derive(Args)]
#[command(after_help = "Example:\n  tenure admin session ls")]
struct List {
    #[command(flatten)]
    extent: Extent,
}

/// Show one session
#[derive(Args)]
#[command(after_help = "Example:\n  tenure admin session show s:0000002c")]
struct Show {
    /// Session ID
    #[arg(value_name = "SESSION")]
    session: String,
}

/// Open a session, whose heartbeats renew all its leases
#[derive(Args)]
#[command(after_help = OPEN_EXAMPLES)]
struct Open {
    #[arg(help = "Set the holder's name [default: user@host]")]
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
    /// Expire the session this long after its last heartbeat
    #[arg(long, value_name = "DURATION", value_parser = ttl, default_value = TTL_BY_HAND)]
    ttl: Span,
    /// Keep the leases of the expired session in the state draining for this long
    #[arg(long, value_name = "DURATION", value_parser = grace, default_value = GRACE_BY_HAND)]
    grace: Span,
    /// Accept leases that other principals hand over if all their resources have this prefix
    #[arg(long, value_name = "PREFIX")]
    accepts_handover: Option<String>,
    /// Set the idempotency key: a retry with the same ID returns the same session
    #[arg(long, value_name = "ID")]
    operation_id: Option<String>,
}

const OPEN_EXAMPLES: &str = "Examples:
  tenure admin session open --ttl 60s --grace 10s
  tenure admin session open --holder worker-7 --accepts-handover jobs/";

/// Renew a session and all its leases
#[derive(Args)]
#[command(after_help = "Example:\n  tenure admin session heartbeat s:0000002c")]
struct Heartbeat {
    /// Session ID
    #[arg(value_name = "SESSION")]
    session: String,
    /// Report only losses after this LSN
    #[arg(long, value_name = "LSN")]
    seen_lsn: Option<u64>,
}

/// Close your own session and release all its leases
#[derive(Args)]
#[command(after_help = "Example:\n  tenure admin session close s:0000002c")]
struct Close {
    /// Session ID
    #[arg(value_name = "SESSION")]
    session: String,
    #[command(flatten)]
    _consent: Consent,
}

impl Session {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        match self.command {
            SessionCommand::Ls(list) => list.run(daemon, printer).await,
            SessionCommand::Show(show) => {
                let answer = daemon.get(route(&["sessions", &show.session])).await?;
                print_session(printer, answer)
            }
            SessionCommand::Open(open) => open.run(daemon, printer).await,
            SessionCommand::Heartbeat(heartbeat) => heartbeat.run(daemon, printer).await,
            SessionCommand::Close(close) => close.run(daemon, printer).await,
        }
    }
}

impl List {
    async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let nothing = LeaseQuery::default();
        let answer = self.extent.fetch(daemon, ("sessions", "sessions"), &nothing, printer).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let list: SessionList = read(answer)?;
        if !list.sessions.is_empty() {
            printer.table(&session_table(&list.sessions))?;
        }
        printer.talk(counted(list.sessions.len() as u64, "session"));
        Ok(())
    }
}

impl Open {
    async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let body = OpenSession {
            holder: self.holder.unwrap_or_else(user_at_host),
            ttl_ms: Some(self.ttl.ms()),
            grace_ms: Some(self.grace.ms()),
            operation_id: Some(self.operation_id.unwrap_or_else(operation_id)),
            accepts_handover: self.accepts_handover,
        };
        print_session(printer, daemon.post(route(&["sessions"]), &body).await?)
    }
}

impl Heartbeat {
    async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let body = SessionHeartbeat { seen_lsn: self.seen_lsn };
        let answer = daemon.post(route(&["sessions", &self.session, "heartbeat"]), &body).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let renewed: SessionRenewed = read(answer)?;
        session_renewed_page(&renewed).print(printer)
    }
}

impl Close {
    async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        // The daemon refuses to close what is another principal's: this gives back, so nobody is asked.
        let answer = daemon.call(Method::DELETE, route(&["sessions", &self.session]), None::<&()>).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let end: SessionEnd = read(answer)?;
        printer.line(format_args!("session {} closed at lsn {}", end.session, end.lsn))
    }
}

fn print_session(printer: &mut Printer, answer: serde_json::Value) -> Result<(), Failure> {
    if printer.json() {
        return printer.object(&answer);
    }
    let session: SessionView = read(answer)?;
    session_page(&session).print(printer)
}
