//! Stories: what happened to something, then what would happen next.

use tenure_api::{Story, Waiter};
use tenure_history::duration;

use super::{Now, names, relative};
use crate::printer::{counted, plain};

/// Waiters shown.
const NAMES_MAX: usize = 8;

fn waiter_words(waiter: &Waiter) -> String {
    let waits = duration(waiter.waited_ms);
    match waiter.passed {
        0 => format!("{} (waits for {waits})", waiter.holder),
        passed => format!("{} (waits for {waits}, passed by {passed})", waiter.holder),
    }
}

/// A story as lines: whom it is about, its timeline, its outlook.
pub(crate) fn story_lines(kind: &str, story: &Story, now: Now) -> Vec<String> {
    let mut lines = vec![plain(&format!("{kind} {}", story.subject))];
    if story.left_out > 0 {
        lines.push(format!("  … {} left out", counted(story.left_out, "older record")));
    }
    if story.entries.is_empty() {
        lines.push(format!("  nothing is recorded since lsn {}, the oldest that is kept", story.oldest_lsn));
    }
    let ages: Vec<String> =
        story.entries.iter().map(|entry| relative(Some(now), &entry.at).unwrap_or_default()).collect();
    let widest = ages.iter().map(|age| age.chars().count()).max().unwrap_or(0);
    for (entry, age) in story.entries.iter().zip(&ages) {
        // A sentence that names its lease already does not need it twice.
        let lease = match &entry.lease_id {
            Some(lease)
                if !story.subject.contains(lease.as_str()) && !entry.text.contains(lease.as_str()) =>
            {
                format!(" [{lease}]")
            }
            _ => String::new(),
        };
        lines.push(plain(&format!("  {}  {age:<widest$}  {}{lease}", entry.at, entry.text)));
    }
    lines.push(match &story.next {
        Some(next) => plain(&format!("next: {next}")),
        None => "next: nothing is left to happen".to_owned(),
    });
    if !story.waiters.is_empty() {
        let waiters: Vec<String> = story.waiters.iter().map(waiter_words).collect();
        lines.push(plain(&format!("then: {}", names(&waiters, NAMES_MAX))));
    }
    if let Some(archive) = &story.archive {
        let oldest = story.oldest_lsn;
        lines.push(plain(&format!(
            "older: what was before lsn {oldest} is in {archive}: tenure log why reads it"
        )));
    }
    lines
}
