//! `tenure open`: the dashboard in a browser.

use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tenure_api::Status;
use tokio::process::Command;

use crate::connect::{Daemon, read, route};
use crate::failure::{Failure, Words};
use crate::printer::Printer;

/// What desktops open an address with.
const OPENER: &str = "xdg-open";
/// How long it may take.
const OPENER_LIMIT: Duration = Duration::from_secs(5);

/// Open the dashboard in a browser
#[derive(Args)]
pub(crate) struct Open {}

impl Open {
    pub(crate) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let status: Status = read(daemon.get(route(&["status"])).await?)?;
        let Some(http) = status.http else {
            let words = Words::new("this daemon does not listen for HTTP, so it has no dashboard to open");
            return Err(Failure::Refused(words.hint("tenure status shows where it listens")));
        };
        let address = format!("{}/", http.trim_end_matches('/'));
        match printer.json() {
            true => printer.object(&json!({"url": address}))?,
            false => printer.line(&address)?,
        }
        printer.flush()?;
        let opener = Command::new(OPENER)
            .arg(&address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match tokio::time::timeout(OPENER_LIMIT, opener).await {
            // A browser that stays in the foreground is an open one.
            Err(_) => {}
            Ok(Ok(status)) if status.success() => {}
            Ok(Ok(_)) => {
                printer.talk("note: no browser could be opened here; the address above is the dashboard")
            }
            Ok(Err(_)) => printer
                .talk(format_args!("note: there is no {OPENER} here; the address above is the dashboard")),
        }
        Ok(())
    }
}
