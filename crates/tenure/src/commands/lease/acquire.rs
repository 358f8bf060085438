//! `tenure lease acquire`.

use clap::Args;
use serde_json::Value;
use tenure_api::{Acquire as Body, Lease, Mode, State};
use tenure_client::{CallError, Method, operation_id};

use super::print_lease;
use crate::caller::user_at_host;
use crate::commands::arguments::{PoolCount, json_value};
use crate::connect::{Daemon, call_failure, read, route};
use crate::duration::Span;
use crate::failure::{Failure, Words};
use crate::printer::Printer;

/// Take resources and members of pools, all of them or none
///
/// The lease is kept by heartbeats unless told otherwise: renew it with `tenure lease heartbeat` before its ttl is over,
/// or let `tenure run` do all of that around a command.
#[derive(Args)]
pub(super) struct Acquire {
    /// Resources to take
    #[arg(value_name = "RESOURCE")]
    resources: Vec<String>,
    /// Any so many members of a pool; may be given more than once
    #[arg(long, value_name = "NAME=N")]
    pool: Vec<PoolCount>,
    /// In whose name; user@host unless told
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
    /// How long one heartbeat lasts; 1m30s unless told
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["permanent", "session"])]
    ttl: Option<Span>,
    /// How long silence is forgiven after that; 30s unless told
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["permanent", "session"])]
    grace: Option<Span>,
    /// Wait this long if it is not free
    #[arg(long, value_name = "DURATION")]
    wait: Option<Span>,
    /// Only reserve; it has to be activated within this long
    #[arg(long, value_name = "DURATION")]
    reserve: Option<Span>,
    /// Ask for no proof of life: only a release or an operator ends it
    #[arg(long, conflicts_with = "session")]
    permanent: bool,
    /// The session by hand that keeps it
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// End it after this long, however alive its holder is
    #[arg(long, value_name = "DURATION")]
    max_lifetime: Option<Span>,
    /// Keep the resources unavailable this long after a revoke
    #[arg(long, value_name = "DURATION")]
    reclaim_delay: Option<Span>,
    /// Anything of yours, kept with the lease
    #[arg(long, value_name = "JSON", value_parser = json_value)]
    attachment: Option<Value>,
    /// Makes a retry harmless: the same id gives the same lease
    #[arg(long, value_name = "ID")]
    operation_id: Option<String>,
}

impl Acquire {
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.resources.is_empty() && self.pool.is_empty() {
            let words = Words::new("nothing was asked for");
            return Err(Failure::Usage(words.hint("name a resource, or a pool with --pool NAME=N")));
        }
        if self.ttl.is_some_and(|ttl| ttl.ms() == 0) {
            let words = Words::new("a heartbeat that lasts no time keeps nothing alive");
            return Err(Failure::Usage(words.hint("--permanent asks for no proof of life")));
        }
        let mut names: Vec<&str> = self.pool.iter().map(|pool| pool.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Failure::Usage(Words::new(format_args!("pool {} is named twice", twice[0]))));
        }
        Ok(())
    }

    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let operation = self.operation_id.clone().unwrap_or_else(operation_id);
        let wait_ms = self.wait.map(Span::ms);
        let body = self.body(operation.clone());
        let route = route(&["leases"]).waiting(wait_ms.unwrap_or(0));
        let answer = daemon.try_call(Method::POST, route, Some(&body)).await;
        let answer = answer.map_err(|error| failure(error, &operation))?;
        let lease: Lease = read(answer.clone())?;
        print_lease(printer, answer)?;
        if let Some(next) = next_step(&lease) {
            printer.talk(format_args!("hint: {next}"));
        }
        Ok(())
    }

    fn body(self, operation: String) -> Body {
        Body {
            resources: self.resources,
            pools: self.pool.into_iter().map(|pool| (pool.name, pool.count)).collect(),
            holder: self.holder.unwrap_or_else(user_at_host),
            mode: None,
            ttl_ms: if self.permanent { Some(0) } else { self.ttl.map(Span::ms) },
            grace_ms: self.grace.map(Span::ms),
            reserve_ms: self.reserve.map(Span::ms),
            session: self.session,
            wait_ms: self.wait.map(Span::ms),
            max_lifetime_ms: self.max_lifetime.map(Span::ms),
            reclaim_delay_ms: self.reclaim_delay.map(Span::ms),
            attachment: self.attachment,
            operation_id: Some(operation),
        }
    }
}

/// Whoever does not know how it went can ask again under the same operation id.
fn failure(error: CallError, operation: &str) -> Failure {
    let is_definite = error.is_definite();
    let failure = call_failure(error);
    if is_definite {
        return failure;
    }
    failure.with_hint(format_args!(
        "it may have been granted; the same command with --operation-id {operation} gives that lease"
    ))
}

fn next_step(lease: &Lease) -> Option<String> {
    let (id, epoch) = (&lease.lease_id, lease.epoch);
    match (lease.state, lease.mode) {
        (State::Reserved, _) => {
            Some(format!("take it into use with: tenure lease activate {id} --epoch {epoch}"))
        }
        (State::Active, Mode::Heartbeat) => {
            Some(format!("renew it with: tenure lease heartbeat {id} --epoch {epoch}"))
        }
        (State::Active, Mode::Session | Mode::Permanent) => {
            Some(format!("give it back with: tenure lease release {id} --epoch {epoch}"))
        }
        (State::Revoking | State::Released | State::Expired | State::Revoked, _) => None,
    }
}
