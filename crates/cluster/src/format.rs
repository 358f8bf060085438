//! Which format may be written: the newest that every listed node reads. A pure function of what nodes publish.

use crate::values::Node;

/// What a node reads that does not publish it.
pub const FIRST: u32 = 1;
/// From this format on snapshots are in the store piece by piece ([`crate::pieces`]).
pub const PIECES: u32 = 2;

/// The newest format that every listed node reads, this program included. A value that could not be decoded (`None`)
/// counts as the first format, a node that an operator has removed does not count. While the list cannot be read it is
/// what was safe `before`; begin with [`FIRST`].
pub fn safe_format<'a>(
    own: u32,
    listed: Option<impl IntoIterator<Item = Option<&'a Node>>>,
    before: u32,
) -> u32 {
    let Some(listed) = listed else { return before.min(own) };
    let reads = |node: Option<&Node>| match node {
        Some(node) if node.is_forgotten => None,
        Some(node) => Some(node.format),
        None => Some(FIRST),
    };
    listed.into_iter().filter_map(reads).fold(own, u32::min).max(FIRST)
}

/// The names of the listed nodes that do not read a format, counted as [`safe_format`] does.
pub fn older_than<'a>(
    format: u32,
    listed: impl IntoIterator<Item = (&'a String, Option<&'a Node>)>,
) -> Vec<String> {
    let is_older =
        |node: Option<&Node>| node.map_or(FIRST < format, |node| !node.is_forgotten && node.format < format);
    listed.into_iter().filter(|(_, node)| is_older(*node)).map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{decode, encode};

    const OWN: u32 = 3;

    fn reads(format: u32) -> Node {
        Node { format, ..Node::default() }
    }

    fn safe(listed: &[Option<&Node>]) -> u32 {
        safe_format(OWN, Some(listed.iter().copied()), FIRST)
    }

    #[test]
    fn the_oldest_listed_node_decides_and_this_program_is_one() {
        assert_eq!(safe(&[]), OWN, "alone");
        assert_eq!(
            safe(&[Some(&reads(3)), Some(&reads(4))]),
            OWN,
            "nothing is written that this program does not read"
        );
        assert_eq!(safe(&[Some(&reads(3)), Some(&reads(2)), Some(&reads(4))]), 2);
        assert_eq!(safe(&[Some(&reads(0))]), FIRST, "there is none before the first");
    }

    #[test]
    fn a_node_that_does_not_publish_it_or_cannot_be_understood_reads_the_first() {
        let value = encode(&reads(2));
        let mut former: serde_json::Value = serde_json::from_slice(&value).unwrap();
        former.as_object_mut().unwrap().remove("format").unwrap();
        let former: Node = decode("nodes", &encode(&former)).unwrap();
        assert_eq!(safe(&[Some(&reads(3)), Some(&former)]), FIRST);
        assert_eq!(safe(&[Some(&reads(3)), None]), FIRST);
    }

    #[test]
    fn a_removed_node_does_not_count() {
        let removed = Node { is_forgotten: true, ..reads(1) };
        assert_eq!(safe(&[Some(&reads(3)), Some(&removed)]), OWN);
    }

    #[test]
    fn the_nodes_that_keep_the_format_old_are_named() {
        let removed = Node { is_forgotten: true, ..reads(1) };
        let listed = [("a", Some(reads(2))), ("b", Some(reads(1))), ("c", None), ("d", Some(removed))];
        let listed = listed.map(|(name, node)| (name.to_owned(), node));
        let older = |format| older_than(format, listed.iter().map(|(name, node)| (name, node.as_ref())));
        assert_eq!(older(2), ["b", "c"]);
        assert_eq!(older(3), ["a", "b", "c"]);
        assert!(older(FIRST).is_empty(), "what cannot be understood counts as the first");
    }

    #[test]
    fn while_the_list_cannot_be_read_it_is_what_was_safe_before_at_first_the_oldest() {
        let unread = |before| safe_format(OWN, None::<[Option<&Node>; 0]>, before);
        assert_eq!((unread(FIRST), unread(2), unread(OWN)), (FIRST, 2, OWN));
        assert_eq!(unread(4), OWN);
    }
}
