//! `why`, asked over the wire. Reading the log takes a while, so it happens beside the async threads.

use crate::ask::lease_id;
use crate::dispatch::Faces;
use crate::leases::POLLING_PREFIX;
use crate::polling::add_pins;
use crate::refusal::Asked;
use crate::sessions;
use crate::show::Lens;
use tenure_api::{Error, ErrorCode, PollName, Story, StoryEntry, WhyQuery};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::{Actor, Evidence, LeaseId, Tick};
use tenure_history::{Entry, History, Identity, Subject, WhyLimits, WireLease, actor_word, rfc3339};

/// Whom a query asks about, and how that is written.
pub(crate) fn subject(
    identity: &Identity,
    former_tags: &[u32],
    query: WhyQuery,
) -> Result<(Subject, String), Error> {
    let WhyQuery { lease, resource, registration, session } = query;
    let given = [&lease, &resource, &registration, &session].into_iter().flatten().count();
    if given != 1 {
        return Err(Error::new(
            ErrorCode::InvalidRequest,
            "why takes exactly one of lease, resource, registration and session",
        ));
    }
    if let Some(id) = lease {
        let renamed = id.parse::<WireLease>().ok().and_then(|wire| wire.renamed(identity, former_tags));
        let known = renamed.map_or_else(|| id.clone(), |wire| wire.text());
        return Ok((Subject::Lease(lease_id(identity, &known, Asked::AsAnyone)?), id));
    }
    if let Some(name) = resource {
        return Ok((Subject::Resource(name.as_str().into()), name));
    }
    if let Some(id) = session {
        // Streams are sessions to those who use them.
        if let Some(stream) = crate::streams::read_id(&id) {
            return Ok((Subject::FaceId(stream.as_str().into()), id));
        }
        return Ok((Subject::Session(sessions::parse(&id)?), id));
    }
    let id = registration.unwrap_or_default();
    Ok((Subject::FaceId(id.to_ascii_lowercase().into()), id))
}

/// What a text may name in a log at rest, the likely reading first.
#[must_use]
pub fn readings_at_rest(identity: &Identity, text: &str) -> Vec<Subject> {
    let lease = lease_id(identity, text, Asked::AsAnyone).ok().map(Subject::Lease);
    let session = sessions::parse(text).ok().map(Subject::Session);
    let face = Subject::FaceId(text.to_ascii_lowercase().as_str().into());
    let spelled_out = text.strip_prefix(POLLING_PREFIX).unwrap_or(text).split_once('/');
    let target = spelled_out.and_then(|(group, name)| PollName::Target(name.to_owned()).resource(group).ok());
    let target = target.map(|name| Subject::Resource(name.as_str().into()));
    let others = [Subject::Resource(text.into()), face];
    lease.into_iter().chain(session).chain(others).chain(target).collect()
}

/// The story of something from a log at rest. Blocks on the disk.
///
/// # Errors
/// When nothing is known of it, or the log cannot be read.
pub fn story_at_rest(history: &mut History, subject: &Subject, shown: String) -> Result<Story, Error> {
    let identity = *history.identity();
    tell(&Lens { identity: &identity, wall_ms: read_clocks().wall_ms }, history, subject, shown, 0)
}

/// What else a name may mean that no resource has: a target of a group of pollers, or a service on the network. Each with
/// how it is written.
pub(crate) fn also_called(faces: &Faces, name: &str) -> Vec<(Subject, String)> {
    let target = |group: &str, target: &str| PollName::Target(target.to_owned()).resource(group).ok();
    let spelled_out = name.strip_prefix(POLLING_PREFIX).and_then(|rest| rest.split_once('/'));
    let targets: Vec<String> = match spelled_out {
        Some((group, name)) => target(group, name).into_iter().collect(),
        None => {
            let groups = faces.polling().named_groups();
            // By its own name, or behind that of its group.
            let called = |group: &str| name.strip_prefix(group).and_then(|rest| rest.strip_prefix('/'));
            let targets = groups.iter().flat_map(|(group, known)| {
                let names = [Some(name), called(group)].into_iter().flatten();
                names.filter(|name| known.knows(name)).filter_map(|name| target(group, name))
            });
            targets.collect()
        }
    };
    let targets = targets.into_iter().map(|name| (Subject::Resource(name.as_str().into()), name));
    let services = faces.registrations().called(name);
    let services = services.into_iter().map(|id| (Subject::FaceId(id.as_str().into()), id));
    targets.chain(services).collect()
}

/// Tells the story. Blocks on the disk.
pub(crate) fn tell(
    lens: &Lens<'_>,
    history: &mut History,
    subject: &Subject,
    shown: String,
    lsn: u64,
) -> Result<Story, Error> {
    let unreadable = |error| Error::new(ErrorCode::IoError, format!("the log cannot be read: {error}"));
    let mut story = history.why(subject, WhyLimits::default()).map_err(|error| unreadable(error.into()))?;
    add_pins(history, subject, &mut story.entries).map_err(unreadable)?;
    let archive = history.archive().map_err(|error| unreadable(error.into()))?;
    let archive = archive.map(|path| path.display().to_string());
    if story.entries.is_empty() {
        return Err(unknown(&shown, story.oldest_lsn.0, archive));
    }
    Ok(Story {
        archive,
        subject: shown,
        entries: story.entries.iter().map(|entry| told(lens, entry)).collect(),
        next: story.next,
        left_out: story.left_out,
        waiters: Vec::new(),
        oldest_lsn: story.oldest_lsn.0,
        lsn,
    })
}

/// Nothing is known of it here. What an archive has of it is for `tenure log why` to read: record 0067.
fn unknown(shown: &str, oldest: u64, archive: Option<String>) -> Error {
    let message = format!("no history of {shown:?}; the log begins at position {oldest}");
    match archive {
        None => Error::new(ErrorCode::NotFound, message).with("oldest", oldest),
        Some(archive) => {
            let message = format!("{message}, older records are in the archive {archive:?}");
            let error = Error::new(ErrorCode::NotFound, message).with("oldest", oldest);
            error.with("subject", shown).with("archive", archive)
        }
    }
}

fn told(lens: &Lens<'_>, entry: &Entry) -> StoryEntry {
    StoryEntry {
        lsn: entry.lsn.0,
        at: rfc3339(entry.wall_ms),
        kind: entry.kind.to_owned(),
        lease_id: entry.lease.map(|lease: LeaseId| lens.lease_id(lease)),
        actor: entry.actor.as_ref().map(|actor: &Actor| actor_word(actor).to_string()),
        evidence: entry.evidence.map(|evidence| {
            let mut shown = evidence_object(&evidence, entry.tick, entry.wall_ms);
            if entry.since_restart {
                shown["since_restart"] = true.into();
            }
            shown
        }),
        text: entry.text.clone(),
    }
}

/// Evidence with times for people.
fn evidence_object(evidence: &Evidence, at: Tick, wall_ms: u64) -> serde_json::Value {
    let when =
        |tick: Tick| rfc3339(wall_ms.saturating_sub(at.ms_since(tick)).saturating_add(tick.ms_since(at)));
    match evidence {
        Evidence::None => serde_json::json!({ "kind": "none" }),
        Evidence::Silence { last_seen, promised_until } => serde_json::json!({
            "kind": "silence",
            "last_seen": when(*last_seen),
            "valid_until": when(*promised_until),
            // The former name; it goes with the next minor version.
            "promised_until": when(*promised_until),
        }),
        Evidence::Disconnected { at } => serde_json::json!({ "kind": "disconnected", "at": when(*at) }),
        Evidence::Lifetime { since } => serde_json::json!({ "kind": "lifetime", "since": when(*since) }),
        Evidence::Drained { since } => serde_json::json!({ "kind": "drained", "since": when(*since) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_found_at_rest_behind_the_name_of_its_group() {
        let identity = Identity { log_id: 1, tag: 1, fence_base: 0, shard: 0, salt: 0 };
        let target =
            PollName::Target("https://a.example/health".to_owned()).resource("web").expect("a target");
        let target = Subject::Resource(target.as_str().into());
        for name in ["web/https://a.example/health", "poll/web/https://a.example/health"] {
            assert!(readings_at_rest(&identity, name).contains(&target), "{name}");
        }
        let readings = readings_at_rest(&identity, "printer");
        assert_eq!(readings, [Subject::Resource("printer".into()), Subject::FaceId("printer".into())]);
    }

    #[test]
    fn what_is_unknown_here_may_be_in_the_archive() {
        let error = unknown("printer", 17, Some("/var/archive".to_owned()));
        let said = "no history of \"printer\"; the log begins at position 17, older records are in the archive \
                    \"/var/archive\"";
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::NotFound, said));
        assert_eq!(error.details["archive"], "/var/archive");
        assert!(!unknown("printer", 1, None).details.contains_key("archive"));
    }
}
