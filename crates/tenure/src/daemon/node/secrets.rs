//! The secret by which nodes know each other, as `meta` has it, and the one before it while it is replaced.
//!
//! Invariant: a node shows every secret that it knows and accepts every one, so that two nodes of which one has not read
//! `meta` again yet still know each other.

use subtle::ConstantTimeEq;
use tenure_cluster::values::Meta;

/// What this node shows and accepts.
#[derive(Clone, Debug)]
pub(super) struct Secrets {
    current: String,
    former: Option<Former>,
}

#[derive(Clone, Debug)]
struct Former {
    secret: String,
    /// Until then it is shown and accepted, in milliseconds of boot time.
    until_ms: u64,
}

/// For how long the former secret is good at a node, from where that node read of the new one.
pub(super) const FORMER_MS: u64 = 60_000;
/// Between two secrets of one header.
const BETWEEN: char = ',';

impl Secrets {
    pub(super) fn of(meta: &Meta, now_ms: u64) -> Self {
        let mut secrets = Self { current: String::new(), former: None };
        secrets.read(meta, now_ms);
        secrets
    }

    /// Takes in `meta` as it is now; `true`: the secret was replaced.
    pub(super) fn read(&mut self, meta: &Meta, now_ms: u64) -> bool {
        if self.current == meta.secret {
            return false;
        }
        let former = &meta.former_secret;
        let former = (!former.is_empty())
            .then(|| Former { secret: former.clone(), until_ms: now_ms.saturating_add(FORMER_MS) });
        *self = Self { current: meta.secret.clone(), former };
        true
    }

    /// What is shown to other nodes.
    pub(super) fn shown(&self, now_ms: u64) -> String {
        match self.former(now_ms) {
            Some(former) => format!("{}{BETWEEN}{former}", self.current),
            None => self.current.clone(),
        }
    }

    /// Whether somebody shows a secret of this cluster.
    pub(super) fn accepts(&self, shown: &str, now_ms: u64) -> bool {
        let known = [Some(self.current.as_str()), self.former(now_ms)];
        // All of them, whichever fits: how long it takes says nothing.
        shown.split(BETWEEN).fold(false, |accepted, shown| {
            known.iter().flatten().fold(accepted, |accepted, known| accepted | is_same(shown, known))
        })
    }

    fn former(&self, now_ms: u64) -> Option<&str> {
        self.former.as_ref().filter(|former| now_ms < former.until_ms).map(|former| former.secret.as_str())
    }
}

/// An empty secret is nobody's.
fn is_same(shown: &str, known: &str) -> bool {
    !known.is_empty() && bool::from(shown.as_bytes().ct_eq(known.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_log::{Identity, Lsn};

    fn meta(secret: &str, former: &str) -> Meta {
        let identity = Identity { log_id: 1, tag: 2, fence_base: 3, shard: 0, salt: 4 };
        let meta = Meta::of(&identity, Lsn(1), 0, secret.to_owned());
        Meta { former_secret: former.to_owned(), ..meta }
    }

    #[test]
    fn nothing_is_shown_by_nobody() {
        for known in ["", "s1"] {
            let secrets = Secrets::of(&meta(known, ""), 0);
            for shown in ["", ",", "s", "s11", "x,"] {
                assert!(!secrets.accepts(shown, 0), "{shown:?} for {known:?}");
            }
        }
        assert!(Secrets::of(&meta("s1", ""), 0).accepts("s1", u64::MAX));
    }

    #[test]
    fn nodes_know_each_other_whoever_has_read_of_the_new_secret_first() {
        let (old, mut new) = (Secrets::of(&meta("s1", ""), 0), Secrets::of(&meta("s1", ""), 0));
        assert!(new.read(&meta("s2", "s1"), 1_000));
        assert!(!new.read(&meta("s2", "s1"), 5_000), "it is known already");
        assert!(old.accepts(&new.shown(2_000), 2_000) && new.accepts(&old.shown(2_000), 2_000));
        let begun = Secrets::of(&meta("s2", "s1"), 2_000);
        assert!(begun.accepts(&old.shown(2_000), 2_000) && old.accepts(&begun.shown(2_000), 2_000));
        let late_ms = 1_000 + FORMER_MS;
        assert!(!new.accepts("s1", late_ms), "what was found out before is good for nothing any more");
        assert_eq!(new.shown(late_ms), "s2");
    }
}
