//! `tenure run`: what it takes from the command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use tenure_api::{Acquire, Mode};

use super::arguments::{GRACE_KEPT, PoolCount, TTL_KEPT, grace, ttl};
use crate::caller::user_at_host;
use crate::connect::{Reach, block_on};
use crate::duration::Span;
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::run::{OnLost, Pace, Run as Errand, SignalNumber, run};
use crate::secrets::Credentials;

/// Hold a lease while a command runs
///
/// `tenure run` renews the lease while the command or any process it started is alive, and releases it afterwards. If it
/// cannot renew the lease, it ends the process tree before another holder can get the resources: first with
/// --term-signal, then with SIGKILL. It runs the command without a shell, passes every signal on to its process group,
/// and sets TENURE_LEASE_ID, TENURE_EPOCH, TENURE_FENCE (the fencing token), TENURE_RESOURCES and TENURE_DEADLINE. The
/// command does not inherit credentials.
///
/// Exit code: the command's own, or 128 + N if signal N killed it; 1 if the daemon rejected the request, 2 for wrong
/// usage, 3 if the daemon is unreachable (the command did not run), 75 if the lease was lost and the command ended, 126
/// if the command cannot be executed, 127 if the command was not found.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// Hold this resource (repeatable)
    #[arg(long, short, value_name = "RESOURCE")]
    resource: Vec<String>,
    /// Hold N members of a pool (repeatable)
    #[arg(long, value_name = "POOL=N")]
    pool: Vec<PoolCount>,
    /// Wait this long for the resources
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    wait: Span,
    /// Expire the lease this long after its last renewal
    #[arg(long, value_name = "DURATION", value_parser = ttl, default_value = TTL_KEPT)]
    ttl: Span,
    /// Keep the expired lease in the state draining for this long; useful with --on-lost warn
    #[arg(long, value_name = "DURATION", value_parser = grace, default_value = GRACE_KEPT)]
    grace: Span,
    #[arg(help = "Set the holder's name [default: user@host:pid]")]
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
    /// Choose what happens to the command if the lease is lost
    #[arg(long, value_name = "ACTION", default_value = "kill")]
    on_lost: OnLost,
    /// Send SIGKILL this long after --term-signal; at most a third of --ttl [default: ttl/15, more above 10s; at most 5s]
    #[arg(long, value_name = "DURATION")]
    kill_after: Option<Span>,
    /// End the command with this signal
    #[arg(long, value_name = "SIGNAL", default_value = "TERM")]
    term_signal: SignalNumber,
    /// Send this signal once if an operator drains the lease; `none` sends no signal
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = signal_or_none)]
    drain_signal: SignalChoice,
    /// Do not create a cgroup for the command
    #[arg(long)]
    no_cgroup: bool,
    #[command(flatten)]
    credentials: Credentials,
    /// Command to run, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "Examples:
  tenure run --resource nightly-backup -- /usr/local/bin/backup
  tenure run --resource leader/billing --wait 1h -- ./billing
  tenure run --pool gpu=2 -- python train.py";

/// A signal, or none.
#[derive(Clone, Copy)]
struct SignalChoice(Option<SignalNumber>);

fn signal_or_none(text: &str) -> Result<SignalChoice, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(SignalChoice(None));
    }
    let signal = text.parse::<SignalNumber>().map_err(|error| format!("{error}; or none"))?;
    Ok(SignalChoice(Some(signal)))
}

impl Run {
    pub(crate) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        let errand = self.errand()?;
        block_on(async {
            let daemon = reach.find().await?;
            run(errand, daemon.client().clone(), printer).await
        })
    }

    fn errand(self) -> Result<Errand, Failure> {
        let usage = |line: String, hint: &str| Failure::Usage(Words::new(line).hint(hint));
        if self.resource.is_empty() && self.pool.is_empty() {
            let hint = "name a resource with --resource, or a pool with --pool POOL=N";
            return Err(usage("no resource and no pool given".to_owned(), hint));
        }
        let ttl = Duration::from_millis(self.ttl.ms());
        let kill_after = self.kill_after.map(|span| Duration::from_millis(span.ms()));
        if kill_after.is_some_and(|kill_after| kill_after > Pace::kill_after_max(ttl)) {
            let shown = self.kill_after.map(|span| span.to_string()).unwrap_or_default();
            let line =
                format!("--kill-after {shown} leaves no time to renew a lease with --ttl {}", self.ttl);
            return Err(usage(line, "--kill-after is at most a third of --ttl"));
        }
        let mut pools = BTreeMap::new();
        for PoolCount { name, count } in self.pool {
            let total: &mut u32 = pools.entry(name).or_default();
            *total = total.saturating_add(count);
        }
        let holder = self.holder.unwrap_or_else(|| format!("{}:{}", user_at_host(), std::process::id()));
        Ok(Errand {
            acquire: Acquire {
                resources: self.resource,
                pools,
                holder,
                mode: Some(Mode::Heartbeat),
                ttl_ms: Some(self.ttl.ms()),
                grace_ms: Some(self.grace.ms()),
                ..Acquire::default()
            },
            ttl,
            wait: Duration::from_millis(self.wait.ms()),
            pace: Pace::new(ttl, kill_after),
            on_lost: self.on_lost,
            term_signal: self.term_signal,
            drain_signal: self.drain_signal.0,
            makes_cgroup: !self.no_cgroup,
            credentials: self.credentials,
            command: self.command,
        })
    }
}
