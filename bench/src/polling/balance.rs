//! How evenly targets are shared, whatever they are called: by assignment alone, from nothing. The function of older
//! programs stands beside it.

use super::table::Row;
use std::fmt::Write as _;
use tenure_polling::assignment::{Hash, Member, Target, assign, shares};

const POLLERS: [usize; 4] = [2, 3, 5, 10];
const SIZES: [usize; 3] = [9, 100, 10_000];

type Shape = fn(usize) -> String;

const SHAPES: [(&str, Shape); 4] = [
    ("`s0` …", |number| format!("s{number}")),
    ("UUIDs", uuid),
    ("zero-padded", |number| format!("{number:08}")),
    ("URLs", |number| format!("https://device-{number}.example.org:8443/status?format=json")),
];

/// One shape on so many pollers.
struct Case {
    shape: &'static str,
    pollers: usize,
    targets: usize,
    cap: usize,
    most: usize,
    most_fnv1a: usize,
}

/// A row for the table, and all cases as a table of their own.
pub(super) fn measure() -> (Row, String) {
    let mut cases = Vec::new();
    for targets in SIZES {
        for (shape, name) in SHAPES {
            for pollers in POLLERS {
                let names: Vec<String> = (0..targets).map(name).collect();
                let cap = shares(vec![1; pollers], targets)[0].cap;
                let most = |hash| most_held(hash, pollers, &names);
                let (most, most_fnv1a) = (most(Hash::Xxh64), most(Hash::Fnv1a));
                cases.push(Case { shape, pollers, targets, cap, most, most_fnv1a });
            }
        }
    }
    let over = cases.iter().filter(|case| case.most > case.cap).count();
    let worst =
        |most: fn(&Case) -> usize| cases.iter().map(|case| case.ratio(most(case))).fold(0.0, f64::max);
    let row = Row {
        promise: "Q3",
        what: "assignment alone: the most that one holds, 4 shapes of ids on 2, 3, 5, 10 pollers".to_owned(),
        store: "–".to_owned(),
        targets: SIZES.map(|size| size.to_string()).join(", "),
        rounds: 1,
        samples: cases.len(),
        measured: format!(
            "over its cap in {over}; at worst {:.2} × its fair share (fnv1a: {:.2} ×)",
            worst(|case| case.most),
            worst(|case| case.most_fnv1a)
        ),
        goal: "never over max(ceil(n/p), floor(1.1 n/p))".to_owned(),
        is_reached: over == 0,
        figures: vec![("over", over as f64)],
    };
    (row, listed(&cases))
}

impl Case {
    fn ratio(&self, most: usize) -> f64 {
        most as f64 * self.pollers as f64 / self.targets as f64
    }
}

fn listed(cases: &[Case]) -> String {
    let mut text = String::from(
        "| ids | targets | pollers | fair share | cap | most held | with fnv1a | fnv1a / fair |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for case in cases {
        let Case { shape, pollers, targets, cap, most, most_fnv1a } = case;
        let fair = *targets as f64 / *pollers as f64;
        let skew = case.ratio(*most_fnv1a);
        let _ = writeln!(
            text,
            "| {shape} | {targets} | {pollers} | {fair:.1} | {cap} | {most} | {most_fnv1a} | {skew:.2} × |"
        );
    }
    text
}

fn most_held(hash: Hash, pollers: usize, names: &[String]) -> usize {
    let pollers: Vec<String> = (0..pollers).map(poller).collect();
    let members: Vec<Member<'_>> =
        pollers.iter().map(|name| Member { name, weight: 1, is_new: false }).collect();
    let targets: Vec<Target<'_>> =
        names.iter().map(|name| Target { name, held_by: None, pinned_to: None }).collect();
    let mut held = vec![0; members.len()];
    assign(hash, &members, &targets).into_iter().flatten().for_each(|place| held[place] += 1);
    held.into_iter().max().unwrap_or(0)
}

/// As pollers that draw their name are called.
fn poller(number: usize) -> String {
    let (began, run) = (mixed(number as u64), mixed(1_000 + number as u64));
    format!("node-{number}-{:015}-{:08x}", began % 1_000_000_000_000_000, run >> 32)
}

fn uuid(number: usize) -> String {
    let (high, low) = (mixed(2 * number as u64), mixed(2 * number as u64 + 1));
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 52,
        low & 0xffff_ffff_ffff
    )
}

/// Splitmix64: the same in every run.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_shape_of_ids_overloads_a_poller() {
        let (row, listed) = measure();
        assert!(row.is_reached, "{listed}");
        assert_eq!(row.samples, 48);
    }

    #[test]
    fn ids_have_the_shape_they_say() {
        assert_eq!(uuid(3).len(), 36);
        assert_eq!(uuid(3).as_bytes()[14], b'4');
        assert_ne!(uuid(3), uuid(4));
    }
}
