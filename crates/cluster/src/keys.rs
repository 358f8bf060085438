//! The names of the keys, all under one prefix. `docs/internals/formats/cluster.md` has what stands in each.

/// A snapshot has at most so many pieces: their numbers have four digits.
pub(crate) const PIECES_MAX: u32 = 9_999;

/// Where a log's keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Without a slash at its end.
    prefix: String,
}

impl Keys {
    /// Keys under a prefix; slashes at its ends do not count.
    #[must_use]
    pub fn under(prefix: &str) -> Self {
        Self { prefix: format!("/{}", prefix.trim_matches('/')) }
    }

    /// The prefix.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Who the log is.
    #[must_use]
    pub fn meta(&self) -> String {
        self.named("meta")
    }

    /// Who may write.
    #[must_use]
    pub fn writer(&self) -> String {
        self.named("writer")
    }

    /// Where the log ends.
    #[must_use]
    pub fn head(&self) -> String {
        self.named("head")
    }

    /// The writer's proof of life.
    #[must_use]
    pub fn beat(&self) -> String {
        self.named("beat")
    }

    /// Where the log begins.
    #[must_use]
    pub fn floor(&self) -> String {
        self.named("floor")
    }

    /// One frame.
    #[must_use]
    pub fn frame(&self, number: u64) -> String {
        format!("{}/log/{number:020}", self.prefix)
    }

    /// The number in a frame's key.
    #[must_use]
    pub fn frame_number(&self, key: &str) -> Option<u64> {
        let digits = key.strip_prefix(&self.prefix)?.strip_prefix("/log/")?;
        digits.parse().ok().filter(|number| self.frame(*number) == key)
    }

    /// One node.
    #[must_use]
    pub fn node(&self, name: &str) -> String {
        format!("{}/nodes/{name}", self.prefix)
    }

    /// Every node: the first key and the one after the last.
    #[must_use]
    pub fn nodes(&self) -> (String, String) {
        self.all_under("nodes")
    }

    /// One piece of a snapshot.
    #[must_use]
    pub fn piece(&self, lsn: u64, index: usize) -> String {
        format!("{}/snap/{lsn:020}/{index:04}", self.prefix)
    }

    /// Every piece of one snapshot.
    #[must_use]
    pub fn pieces(&self, lsn: u64) -> (String, String) {
        self.all_under(&format!("snap/{lsn:020}"))
    }

    /// Every piece of every snapshot.
    #[must_use]
    pub fn snapshots(&self) -> (String, String) {
        self.all_under("snap")
    }

    /// The position and the number in the key of a snapshot's piece.
    #[must_use]
    pub fn piece_number(&self, key: &str) -> Option<(u64, usize)> {
        let rest = key.strip_prefix(&self.prefix)?.strip_prefix("/snap/")?;
        let (lsn, index) = rest.split_once('/')?;
        let (lsn, index) = (lsn.parse().ok()?, index.parse().ok()?);
        (self.piece(lsn, index) == key).then_some((lsn, index))
    }

    /// Everything: the first key and the one after the last.
    #[must_use]
    pub fn all(&self) -> (String, String) {
        (format!("{}/", self.prefix), format!("{}0", self.prefix))
    }

    fn named(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    /// `0` is the byte after `/`.
    fn all_under(&self, name: &str) -> (String, String) {
        (format!("{}/{name}/", self.prefix), format!("{}/{name}0", self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_may_be_written_with_or_without_slashes() {
        for prefix in ["tenure", "/tenure", "/tenure/", "tenure/"] {
            assert_eq!(Keys::under(prefix).meta(), "/tenure/meta");
        }
        assert_eq!(Keys::under("a/b").head(), "/a/b/head");
    }

    #[test]
    fn frames_sort_by_their_number_and_are_read_back() {
        let keys = Keys::under("t");
        assert!(keys.frame(9) < keys.frame(10));
        assert_eq!(keys.frame_number(&keys.frame(10)), Some(10));
        assert_eq!(keys.frame_number("/t/log/10"), None);
        assert_eq!(keys.frame_number("/u/log/00000000000000000010"), None);
        assert_eq!(keys.piece_number(&keys.piece(7, 12)), Some((7, 12)));
        assert_eq!(keys.piece_number("/t/snap/7/12"), None);
    }

    #[test]
    fn a_range_holds_its_own_keys_alone() {
        let keys = Keys::under("t");
        let (from, to) = keys.nodes();
        let holds = |key: &str| *key >= *from && *key < *to;
        assert!(holds(&keys.node("a")) && holds(&keys.node("zz")));
        assert!(!holds(&keys.meta()) && !holds(&keys.frame(1)) && !holds("/t/nodesX"));
        let (from, to) = keys.all();
        assert!(*"/t/beat" >= *from && *"/t/writer" < *to && *"/tt/meta" >= *to);
    }
}
