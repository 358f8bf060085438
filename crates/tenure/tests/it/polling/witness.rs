//! What pollers signed, in the order in which the kernel let them write, and the judgement on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A poll: it signs its begin and its end. One of a target called `long…` lasts, signs again and again, and does not
/// listen to SIGTERM. Each line is one write to a file opened for appending.
pub(crate) const SCRIPT: &str = r#"
log=$0
say() { read up rest < /proc/uptime; echo "$1 $TENURE_TARGET $TENURE_FENCE $TENURE_INSTANCE $$ $up" >> "$log"; }
case $TENURE_TARGET in long*) trap '' TERM;; esac
say begin
case $TENURE_TARGET in
    long*) n=0; while [ $n -lt 400 ]; do sleep 0.05; say tick; n=$((n + 1)); done;;
esac
say end
"#;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sign {
    Begin,
    Tick,
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) sign: Sign,
    pub(crate) target: String,
    pub(crate) fence: u64,
    pub(crate) instance: String,
    pub(crate) pid: i32,
    /// Since boot, as the one who signed sees it.
    pub(crate) at_ms: u64,
}

/// All lines so far.
pub(crate) struct Witness(pub(crate) Vec<Line>);

impl Witness {
    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        // The last line may be half written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        Self(whole.lines().map(parse).collect())
    }

    pub(crate) fn begins(&self) -> impl DoubleEndedIterator<Item = &Line> {
        self.0.iter().filter(|line| line.sign == Sign::Begin)
    }

    /// Lines of one poller.
    pub(crate) fn by(&self, instance: &str) -> impl DoubleEndedIterator<Item = &Line> {
        self.0.iter().filter(move |line| line.instance == instance)
    }

    /// Who began the last poll of each target.
    pub(crate) fn owners(&self) -> BTreeMap<&str, &str> {
        self.begins().map(|line| (line.target.as_str(), line.instance.as_str())).collect()
    }

    /// The targets whose last poll was this one's.
    pub(crate) fn targets_of(&self, instance: &str) -> BTreeSet<String> {
        let owners = self.owners().into_iter();
        owners.filter(|(_, owner)| *owner == instance).map(|(target, _)| target.to_owned()).collect()
    }

    /// Lines since then, by the clock of those who signed.
    pub(crate) fn since(&self, at_ms: u64) -> Self {
        Self(self.0.iter().filter(|line| line.at_ms >= at_ms).cloned().collect())
    }

    /// What a sink refuses that keeps the highest fence of each target.
    pub(crate) fn refused(&self) -> Vec<&Line> {
        let mut highest: BTreeMap<&str, u64> = BTreeMap::new();
        let mut refused = Vec::new();
        for line in &self.0 {
            let highest = highest.entry(&line.target).or_default();
            if line.fence < *highest {
                refused.push(line);
            }
            *highest = line.fence.max(*highest);
        }
        refused
    }

    /// How often a target was polled by another than the time before.
    pub(crate) fn changes_of_hands(&self) -> usize {
        let mut last: BTreeMap<&str, &str> = BTreeMap::new();
        let mut changes = 0;
        for line in self.begins() {
            let before = last.insert(&line.target, &line.instance);
            changes += usize::from(before.is_some_and(|before| before != line.instance));
        }
        changes
    }

    /// No two polls of a target by different pollers whose writes a sink would both have accepted while both went on.
    #[track_caller]
    pub(crate) fn assert_none_accepted_twice(&self) {
        // A poll counts for as long as its lines are accepted: until the first line with a higher fence.
        let mut owners: BTreeMap<(&str, u64), &Line> = BTreeMap::new();
        for line in &self.0 {
            let first = owners.entry((&line.target, line.fence)).or_insert(line);
            assert_eq!(first.instance, line.instance, "one fence for two: {first:?} and {line:?}");
        }
    }

    /// No poll of a target by one poller begins or goes on after another began: not even the sink has anything to refuse.
    #[track_caller]
    pub(crate) fn assert_never_two(&self) {
        self.assert_none_accepted_twice();
        let refused = self.refused();
        assert!(refused.is_empty(), "{} lines beside a newer poller, first {:?}", refused.len(), refused[0]);
    }

    /// Whether each of so many targets is polled, and by one poller only.
    pub(crate) fn is_shared_out(&self, targets: usize) -> bool {
        let mut pollers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for line in self.begins() {
            pollers.entry(&line.target).or_default().insert(&line.instance);
        }
        pollers.len() == targets && pollers.values().all(|pollers| pollers.len() == 1)
    }
}

fn parse(line: &str) -> Line {
    let words: Vec<&str> = line.split(' ').collect();
    let [sign, target, fence, instance, pid, up] = words[..] else { panic!("torn: {line:?}") };
    let (seconds, hundredths) = up.split_once('.').unwrap();
    let number = |text: &str| text.parse::<u64>().unwrap();
    Line {
        sign: match sign {
            "begin" => Sign::Begin,
            "tick" => Sign::Tick,
            "end" => Sign::End,
            _ => panic!("torn: {line:?}"),
        },
        target: target.to_owned(),
        fence: number(fence),
        instance: instance.to_owned(),
        pid: pid.parse().unwrap(),
        at_ms: number(seconds) * 1_000 + number(hundredths) * 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Witness {
        Witness(lines.iter().map(|line| parse(line)).collect())
    }

    #[test]
    fn one_after_the_other_is_fine() {
        let fine = of(&["begin t 1 a 7 1.00", "end t 1 a 7 1.10", "begin t 2 b 8 1.20", "end t 2 b 8 1.30"]);
        fine.assert_never_two();
        assert_eq!((fine.changes_of_hands(), fine.owners()["t"]), (1, "b"));
        assert!(!fine.is_shared_out(1) && fine.since(1_150).is_shared_out(1));
    }

    #[test]
    #[should_panic(expected = "lines beside a newer poller")]
    fn who_goes_on_beside_a_newer_one_is_seen() {
        of(&["begin t 1 a 7 1.00", "begin t 2 b 8 1.20", "end t 1 a 7 1.30"]).assert_never_two();
    }

    #[test]
    #[should_panic(expected = "one fence for two")]
    fn two_with_the_same_fence_are_seen() {
        of(&["begin t 1 a 7 1.00", "end t 1 a 7 1.10", "begin t 1 b 8 1.20"]).assert_none_accepted_twice();
    }
}
