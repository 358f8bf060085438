//! `tenure mdns browse` and `subscribe`: what is seen on the network, until nothing is seen for a while.

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_api::{Browsed, ServiceRecord, Sighting};
use tenure_client::{CallError, Sightings};

use super::advised;
use super::arguments::seconds_or_span;
use crate::commands::asking_or_alone;
use crate::connect::{Found, Reach, call_failure};
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::show::{browsed_line, sighting_line};
use crate::stopping::{Stopping, output_closed};

/// Print services of a type as they come and go; without a type, the types there are
#[derive(Args)]
pub(crate) struct Browse {
    /// The type, like _http._tcp
    #[arg(value_name = "TYPE")]
    service_type: Option<String>,
    #[command(flatten)]
    patience: Patience,
}

/// Print everything that is seen of a type: found, resolved and removed
#[derive(Args)]
pub(crate) struct Subscribe {
    /// The type, like _http._tcp
    #[arg(value_name = "TYPE")]
    service_type: String,
    #[command(flatten)]
    patience: Patience,
}

#[derive(Args)]
struct Patience {
    /// End after so long without news: seconds, or a duration like 1m30s; 0 is for ever
    #[arg(long = "timeout", value_name = "SECS|DURATION", default_value = "5", value_parser = seconds_or_span)]
    idle_for: Duration,
}

impl Browse {
    pub(crate) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        asking_or_alone(reach, printer, async |found, p| {
            let sightings =
                found.daemon.client().browse_stream(self.service_type.as_deref(), self.patience.idle_for);
            follow(sightings, found, p, told_browsed).await
        })
    }
}

impl Subscribe {
    pub(crate) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        asking_or_alone(reach, printer, async |found, p| {
            let sightings =
                found.daemon.client().subscribe_stream(Some(&self.service_type), self.patience.idle_for);
            follow(sightings, found, p, told_sighting).await
        })
    }
}

fn told_browsed(browsed: &Browsed) -> (&ServiceRecord, String) {
    let (Browsed::Found { found: service } | Browsed::Seen(Sighting { service, .. })) = browsed;
    (service, browsed_line(browsed))
}

fn told_sighting(sighting: &Sighting) -> (&ServiceRecord, String) {
    (&sighting.service, sighting_line(sighting))
}

async fn follow<T: DeserializeOwned + Serialize>(
    sightings: impl Future<Output = Result<Sightings<T>, CallError>>,
    found: &Found,
    printer: &mut Printer,
    told: impl Fn(&T) -> (&ServiceRecord, String),
) -> Result<(), Failure> {
    let mut stopping = Stopping::catch()?;
    let printing = async {
        let mut sightings = sightings.await.map_err(call_failure).map_err(advised)?;
        let mut count: u64 = 0;
        // What changed may be more than a line shows: the same one is not said twice.
        let mut said: HashMap<String, String> = HashMap::new();
        while let Some(seen) = sightings.next().await.map_err(|error| gone(error, found))? {
            count += 1;
            if printer.json() {
                let object =
                    serde_json::to_value(&seen).map_err(|error| Failure::Unexpected(Words::new(error)))?;
                printer.object(&object)?;
            } else {
                let (service, line) = told(&seen);
                if said.get(&service.name) != Some(&line) {
                    printer.line(&line)?;
                    said.insert(service.name.clone(), line);
                }
            }
            printer.flush()?;
        }
        if count == 0 {
            printer.talk("nothing was seen");
        }
        Ok(())
    };
    tokio::select! {
        outcome = printing => outcome,
        () = stopping.asked() => Ok(()),
        () = output_closed() => Ok(()),
    }
}

/// A stream that breaks had no effect that could be looked for.
fn gone(error: CallError, found: &Found) -> Failure {
    match error {
        CallError::Broken { .. } | CallError::TimedOut { .. } => {
            let line = format_args!("the daemon at {} is gone: {error}", found.daemon.endpoint());
            Failure::Unexpected(Words::new(line).hint("ask again once it is back"))
        }
        error => call_failure(error),
    }
}
