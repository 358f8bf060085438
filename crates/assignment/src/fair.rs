//! Balance with few moves: the poller that holds a target keeps it, unless it has too many or another has too few.
//! Affinity decides which member gets an unowned target, and which targets move.

use crate::hash::{Hash, Score, weighted, xxh64};
use crate::{Member, Target, by_name};
use core::cmp::Reverse;
use std::collections::HashMap;

/// How many targets a member may and should hold, by its weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The fair share, rounded down.
    pub floor: usize,
    /// The fair share, rounded up.
    pub ceil: usize,
    /// The most targets that the member keeps: `max(ceil(share), floor(1.1 share))`.
    pub cap: usize,
    /// A member with fewer targets than this gets targets of other members: `min(floor(share), ceil(0.9 share))`. With a
    /// lower bound, small shares would drift apart until a cap falls and many targets must move at once.
    pub underloaded_below: usize,
}

/// If some members are not new, one share divided by this moves to all new members together.
const NEW_PART: usize = 10;

/// The share of each weight in `n` targets. If the weights are all 0, so are the shares.
#[must_use]
pub fn shares(weights: impl IntoIterator<Item = u32> + Clone, n: usize) -> Vec<Share> {
    let total: u128 = weights.clone().into_iter().map(u128::from).sum::<u128>().max(1);
    let of = |weight: u32| {
        let product = u128::from(weight) * n as u128;
        let floor = (product / total) as usize;
        let ceil = product.div_ceil(total) as usize;
        let tenth_more = (11 * product / (10 * total)) as usize;
        let tenth_less = (9 * product).div_ceil(10 * total) as usize;
        Share { floor, ceil, cap: ceil.max(tenth_more), underloaded_below: floor.min(tenth_less) }
    };
    weights.into_iter().map(of).collect()
}

/// The members in one order, their loads, and the assignment so far.
struct Balance<'a> {
    members: &'a [Member<'a>],
    targets: &'a [Target<'a>],
    shares: Vec<Share>,
    /// The member is new and another is not.
    is_held_back: Vec<bool>,
    /// The most targets that each member keeps: its cap, or its cap without the members that are held back if that is
    /// higher.
    keeps: Vec<usize>,
    /// Members in order of name, each name once.
    order: Vec<usize>,
    assigned: Vec<Option<usize>>,
    is_pinned: Vec<bool>,
    load: Vec<usize>,
}

pub(crate) fn balance(members: &[Member<'_>], targets: &[Target<'_>]) -> Vec<Option<usize>> {
    let order = by_name(members);
    let mut weights = vec![0; members.len()];
    order.iter().for_each(|&member| weights[member] = members[member].weight);
    let takes_any = weights.iter().any(|weight| *weight > 0);
    let has_proven = members.iter().zip(&weights).any(|(member, weight)| !member.is_new && *weight > 0);
    let is_held_back: Vec<bool> = members.iter().map(|member| member.is_new && has_proven).collect();
    let proven =
        weights.iter().zip(&is_held_back).map(|(weight, is_held_back)| weight * u32::from(!is_held_back));
    let shares_of_all = shares(weights.iter().copied(), targets.len());
    let among_proven = shares(proven.collect::<Vec<u32>>(), targets.len());
    let keeps = among_proven.iter().zip(&shares_of_all).map(|(one, other)| one.cap.max(other.cap)).collect();
    let mut balance = Balance {
        members,
        targets,
        keeps,
        shares: shares_of_all,
        is_held_back,
        order,
        assigned: vec![None; targets.len()],
        is_pinned: vec![false; targets.len()],
        load: vec![0; members.len()],
    };
    balance.keep_what_is_held();
    // Unowned targets go to underloaded members before any target moves, and a target that moves to an underloaded
    // member need not move because of a cap: the fewest moves. It also keeps the plan stable: after a part of the moves,
    // the same function computes the rest of them.
    if takes_any {
        balance.place_unowned();
        balance.fill_underloaded();
        balance.drop_above_cap();
        balance.place_unowned();
    }
    balance.assigned
}

impl Balance<'_> {
    fn keep_what_is_held(&mut self) {
        let position: HashMap<&str, usize> =
            self.order.iter().map(|&position| (self.members[position].name, position)).collect();
        for (index, target) in self.targets.iter().enumerate() {
            let pinned = target.pinned_to.and_then(|name| position.get(name).copied());
            let pinned = pinned.filter(|&member| self.members[member].weight > 0);
            let held = target.held_by.and_then(|name| position.get(name).copied());
            self.is_pinned[index] = pinned.is_some();
            if let Some(member) = pinned.or(held) {
                self.assigned[index] = Some(member);
                self.load[member] += 1;
            }
        }
    }

    /// Takes from each member what is above its cap, which is 0 without a weight: the targets with the least affinity
    /// first, never a pinned one.
    fn drop_above_cap(&mut self) {
        let held = self.movable();
        for (member, mut going) in held.into_iter().enumerate() {
            let surplus = self.load[member].saturating_sub(self.keeps[member]);
            if surplus == 0 {
                continue;
            }
            self.sort_by_affinity(&mut going, member);
            for index in going.into_iter().rev().take(surplus) {
                self.assigned[index] = None;
                self.load[member] -= 1;
            }
        }
    }

    /// The targets of each member that are not pinned.
    fn movable(&self) -> Vec<Vec<usize>> {
        let mut held = vec![Vec::new(); self.members.len()];
        for (index, member) in self.assigned.iter().enumerate() {
            if let Some(member) = member.filter(|_| !self.is_pinned[index]) {
                held[member].push(index);
            }
        }
        held
    }

    /// Each unowned target goes to the member that it prefers among the underloaded ones, else among those below their
    /// share, else among those below their cap.
    fn place_unowned(&mut self) {
        let limits: [fn(&Share) -> usize; 4] =
            [|share| share.underloaded_below, |share| share.floor, |share| share.ceil, |share| share.cap];
        let mut free: Vec<usize> =
            (0..self.targets.len()).filter(|index| self.assigned[*index].is_none()).collect();
        free.sort_by_cached_key(|&index| (xxh64(self.targets[index].name, ""), self.targets[index].name));
        for index in free {
            let within = |limit: &fn(&Share) -> usize| {
                self.preferred(index, |member| self.load[member] < limit(&self.shares[member]))
            };
            if let Some(member) = limits.iter().find_map(within) {
                self.assigned[index] = Some(member);
                self.load[member] += 1;
            }
        }
    }

    /// Each underloaded member gets targets until it is not underloaded any more: of members above their caps first,
    /// then of those above their shares rounded up, then of those above their shares rounded down.
    fn fill_underloaded(&mut self) {
        let limits: [fn(&Share) -> usize; 3] = [|share| share.cap, |share| share.ceil, |share| share.floor];
        // Only grows: `offered` skips targets that have left a member.
        let mut held = self.movable();
        for turn in 0..self.order.len() {
            let member = self.order[turn];
            for limit in limits {
                if !self.is_filled(member) {
                    break;
                }
                for (index, donor) in self.offered(&held, member, limit) {
                    if !self.is_filled(member) {
                        break;
                    }
                    if self.load[donor] > limit(&self.shares[donor]) {
                        self.assigned[index] = Some(member);
                        self.load[donor] -= 1;
                        self.load[member] += 1;
                        held[member].push(index);
                    }
                }
            }
        }
    }

    /// Whether targets of other members move to this one. Members that are held back share one small part. The targets of
    /// a new member that died count while it is listed and go to the next new member afterwards, so that a poller that
    /// dies again and again costs the same few targets.
    fn is_filled(&self, member: usize) -> bool {
        let Share { floor, underloaded_below, .. } = self.shares[member];
        if !self.is_held_back[member] {
            return self.load[member] < underloaded_below;
        }
        let held_back = self.load.iter().zip(&self.is_held_back).filter(|(_, is_held_back)| **is_held_back);
        held_back.map(|(load, _)| load).sum::<usize>() < floor / NEW_PART
    }

    /// The targets of members above a limit, each with its member, the greatest affinity to `to` first.
    fn offered(&self, held: &[Vec<usize>], to: usize, limit: fn(&Share) -> usize) -> Vec<(usize, usize)> {
        let rich = |donor: &usize| *donor != to && self.load[*donor] > limit(&self.shares[*donor]);
        let mut offered = Vec::new();
        for donor in (0..self.members.len()).filter(rich) {
            offered.extend(held[donor].iter().filter(|index| self.assigned[**index] == Some(donor)));
        }
        // The same order at every poller; the position distinguishes targets of the same name.
        offered.sort_unstable();
        offered.dedup();
        self.sort_by_affinity(&mut offered, to);
        let with_donor = |index: usize| Some((index, self.assigned[index]?));
        offered.into_iter().filter_map(with_donor).collect()
    }

    fn preferred(&self, index: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let mut best: Option<(Score, usize)> = None;
        let mut best_hash = 0;
        for &member in &self.order {
            if self.members[member].weight == 0 || !fits(member) {
                continue;
            }
            let hash = xxh64(self.targets[index].name, self.members[member].name);
            // A score rises with hash and weight: most members need no logarithm.
            let is_behind = |(_, first): (Score, usize)| {
                hash <= best_hash && self.members[member].weight <= self.members[first].weight
            };
            if best.is_some_and(is_behind) {
                continue;
            }
            let score = weighted(hash, self.members[member].weight);
            if best.is_none_or(|(highest, _)| score > highest) {
                best = Some((score, member));
                best_hash = hash;
            }
        }
        best.map(|(_, member)| member)
    }

    /// The greatest affinity first.
    fn sort_by_affinity(&self, indexes: &mut [usize], member: usize) {
        indexes.sort_by_cached_key(|&index| (Reverse(self.score(index, member)), self.targets[index].name));
    }

    /// The affinity of the target to the member. A weight of 0 counts as 1 here.
    fn score(&self, index: usize, member: usize) -> Score {
        let member = Member { weight: self.members[member].weight.max(1), ..self.members[member] };
        Hash::Xxh64.score(&member, self.targets[index].name)
    }
}
