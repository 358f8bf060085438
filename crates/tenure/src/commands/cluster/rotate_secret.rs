//! `tenure cluster rotate-secret`: nodes know each other by a new secret.

use clap::Args;
use serde_json::json;
use tenure_api::SecretRotated;
use tenure_history::duration;

use crate::confirm::Consent;
use crate::connect::{Daemon, read, route};
use crate::failure::Failure;
use crate::printer::Printer;

/// Replace the secret that nodes use to authenticate each other
///
/// Use it if the secret may have leaked, from etcd or a backup. Nodes read the new secret within seconds and accept the
/// former one for a minute, so running nodes are not interrupted. All nodes must run this version.
#[derive(Args)]
#[command(after_help = "Example:\n  tenure cluster rotate-secret")]
pub(super) struct RotateSecret {
    #[command(flatten)]
    consent: Consent,
}

impl RotateSecret {
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.consent.can_be_had()
    }

    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let what = "the other nodes reject a node that is disconnected from etcd for longer than a minute until it \
                    reads the new secret";
        self.consent.obtain(printer, &[what.to_owned()], "replace the secret?")?;
        let answer = daemon.post(route(&["cluster", "rotate-secret"]), &json!({})).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let SecretRotated { former_ms, .. } = read(answer)?;
        printer.line(format_args!(
            "replaced the secret; nodes accept the former one for {}",
            duration(former_ms)
        ))
    }
}
