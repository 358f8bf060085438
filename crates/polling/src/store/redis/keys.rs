//! How everything of a group is called in Redis. The names of leases and nodes are those of older programs, which may
//! share the database.

use super::Impossible;
use tenure_api::PollName;
use tenure_assignment::Hash;

/// The group whose keys have no group in them, as older programs know them.
const DEFAULT_GROUP: &str = "default";
/// Groups whose keys would be those of the default group's targets.
const AMBIGUOUS: [&str; 3] = ["fence", "lease", "node"];
/// The longest name of a target.
pub(super) const TARGET_BYTES_MAX: usize = 1_024;

/// What the names of all keys of one group begin with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    /// Those of a group, or those that begin with `prefix`.
    pub(super) fn new(
        group: &str,
        prefix: Option<&str>,
        is_cluster: bool,
        hash: Hash,
    ) -> Result<Self, Impossible> {
        PollName::check_group(group).map_err(|error| Impossible(error.to_string()))?;
        if is_cluster && hash == Hash::Fnv1a {
            return Err(Impossible(
                "older programs cannot share a Redis Cluster, so fnv1a is not for it".to_owned(),
            ));
        }
        let prefix = match (prefix, is_cluster) {
            (Some(""), _) => return Err(Impossible("the prefix of the keys is empty".to_owned())),
            (Some(own), true) if !has_hash_tag(own) => {
                return Err(Impossible(format!(
                    "the prefix {own:?} needs a hash tag, as in {{{own}}}: the keys of a group must be in one slot"
                )));
            }
            (Some(own), _) => own.to_owned(),
            (None, true) => format!("{{poll:{group}}}:"),
            (None, false) if group == DEFAULT_GROUP => "poll:".to_owned(),
            (None, false) if AMBIGUOUS.contains(&group) => {
                return Err(Impossible(format!(
                    "a group named {group:?} has the keys of the default group's targets: choose another or a prefix"
                )));
            }
            (None, false) => format!("poll:{group}:"),
        };
        Ok(Self { prefix })
    }

    pub(super) fn lease(&self, target: &str) -> String {
        format!("{}lease:{target}", self.prefix)
    }

    pub(super) fn fence(&self, target: &str) -> String {
        format!("{}fence:{target}", self.prefix)
    }

    pub(super) fn node(&self, instance: &str) -> String {
        format!("{}node:{instance}", self.prefix)
    }

    pub(super) fn channel(&self) -> String {
        format!("{}changed", self.prefix)
    }

    /// The first keys of every script.
    pub(super) fn head(&self, instance: &str) -> Vec<String> {
        let of = |name: &str| format!("{}{name}", self.prefix);
        vec![of("members"), of("about"), of("cordons"), of("pins"), self.node(instance)]
    }

    /// The pattern that finds every lease.
    pub(super) fn leases(&self) -> String {
        format!("{}*", literal(&self.lease("")))
    }

    /// The pattern that finds every node.
    pub(super) fn nodes(&self) -> String {
        format!("{}*", literal(&self.node("")))
    }
}

/// Text in a pattern of Redis that stands for itself.
fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '^' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// Whether there is something between the first `{` and the `}` after it.
fn has_hash_tag(prefix: &str) -> bool {
    let tail = prefix.split_once('{').map(|(_, tail)| tail);
    tail.and_then(|tail| tail.split_once('}')).is_some_and(|(tag, _)| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(group: &str, prefix: Option<&str>, is_cluster: bool) -> Result<Keys, Impossible> {
        Keys::new(group, prefix, is_cluster, Hash::Xxh64)
    }

    #[test]
    fn keys_are_those_of_older_programs() {
        let keys = keys("default", None, false).expect("a group");
        assert_eq!(keys.lease("s17"), "poll:lease:s17");
        assert_eq!(keys.fence("s17"), "poll:fence:s17");
        assert_eq!(keys.node("a"), "poll:node:a");
        assert_eq!(keys.channel(), "poll:changed");
        let head = ["poll:members", "poll:about", "poll:cordons", "poll:pins", "poll:node:a"];
        assert_eq!(keys.head("a"), head);
    }

    #[test]
    fn other_groups_clusters_and_prefixes_have_their_own() {
        assert_eq!(keys("web", None, false).expect("a group").lease("s"), "poll:web:lease:s");
        assert_eq!(keys("default", None, true).expect("a group").lease("s"), "{poll:default}:lease:s");
        assert_eq!(keys("web", Some("x/"), false).expect("a prefix").lease("s"), "x/lease:s");
        assert_eq!(keys("web", Some("{x}"), true).expect("a prefix").lease("s"), "{x}lease:s");
    }

    #[test]
    fn what_would_mix_with_another_group_is_refused() {
        for group in ["lease", "node", "fence", "a/b", ""] {
            assert!(keys(group, None, false).is_err(), "{group:?}");
        }
        assert!(keys("lease", None, true).is_ok());
        assert!(keys("web", Some(""), false).is_err());
        for prefix in ["poll:", "{}x", "x}{"] {
            assert!(keys("web", Some(prefix), true).is_err(), "{prefix:?}");
        }
        assert!(Keys::new("web", None, true, Hash::Fnv1a).is_err());
    }

    #[test]
    fn a_pattern_means_its_prefix_literally() {
        let keys = keys("web", Some("a*[b]?\\"), false).expect("a prefix");
        assert_eq!(keys.nodes(), "a\\*\\[b\\]\\?\\\\node:*");
        assert_eq!(keys.leases(), "a\\*\\[b\\]\\?\\\\lease:*");
    }
}
