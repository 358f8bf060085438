//! What an answer of Redis says about a group. Pure: instants come in, a view goes out.

use crate::instance::Instance;
use crate::store::{HolderState, LeaseKey, SeenMember, SeenOwner, TargetName, View};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tenure_api::{PollerFacts, PollerStatus};
use tenure_client::clock::{BootInstant, wall_time};

/// Redis counts whole milliseconds: a key lasts through its last one.
const LAST_MS: Duration = Duration::from_millis(1);

/// What a poller tells of itself, and how long it lasts without renewal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct About {
    #[serde(flatten)]
    pub(super) facts: PollerFacts,
    #[serde(default)]
    pub(super) ttl_ms: u64,
}

/// When a question was sent and when its answer was here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) sent: BootInstant,
    pub(super) answered: BootInstant,
}

/// One answer: texts in five lists.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Answer {
    pub(super) now_us: u64,
    pub(super) members: Vec<Listed>,
    pub(super) cordoned: BTreeSet<String>,
    pub(super) pins: BTreeMap<TargetName, String>,
    /// By position among what was asked for.
    pub(super) leases: Vec<Held>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Listed {
    pub(super) instance: Instance,
    pub(super) left: Duration,
    /// `None` for an older program.
    pub(super) about: Option<About>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Held {
    pub(super) position: usize,
    pub(super) holder: Instance,
    /// `None` if it has no end.
    pub(super) left: Option<Duration>,
    pub(super) fence: Option<u64>,
}

impl Answer {
    /// `None` if it is not what the script gives.
    pub(super) fn read(lists: &[Vec<String>]) -> Option<Self> {
        let [now, members, cordoned, pins, leases] = lists else { return None };
        let [now_us] = now.as_slice() else { return None };
        let member = |listed: &[String]| {
            let left = Duration::from_millis(listed[1].parse().ok()?);
            let about = serde_json::from_str(&listed[2]).ok();
            Some(Listed { instance: Instance::from_text(&listed[0]), left, about })
        };
        let held = |lease: &[String]| {
            let left: i64 = lease[2].parse().ok()?;
            Some(Held {
                position: lease[0].parse::<usize>().ok()?.checked_sub(1)?,
                holder: Instance::from_text(&lease[1]),
                left: u64::try_from(left).ok().map(Duration::from_millis),
                fence: lease[3].parse().ok(),
            })
        };
        Some(Self {
            now_us: now_us.parse().ok()?,
            members: members.chunks_exact(3).map(member).collect::<Option<_>>()?,
            cordoned: cordoned.iter().cloned().collect(),
            pins: pins.chunks_exact(2).map(|pin| (pin[0].as_str().into(), pin[1].clone())).collect(),
            leases: leases.chunks_exact(4).map(held).collect::<Option<_>>()?,
        })
    }
}

/// Puts answers together.
pub(super) struct Seen<'a> {
    own: Option<&'a Instance>,
    ttls: BTreeMap<Instance, Option<Duration>>,
    pub(super) view: View,
}

impl<'a> Seen<'a> {
    /// Members and an operator's words.
    pub(super) fn begin(own: Option<&'a Instance>, answer: &mut Answer, asked: Asked) -> Self {
        let listed = core::mem::take(&mut answer.members);
        let ttl = |listed: &Listed| listed.about.as_ref().map(|about| Duration::from_millis(about.ttl_ms));
        let ttls = listed.iter().map(|listed| (listed.instance.clone(), ttl(listed))).collect();
        let read_again_at = listed
            .iter()
            .filter(|listed| Some(&listed.instance) != own)
            .map(|listed| asked.answered.after(listed.left + LAST_MS))
            .min();
        let pins = core::mem::take(&mut answer.pins);
        let members = one_for_each_name(listed, &answer.cordoned);
        Self { own, ttls, view: View { members, pins, read_again_at, ..View::default() } }
    }

    /// Who holds these targets.
    pub(super) fn add(&mut self, targets: &[TargetName], answer: &Answer, asked: Asked) {
        for held in &answer.leases {
            let Some(target) = targets.get(held.position) else { continue };
            let owner = self.owner(held, answer.now_us, asked);
            self.view.owners.insert(target.clone(), owner);
        }
    }

    fn owner(&self, held: &Held, now_us: u64, asked: Asked) -> SeenOwner {
        // Our own time is counted early, that of others late: whoever errs waits.
        let ends_at = held.left.map(|left| match Some(&held.holder) == self.own {
            true => asked.sent.after(left),
            false => asked.answered.after(left + LAST_MS),
        });
        let ttl = self.ttls.get(&held.holder).copied().flatten();
        // An older program raises no fence: what is written there is of somebody before it.
        let is_ours = self.own == Some(&held.holder) || held.holder.is_absent() || ttl.is_some();
        let fence = held.fence.filter(|_| is_ours);
        // Fences are the time of taking unless they had to be higher.
        let taken = fence.and_then(|fence| now_us.checked_sub(fence)).map(Duration::from_micros);
        let renewed = ttl.zip(held.left).and_then(|(ttl, left)| ttl.checked_sub(left));
        let renewed = renewed.map(|renewed| taken.map_or(renewed, |taken| renewed.min(taken)));
        let shown = |ago: Duration| wall_time(asked.answered.before(ago));
        SeenOwner {
            instance: held.holder.clone(),
            fence,
            ends_at,
            state: if held.holder.is_absent() { HolderState::Reserved } else { HolderState::Active },
            key: LeaseKey::default(),
            acquired_at: taken.map(shown),
            renewed_at: renewed.map(shown),
        }
    }
}

/// Of several runs under one name the one that polls, else the one that waits, else the one that is expected back.
fn one_for_each_name(listed: Vec<Listed>, cordoned: &BTreeSet<String>) -> Vec<SeenMember> {
    let mut by_name: BTreeMap<String, (u8, Duration, SeenMember)> = BTreeMap::new();
    for Listed { instance, left, about } in listed {
        let facts = about.as_ref().map(|about| &about.facts);
        let mut member = SeenMember {
            weight: facts.map_or(1, |facts| facts.weight),
            status: facts.map_or(PollerStatus::Online, |facts| facts.status),
            is_new: facts.is_some_and(|facts| facts.is_new),
            address: String::new(),
            takes_handovers: about.is_some() && !instance.is_absent(),
            instance,
        };
        let standing = match member.status {
            PollerStatus::Online | PollerStatus::Leaving | PollerStatus::Cordoned => 2,
            PollerStatus::Joining => 1,
            PollerStatus::Absent => 0,
        };
        if member.status == PollerStatus::Joining {
            member.takes_handovers = false;
        }
        let name = member.instance.name().to_owned();
        if cordoned.contains(&name) {
            member.status = PollerStatus::Cordoned;
        }
        let is_better = by_name.get(&name).is_none_or(|other| (standing, left) > (other.0, other.1));
        if is_better {
            by_name.insert(name, (standing, left, member));
        }
    }
    by_name.into_values().map(|(_, _, member)| member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_US: u64 = 1_800_000_000_000_000;

    fn listed(instance: &str, left_ms: u64, status: Option<PollerStatus>) -> Listed {
        let about = status.map(|status| About {
            facts: PollerFacts { instance: instance.to_owned(), weight: 3, status, ..PollerFacts::default() },
            ttl_ms: 30_000,
        });
        Listed { instance: Instance::from_text(instance), left: Duration::from_millis(left_ms), about }
    }

    fn held(position: usize, holder: &str, left_ms: i64) -> Held {
        Held {
            position,
            holder: Instance::from_text(holder),
            left: u64::try_from(left_ms).ok().map(Duration::from_millis),
            fence: Some(NOW_US - 5_000_000),
        }
    }

    fn asked() -> Asked {
        Asked { sent: BootInstant::from_ms(1_000), answered: BootInstant::from_ms(1_100) }
    }

    #[test]
    fn an_answer_is_read_or_refused_whole() {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let lists = [
            texts(&["1800000000000000"]),
            texts(&[
                "a",
                "900",
                "",
                "b~1",
                "800",
                "{\"instance\":\"b~1\",\"weight\":2,\"status\":\"leaving\",\"fixed_name\":true}",
            ]),
            texts(&["b"]),
            texts(&["s1", "a"]),
            texts(&["2", "a", "-1", "", "3", "b~1", "700", "17"]),
        ];
        let answer = Answer::read(&lists).expect("an answer");
        assert_eq!(answer.now_us, NOW_US);
        assert_eq!(answer.members[0].about, None);
        assert_eq!(answer.members[1].about.as_ref().expect("facts").facts.status, PollerStatus::Leaving);
        assert_eq!(
            (answer.leases[0].position, answer.leases[0].left, answer.leases[0].fence),
            (1, None, None)
        );
        assert_eq!(answer.leases[1].fence, Some(17));
        assert_eq!(Answer::read(&lists[..4]), None);
        let mut wrong = lists;
        wrong[4][0] = "0".to_owned();
        assert_eq!(Answer::read(&wrong), None);
    }

    #[test]
    fn of_each_name_there_is_one() {
        use PollerStatus::{Absent, Joining, Online};
        let all = vec![
            listed("k~absent", 9_000, Some(Absent)),
            listed("k~2", 8_000, Some(Joining)),
            listed("k~1", 1_000, Some(Online)),
            listed("old-1-2", 500, None),
        ];
        let members = one_for_each_name(all, &BTreeSet::from(["old-1-2".to_owned()]));
        let shown: Vec<_> =
            members.iter().map(|m| (m.instance.as_str(), m.status, m.takes_handovers)).collect();
        assert_eq!(shown, [("k~1", Online, true), ("old-1-2", PollerStatus::Cordoned, false)]);
        assert_eq!((members[0].weight, members[1].weight), (3, 1));
    }

    #[test]
    fn our_own_time_is_counted_early_and_that_of_others_late() {
        let own = Instance::from_text("me");
        let mut answer = Answer {
            now_us: NOW_US,
            members: vec![
                listed("me", 700, Some(PollerStatus::Online)),
                listed("you", 600, Some(PollerStatus::Online)),
            ],
            leases: vec![held(0, "me", 500), held(1, "you", 20_000), held(2, "old", 400), held(3, "odd", -1)],
            ..Answer::default()
        };
        let mut seen = Seen::begin(Some(&own), &mut answer, asked());
        assert_eq!(seen.view.read_again_at, Some(BootInstant::from_ms(1_701)));
        let targets: Vec<TargetName> = ["a", "b", "c", "d"].map(TargetName::from).to_vec();
        seen.add(&targets, &answer, asked());
        let owner = |target: &str| &seen.view.owners[target];
        assert_eq!(owner("a").ends_at, Some(BootInstant::from_ms(1_500)));
        assert_eq!(owner("b").ends_at, Some(BootInstant::from_ms(21_101)));
        assert_eq!(owner("d").ends_at, None);
        assert_eq!(owner("b").fence, Some(NOW_US - 5_000_000));
        assert!(owner("b").acquired_at.is_some() && owner("b").renewed_at.is_some());
        assert_eq!((owner("c").fence, &owner("c").acquired_at, &owner("c").renewed_at), (None, &None, &None));
    }
}
