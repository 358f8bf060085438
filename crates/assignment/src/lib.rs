//! Who should poll what. A pure function of pollers, targets and what is held now: everybody who sees the same
//! computes the same, in whatever order it is listed, and nothing has to be agreed on. Who *does* poll what is
//! decided by leases, never here.
//!
//! [`assign`] balances by weight and moves as little as it can; [`rank`] says who tries an orphan first;
//! [`Hash::Fnv1a`] is the function of older programs that share a Redis with ours.

mod fair;
mod hash;

pub use fair::{Share, shares};
pub use hash::Hash;

use core::cmp::Reverse;
use fair::balance;
use hash::Score;

/// A poller, as far as assignment goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member<'a> {
    /// Its name; hashed.
    pub name: &'a str,
    /// How much it takes beside the others. 0: it gives away what it has and gets nothing.
    pub weight: u32,
    /// It has not shown yet that it lasts. Beside members that have, few targets move for all that are new: a tenth of
    /// one share. What is nobody's, or has to move anyway, goes to it like to any other.
    pub is_new: bool,
}

/// A target and who polls it now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target<'a> {
    /// Its name; hashed.
    pub name: &'a str,
    /// Who polls it; names that are no member's count as nobody.
    pub held_by: Option<&'a str>,
    /// Who is to poll it by an operator's word, as long as that one is a member with a weight.
    pub pinned_to: Option<&'a str>,
}

/// Who should poll each target: for each of `targets`, in their order, the position in `members` or `None` where
/// no member takes any. Neither order makes a difference to who gets what, but that with [`Hash::Fnv1a`] the first
/// listed of equal hashes wins, as in older programs.
///
/// A member that is listed twice counts once, with the greater weight; a target that is listed twice counts twice.
#[must_use]
pub fn assign(hash: Hash, members: &[Member<'_>], targets: &[Target<'_>]) -> Vec<Option<usize>> {
    match hash {
        Hash::Xxh64 => balance(members, targets),
        Hash::Fnv1a => targets.iter().map(|target| first_choice(members, target.name)).collect(),
    }
}

/// How many members would be asked for the target before this one: 0 for the one it prefers, the number of members
/// for one who is none. Loads are not looked at: this is the order in which an orphan is tried for.
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

/// Positions of members in order of name, so that no order of input matters. Of those with one name, the one with the
/// greatest weight: two runs of a poller are one poller.
fn by_name(members: &[Member<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|&position| (members[position].name, Reverse(members[position].weight)));
    order.dedup_by_key(|position| members[*position].name);
    order
}

/// The member with the highest hash, without weights or loads; the first listed of equals.
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
