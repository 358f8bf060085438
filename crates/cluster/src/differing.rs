//! What a node knows of the nodes whose state differs from the leader's (record 0080), and what follows from it. Pure.
//!
//! Invariant: what is not known yet permits nothing. Before the trim point and the list were compared once, this node may
//! be one that differs.

/// The nodes that differ, once that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differing {
    found: Option<Found>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    names: Vec<String>,
    lsn: u64,
}

impl Differing {
    /// These nodes have come to another state than the leader at this position. `true`: they are others than before.
    pub fn found(&mut self, names: Vec<String>, lsn: u64) -> bool {
        let is_news = self.names() != names;
        self.found = Some(Found { names, lsn });
        is_news
    }

    /// Whether a node may claim as far as its state is concerned.
    #[must_use]
    pub fn may_claim(&self, name: &str) -> bool {
        self.found.as_ref().is_some_and(|found| !found.names.iter().any(|differs| differs == name))
    }

    /// Whether frames may be trimmed: while a node differs, what shows which one is wrong is kept.
    #[must_use]
    pub fn may_trim(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.names.is_empty())
    }

    /// Their names, as far as is known.
    #[must_use]
    pub fn names(&self) -> &[String] {
        self.found.as_ref().map_or(&[], |found| &found.names)
    }

    /// Where they differ.
    #[must_use]
    pub fn lsn(&self) -> u64 {
        self.found.as_ref().map_or(0, |found| found.lsn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A node that differed claimed after a restart: nobody had read yet that it did.
    #[test]
    fn before_the_trim_point_was_read_a_node_neither_claims_nor_trims() {
        let mut differing = Differing::default();
        assert!(!differing.may_claim("a") && !differing.may_trim());
        assert!(differing.names().is_empty());
        assert!(!differing.found(Vec::new(), 0), "that none differs is no news");
        assert!(differing.may_claim("a") && differing.may_trim());
    }

    #[test]
    fn a_node_that_differs_does_not_claim_and_while_one_does_nothing_is_trimmed() {
        let mut differing = Differing::default();
        assert!(differing.found(vec!["b".to_owned()], 7));
        assert!(!differing.found(vec!["b".to_owned()], 9), "at a later position it is the same news");
        assert!(differing.may_claim("a") && !differing.may_claim("b") && !differing.may_trim());
        assert_eq!((differing.names(), differing.lsn()), (&["b".to_owned()][..], 9));
        assert!(differing.found(Vec::new(), 10) && differing.may_claim("b") && differing.may_trim());
    }
}
