//! What a run can find.

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its name: the file under `invariants/`.
    pub invariant: &'static str,
    /// What was seen.
    pub text: String,
}

impl Violation {
    pub(crate) fn new(invariant: &'static str, text: impl Into<String>) -> Self {
        Self { invariant, text: text.into() }
    }
}
