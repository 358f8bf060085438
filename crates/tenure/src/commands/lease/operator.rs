//! What an operator does with somebody else's lease: revoke, reclaim, drain, revive.
//!
//! Invariant: what ends a lease carries the epoch that was shown, so that nothing else is ended than what was agreed to.

use clap::Args;
use tenure_api::OperatorCall;
use tenure_client::operation_id;

use super::print_lease;
use super::target::Target;
use crate::confirm::Consent;
use crate::connect::{Daemon, route};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::show::lease_words;

/// Revoke a lease; its resources are free when its validity ends
#[derive(Args)]
#[command(after_help = REVOKE_EXAMPLES)]
pub(super) struct Revoke {
    #[command(flatten)]
    target: Target,
    /// Record this reason
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Keep the resources unavailable until `tenure lease reclaim`
    #[arg(long)]
    no_reclaim: bool,
    #[command(flatten)]
    consent: Consent,
}

const REVOKE_EXAMPLES: &str = "Examples:
  tenure lease revoke printer --reason maintenance
  tenure lease revoke k3f9-4 --no-reclaim --yes";

/// Free the resources of a revoked lease
#[derive(Args)]
#[command(after_help = RECLAIM_EXAMPLES)]
pub(super) struct Reclaim {
    #[command(flatten)]
    target: Target,
    /// Record this reason
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Free them even if the holder may still act; the log records it
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    consent: Consent,
}

const RECLAIM_EXAMPLES: &str = "Examples:
  tenure lease reclaim k3f9-4
  tenure lease reclaim k3f9-4 --force --yes";

/// Drain a lease: notify its holder and end the lease after its grace period
#[derive(Args)]
#[command(after_help = "Example:\n  tenure lease drain printer --reason maintenance")]
pub(super) struct Drain {
    #[command(flatten)]
    target: Target,
    /// Record this reason
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    consent: Consent,
}

/// Cancel a drain
#[derive(Args)]
#[command(after_help = "Example:\n  tenure lease revive printer")]
pub(super) struct Revive {
    #[command(flatten)]
    target: Target,
    /// Record this reason
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    _consent: Consent,
}

/// A call about a lease that was shown.
struct Steps<'a> {
    target: &'a Target,
    consent: &'a Consent,
    verb: &'a str,
    question: &'a str,
}

impl Steps<'_> {
    async fn go(self, daemon: &Daemon, printer: &mut Printer, call: OperatorCall) -> Result<(), Failure> {
        let lease = self.target.lease(daemon).await?;
        self.consent.obtain(printer, &[lease_words(&lease)], self.question)?;
        let call = OperatorCall { epoch: Some(lease.epoch), operation_id: Some(operation_id()), ..call };
        print_lease(printer, daemon.post(route(&["leases", &lease.lease_id, self.verb]), &call).await?)
    }
}

impl Revoke {
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.consent.can_be_had()
    }

    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let question = "revoke this lease?";
        let steps = Steps { target: &self.target, consent: &self.consent, verb: "revoke", question };
        let reclaim = self.no_reclaim.then_some(false);
        let call = OperatorCall { reason: self.reason, reclaim, ..OperatorCall::default() };
        steps.go(daemon, printer, call).await
    }
}

impl Reclaim {
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.consent.can_be_had()
    }

    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let question = match self.force {
            true => "the holder may still act; free the resources anyway?",
            false => "free the resources?",
        };
        let steps = Steps { target: &self.target, consent: &self.consent, verb: "reclaim", question };
        let force = self.force.then_some(true);
        steps
            .go(daemon, printer, OperatorCall { reason: self.reason, force, ..OperatorCall::default() })
            .await
    }
}

impl Drain {
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.consent.can_be_had()
    }

    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let question = "end this lease after its grace period?";
        let steps = Steps { target: &self.target, consent: &self.consent, verb: "drain", question };
        steps.go(daemon, printer, OperatorCall { reason: self.reason, ..OperatorCall::default() }).await
    }
}

impl Revive {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let id = self.target.id(daemon).await?;
        let call = OperatorCall {
            reason: self.reason,
            operation_id: Some(operation_id()),
            ..OperatorCall::default()
        };
        print_lease(printer, daemon.post(route(&["leases", &id, "revive"]), &call).await?)
    }
}
