//! `tenure lease acquire`.

use clap::Args;
use serde_json::Value;
use tenure_api::{Acquire as Body, Lease, Mode, State};
use tenure_client::{CallError, Method, operation_id};

use super::print_lease;
use crate::caller::user_at_host;
use crate::commands::arguments::{
    GRACE_BY_HAND, PoolCount, TTL_BY_HAND, grace, json_value, lifetime, ttl, wait,
};
use crate::connect::{Daemon, call_failure, read, route};
use crate::duration::Span;
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::waiting::Waiting;

/// Acquire a lease on resources and pool members, all or none
///
/// The lease expires unless the holder renews it with `tenure lease heartbeat` within its TTL. `tenure run` acquires,
/// renews and releases a lease around a command.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Acquire {
    /// Resources to acquire
    #[arg(value_name = "RESOURCE")]
    resources: Vec<String>,
    /// The same as RESOURCE
    #[arg(long = "resource", short, value_name = "RESOURCE", hide = true)]
    more: Vec<String>,
    /// Acquire N members of a pool (repeatable)
    #[arg(long, value_name = "POOL=N")]
    pool: Vec<PoolCount>,
    #[arg(help = "Set the holder's name [default: user@host]")]
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
    /// Expire the lease this long after its last renewal
    #[arg(long, value_name = "DURATION", value_parser = ttl, default_value = TTL_BY_HAND)]
    #[arg(conflicts_with_all = ["permanent", "session"])]
    ttl: Span,
    /// Keep the expired lease in the state draining for this long
    #[arg(long, value_name = "DURATION", value_parser = grace, default_value = GRACE_BY_HAND)]
    #[arg(conflicts_with_all = ["permanent", "session"])]
    grace: Span,
    /// Wait this long for the resources; without it a held resource is an error
    #[arg(long, value_name = "DURATION", value_parser = wait)]
    wait: Option<Span>,
    /// Reserve the lease; it expires unless `tenure lease activate` follows within this time
    #[arg(long, value_name = "DURATION")]
    reserve: Option<Span>,
    /// Acquire a lease without TTL: only a release or an operator ends it
    #[arg(long, conflicts_with = "session")]
    permanent: bool,
    /// Bind the lease to this session, whose heartbeats renew it
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// End the lease after this long in any case
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    max_lifetime: Option<Span>,
    /// Keep the resources unavailable for this long after a revoke
    #[arg(long, value_name = "DURATION")]
    reclaim_delay: Option<Span>,
    /// Store this JSON with the lease
    #[arg(long, value_name = "JSON", value_parser = json_value)]
    attachment: Option<Value>,
    /// Set the idempotency key: a retry with the same ID returns the same lease
    #[arg(long, value_name = "ID")]
    operation_id: Option<String>,
}

const EXAMPLES: &str = "Examples:
  tenure lease acquire printer
  tenure lease acquire db/primary --ttl 60s --wait 10m
  tenure lease acquire --pool gpu=2 --holder trainer-7";

impl Acquire {
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.resources.is_empty() && self.more.is_empty() && self.pool.is_empty() {
            let words = Words::new("no resource and no pool given");
            return Err(Failure::Usage(words.hint("name a resource, or a pool with --pool POOL=N")));
        }
        let mut names: Vec<&str> = self.pool.iter().map(|pool| pool.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let words = Words::new(format_args!("--pool {} is given twice", twice[0]));
            return Err(Failure::Usage(words.hint("give the sum once: --pool POOL=N")));
        }
        Ok(())
    }

    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let operation = self.operation_id.clone().unwrap_or_else(operation_id);
        let wait_ms = self.wait.map(Span::ms);
        let body = self.body(operation.clone());
        let route = route(&["leases"]).waiting(wait_ms.unwrap_or(0));
        let waiting = Waiting::new(daemon.client(), &body, wait_ms.unwrap_or(0));
        let answer = waiting.show(daemon.try_call(Method::POST, route, Some(&body)), printer).await;
        let answer = answer.map_err(|error| failure(error, &operation))?;
        let lease: Lease = read(answer.clone())?;
        print_lease(printer, answer)?;
        if let Some(next) = next_step(&lease) {
            printer.talk(format_args!("hint: {next}"));
        }
        Ok(())
    }

    fn body(self, operation: String) -> Body {
        let is_plain = !self.permanent && self.session.is_none();
        Body {
            resources: [self.resources, self.more].concat(),
            pools: self.pool.into_iter().map(|pool| (pool.name, pool.count)).collect(),
            holder: self.holder.unwrap_or_else(user_at_host),
            mode: None,
            ttl_ms: if self.permanent { Some(0) } else { is_plain.then(|| self.ttl.ms()) },
            grace_ms: is_plain.then(|| self.grace.ms()),
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
        "the lease may have been granted; repeat the command with --operation-id {operation} to get the same lease"
    ))
}

fn next_step(lease: &Lease) -> Option<String> {
    let (id, epoch) = (&lease.lease_id, lease.epoch);
    match (lease.state, lease.mode) {
        (State::Reserved, _) => {
            Some(format!("activate this lease with: tenure lease activate {id} --epoch {epoch}"))
        }
        (State::Active, Mode::Heartbeat) => {
            Some(format!("renew this lease with: tenure lease heartbeat {id} --epoch {epoch}"))
        }
        (State::Active, Mode::Session | Mode::Permanent) => {
            Some(format!("release this lease with: tenure lease release {id} --epoch {epoch}"))
        }
        (State::Revoking | State::Released | State::Expired | State::Revoked, _) => None,
    }
}
