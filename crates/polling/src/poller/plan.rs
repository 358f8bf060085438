//! What this poller should do next, from what is seen and what it holds. Pure.

use super::holdings::Held;
use crate::instance::Instance;
use crate::store::{HolderState, SeenMember, SeenOwner, TargetName, View, Wanted};
use std::collections::{BTreeMap, HashMap};
use tenure_api::PollerStatus;
use tenure_assignment::{Hash, Member, Target, assign, rank};
use tenure_client::clock::BootInstant;

/// What a plan is made from.
pub(crate) struct Situation<'a> {
    pub(crate) me: &'a Instance,
    pub(crate) weight: u32,
    /// It gives everything away and takes nothing.
    pub(crate) is_leaving: bool,
    pub(crate) hash: Hash,
    /// All targets of the group, in order of name.
    pub(crate) targets: &'a [TargetName],
    pub(crate) view: &'a View,
    pub(crate) held: &'a Held,
}

/// What should be done.
#[derive(Default, Debug)]
pub(crate) struct Plan {
    /// Nobody's, and to be ours.
    pub(crate) take: Vec<Wanted>,
    /// Nobody's, and to be another's: how many would be asked before us.
    pub(crate) orphans: Vec<(TargetName, usize)>,
    /// Ours, and to be another's.
    pub(crate) give: Vec<(TargetName, SeenMember)>,
    /// Ours, and to stay so.
    pub(crate) keep: Vec<TargetName>,
    /// Ours, and no target of the group any more.
    pub(crate) drop: Vec<TargetName>,
    /// How many targets each poller has to move to another, by the poller's key: this one, and the others that live and stay.
    pub(crate) givers: BTreeMap<String, usize>,
    /// When the first hold that matters ends unless it is renewed, where the store does not tell.
    pub(crate) read_again_at: Option<BootInstant>,
    /// Who should poll what, by instance.
    pub(crate) preferred: HashMap<TargetName, String>,
}

/// Who has a target, as far as assignment goes.
enum Hold<'a> {
    Mine,
    Nobody,
    /// Left behind, for its poller to take up again.
    Left(&'a SeenOwner),
    Another(&'a str, Option<BootInstant>),
}

pub(crate) fn plan(situation: &Situation<'_>) -> Plan {
    let Situation { me, view, held, targets, .. } = *situation;
    let seen = members(situation);
    let members: Vec<Member<'_>> = seen.iter().map(|member| situation.member(member)).collect();
    let mut plan = Plan { read_again_at: view.read_again_at, ..Plan::default() };
    let mut weighed = Vec::with_capacity(targets.len());
    let mut holds = Vec::with_capacity(targets.len());
    for target in targets {
        let hold = situation.hold(target);
        let held_by = match &hold {
            Hold::Mine => Some(situation.key(me)),
            Hold::Nobody => None,
            Hold::Another(name, _) => Some(*name),
            Hold::Left(owner) => {
                let name = situation.key(&owner.instance);
                if owner.instance.name() == me.name() && !situation.is_leaving {
                    plan.take.push(Wanted { target: target.clone(), reserved: Some((*owner).clone()) });
                }
                // Who is back counts as having it; while it is away nobody does.
                if !members.iter().any(|member| member.name == name) {
                    continue;
                }
                Some(name)
            }
        };
        let pinned_to = view.pins.get(target).map(String::as_str);
        weighed.push(Target { name: target, held_by, pinned_to });
        holds.push((target, hold));
    }
    let assigned = assign(situation.hash, &members, &weighed);
    for ((target, hold), place) in holds.into_iter().zip(assigned) {
        let chosen = place.map(|place| &seen[place]);
        if let Some(chosen) = chosen {
            plan.preferred.insert(target.clone(), chosen.instance.to_string());
        }
        let is_for_me = chosen.is_some_and(|chosen| chosen.instance == *me);
        match hold {
            Hold::Mine if is_for_me => plan.keep.push(target.clone()),
            Hold::Mine => match chosen {
                Some(chosen) => {
                    *plan.givers.entry(situation.key(me).to_owned()).or_default() += 1;
                    plan.give.push((target.clone(), chosen.clone()));
                }
                None => plan.keep.push(target.clone()),
            },
            Hold::Nobody => {
                if is_for_me {
                    plan.take.push(Wanted { target: target.clone(), reserved: None });
                } else if chosen.is_some() && !situation.is_leaving {
                    let before = rank(situation.hash, &members, target, situation.key(me));
                    plan.orphans.push((target.clone(), before.max(1)));
                }
            }
            Hold::Another(name, ends_at) => {
                // One that leaves hands everything over at once, and takes no turn from the others.
                let stays = seen.iter().any(|member| {
                    situation.key(&member.instance) == name && member.status != PollerStatus::Leaving
                });
                if stays && chosen.is_some_and(|chosen| situation.key(&chosen.instance) != name) {
                    *plan.givers.entry(name.to_owned()).or_default() += 1;
                }
                plan.read_again_at = [plan.read_again_at, ends_at].into_iter().flatten().min();
            }
            Hold::Left(_) => {}
        }
    }
    let is_target = |target: &TargetName| targets.binary_search(target).is_ok();
    plan.drop.extend(held.targets.iter().filter(|target| !is_target(target)).cloned());
    plan
}

/// Who counts for assignment, in order of name.
fn members(situation: &Situation<'_>) -> Vec<SeenMember> {
    let me = situation.me;
    let counts = |member: &&SeenMember| {
        member.status != PollerStatus::Absent && situation.key(&member.instance) != situation.key(me)
    };
    let mut members: Vec<SeenMember> = situation.view.members.iter().filter(counts).cloned().collect();
    let own = situation.view.members.iter().find(|member| member.instance == *me);
    members.push(SeenMember {
        instance: me.clone(),
        weight: situation.weight,
        status: match own {
            _ if situation.is_leaving => PollerStatus::Leaving,
            Some(own) => own.status,
            None => PollerStatus::Online,
        },
        is_new: own.is_none_or(|own| own.is_new),
        address: String::new(),
        takes_handovers: true,
    });
    // Without weights, who takes nothing is left out, as long as anybody is left.
    if situation.hash == Hash::Fnv1a && members.iter().any(|member| situation.member(member).weight > 0) {
        members.retain(|member| situation.member(member).weight > 0);
    }
    members.sort_by(|one, other| one.instance.cmp(&other.instance));
    members
}

/// What assignment goes by: older programs know instances alone.
pub(crate) fn key(hash: Hash, instance: &Instance) -> &str {
    match hash {
        Hash::Xxh64 => instance.name(),
        Hash::Fnv1a => instance.as_str(),
    }
}

impl<'a> Situation<'a> {
    fn key<'b>(&self, instance: &'b Instance) -> &'b str {
        key(self.hash, instance)
    }

    fn member<'b>(&self, seen: &'b SeenMember) -> Member<'b> {
        let takes = matches!(seen.status, PollerStatus::Online | PollerStatus::Joining);
        let weight = if takes { seen.weight } else { 0 };
        Member { name: self.key(&seen.instance), weight, is_new: seen.is_new }
    }

    fn hold(&self, target: &TargetName) -> Hold<'a> {
        if self.held.targets.contains(target) {
            return Hold::Mine;
        }
        let seen = self.view.owners.get(target);
        if let Some(let_go) = self.held.let_go.get(target)
            && seen.is_some_and(|seen| seen.fence.is_some_and(|seen| seen <= let_go.fence))
        {
            // The store still shows what we gave away.
            return let_go.to.as_deref().map_or(Hold::Nobody, |to| Hold::Another(to, None));
        }
        match seen {
            None => Hold::Nobody,
            Some(owner) if owner.state == HolderState::Reserved => Hold::Left(owner),
            Some(owner) => Hold::Another(self.key(&owner.instance), owner.ends_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::holdings::Holdings;
    use super::*;
    use crate::store::{HeldTarget, LeaseKey};

    fn member(name: &str) -> SeenMember {
        SeenMember {
            instance: Instance::from_text(name),
            weight: 1,
            status: PollerStatus::Online,
            is_new: false,
            address: String::new(),
            takes_handovers: true,
        }
    }

    fn owner(name: &str, fence: u64) -> SeenOwner {
        SeenOwner {
            instance: Instance::from_text(name),
            fence: Some(fence),
            ends_at: None,
            state: if name.ends_with("~absent") { HolderState::Reserved } else { HolderState::Active },
            key: LeaseKey::default(),
            acquired_at: None,
            renewed_at: None,
        }
    }

    fn hold(holdings: &mut Holdings, target: &str) {
        let lease = HeldTarget {
            target: target.into(),
            fence: 1,
            valid_until: BootInstant::from_ms(1_000),
            key: LeaseKey::default(),
        };
        holdings.admit(lease, BootInstant::from_ms(0));
    }

    fn planned(view: &View, holdings: &Holdings, targets: &[TargetName], is_leaving: bool) -> Plan {
        plan(&Situation {
            me: &Instance::from_text("a"),
            weight: 1,
            is_leaving,
            hash: Hash::Xxh64,
            targets,
            view,
            held: &holdings.held(),
        })
    }

    fn names(count: usize) -> Vec<TargetName> {
        let mut names: Vec<TargetName> = (0..count).map(|number| format!("s{number}").into()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_lone_poller_takes_everything_at_once() {
        let plan = planned(&View::default(), &Holdings::default(), &names(9), false);
        assert_eq!(plan.take.len(), 9);
        assert!(plan.orphans.is_empty() && plan.give.is_empty());
    }

    #[test]
    fn one_who_joins_is_given_its_share_and_not_more() {
        let targets = names(9);
        let mut holdings = Holdings::default();
        targets.iter().for_each(|target| hold(&mut holdings, target));
        let view = View { members: vec![member("a"), member("b"), member("c")], ..View::default() };
        let plan = planned(&view, &holdings, &targets, false);
        assert_eq!((plan.give.len(), plan.keep.len()), (6, 3));
        assert_eq!(plan.givers, BTreeMap::from([("a".to_owned(), 6)]));
    }

    #[test]
    fn the_others_that_have_something_to_give_are_counted_unless_they_leave() {
        let targets = names(12);
        let mut view = View { members: ["a", "b", "c", "d"].map(member).to_vec(), ..View::default() };
        for (number, target) in targets.iter().enumerate() {
            view.owners.insert(target.clone(), owner(if number < 6 { "b" } else { "c" }, 7));
        }
        let mut givers = |status| {
            view.members[2].status = status;
            planned(&view, &Holdings::default(), &targets, false).givers
        };
        let of = |counts: &[(&str, usize)]| -> BTreeMap<String, usize> {
            counts.iter().map(|(name, moves)| ((*name).to_owned(), *moves)).collect()
        };
        assert_eq!(givers(PollerStatus::Online), of(&[("b", 3), ("c", 3)]));
        assert_eq!(givers(PollerStatus::Cordoned), of(&[("b", 2), ("c", 6)]));
        assert_eq!(givers(PollerStatus::Leaving), of(&[("b", 2)]));
    }

    #[test]
    fn one_who_joins_is_given_little_until_it_has_lived_for_a_ttl() {
        let targets = names(200);
        let mut holdings = Holdings::default();
        targets.iter().for_each(|target| hold(&mut holdings, target));
        let mut view = View { members: vec![member("a"), member("b")], ..View::default() };
        view.members[1].is_new = true;
        assert_eq!(planned(&view, &holdings, &targets, false).give.len(), 10);
        assert_eq!(planned(&view, &holdings, &targets, true).give.len(), 200, "who leaves gives everything");
        view.members[1].is_new = false;
        assert_eq!(planned(&view, &holdings, &targets, false).give.len(), 90);
        // A group that begins has nobody else to give it to.
        view.members.iter_mut().for_each(|member| member.is_new = true);
        assert_eq!(planned(&view, &holdings, &targets, false).give.len(), 90);
    }

    #[test]
    fn one_who_leaves_gives_everything_and_takes_nothing() {
        let targets = names(6);
        let mut holdings = Holdings::default();
        targets.iter().take(3).for_each(|target| hold(&mut holdings, target));
        let view = View { members: vec![member("a"), member("b")], ..View::default() };
        let plan = planned(&view, &holdings, &targets, true);
        assert_eq!(plan.give.len(), 3);
        assert!(plan.take.is_empty() && plan.orphans.is_empty());
    }

    #[test]
    fn one_who_leaves_beside_older_programs_gives_everything_too() {
        let targets = names(6);
        let mut holdings = Holdings::default();
        targets.iter().for_each(|target| hold(&mut holdings, target));
        let view = View { members: vec![member("a"), member("b")], ..View::default() };
        let plan = plan(&Situation {
            me: &Instance::from_text("a"),
            weight: 1,
            is_leaving: true,
            hash: Hash::Fnv1a,
            targets: &targets,
            view: &view,
            held: &holdings.held(),
        });
        assert_eq!(plan.give.len(), 6);
    }

    #[test]
    fn what_is_kept_for_an_absent_one_is_left_alone() {
        let targets = names(4);
        let mut view = View { members: vec![member("a")], ..View::default() };
        let mut absent = member("b~absent");
        absent.status = PollerStatus::Absent;
        view.members.push(absent);
        for target in &targets[..2] {
            view.owners.insert(target.clone(), owner("b~absent", 7));
        }
        let plan = planned(&view, &Holdings::default(), &targets, false);
        assert_eq!(plan.take.len(), 2);
        assert!(plan.orphans.is_empty());
    }

    #[test]
    fn what_was_given_away_is_not_taken_for_ours_because_the_store_is_slow_to_show_it() {
        let targets = names(2);
        let mut holdings = Holdings::default();
        hold(&mut holdings, "s0");
        holdings.let_go(&"s0".into(), 1, Some("b".to_owned()));
        let mut view = View { members: vec![member("a"), member("b")], ..View::default() };
        view.owners.insert("s0".into(), owner("a", 1));
        view.owners.insert("s1".into(), owner("a", 1));
        hold(&mut holdings, "s1");
        let plan = planned(&view, &holdings, &targets, false);
        assert!(plan.take.is_empty() && plan.give.is_empty(), "{plan:?}");
        assert_eq!(plan.keep, [TargetName::from("s1")]);
    }

    #[test]
    fn what_is_no_target_any_more_is_dropped() {
        let mut holdings = Holdings::default();
        hold(&mut holdings, "gone");
        let plan = planned(&View::default(), &holdings, &names(1), false);
        assert_eq!(plan.drop, [TargetName::from("gone")]);
    }
}
