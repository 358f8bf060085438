//! Whether the store answers this node: asked all the time on a thread of its own, so that nothing else that waits for
//! the store delays the answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_cluster::store::Store;
use tenure_cluster::values::Node as NodeValue;
use tenure_engine::host::read_clocks;

use super::repeating::Repeating;
use super::shared::NodeShared;

/// What is known of the store's answers.
#[derive(Default)]
pub(super) struct StoreHeard {
    /// When it last answered, in milliseconds of boot time.
    answered_ms: u64,
    /// Why it does not; `None` while it does.
    why: Option<String>,
}

/// For how long listed nodes have not told of themselves, counted while the store can be read.
#[derive(Default)]
pub(super) struct Quiet {
    listed_ms: u64,
    quiet_ms: BTreeMap<String, u64>,
}

const EVERY: Duration = Duration::from_millis(400);
/// One question; a member that hangs costs half of it.
const WITHIN: Duration = Duration::from_millis(800);
/// A store that is asked in vain for this long is silent.
const SILENT_AFTER_MS: u64 = 1_000;
/// A node that has not told of itself for this long is silent: two words of its own were due.
const NODE_SILENT_AFTER_MS: u64 = 25_000;
/// Between two lists of nodes at most this much counts: while the store is silent no node can tell of itself.
const BETWEEN_LISTS_MS_MAX: u64 = 6_000;
/// A node first seen with a word older than this, by the clocks of two machines, is silent.
const FIRST_SEEN_OLD_MS: u64 = 60_000;

pub(super) fn start(shared: Arc<NodeShared>) -> Repeating {
    let key = shared.keys.meta();
    Repeating::start("tenure-pulse", EVERY, move || {
        let asked = shared.store.range(&key, &format!("{key}\0"), 1, WITHIN);
        if let Some(meta) = asked.as_ref().ok().and_then(|ranged| ranged.found.first()) {
            shared.read_meta(&meta.value);
        }
        shared.heard_store(read_clocks().boot_ms, asked.err().map(|error| error.to_string()));
    })
}

impl StoreHeard {
    /// Takes in what came of a question; `why`: no answer came. Says so if the store fell silent or answers again.
    pub(super) fn heard(&mut self, now_ms: u64, why: Option<String>) {
        match why {
            None => {
                if let Some((since_ms, _)) = self.silence() {
                    tracing::info!(silent_ms = now_ms.saturating_sub(since_ms), "etcd answers again");
                }
                (self.answered_ms, self.why) = (now_ms, None);
            }
            // Before its first answer the node was not started.
            Some(_) if self.answered_ms == 0 => self.answered_ms = now_ms,
            Some(why) if self.why.is_some() || now_ms >= self.answered_ms + SILENT_AFTER_MS => {
                if self.why.is_none() {
                    tracing::warn!(error = why, "etcd does not answer: no grants, renewals or ends");
                }
                self.why = Some(why);
            }
            Some(_) => {}
        }
    }

    /// When the store last answered, in milliseconds of boot time, and what happens instead; `None` while it answers.
    pub(super) fn silence(&self) -> Option<(u64, &str)> {
        self.why.as_deref().map(|why| (self.answered_ms, why))
    }
}

impl Quiet {
    /// Takes in a list of nodes, where `known` is the one before.
    pub(super) fn listed(
        &mut self,
        (now_ms, wall_ms): (u64, u64),
        known: &[(String, NodeValue)],
        listed: &[(String, NodeValue)],
    ) {
        let passed_ms = now_ms.saturating_sub(self.listed_ms).min(BETWEEN_LISTS_MS_MAX);
        let quiet = listed.iter().map(|(name, node)| {
            let before = known.iter().find(|(known, _)| known == name).map(|(_, before)| before);
            let quiet_ms = match before {
                Some(before) if is_same_word(before, node) => {
                    self.quiet_ms.get(name).copied().unwrap_or(0).saturating_add(passed_ms)
                }
                Some(_) => 0,
                None if wall_ms.saturating_sub(node.wall_ms) >= FIRST_SEEN_OLD_MS => NODE_SILENT_AFTER_MS,
                None => 0,
            };
            (name.clone(), quiet_ms)
        });
        self.quiet_ms = quiet.collect();
        self.listed_ms = now_ms;
    }

    pub(super) fn is_silent(&self, node: &str) -> bool {
        self.quiet_ms.get(node).is_some_and(|quiet_ms| *quiet_ms >= NODE_SILENT_AFTER_MS)
    }
}

fn is_same_word(before: &NodeValue, now: &NodeValue) -> bool {
    (before.wall_ms, &before.incarnation) == (now.wall_ms, &now.incarnation)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL_MS: u64 = 1_800_000_000_000;

    fn node(wall_ms: u64) -> NodeValue {
        NodeValue {
            url: "http://10.0.0.1:5641".to_owned(),
            incarnation: "01".to_owned(),
            subnets: Vec::new(),
            snapshot_lsn: 0,
            snapshot_hash: 0,
            format: 1,
            version: "0".to_owned(),
            wall_ms,
            ..NodeValue::default()
        }
    }

    #[test]
    fn a_store_is_silent_after_a_second_without_an_answer_and_since_the_last_one() {
        let mut heard = StoreHeard::default();
        let no = || Some("no answer".to_owned());
        heard.heard(5_000, None);
        heard.heard(5_900, no());
        assert_eq!(heard.silence(), None, "one question in vain is none");
        heard.heard(6_400, no());
        assert_eq!(heard.silence(), Some((5_000, "no answer")));
        heard.heard(7_000, None);
        assert_eq!(heard.silence(), None);
    }

    #[test]
    fn a_node_is_silent_when_its_word_does_not_change_while_the_store_can_be_read() {
        let mut quiet = Quiet::default();
        let (mut known, mut now_ms) = (Vec::new(), 1_000_000);
        let mut list = |quiet: &mut Quiet, word_ms: u64, passed_ms: u64| {
            now_ms += passed_ms;
            let listed = vec![("a".to_owned(), node(word_ms))];
            quiet.listed((now_ms, WALL_MS), &known, &listed);
            known = listed;
            quiet.is_silent("a")
        };
        assert!(!list(&mut quiet, WALL_MS, 0));
        // The store was silent for an hour: nobody could tell of itself.
        assert!(!list(&mut quiet, WALL_MS, 3_600_000));
        for _ in 0..3 {
            assert!(!list(&mut quiet, WALL_MS, 5_000));
        }
        assert!(list(&mut quiet, WALL_MS, 5_000));
        assert!(!list(&mut quiet, WALL_MS + 1, 5_000), "it told of itself");
        assert!(!quiet.is_silent("b"));
    }

    #[test]
    fn a_node_that_was_gone_before_this_one_started_is_silent_at_once() {
        let mut quiet = Quiet::default();
        let listed = vec![("old".to_owned(), node(WALL_MS - 3_600_000)), ("new".to_owned(), node(WALL_MS))];
        quiet.listed((1, WALL_MS), &[], &listed);
        assert!(quiet.is_silent("old") && !quiet.is_silent("new"));
    }
}
