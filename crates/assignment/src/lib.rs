//! The assignment of targets to pollers: a pure function of the pollers, the targets and the current holders. Pollers
//! that see the same group compute the same assignment, whatever the order of its members and targets, so that they
//! need no agreement. Leases decide which poller *does* poll a target; this crate does not.
//!
//! [`assign`] balances by weight with few moves; [`rank`] is the order in which pollers try an unowned target;
//! [`Hash::Fnv1a`] is the function of older programs that share a Redis with Tenure.

mod fair;
mod hash;

pub use fair::{Share, shares};
pub use hash::Hash;

use core::cmp::Reverse;
use fair::balance;
use hash::Score;

/// A poller, as the assignment sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member<'a> {
    /// The name, which is hashed.
    pub name: &'a str,
    /// The relative weight. With 0 the member hands over its targets and gets none.
    pub weight: u32,
    /// Whether the member has not lived for a ttl yet. If another member has, only a tenth of one share moves to all new
    /// members together. Targets that are unowned, or have to move anyway, go to a new member as to any other.
    pub is_new: bool,
}

/// A target and its current poller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target<'a> {
    /// The name, which is hashed.
    pub name: &'a str,
    /// The name of the poller that holds it. A name that is not in `members` counts as `None`.
    pub held_by: Option<&'a str>,
    /// The name of the poller to which an operator pinned it. Without effect if that is not a member with a weight.
    pub pinned_to: Option<&'a str>,
}

/// Assigns each target to a member. Returns one position in `members` per target, in the order of `targets`; `None` if
/// no member takes the target.
///
/// The order of both lists does not change the assignment. The exception is [`Hash::Fnv1a`]: of members with equal
/// hashes it prefers the first in the list, as older programs do. A member that is listed twice counts once, with the
/// greater weight; a target that is listed twice counts twice.
#[must_use]
pub fn assign(hash: Hash, members: &[Member<'_>], targets: &[Target<'_>]) -> Vec<Option<usize>> {
    match hash {
        Hash::Xxh64 => balance(members, targets),
        Hash::Fnv1a => targets.iter().map(|target| first_choice(members, target.name)).collect(),
    }
}

/// How many members come before the member `name` in the order in which they try an unowned target: 0 for the preferred
/// member, the number of members if `name` is not a member. Ignores loads.
#[must_use]
pub fn rank(hash: Hash, members: &[Member<'_>], target: &str, name: &str) -> usize {
    let Some(own) = members.iter().position(|member| member.name == name) else { return members.len() };
    let own_score = hash.score(&members[own], target);
    let is_before = |&(position, other): &(usize, &Member<'_>)| {
        let is_first_of_equals = match hash {
            Hash::Xxh64 => other.name < name,
            Hash::Fnv1a => position < own,
        };
        let score = hash.score(other, target);
        other.name != name && (score > own_score || score == own_score && is_first_of_equals)
    };
    members.iter().enumerate().filter(is_before).count()
}

/// Positions of members in order of name, so that the order of the input has no effect. Of members with the same name,
/// the one with the greatest weight: two runs of a poller are one poller.
fn by_name(members: &[Member<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|&position| (members[position].name, Reverse(members[position].weight)));
    order.dedup_by_key(|position| members[*position].name);
    order
}

/// The member with the highest hash, without weights or loads; of equal hashes the first in the list.
fn first_choice(members: &[Member<'_>], target: &str) -> Option<usize> {
    let mut best: Option<(Score, usize)> = None;
    for (position, member) in members.iter().enumerate() {
        let score = Hash::Fnv1a.score(member, target);
        if best.is_none_or(|(highest, _)| score > highest) {
            best = Some((score, position));
        }
    }
    best.map(|(_, position)| position)
}
