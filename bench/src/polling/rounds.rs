//! What is done to a group, one file each: what happens, what is measured, and the rows that come of it.

pub(super) mod alone;
pub(super) mod calls;
pub(super) mod frozen;
pub(super) mod killed;
pub(super) mod shared;
pub(super) mod silence;

use super::group::Group;
use super::table::Row;
use anyhow::{Result, ensure};

/// A row of this group, still without what was measured.
fn row(group: &Group<'_>, promise: &'static str, what: &str) -> Row {
    Row {
        promise,
        what: what.to_owned(),
        store: group.server().kind().to_string(),
        targets: group.setting().targets.to_string(),
        rounds: 1,
        samples: 0,
        measured: String::new(),
        goal: String::new(),
        is_reached: false,
        figures: Vec::new(),
    }
}

/// A round begins when everything is shared. Where it is not shared evenly in the end, that is a row of its own; where
/// a target is nobody's, a round would measure something else.
async fn settle(group: &mut Group<'_>, before: &str) -> Result<()> {
    if !group.settle().await? {
        let left_alone = group.left_alone()?;
        ensure!(left_alone == 0, "{left_alone} targets were nobody's before {before}");
    }
    Ok(())
}
