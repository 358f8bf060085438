//! `tenure open`: the dashboard in a browser.
//!
//! Invariant: the sign-in code is in no argument of a process, which every user of the machine can read, and in no
//! request line. The browser gets it from a file that only its user can read, as the fragment of an address.

use std::fmt::Write;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tenure_api::{SignIn, Status};
use tenure_client::Endpoint;
use tokio::process::Command;

use crate::atomic_file::{self, Access};
use crate::config::Environment;
use crate::connect::{Daemon, read, route};
use crate::failure::{Failure, Words};
use crate::printer::Printer;

/// What desktops open an address with.
const OPENER: &str = "xdg-open";
/// How long it may take.
const OPENER_LIMIT: Duration = Duration::from_secs(5);
/// The file that leads the browser to the daemon, below the run-time directory of the user.
const LEAD: &str = "open.html";

/// Open the dashboard in a browser and sign in
///
/// The page asks for one click and then signs the browser in as the user who ran this command, for twelve hours. The
/// printed address works once, within a minute.
#[derive(Args)]
#[command(after_help = "Example:\n  tenure open")]
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
        let lead = match leave_lead(&Environment::of_process(), &address) {
            Ok(lead) => lead,
            Err(error) => {
                printer.talk(format_args!("note: cannot open a browser ({error}); open the address above"));
                return Ok(());
            }
        };
        let opener = Command::new(OPENER)
            .arg(file_address(&lead))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match tokio::time::timeout(OPENER_LIMIT, opener).await {
            // A browser that stays in the foreground is an open one.
            Err(_) => {}
            Ok(Ok(status)) if status.success() => {}
            Ok(Ok(_)) => printer.talk("note: cannot open a browser here; open the address above"),
            Ok(Err(_)) => {
                printer.talk(format_args!("note: {OPENER} is not installed; open the address above"))
            }
        }
        Ok(())
    }
}

/// Leaves a page that leads to an address, for this user alone. The next one takes its place.
fn leave_lead(environment: &Environment, address: &str) -> io::Result<PathBuf> {
    let Some(directory) = environment.run_dir() else {
        return Err(io::Error::other(
            "XDG_RUNTIME_DIR does not name a directory for files of this user alone",
        ));
    };
    DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    let path = directory.join(LEAD);
    atomic_file::put(&path, &lead(address), Access { mode: 0o600, ids: None })?;
    Ok(path)
}

fn lead(address: &str) -> String {
    let address = escaped(address);
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={address}\">\n<title>Tenure</title>\n\
         <p><a href=\"{address}\">Sign in to Tenure</a></p>\n"
    )
}

/// As the value of an attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

fn file_address(path: &Path) -> String {
    let mut address = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                address.push(char::from(*byte));
            }
            other => write!(address, "%{other:02X}").expect("invariant: a string takes every piece"),
        }
    }
    address
}

/// Where a browser reaches the daemon: as this command did, or where it says that it listens.
async fn base(daemon: &Daemon) -> Result<String, Failure> {
    match daemon.endpoint() {
        endpoint @ (Endpoint::Http(_) | Endpoint::Https(_)) => return Ok(endpoint.to_string()),
        Endpoint::Unix(_) => {}
    }
    let status: Status = read(daemon.get(route(&["status"])).await?)?;
    let Some(http) = status.http else {
        let words = Words::new("the daemon has no TCP port, so it serves no dashboard");
        return Err(Failure::Refused(words.hint("tenure status shows its addresses")));
    };
    // Bound to every address it is reached by this one; browsers do not go to 0.0.0.0.
    let http = http.replace("://0.0.0.0:", "://127.0.0.1:").replace("://[::]:", "://[::1]:");
    Ok(http.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_lead_is_for_its_user_alone_and_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = directory.path().display().to_string();
        let environment = Environment::of(&[("XDG_RUNTIME_DIR", &runtime)], false);
        leave_lead(&environment, "http://127.0.0.1:5641/sign-in#one").unwrap();
        let path = leave_lead(&environment, "http://127.0.0.1:5641/sign-in#two").unwrap();
        assert_eq!(path, directory.path().join("tenure/open.html"));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("url=http://127.0.0.1:5641/sign-in#two\"") && !text.contains("#one"), "{text}");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_link_in_the_place_of_the_lead_leads_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = directory.path().display().to_string();
        let environment = Environment::of(&[("XDG_RUNTIME_DIR", &runtime)], false);
        let victim = directory.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        fs::create_dir(directory.path().join("tenure")).unwrap();
        std::os::unix::fs::symlink(&victim, directory.path().join("tenure/open.html")).unwrap();
        let path = leave_lead(&environment, "http://127.0.0.1:5641/sign-in#x").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        assert!(path.symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn without_a_directory_of_the_user_nothing_is_left() {
        assert!(leave_lead(&Environment::of(&[], false), "http://127.0.0.1:5641/sign-in#x").is_err());
    }

    #[test]
    fn an_address_stays_inside_its_attribute() {
        let text = lead("http://h/sign-in#\"><script>&");
        assert!(text.contains("href=\"http://h/sign-in#&quot;&gt;&lt;script&gt;&amp;\""), "{text}");
        assert!(!text.contains("<script"), "{text}");
        assert_eq!(
            file_address(Path::new("/run/user/7/a b%/ä.html")),
            "file:///run/user/7/a%20b%25/%C3%A4.html"
        );
    }
}
