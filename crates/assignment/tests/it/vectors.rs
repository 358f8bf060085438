//! What a program in another language computes: `tests/vectors/make_vectors.py` wrote the files.

use std::collections::BTreeMap;
use tenure_assignment::{Hash, Member, Target, assign, rank};

const FNV1A: &str = include_str!("../vectors/fnv1a.tsv");
const OLDER_PROGRAM: &str = include_str!("../vectors/older_program.tsv");
const XXH64: &str = include_str!("../vectors/xxh64.tsv");
const RANKS: &str = include_str!("../vectors/ranks.tsv");

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split('\t').collect())
}

fn free(name: &str) -> [Target<'_>; 1] {
    [Target { name, held_by: None, pinned_to: None }]
}

fn hash_in(row: &[&str]) -> u64 {
    u64::from_str_radix(row[0], 16).unwrap()
}

#[test]
fn the_files_hold_the_published_vectors() {
    let published = [("cbf29ce484222325", ""), ("af63dc4c8601ec8c", "a"), ("85944171f73967e8", "foobar")];
    for (row, (hash, text)) in rows(FNV1A).zip(published) {
        assert_eq!(row, [hash, text]);
    }
    assert!(OLDER_PROGRAM.lines().count() > 400 && RANKS.lines().count() >= 400);
    assert!(OLDER_PROGRAM.lines().filter(|line| !line.is_ascii()).count() > 100);
}

#[test]
fn pollers_rank_by_their_fnv1a_where_the_target_adds_nothing() {
    // Two names with the same hash are in the file; here one of them is enough.
    let by_hash: BTreeMap<u64, &str> = rows(FNV1A).map(|row| (hash_in(&row), row[1])).collect();
    let members: Vec<Member<'_>> =
        by_hash.values().map(|name| Member { name, weight: 1, is_new: false }).collect();
    for (place, name) in by_hash.values().rev().enumerate() {
        assert_eq!(rank(Hash::Fnv1a, &members, "", name), place, "{name}");
    }
}

#[test]
fn fnv1a_chooses_whom_the_older_program_chooses() {
    for row in rows(OLDER_PROGRAM) {
        let [preferred, target, names @ ..] = &row[..] else { panic!("{row:?}") };
        let members: Vec<Member<'_>> =
            names.iter().map(|name| Member { name, weight: 1, is_new: false }).collect();
        let chosen = assign(Hash::Fnv1a, &members, &free(target))[0].map(|place| names[place]);
        match (preferred.is_empty(), names) {
            // There a lone poller whose hash is 0 is not chosen, and nobody polls; here it polls, in nobody's way.
            (true, [only]) => assert_eq!(chosen, Some(*only), "{row:?}"),
            (true, []) => assert_eq!(chosen, None),
            (true | false, _) => assert_eq!(chosen, Some(*preferred), "{row:?}"),
        }
        let mut by_rank: Vec<(usize, &str)> =
            names.iter().map(|name| (rank(Hash::Fnv1a, &members, target, name), *name)).collect();
        by_rank.sort_unstable();
        assert_eq!(by_rank.first().map(|(_, name)| *name), chosen, "{row:?}");
        assert!(by_rank.into_iter().map(|(rank, _)| rank).eq(0..names.len()), "{row:?}");
    }
}

#[test]
fn pollers_rank_by_the_xxh64_of_target_and_poller() {
    let mut by_target: BTreeMap<&str, Vec<(u64, &str)>> = BTreeMap::new();
    for row in rows(XXH64) {
        by_target.entry(row[1]).or_default().push((hash_in(&row), row[2]));
    }
    let mut compared = 0;
    for (target, mut pollers) in by_target {
        pollers.sort_unstable();
        let members: Vec<Member<'_>> =
            pollers.iter().map(|(_, name)| Member { name, weight: 1, is_new: false }).collect();
        for (place, (_, name)) in pollers.iter().rev().enumerate() {
            assert_eq!(rank(Hash::Xxh64, &members, target, name), place, "{target}: {name}");
            compared += pollers.len() - 1;
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn weighted_ranks_are_those_of_exact_logarithms() {
    for row in rows(RANKS) {
        let [target, weighed @ ..] = &row[..] else { panic!("{row:?}") };
        let mut members: Vec<Member<'_>> = weighed
            .iter()
            .map(|member| member.split_once(':').unwrap())
            .map(|(weight, name)| Member { name, weight: weight.parse().unwrap(), is_new: false })
            .collect();
        let in_order: Vec<&str> = members.iter().map(|member| member.name).collect();
        members.sort_by_key(|member| member.name);
        for (place, name) in in_order.into_iter().enumerate() {
            assert_eq!(rank(Hash::Xxh64, &members, target, name), place, "{row:?}");
        }
    }
}
