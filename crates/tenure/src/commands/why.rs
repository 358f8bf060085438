//! `tenure why`: what happened to something, and what would happen next.

use clap::Args;
use tenure_api::{ErrorCode, Story, WhyQuery};
use tenure_engine::host::read_clocks;
use tenure_history::{WireLease, parse_session};

use crate::connect::{Daemon, read, route};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::show::{Now, story_lines};

/// Tell what happened to a lease, a resource or a session, and what would happen next
///
/// What is spelled like the id of a lease or a session is taken for one; anything else, or an id that names nothing, is
/// taken for the name of a resource or a pool. The flags force one reading.
#[derive(Args)]
pub(crate) struct Why {
    /// An id or a name
    #[arg(value_name = "NAME|ID")]
    subject: String,
    /// It is the id of a lease
    #[arg(long, group = "kind")]
    lease: bool,
    /// It is the name of a resource or a pool
    #[arg(long, group = "kind")]
    resource: bool,
    /// It is the id of a session
    #[arg(long, group = "kind")]
    session: bool,
    /// It is the id of a registration
    #[arg(long, group = "kind")]
    registration: bool,
}

/// What the subject is taken for, and how that is asked.
type Reading = (&'static str, WhyQuery);

impl Why {
    pub(crate) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let ((mut kind, query), second) = self.readings();
        let mut answer = daemon.get(route(&["why"]).query(&query)).await;
        if let Some((other, query)) = second
            && is_unknown(&answer)
        {
            let again = daemon.get(route(&["why"]).query(&query)).await;
            if !is_unknown(&again) {
                (kind, answer) = (other, again);
            }
        }
        let answer = answer?;
        if printer.json() {
            return printer.object(&answer);
        }
        let story: Story = read(answer)?;
        let now = Now::here(read_clocks().wall_ms);
        story_lines(kind, &story, now).into_iter().try_for_each(|line| printer.line(line))
    }

    /// What it can mean: the likely reading, and another where there is one.
    fn readings(self) -> (Reading, Option<Reading>) {
        let subject = || Some(self.subject.clone());
        let lease = || ("lease", WhyQuery { lease: subject(), ..WhyQuery::default() });
        let session = || ("session", WhyQuery { session: subject(), ..WhyQuery::default() });
        let resource = || ("resource", WhyQuery { resource: subject(), ..WhyQuery::default() });
        if self.lease {
            (lease(), None)
        } else if self.session {
            (session(), None)
        } else if self.registration {
            (("registration", WhyQuery { registration: subject(), ..WhyQuery::default() }), None)
        } else if self.resource {
            (resource(), None)
        } else if self.subject.parse::<WireLease>().is_ok() {
            (lease(), Some(resource()))
        } else if parse_session(&self.subject).is_ok() {
            (session(), Some(resource()))
        } else {
            (resource(), None)
        }
    }
}

fn is_unknown<T>(answer: &Result<T, Failure>) -> bool {
    let unknown = [ErrorCode::NotFound, ErrorCode::SessionNotFound, ErrorCode::LeaseRetired];
    matches!(answer, Err(Failure::Answered { error, .. }) if unknown.contains(&error.code))
}
