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
    /// The epoch that the holder knows; the present one unless told
    #[arg(long, value_name = "EPOCH")]
    epoch: Option<u64>,
}

/// Prove that the holder lives, for another ttl
#[derive(Args)]
pub(super) struct Heartbeat {
    #[command(flatten)]
    presented: Presented,
    /// Refuse unless it is held in this name
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
}

/// Take a reserved lease into use
#[derive(Args)]
pub(super) struct Activate {
    #[command(flatten)]
    presented: Presented,
    /// Refuse unless it is held in this name
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
}

/// Give a lease back
///
/// Only the principal that took the lease can give it back, so this never asks.
#[derive(Args)]
pub(super) struct Release {
    #[command(flatten)]
    presented: Presented,
    /// Refuse unless it is held in this name
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
    /// Why, in words
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    _consent: Consent,
}

/// Replace what is kept with a lease
#[derive(Args)]
pub(super) struct Amend {
    #[command(flatten)]
    presented: Presented,
    /// The new attachment
    #[arg(long, value_name = "JSON", value_parser = json_value)]
    attachment: Value,
    /// Refuse unless it is held in this name
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
}

/// Confirm that the holder of a revoked lease has stopped
///
/// Its resources need not wait for the end of the promise then. The epoch is the one held before the revoke, or the
/// present one.
#[derive(Args)]
pub(super) struct Acknowledge {
    #[command(flatten)]
    presented: Presented,
    /// Refuse unless it is held in this name
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
}

/// Give a lease a new holder, session or attachment; epoch and fence rise
#[derive(Args)]
pub(super) struct Rebind {
    #[command(flatten)]
    presented: Presented,
    /// The new holder
    #[arg(long, value_name = "HOLDER")]
    holder: Option<String>,
    /// The session by hand that keeps it from now on
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// The new attachment
    #[arg(long, value_name = "JSON", value_parser = json_value)]
    attachment: Option<Value>,
}

/// Give a lease to the holder of another session, in one step
#[derive(Args)]
pub(super) struct Handover {
    #[command(flatten)]
    presented: Presented,
    /// The session by hand of the next holder
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
            let words = Words::new("nothing would change");
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
