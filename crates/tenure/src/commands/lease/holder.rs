//! What a holder does with its lease: heartbeat, activate, release, amend, acknowledge, rebind, handover.

use clap::Args;
use serde_json::Value;
use tenure_api::{Amend as AmendBody, Handover as HandoverBody, HolderCall, Rebind as RebindBody, Renewed};
use tenure_client::operation_id;

use super::print_lease;
use super::target::Target;
use crate::commands::arguments::json_value;
use crate::confirm::Consent;
use crate::connect::{Daemon, read, route};
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::show::renewed_page;

/// What a holder presents.
#[derive(Args)]
struct Presented {
    #[command(flatten)]
    target: Target,
    /// Present this epoch [default: the current epoch]
    #[arg(long, value_name = "EPOCH")]
    epoch: Option<u64>,
}

/// Renew a lease for another TTL
#[derive(Args)]
#[command(after_help = HEARTBEAT_EXAMPLES)]
pub(super) struct Heartbeat {
    #[command(flatten)]
    presented: Presented,
    /// Fail unless this is the holder
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
}

const HEARTBEAT_EXAMPLES: &str = "Examples:
  tenure lease heartbeat k3f9-4
  tenure lease heartbeat printer --holder alice";

/// Activate a reserved lease
#[derive(Args)]
#[command(after_help = "Example:\n  tenure lease activate printer")]
pub(super) struct Activate {
    #[command(flatten)]
    presented: Presented,
    /// Fail unless this is the holder
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
}

/// Release a lease
///
/// Only the principal that acquired the lease can release it, so the command does not ask for confirmation. Name the lease by
/// its ID, or its holder too: a resource alone names the lease that holds it now, which may be a later one.
#[derive(Args)]
#[command(after_help = RELEASE_EXAMPLES)]
pub(super) struct Release {
    #[command(flatten)]
    presented: Presented,
    /// Fail unless this is the holder
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
    /// Record this reason
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    _consent: Consent,
}

const RELEASE_EXAMPLES: &str = "Examples:
  tenure lease release k3f9-4 --reason done
  tenure lease release printer --holder alice";

/// Replace the attachment of a lease
#[derive(Args)]
#[command(after_help = "Example:\n  tenure lease amend printer --attachment '{\"job\": 17}'")]
pub(super) struct Amend {
    #[command(flatten)]
    presented: Presented,
    /// Store this JSON with the lease
    #[arg(long, value_name = "JSON", value_parser = json_value)]
    attachment: Value,
    /// Fail unless this is the holder
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
}

/// Confirm that the holder of a revoked lease has stopped
///
/// The resources are free at once, instead of when the validity of the lease ends. The epoch can be the one before the
/// revoke, or the current one.
#[derive(Args)]
#[command(after_help = "Example:\n  tenure lease acknowledge k3f9-4 --epoch 1")]
pub(super) struct Acknowledge {
    #[command(flatten)]
    presented: Presented,
    /// Fail unless this is the holder
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
}

/// Change holder, session or attachment of a lease; epoch and fencing token increase
#[derive(Args)]
#[command(after_help = REBIND_EXAMPLES)]
pub(super) struct Rebind {
    #[command(flatten)]
    presented: Presented,
    /// Set this holder
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
    /// Bind the lease to this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Store this JSON with the lease
    #[arg(long, value_name = "JSON", value_parser = json_value)]
    attachment: Option<Value>,
}

const REBIND_EXAMPLES: &str = "Examples:
  tenure lease rebind printer --holder bob
  tenure lease rebind printer --session s:0000002c";

/// Hand a lease over to the holder of another session, without a gap
#[derive(Args)]
#[command(after_help = "Example:\n  tenure lease handover printer --to-session s:0000002c")]
pub(super) struct Handover {
    #[command(flatten)]
    presented: Presented,
    /// Hand over to this session
    #[arg(long, value_name = "SESSION")]
    to_session: String,
}

impl Presented {
    async fn id_and_epoch(&self, daemon: &Daemon) -> Result<(String, u64), Failure> {
        self.target.id_and_epoch(daemon, self.epoch).await
    }
}

/// A call that says no more than who calls.
fn plain_call(epoch: u64, holder: Option<String>) -> HolderCall {
    HolderCall { epoch, holder, reason: None, operation_id: Some(operation_id()) }
}

impl Heartbeat {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let (id, epoch) = self.presented.id_and_epoch(daemon).await?;
        let call = HolderCall { epoch, holder: self.holder, ..HolderCall::default() };
        let answer = daemon.post(route(&["leases", &id, "heartbeat"]), &call).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let renewed: Renewed = read(answer)?;
        renewed_page(&renewed).print(printer)
    }
}

impl Activate {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let (id, epoch) = self.presented.id_and_epoch(daemon).await?;
        let call = plain_call(epoch, self.holder);
        print_lease(printer, daemon.post(route(&["leases", &id, "activate"]), &call).await?)
    }
}

impl Release {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let (id, epoch) = self.presented.id_and_epoch(daemon).await?;
        let call = HolderCall { reason: self.reason, ..plain_call(epoch, self.holder) };
        print_lease(printer, daemon.post(route(&["leases", &id, "release"]), &call).await?)
    }
}

impl Amend {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let (id, epoch) = self.presented.id_and_epoch(daemon).await?;
        let call = AmendBody {
            epoch,
            holder: self.holder,
            attachment: self.attachment,
            operation_id: Some(operation_id()),
        };
        print_lease(printer, daemon.post(route(&["leases", &id, "amend"]), &call).await?)
    }
}

impl Acknowledge {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let (id, epoch) = self.presented.id_and_epoch(daemon).await?;
        let call = plain_call(epoch, self.holder);
        print_lease(printer, daemon.post(route(&["leases", &id, "acknowledge"]), &call).await?)
    }
}

impl Rebind {
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.holder.is_none() && self.session.is_none() && self.attachment.is_none() {
            let words = Words::new("nothing to change");
            return Err(Failure::Usage(words.hint("give --holder, --session or --attachment")));
        }
        Ok(())
    }

    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let (id, epoch) = self.presented.id_and_epoch(daemon).await?;
        let call = RebindBody {
            epoch,
            holder: self.holder,
            session: self.session,
            attachment: self.attachment,
            operation_id: Some(operation_id()),
        };
        print_lease(printer, daemon.post(route(&["leases", &id, "rebind"]), &call).await?)
    }
}

impl Handover {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let (id, epoch) = self.presented.id_and_epoch(daemon).await?;
        let call = HandoverBody { epoch, to_session: self.to_session, operation_id: Some(operation_id()) };
        print_lease(printer, daemon.post(route(&["leases", &id, "handover"]), &call).await?)
    }
}
