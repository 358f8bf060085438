//! `tenure session start`: a session is asked for, waited for where slots are taken, and kept where that is wished.

use clap::Args;
use serde_json::{Map, Value};
use tenure_api::{ErrorCode, SlotSession, SlotSessionEvent, SlotSessionStart, SlotSessionState};
use tenure_client::clock::BootInstant;
use tenure_client::{CallError, Client, operation_id};

use super::keeper::{Happening, Keeper};
use super::print_stream;
use crate::caller::user_at_host;
use crate::connect::{Daemon, Reach, call_failure};
use crate::duration::Span;
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::stopping::Stopping;

/// Start a slot session: take slots, all or none
///
/// With --keep the command sends heartbeats until it is interrupted, then stops the slot session. Without --keep it
/// prints the slot session and exits; the slot session expires unless another program sends heartbeats. TTL and grace are
/// settings of the daemon (sessions.lease_ttl, sessions.grace).
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Start {
    /// Take slots from this pool [default: sessions.default_pool of the daemon]
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Take this many slots [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Take this resource, besides slots or instead of them (repeatable)
    #[arg(long = "resource", short, value_name = "RESOURCE")]
    resources: Vec<String>,
    /// Record what the slot session is for
    #[arg(long, value_name = "TEXT")]
    service_ref: Option<String>,
    /// Fail the slot session unless it is activated within this time (whole seconds)
    #[arg(long, value_name = "DURATION")]
    start_timeout: Option<Span>,
    /// Wait in the queue for this long if no slot is free (whole seconds)
    #[arg(long, value_name = "DURATION")]
    wait: Option<Span>,
    #[arg(help = "Set the client's name [default: user@host]")]
    #[arg(long, value_name = "CLIENT")]
    client: Option<String>,
    /// Store this JSON object with the slot session
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    metadata: Option<JsonObject>,
    /// Send heartbeats until interrupted, then stop the slot session
    #[arg(long)]
    keep: bool,
    /// Set the idempotency key: a retry with the same ID returns the same slot session
    #[arg(long, value_name = "ID")]
    operation_id: Option<String>,
}

const EXAMPLES: &str = "Examples:
  tenure session start --keep
  tenure session start --pool gpu --count 2 --wait 10m --keep";

/// A type of its own, so that the parser takes it for one value.
type JsonObject = Map<String, Value>;

fn json_object(text: &str) -> Result<JsonObject, String> {
    serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))
}

/// Seconds, never fewer than asked for.
fn whole_seconds(span: Span) -> u64 {
    span.ms().div_ceil(1_000)
}

impl Start {
    pub(super) async fn run(
        self,
        reach: &Reach,
        daemon: &Daemon,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        // Caught before anything is taken, so that nothing stays behind.
        let mut stopping = Stopping::catch()?;
        let keep = self.keep;
        let key = self.operation_id.clone().unwrap_or_else(operation_id);
        let body = self.body();
        let asked_at = BootInstant::now();
        let starting = daemon.client().start_slot_session(&body, Some(&key));
        let Some(started) = stopping.finish(starting).await else { return Err(left_behind()) };
        let stream = started.map_err(call_failure)?;
        if !keep && stream.state != SlotSessionState::New {
            print_stream(printer, &stream)?;
            advise(&stream, printer);
            return Ok(());
        }
        let mut keeper = Keeper::begin(reach, daemon, stream, asked_at).await;
        let kept = keep_until_asked(&mut keeper, keep, &mut stopping, printer).await;
        let stream = keeper.stream().clone();
        match kept {
            Ok(Left::AsItIs) => Ok(()),
            Ok(Left::Over) => Err(ended(&stream)),
            Ok(Left::Asked) => stop(keeper.client(), &stream, &mut stopping, printer).await,
            Err(failure) => {
                // What this command took it does not leave behind because it failed itself.
                let _ = stopping.finish(keeper.client().stop_slot_session(&stream.session_id)).await;
                Err(failure)
            }
        }
    }

    fn body(self) -> SlotSessionStart {
        SlotSessionStart {
            service_ref: self.service_ref,
            pool: self.pool,
            count: self.count,
            resources: self.resources,
            start_timeout: self.start_timeout.map(whole_seconds),
            metadata: self.metadata,
            client: Some(self.client.unwrap_or_else(user_at_host)),
            wait: self.wait.map(whole_seconds),
            correlation_id: None,
        }
    }
}

/// How a session is left.
enum Left {
    /// It has its slots, and --keep was not given.
    AsItIs,
    /// It has ended.
    Over,
    /// A signal asked to stop.
    Asked,
}

/// Keeps a session: for good, or until it has its slots.
async fn keep_until_asked(
    keeper: &mut Keeper<'_>,
    keep: bool,
    stopping: &mut Stopping,
    printer: &mut Printer,
) -> Result<Left, Failure> {
    let mut has_slots = tell_begin(keeper.stream(), keep, printer)?;
    loop {
        let happening = tokio::select! {
            () = stopping.asked() => return Ok(Left::Asked),
            happening = keeper.next() => happening,
        };
        let stream = keeper.stream();
        match happening {
            Happening::News(_) if stream.state.is_terminal() => {
                print_stream(printer, stream)?;
                return Ok(Left::Over);
            }
            Happening::News(SlotSessionEvent::State) => {
                print_stream(printer, stream)?;
                printer.flush()?;
                if stream.state == SlotSessionState::Draining {
                    let until = &stream.lease_expires_at;
                    printer.talk(format_args!("warning: the slot session is draining; it ends at {until}"));
                }
                if !has_slots && stream.state != SlotSessionState::New {
                    has_slots = true;
                    if !keep {
                        advise(stream, printer);
                        return Ok(Left::AsItIs);
                    }
                    tell_kept(stream, printer);
                }
            }
            Happening::News(SlotSessionEvent::Expiring) if stream.state != SlotSessionState::Draining => {
                printer.talk("warning: a third of the ttl is left, and the daemon has received no heartbeat");
            }
            Happening::News(_) => {}
            Happening::Unheard(error) => {
                printer.talk(format_args!("note: heartbeat failed: {error}; retrying"));
            }
            Happening::Doubtful => {
                printer.talk("warning: no answer for a whole ttl; the slot session may have expired");
            }
            Happening::HeardAgain => printer.talk("note: the daemon answers again"),
            Happening::Over(error) => return Err(call_failure(error)),
        }
    }
}

/// Says what happens now; whether the session has its slots.
fn tell_begin(stream: &SlotSession, keep: bool, printer: &mut Printer) -> Result<bool, Failure> {
    if stream.state == SlotSessionState::New {
        let place = stream.queue_position.map(|place| format!(" at position {place}")).unwrap_or_default();
        let id = &stream.session_id;
        printer.talk(format_args!("note: {id} waits in the queue{place}; interrupt to leave the queue"));
        return Ok(false);
    }
    print_stream(printer, stream)?;
    printer.flush()?;
    if keep {
        tell_kept(stream, printer);
    }
    Ok(true)
}

fn tell_kept(stream: &SlotSession, printer: &mut Printer) {
    let every = stream.heartbeat_interval;
    printer
        .talk(format_args!("note: sending a heartbeat every {every} s; interrupt to stop the slot session"));
    if stream.state == SlotSessionState::Starting {
        advise(stream, printer);
    }
}

/// What its client has to do next.
fn advise(stream: &SlotSession, printer: &mut Printer) {
    let (id, until) = (&stream.session_id, &stream.lease_expires_at);
    if stream.state == SlotSessionState::Starting {
        printer.talk(format_args!("note: fails at {until} unless you run: tenure session activate {id}"));
    } else if !stream.state.is_terminal() {
        printer.talk(format_args!("note: expires at {until} unless you run: tenure session heartbeat {id}"));
    }
}

async fn stop(
    client: &Client,
    stream: &SlotSession,
    stopping: &mut Stopping,
    printer: &mut Printer,
) -> Result<(), Failure> {
    printer.talk("note: stopping the slot session");
    let Some(stopped) = stopping.finish(client.stop_slot_session(&stream.session_id)).await else {
        return Err(left_behind());
    };
    match stopped {
        Ok(stopped) => print_stream(printer, &stopped),
        Err(CallError::Rejected(error)) if error.code == ErrorCode::SessionGone => Ok(()),
        Err(error) => Err(call_failure(error)),
    }
}

fn ended(stream: &SlotSession) -> Failure {
    let (id, reason) = (&stream.session_id, stream.reason.as_deref().unwrap_or("reason unknown"));
    let words = Words::new(format_args!("slot session {id} ended: {reason}"));
    Failure::Refused(words.hint(format_args!("tenure why {id} shows its history")))
}

fn left_behind() -> Failure {
    let words = Words::new("interrupted before the daemon confirmed the end of the slot session");
    Failure::Unexpected(words.hint("the slot session expires after its ttl; tenure session ls shows it"))
}
