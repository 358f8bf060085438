//! What each principal has beside its leases: open sessions, and bytes of attachments and face data. A principal that
//! has none of it is not in the table.

use crate::Text;
use std::collections::BTreeMap;

/// One principal's part.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Share {
    pub(crate) sessions: u64,
    pub(crate) payload_bytes: u64,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Shares(BTreeMap<Text, Share>);

impl Shares {
    pub(crate) fn of(&self, principal: &Text) -> Share {
        self.0.get(principal).copied().unwrap_or_default()
    }

    pub(crate) fn change(&mut self, principal: &Text, change: impl FnOnce(&mut Share)) {
        let mut share = self.of(principal);
        change(&mut share);
        if share == Share::default() {
            self.0.remove(principal);
        } else if let Some(known) = self.0.get_mut(principal) {
            *known = share;
        } else {
            self.0.insert(principal.clone(), share);
        }
    }
}
