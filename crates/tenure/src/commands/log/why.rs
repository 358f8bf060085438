//! `tenure log why`: the story of something, from a log at rest.

use clap::Args;
use tenure_api::{ErrorCode, Story};
use tenure_engine::host::read_clocks;
use tenure_faces::{readings_at_rest, story_at_rest};
use tenure_history::History;

use super::DataDirectory;
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::show::{Now, story_lines};

/// Explain what happened to a lease, registration, resource or session, from a log or an archive
///
/// Use it for history that the daemon no longer has, such as the directory of log.archive.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Why {
    #[command(flatten)]
    directory: DataDirectory,
    /// ID or name
    #[arg(value_name = "NAME|ID")]
    subject: String,
}

const EXAMPLES: &str = "Examples:
  tenure log why /var/lib/tenure printer
  tenure log why /srv/tenure-archive k3f9-4";

impl Why {
    pub(super) fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        self.directory.check()?;
        let mut history = History::offline(DataDirectory::disk(), &self.directory.path)
            .map_err(|error| self.directory.unreadable(&error))?;
        let story = self.tell(&mut history)?;
        if printer.json() {
            return printer.object(&serde_json::to_value(&story).expect("invariant: a story is JSON"));
        }
        let now = Now::here(read_clocks().wall_ms);
        story_lines("story of", &story, now).into_iter().try_for_each(|line| printer.line(line))
    }

    /// The first reading that something is known of.
    fn tell(&self, history: &mut History) -> Result<Story, Failure> {
        let mut unknown = None;
        for subject in readings_at_rest(history.identity(), &self.subject) {
            match story_at_rest(history, &subject, self.subject.clone()) {
                Ok(story) => return Ok(story),
                Err(error) if error.code == ErrorCode::NotFound => unknown = Some(error),
                Err(error) => return Err(Failure::Unexpected(Words::new(error.message))),
            }
        }
        let message = unknown.map(|error| error.message).unwrap_or_default();
        Err(Failure::Refused(Words::new(message).hint("write resource names as tenure lease ls shows them")))
    }
}
