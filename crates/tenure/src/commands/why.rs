//! `tenure why`: what happened to something, and what would happen next.

use clap::Args;
use serde_json::Value;
use tenure_api::{AdminRegistration, ErrorCode, Story, WhyQuery};
use tenure_engine::host::read_clocks;
use tenure_history::{WireLease, parse_session};

use crate::connect::{Daemon, read, route};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::show::{Now, story_lines};

/// Explain what happened to a lease, registration, resource or session, and what happens next
///
/// An argument that looks like the ID of a lease, registration or session is looked up as one; any other argument, or an
/// unknown ID, as the name of a resource or pool, and last as a prefix of a registration ID. A flag forces one
/// interpretation.
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure why printer\n  tenure why k3f9-4")]
pub(crate) struct Why {
    /// ID or name
    #[arg(value_name = "NAME|ID")]
    subject: String,
    /// Look it up as a lease ID
    #[arg(long, group = "kind")]
    lease: bool,
    /// Look it up as a resource or pool name
    #[arg(long, group = "kind")]
    resource: bool,
    /// Look it up as a session ID
    #[arg(long, group = "kind")]
    session: bool,
    /// Look it up as a registration ID
    #[arg(long, group = "kind")]
    registration: bool,
}

/// What the subject is taken for, and how that is asked.
type Reading = (&'static str, WhyQuery);

/// Characters of a registration's id, and the fewest that stand for one.
const REGISTRATION_ID: usize = 8;
const REGISTRATION_ID_MIN: usize = 2;

impl Why {
    pub(crate) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let (kind, answer) = self.ask(daemon).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let story: Story = read(answer)?;
        let now = Now::here(read_clocks().wall_ms);
        story_lines(kind, &story, now).into_iter().try_for_each(|line| printer.line(line))
    }

    /// The first reading that something is known of; if there is none, what is said to the likely one.
    async fn ask(&self, daemon: &Daemon) -> Result<(&'static str, Value), Failure> {
        let mut likely: Option<Failure> = None;
        for (kind, query) in self.readings() {
            let answer = daemon.get(route(&["why"]).query(&query)).await;
            match answer {
                Err(failure) if is_unknown(&failure) => _ = likely.get_or_insert(failure),
                answer => return answer.map(|answer| (kind, answer)),
            }
        }
        if self.may_begin_a_registration()
            && let Some(id) = self.registration_that_begins_so(daemon).await?
        {
            let (kind, query) = registration(id);
            return daemon.get(route(&["why"]).query(&query)).await.map(|answer| (kind, answer));
        }
        Err(likely.expect("invariant: there is a reading, and what is known was told"))
    }

    /// What it can mean, the likely reading first.
    fn readings(&self) -> Vec<Reading> {
        let subject = || Some(self.subject.clone());
        let lease = || ("lease", WhyQuery { lease: subject(), ..WhyQuery::default() });
        let session = || ("session", WhyQuery { session: subject(), ..WhyQuery::default() });
        let resource = || ("resource", WhyQuery { resource: subject(), ..WhyQuery::default() });
        if self.lease {
            vec![lease()]
        } else if self.session {
            vec![session()]
        } else if self.registration {
            vec![registration(self.subject.clone())]
        } else if self.resource {
            vec![resource()]
        } else if self.subject.parse::<WireLease>().is_ok() {
            vec![lease(), resource()]
        } else if self.subject.len() == REGISTRATION_ID && is_hexadecimal(&self.subject) {
            vec![registration(self.subject.clone()), resource()]
        } else if parse_session(&self.subject).is_ok() || is_uuid(&self.subject) {
            vec![session(), resource()]
        } else {
            vec![resource()]
        }
    }

    /// A name that is known counts for more than the beginning of an id.
    fn may_begin_a_registration(&self) -> bool {
        let is_short = (REGISTRATION_ID_MIN..REGISTRATION_ID).contains(&self.subject.len());
        let is_forced_otherwise = self.lease || self.session || self.resource;
        is_short && is_hexadecimal(&self.subject) && !is_forced_otherwise
    }

    async fn registration_that_begins_so(&self, daemon: &Daemon) -> Result<Option<String>, Failure> {
        let answer = daemon.get(route(&["mdns", "admin", "registrations", &self.subject])).await;
        match answer {
            Ok(answer) => Ok(Some(read::<AdminRegistration>(answer)?.id)),
            Err(Failure::Answered { error, words }) if error.code == ErrorCode::AmbiguousId => {
                Err(Failure::Answered { error, words })
            }
            // Not there, or not for us to see.
            Err(_) => Ok(None),
        }
    }
}

fn registration(id: String) -> Reading {
    ("registration", WhyQuery { registration: Some(id), ..WhyQuery::default() })
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The id of a session of `/api/v3`.
fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    lengths == [8, 4, 4, 4, 12] && groups.into_iter().all(is_hexadecimal)
}

fn is_unknown(failure: &Failure) -> bool {
    let unknown = [ErrorCode::NotFound, ErrorCode::SessionNotFound, ErrorCode::LeaseRetired];
    matches!(failure, Failure::Answered { error, .. } if unknown.contains(&error.code))
}
