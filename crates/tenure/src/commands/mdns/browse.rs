//! `tenure mdns browse` and `subscribe`: what is seen on the network, until nothing is seen for a while.

use std::collections::HashMap;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_api::{Browsed, DiscoveryEvent, ServiceRecord};
use tenure_client::{CallError, DiscoveryStream};

use super::advised;
use super::arguments::seconds_or_span;
use crate::commands::again::{is_passing, open_again};
use crate::commands::asking_or_alone;
use crate::connect::{Daemon, Found, Reach, call_failure};
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::show::{browsed_line, discovery_line};
use crate::stopping::{Stopping, output_closed};

/// List services of a type as they appear and disappear; without a type, list the types
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure mdns browse\n  tenure mdns browse _http._tcp --timeout 30s")]
pub(crate) struct Browse {
    /// Service type, like _http._tcp
    #[arg(value_name = "TYPE")]
    service_type: Option<String>,
    #[command(flatten)]
    patience: Patience,
}

/// Watch a service type: print every service that is found, resolved or removed
#[derive(Args)]
#[command(after_help = "Example:\n  tenure mdns subscribe _http._tcp --timeout 0")]
pub(crate) struct Subscribe {
    /// Service type, like _http._tcp
    #[arg(value_name = "TYPE")]
    service_type: String,
    #[command(flatten)]
    patience: Patience,
}

#[derive(Args)]
struct Patience {
    /// Exit after this long without new results: seconds, or a duration like 1m30s
    ///
    /// 0 never exits. After a restart of the daemon all services are then printed again.
    #[arg(long = "timeout", value_name = "SECS|DURATION", default_value = "5", value_parser = seconds_or_span)]
    idle_for: Duration,
}

impl Browse {
    pub(crate) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        asking_or_alone(reach, printer, async |found, p| {
            let (of, idle_for) = (self.service_type.as_deref(), self.patience.idle_for);
            let open = async |daemon: &Daemon| daemon.client().browse(of, idle_for).await;
            let goes_on = idle_for.is_zero();
            let follow = Follow { reach, found, goes_on, idle_for, told: told_browsed };
            follow.run(open, p).await
        })
    }
}

impl Subscribe {
    pub(crate) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        asking_or_alone(reach, printer, async |found, p| {
            let (of, idle_for) = (Some(self.service_type.as_str()), self.patience.idle_for);
            let open = async |daemon: &Daemon| daemon.client().subscribe(of, idle_for).await;
            let goes_on = idle_for.is_zero();
            let follow = Follow { reach, found, goes_on, idle_for, told: told_discovery };
            follow.run(open, p).await
        })
    }
}

fn told_browsed(browsed: &Browsed) -> (&ServiceRecord, String) {
    let (Browsed::Found { found: service } | Browsed::Seen(DiscoveryEvent { service, .. })) = browsed;
    (service, browsed_line(browsed))
}

fn told_discovery(event: &DiscoveryEvent) -> (&ServiceRecord, String) {
    (&event.service, discovery_line(event))
}

/// A stream of discovery events that is printed.
struct Follow<'a, T> {
    reach: &'a Reach,
    found: &'a Found,
    /// Over restarts of the daemon too.
    goes_on: bool,
    idle_for: Duration,
    told: fn(&T) -> (&ServiceRecord, String),
}

impl<T: DeserializeOwned + Serialize> Follow<'_, T> {
    async fn run(
        self,
        open: impl AsyncFn(&Daemon) -> Result<DiscoveryStream<T>, CallError>,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let mut stopping = Stopping::catch()?;
        tokio::select! {
            outcome = self.print(open, printer) => outcome,
            () = stopping.asked() => Ok(()),
            () = output_closed() => Ok(()),
        }
    }

    async fn print(
        &self,
        open: impl AsyncFn(&Daemon) -> Result<DiscoveryStream<T>, CallError>,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let daemon = &self.found.daemon;
        let goes_on = self.goes_on && !self.found.is_standalone();
        let mut events = open(daemon).await.map_err(call_failure).map_err(advised)?;
        if !printer.json() && io::stderr().is_terminal() {
            let end = match self.idle_for {
                Duration::ZERO => "interrupt to stop".to_owned(),
                idle_for => format!("exits after {} s without new results", idle_for.as_secs()),
            };
            printer.talk(format_args!("note: listening for services; {end}"));
        }
        let mut count: u64 = 0;
        // What changed may be more than a line shows: the same one is not said twice.
        let mut said: HashMap<String, String> = HashMap::new();
        loop {
            let seen = match events.next().await {
                Ok(Some(seen)) => seen,
                Ok(None) if !goes_on => break,
                Err(error) if !goes_on || !is_passing(&error) => return Err(gone(error, self.found)),
                Ok(None) | Err(_) => {
                    events = open_again(self.reach, daemon, printer, &open).await?;
                    said.clear();
                    continue;
                }
            };
            count += 1;
            if printer.json() {
                let object =
                    serde_json::to_value(&seen).map_err(|error| Failure::Unexpected(Words::new(error)))?;
                printer.object(&object)?;
            } else {
                let (service, line) = (self.told)(&seen);
                if said.get(&service.name) != Some(&line) {
                    printer.line(&line)?;
                    said.insert(service.name.clone(), line);
                }
            }
            printer.flush()?;
        }
        if count == 0 {
            printer.talk("no services found");
        }
        Ok(())
    }
}

/// A stream that breaks had no effect that could be looked for.
fn gone(error: CallError, found: &Found) -> Failure {
    match error {
        CallError::Broken { .. } | CallError::TimedOut { .. } => {
            let line =
                format_args!("lost the connection to the daemon at {}: {error}", found.daemon.endpoint());
            Failure::Unexpected(Words::new(line).hint("repeat the command when the daemon runs again"))
        }
        error => call_failure(error),
    }
}
