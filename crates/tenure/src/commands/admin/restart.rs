//! `tenure admin restart`: the daemon begins anew, and peers on the network see no change.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use tenure_api::{Advertised, ErrorCode, ShutDown, Status};

use super::{at_stake, own_status};
use crate::confirm::Consent;
use crate::connect::{Daemon, Reach, route};
use crate::duration::Span;
use crate::failure::{Failure, Words};
use crate::printer::{Printer, counted};

/// Restart the daemon, for example after an upgrade; leases and advertised services survive
///
/// The daemon stops, sends no goodbye packets, and executes the program at the path it was started from, in the same
/// process and with the same arguments. This command waits until the new daemon answers. The daemon closes all
/// connections; their holders have at least 5 s to reconnect.
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure admin restart\n  tenure admin restart --yes --timeout 2m")]
pub(super) struct Restart {
    /// Wait this long for the new daemon
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    timeout: Span,
    #[command(flatten)]
    consent: Consent,
}

/// Pauses between looks for the new daemon.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

impl Restart {
    pub(super) async fn run(
        self,
        reach: &Reach,
        daemon: &Daemon,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let before = own_status(daemon).await?;
        let daemon = reach.pinned(daemon)?;
        if self.consent.asks() {
            self.consent.obtain(printer, &[at_stake(&before)], "restart the daemon?")?;
        }
        let wish = ShutDown { advertised: Advertised::Keep, restart: true, ..ShutDown::default() };
        daemon.post(route(&["shutdown"]), &wish).await.map_err(|failure| explained(failure, &before))?;
        let coming_back = next_instance(reach, &daemon, &before);
        let after = tokio::time::timeout(self.timeout.duration(), coming_back).await;
        let after = after.map_err(|_| {
            let line = format!("the daemon stopped and did not answer again within {}", self.timeout);
            let hint =
                "see its log (journalctl -u tenure); start it with: systemctl start tenure, or tenure serve";
            Failure::Unexpected(Words::new(line).hint(hint))
        })?;
        if printer.json() {
            return printer.object(&json!({
                "restarted": true,
                "pid": after.pid,
                "instance": after.instance,
                "version": after.version,
                "previous_version": before.version,
                "leases": after.leases.total,
            }));
        }
        let was = match after.version == before.version {
            true => String::new(),
            false => format!(" (was {})", before.version),
        };
        let leases = counted(after.leases.total, "lease");
        printer.line(format_args!("restarted: version {}{was}, pid {}, {leases}", after.version, after.pid))
    }
}

/// Waits for a daemon on the same data that is another instance. Where nothing names the daemon it may be found at another
/// address, and another user's daemon may be found before it is back.
async fn next_instance(reach: &Reach, daemon: &Daemon, before: &Status) -> Status {
    let mut pause = PAUSE_MIN;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
        let Ok(daemon) = reach.find_again(daemon).await else { continue };
        let Ok(status) = own_status(&daemon).await else { continue };
        let is_same_data = (&status.data_dir, &status.log_tag) == (&before.data_dir, &before.log_tag);
        if is_same_data && status.instance != before.instance {
            return status;
        }
    }
}

/// A daemon of an earlier version does not know the wish.
fn explained(failure: Failure, before: &Status) -> Failure {
    match failure {
        Failure::Answered { error, words }
            if error.code == ErrorCode::InvalidRequest && error.message.contains("unknown field") =>
        {
            let line = format!(
                "the daemon (version {}) is older than this command and cannot restart itself",
                before.version
            );
            let hint = "restart it once with: systemctl restart tenure";
            Failure::Answered { error, words: Words { line, ..words }.hint(hint) }
        }
        other => other,
    }
}
