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
    fn while_the_list_cannot_be_read_it_is_what_was_safe_before_at_first_the_oldest() {
        let unread = |before| safe_format(OWN, None::<[Option<&Node>; 0]>, before);
        assert_eq!((unread(FIRST), unread(2), unread(OWN)), (FIRST, 2, OWN));
        assert_eq!(unread(4), OWN);
    }
}
