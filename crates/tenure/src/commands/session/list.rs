//! `tenure session ls` and `tenure session show`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use tenure_api::{SlotSession, SlotSessionList, SlotSessionQuery, SlotSessionState};

use super::{print_object, print_stream};
use crate::connect::{Daemon, call_failure};
use crate::failure::Failure;
use crate::printer::{Printer, counted};
use crate::show::stream_table;

/// Entries of one page at most, as the API has it.
const PAGE_MAX: u64 = 1000;

const STATES: [SlotSessionState; 6] = [
    SlotSessionState::New,
    SlotSessionState::Starting,
    SlotSessionState::Running,
    SlotSessionState::Draining,
    SlotSessionState::Stopped,
    SlotSessionState::Failed,
];

/// List slot sessions: queued ones first, then live ones
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure session ls\n  tenure session ls --state running")]
pub(super) struct List {
    /// Show only slot sessions in this state
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(STATES.map(SlotSessionState::as_str)))]
    state: Option<String>,
    /// Include ended slot sessions, without a limit
    #[arg(long)]
    all: bool,
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = PAGE_MAX, conflicts_with = "all")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

/// Show one slot session
///
/// Ended slot sessions can be shown for as long as history.ended_age allows.
#[derive(Args)]
#[command(after_help = "Example:\n  tenure session show 94305303-1dc3-41b4-a150-bf26d0043d01")]
pub(super) struct Show {
    /// Slot session ID
    #[arg(value_name = "SESSION")]
    session: String,
}

impl List {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let list = self.fetch(daemon).await?;
        if list.next_cursor.is_some() {
            printer.talk("note: the list continues; use --limit N or --all");
        }
        if printer.json() {
            return print_object(printer, &list);
        }
        if !list.sessions.is_empty() {
            printer.table(&stream_table(&list.sessions))?;
        }
        printer.talk(format_args!("{} at lsn {}", counted(list.sessions.len() as u64, "session"), list.lsn));
        Ok(())
    }

    /// The pages in one object; its `lsn` is that of the first one.
    async fn fetch(&self, daemon: &Daemon) -> Result<SlotSessionList, Failure> {
        let state = STATES.into_iter().find(|state| self.state.as_deref() == Some(state.as_str()));
        let max = if self.all { usize::MAX } else { self.limit as usize };
        let mut whole: Option<SlotSessionList> = None;
        let mut cursor = None;
        loop {
            let had = whole.as_ref().map_or(0, |whole| whole.sessions.len());
            let limit = Some(((max - had) as u64).min(PAGE_MAX));
            let query = SlotSessionQuery { state, limit, cursor: cursor.clone() };
            let mut page = daemon.client().slot_sessions(&query).await.map_err(call_failure)?;
            let mut next = page.next_cursor.take();
            if !self.all && state.is_none() {
                // Those that had a lease and ended come last: nothing behind them lives.
                if page.sessions.iter().any(|stream| has_ended(stream) && stream.lease_id.is_some()) {
                    next = None;
                }
                page.sessions.retain(|stream| !has_ended(stream));
            }
            let whole = whole.get_or_insert_with(|| SlotSessionList { sessions: Vec::new(), ..page.clone() });
            whole.sessions.append(&mut page.sessions);
            whole.next_cursor.clone_from(&next);
            if next.is_none() || next == cursor || whole.sessions.len() >= max {
                return Ok(whole.clone());
            }
            cursor = next;
        }
    }
}

fn has_ended(stream: &SlotSession) -> bool {
    stream.state.is_terminal()
}

impl Show {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        print_stream(printer, &daemon.client().slot_session(&self.session).await.map_err(call_failure)?)
    }
}
