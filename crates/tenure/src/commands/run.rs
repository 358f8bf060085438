//! `tenure run`: what it takes from the command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use tenure_api::{Acquire, Mode};

use super::arguments::PoolCount;
use crate::caller::user_at_host;
use crate::connect::{Reach, block_on};
use crate::duration::Span;
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::run::{OnLost, Pace, Run as Errand, SignalNumber, run};
use crate::secrets::Credentials;

/// Hold a lease while a command runs
///
/// The lease is renewed in the background for as long as the command or anything it started is alive, and released
/// afterwards. If it cannot be renewed, the command is ended before anybody else can hold the resources: first by
/// --term-signal, then by SIGKILL to everything below it. No shell is involved. The command finds TENURE_LEASE_ID,
/// TENURE_EPOCH, TENURE_FENCE, TENURE_RESOURCES and TENURE_DEADLINE in its environment, and no credentials; every
/// signal is passed on to its process group.
///
/// Exits with the command's own code, or with 128 + N if it died of signal N; 1 if the lease was refused, 2 after wrong
/// usage, 3 if the daemon cannot be reached (the command was not run), 75 if the lease was lost and the command ended,
/// 126 if the command cannot be executed, 127 if it was not found.
#[derive(Args)]
pub(crate) struct Run {
    /// A resource to hold; may be given more than once
    #[arg(long, short, value_name = "NAME")]
    resource: Vec<String>,
    /// Any so many members of a pool; may be given more than once
    #[arg(long, value_name = "NAME=N")]
    pool: Vec<PoolCount>,
    /// Wait this long if it is not free
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    wait: Span,
    /// How long the lease lives without a renewal, from 1s on
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    ttl: Span,
    /// How long the daemon waits after that; of use with --on-lost warn
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    grace: Span,
    /// In whose name; user@host:pid unless told
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
    /// What becomes of the command when the lease is lost
    #[arg(long, value_name = "WHAT", default_value = "kill")]
    on_lost: OnLost,
    /// From --term-signal to SIGKILL, at most a third of the ttl [default: a fifteenth of the ttl, more above 10s; 5s at most]
    #[arg(long, value_name = "DURATION")]
    kill_after: Option<Span>,
    /// The signal that asks the command to end
    #[arg(long, value_name = "SIGNAL", default_value = "TERM")]
    term_signal: SignalNumber,
    /// The signal to send once when an operator drains the lease, or none
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = signal_or_none)]
    drain_signal: SignalChoice,
    /// Make no cgroup for the command, even where that is allowed
    #[arg(long)]
    no_cgroup: bool,
    #[command(flatten)]
    credentials: Credentials,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A signal, or none.
#[derive(Clone, Copy)]
struct SignalChoice(Option<SignalNumber>);

const TTL_MS_MIN: u64 = 1_000;

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
            let hint = "name a resource with --resource, or a pool with --pool NAME=N";
            return Err(usage("there is nothing to hold".to_owned(), hint));
        }
        if self.ttl.ms() < TTL_MS_MIN {
            return Err(usage(format!("a ttl of {} is too short", self.ttl), "it is at least 1s"));
        }
        let ttl = Duration::from_millis(self.ttl.ms());
        let kill_after = self.kill_after.map(|span| Duration::from_millis(span.ms()));
        if kill_after.is_some_and(|kill_after| kill_after > Pace::kill_after_max(ttl)) {
            let line = "--kill-after leaves no time to renew the lease".to_owned();
            return Err(usage(line, "it is at most a third of --ttl"));
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
