//! How many requests of each principal wait, so that one principal cannot take every place.

use crate::waiters::Try;
use std::collections::BTreeMap;
use tenure_kernel::{Action, Text};

#[derive(Debug, Default)]
pub(crate) struct Quota(BTreeMap<Text, usize>);

impl Quota {
    pub(crate) fn of(&self, principal: Option<&Text>) -> usize {
        principal.and_then(|principal| self.0.get(principal)).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, request: &Try) {
        if let Some(principal) = request.principal() {
            *self.0.entry(principal.clone()).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, request: &Try) {
        let Some(principal) = request.principal() else { return };
        let count = self.0.get_mut(principal).expect("invariant: who waits was counted");
        *count -= 1;
        if *count == 0 {
            self.0.remove(principal);
        }
    }
}

impl Try {
    pub(crate) fn principal(&self) -> Option<&Text> {
        match &self.command.action {
            Action::Grant(grant) => Some(&grant.policy.principal),
            _ => None,
        }
    }
}
