//! `tenure mdns register`: a service is advertised for as long as this command runs.

use std::net::IpAddr;

use clap::Args;
use serde_json::json;
use tenure_api::{Register as RegisterBody, Registration};
use tenure_client::{RegistrationKeeper, RegistrationState, RegistrationStatus};

use super::advised;
use super::arguments::{TxtEntry, txt, whole_seconds};
use crate::commands::asking_or_alone;
use crate::connect::{Found, Reach, call_failure};
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::show::registered_page;
use crate::stopping::Stopping;

/// Advertise a service until interrupted
///
/// The command renews the registration three times per TTL and unregisters the service when it is interrupted or
/// terminated. If it is killed, the registration ends after TTL and grace period. The registration survives a restart of
/// the daemon. If the name is taken, the daemon advertises the service as NAME (2).
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Register {
    /// Instance name
    #[arg(value_name = "NAME")]
    name: String,
    /// Service type, like _http._tcp
    #[arg(value_name = "TYPE")]
    service_type: String,
    /// Port of the service
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Advertise this address [default: the addresses of this host]
    #[arg(long, value_name = "IP")]
    ip: Option<IpAddr>,
    /// Add a TXT entry, with or without a value (repeatable)
    #[arg(long, value_name = "KEY[=VALUE]")]
    txt: Vec<TxtEntry>,
    /// Expire the registration this many seconds after its last heartbeat; 0 needs no heartbeats, so it survives a crash of
    /// this command [default: mdns.http_lease of the daemon, 90]
    #[arg(long, value_name = "SECONDS", value_parser = whole_seconds)]
    lease: Option<u64>,
}

const EXAMPLES: &str = "Examples:
  tenure mdns register \"My App\" _http._tcp 8080
  tenure mdns register \"My App\" _http._tcp 8080 --txt path=/admin --lease 30";

impl Register {
    pub(crate) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        let lease = self.lease;
        let body = self.body()?;
        asking_or_alone(reach, printer, async |found, p| {
            let mut body = body;
            if found.is_standalone() {
                // The daemon is this process: there is no proof of life that it could miss.
                body.lease = Some(0);
                if lease.is_some_and(|secs| secs > 0) {
                    p.talk(
                        "note: without a daemon --lease has no effect: the service ends with this command",
                    );
                }
            }
            advertise(&body, found, p).await
        })
    }

    fn body(self) -> Result<RegisterBody, Failure> {
        Ok(RegisterBody {
            name: self.name,
            service_type: self.service_type,
            port: self.port,
            ip: self.ip,
            txt: txt(self.txt)?,
            lease: self.lease,
            ..RegisterBody::default()
        })
    }
}

async fn advertise(body: &RegisterBody, found: &Found, printer: &mut Printer) -> Result<(), Failure> {
    // Caught before anything is registered, so that nothing stays behind.
    let mut stopping = Stopping::catch()?;
    let registering = found.daemon.client().keep_registration(body);
    let Some(keeper) = stopping.finish(registering).await else { return Err(left_behind()) };
    let keeper = keeper.map_err(call_failure).map_err(advised)?;
    let told = tell(&keeper, &mut stopping, printer).await;
    let id = keeper.registration().id;
    let Some(ended) = stopping.finish(keeper.unregister()).await else { return Err(left_behind()) };
    told?;
    ended.map_err(call_failure)?;
    if printer.json() {
        return printer.object(&json!({ "unregistered": id }));
    }
    printer.line(format_args!("unregistered {id}"))
}

/// Tells what becomes of a registration, until somebody asks to stop or it is over.
async fn tell(
    keeper: &RegistrationKeeper,
    stopping: &mut Stopping,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let mut states = keeper.watch();
    let mut before = states.borrow_and_update().clone();
    print(&before.registration, printer)?;
    printer.talk("note: advertising until interrupted");
    loop {
        tokio::select! {
            () = stopping.asked() => return Ok(()),
            changed = states.changed() => {
                let now = states.borrow_and_update().clone();
                if let RegistrationStatus::Ended(end) = &now.status {
                    let words = Words::new(end);
                    let hint = format!("tenure why {} shows its history", now.registration.id);
                    return Err(Failure::Refused(words.hint(hint)));
                }
                if changed.is_err() {
                    return Err(Failure::Unexpected(Words::new("the task that renews the registration stopped")));
                }
                tell_change(&before, &now, printer)?;
                before = now;
            }
        }
    }
}

fn tell_change(
    before: &RegistrationState,
    now: &RegistrationState,
    printer: &mut Printer,
) -> Result<(), Failure> {
    if before.status != now.status {
        match (&before.status, &now.status) {
            (_, RegistrationStatus::Unconfirmed) => {
                printer.talk("note: the daemon does not answer; retrying");
            }
            (_, RegistrationStatus::Expired) => {
                printer.talk("note: the registration expired; registering again");
            }
            (RegistrationStatus::Unconfirmed, RegistrationStatus::Registered) => {
                printer.talk("note: the daemon answers again");
            }
            (_, RegistrationStatus::Registered | RegistrationStatus::Ended(_)) => {}
        }
    }
    let (old, new) = (&before.registration, &now.registration);
    if (&old.id, old.epoch) != (&new.id, new.epoch) {
        print(new, printer)?;
    }
    match (old.draining, new.draining) {
        (false, true) => {
            printer.talk("warning: an operator drains this registration; it ends unless it is revived");
        }
        (true, false) => printer.talk("note: the operator cancelled the drain"),
        (false, false) | (true, true) => {}
    }
    Ok(())
}

fn print(registration: &Registration, printer: &mut Printer) -> Result<(), Failure> {
    if printer.json() {
        printer.object(&json!({ "registered": registration }))?;
    } else {
        registered_page(registration).print(printer)?;
    }
    if let Some(warning) = &registration.warning {
        printer.talk(format_args!("warning: {warning}"));
    }
    printer.flush()
}

fn left_behind() -> Failure {
    let words = Words::new("interrupted before the daemon confirmed that the service is unregistered");
    Failure::Unexpected(
        words.hint("the registration ends after TTL and grace; tenure admin registrations shows it"),
    )
}
