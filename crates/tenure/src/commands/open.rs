//! `tenure open`: the dashboard in a browser.

use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tenure_api::{SignIn, Status};
use tenure_client::Endpoint;
use tokio::process::Command;

use crate::connect::{Daemon, read, route};
use crate::failure::{Failure, Words};
use crate::printer::Printer;

/// What desktops open an address with.
const OPENER: &str = "xdg-open";
/// How long it may take.
const OPENER_LIMIT: Duration = Duration::from_secs(5);

/// Open the dashboard in a browser, signed in
///
/// The browser is signed in as whoever runs this command, for twelve hours. The address that is printed works once,
/// within a minute: a second browser needs another.
#[derive(Args)]
pub(crate) struct Open {}

impl Open {
    pub(crate) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let base = base(daemon).await?;
        let sign_in: SignIn = read(daemon.post(route(&["sign_in"]), &json!({})).await?)?;
        let address = format!("{base}{}", sign_in.path);
        match printer.json() {
            true => printer.object(&json!({"url": address, "expires_in_secs": sign_in.expires_in_secs}))?,
            false => printer.line(&address)?,
        }
        printer.flush()?;
        printer.talk(format_args!("note: the address works once, within {} s", sign_in.expires_in_secs));
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

/// Where a browser reaches the daemon: as this command did, or where it says that it listens.
async fn base(daemon: &Daemon) -> Result<String, Failure> {
    match daemon.endpoint() {
        endpoint @ (Endpoint::Http(_) | Endpoint::Https(_)) => return Ok(endpoint.to_string()),
        Endpoint::Unix(_) => {}
    }
    let status: Status = read(daemon.get(route(&["status"])).await?)?;
    let Some(http) = status.http else {
        let words = Words::new("this daemon does not listen for HTTP, so it has no dashboard to open");
        return Err(Failure::Refused(words.hint("tenure status shows where it listens")));
    };
    // Bound to every address it is reached by this one; browsers do not go to 0.0.0.0.
    let http = http.replace("://0.0.0.0:", "://127.0.0.1:").replace("://[::]:", "://[::1]:");
    Ok(http.trim_end_matches('/').to_owned())
}
