//! A group that is shown again whenever it changes. The daemon tells of changes, a Redis is looked at every second. On a
//! screen the table is redrawn; elsewhere each change is one more table or object.

use std::time::Duration;

use serde_json::Value;
use tenure_api::{EventsQuery, PollName};
use tenure_client::Events;
use tenure_polling::store::TargetName;
use tokio::time::{sleep, timeout};

use super::place::{Kept, Place, Shown};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::stopping::{Stopping, output_closed};

/// Not more often than this.
const PAUSE: Duration = Duration::from_millis(250);
/// Where nothing is told, and where ages are shown.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Where everything is told, something may have become uncertain by the passing of time alone.
const LOOK_ANYWAY: Duration = Duration::from_secs(2);
/// Events that came together are looked at together.
const EVENTS_MAX: usize = 10_000;

/// Whether to go on.
pub(super) enum After {
    GoOn,
    Done,
}

/// Shows the group now and after every change, until it is done, somebody asks to stop or nobody reads any more.
pub(super) async fn follow(
    mut place: Place<'_>,
    expected: &[TargetName],
    printer: &mut Printer,
    mut show: impl FnMut(&Shown, &mut Printer) -> Result<After, Failure>,
) -> Result<(), Failure> {
    let mut stopping = Stopping::catch()?;
    let following = async {
        let mut events = None;
        let mut last: Option<Value> = None;
        let mut is_gone = false;
        loop {
            // Before looking: what happens in between is told then.
            if events.is_none() {
                events = open(&place).await;
            }
            match place.show().await.and_then(|shown| shown.expecting(expected)) {
                Ok(shown) => {
                    if std::mem::take(&mut is_gone) {
                        printer.talk("note: reconnected");
                    }
                    let now = without_times(&shown.object);
                    if (printer.has_screen() || last.as_ref() != Some(&now))
                        && matches!(show(&shown, printer)?, After::Done)
                    {
                        return Ok(());
                    }
                    last = Some(now);
                }
                Err(failure) if last.is_some() && is_passing(&failure) => {
                    if !std::mem::replace(&mut is_gone, true) {
                        printer.talk("note: the store does not answer; reconnecting");
                    }
                    events = None;
                    find_again(&mut place).await?;
                }
                Err(failure) => return Err(failure),
            }
            sleep(PAUSE).await;
            changed(&mut events, printer.has_screen()).await;
        }
    };
    tokio::select! {
        outcome = following => outcome,
        () = stopping.asked() => Ok(()),
        () = output_closed() => Ok(()),
    }
}

/// Events of the group, where there are any.
async fn open(place: &Place<'_>) -> Option<Events> {
    let Kept::Daemon { daemon, .. } = &place.kept else { return None };
    let prefix = Some(PollName::prefix(&place.group.group));
    daemon.client().events(EventsQuery { resource_prefix: prefix, ..EventsQuery::default() }).await.ok()
}

/// Waits until there may be something new.
async fn changed(events: &mut Option<Events>, has_screen: bool) {
    let Some(told) = events else { return sleep(LOOK_AGAIN).await };
    let patience = if has_screen { LOOK_AGAIN } else { LOOK_ANYWAY };
    let mut patience = patience;
    for _ in 0..EVENTS_MAX {
        match timeout(patience, told.next()).await {
            Ok(Ok(Some(_))) => patience = Duration::from_millis(1),
            Ok(Ok(None) | Err(_)) => {
                *events = None;
                return;
            }
            Err(_) => return,
        }
    }
}

/// The daemon may have moved.
async fn find_again(place: &mut Place<'_>) -> Result<(), Failure> {
    sleep(LOOK_AGAIN).await;
    if let Kept::Daemon { daemon, reach } = &mut place.kept {
        match reach.find().await {
            Ok(found) => *daemon = found,
            Err(failure) if is_passing(&failure) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

fn is_passing(failure: &Failure) -> bool {
    match failure {
        Failure::NoDaemon { .. } | Failure::Unexpected(_) => true,
        Failure::Answered { error, .. } => error.retry_after_ms.is_some(),
        Failure::Refused(_) | Failure::Usage(_) | Failure::Ended(_) | Failure::Output(_) => false,
    }
}

/// What time alone changes is no news.
fn without_times(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("timestamp");
        fields.remove("generation");
    }
    let nodes = object.get_mut("live_nodes").and_then(Value::as_array_mut);
    for node in nodes.into_iter().flatten() {
        let targets = node.get_mut("owned_targets").and_then(Value::as_array_mut);
        for fields in targets.into_iter().flatten().filter_map(Value::as_object_mut) {
            fields.remove("last_renewed_at");
        }
    }
    object
}
