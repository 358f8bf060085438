//! What is done in a run, in order: rounds; in each one kind of work after the other; each through all peers, close to
//! each other in time because disks drift; and the order of the peers turns by one each round. Knows nothing of how it is
//! done.

use super::kind::Kind;
use super::peer::{Shape, Work};
use std::fmt;

/// One thing that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) round: usize,
    pub(crate) kind: Kind,
    pub(crate) part: Part,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// One append and one sync, on the disk that all of them use.
    Disk,
    /// The HTTP stack alone.
    Hello,
    /// Acquire, renew, release.
    Lives(Shape),
    /// By the tool that comes with it.
    OwnTool(Work, Shape),
    Bundle,
    Contention,
    FailOver,
    /// So many at once: memory, idle processors, a restart.
    Hold(u64),
    /// So many with one deadline.
    Storm(u64),
}

/// How much of everything.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) rounds: usize,
    /// Leases that Tenure and Redis hold, and let end at once.
    pub(crate) many: u64,
    /// Leases that everybody lets end at once, and that the others hold.
    pub(crate) some: u64,
}

/// In flight, over eight connections at most.
pub(crate) const SHAPES: &[Shape] =
    &[ALONE, Shape { connections: 8, depth: 2 }, Shape { connections: 8, depth: 8 }, PIPELINED];
/// One at a time.
const ALONE: Shape = Shape { connections: 1, depth: 1 };
/// 256 in flight as those have them who can.
pub(crate) const PIPELINED: Shape = Shape { connections: 8, depth: 32 };
/// 256 in flight, each waiting for its answer.
pub(crate) const MANY: Shape = Shape { connections: 256, depth: 1 };
/// What is in flight over HTTP where it is compared.
pub(crate) const WEB: Shape = Shape { connections: 64, depth: 1 };

impl Part {
    /// Whether what was done before would weigh on it.
    pub(crate) fn is_alone(self) -> bool {
        matches!(self, Self::Hold(_) | Self::Storm(_))
    }

    /// What has the same turn is compared, and goes through all peers before the next.
    fn turn(self) -> (u32, u64) {
        match self {
            Self::Disk => (0, 1),
            Self::Hello => (0, WEB.in_flight()),
            Self::Lives(shape) | Self::OwnTool(_, shape) if shape == MANY => (1, 0),
            Self::Lives(shape) | Self::OwnTool(_, shape) => (0, shape.in_flight()),
            Self::Bundle => (2, 0),
            Self::Contention => (3, 0),
            Self::FailOver => (4, 0),
            Self::Hold(_) => (5, 0),
            Self::Storm(count) => (6, count),
        }
    }

    /// Whether its name, or the name of something in it, contains one of these.
    fn is_wanted(self, only: Option<&str>) -> bool {
        let Some(only) = only else { return true };
        let name = self.to_string();
        // People have no multiplication sign on their keyboards.
        only.split(',').any(|wanted| name.contains(&wanted.replace('x', "×")))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk => write!(f, "disk append"),
            Self::Hello => write!(f, "hello"),
            Self::Lives(shape) => {
                for (place, work) in [Work::Acquire, Work::Renew, Work::Release].into_iter().enumerate() {
                    write!(f, "{}{}", if place > 0 { ", " } else { "" }, named(work, *shape))?;
                }
                Ok(())
            }
            Self::OwnTool(work, shape) => write!(f, "{} by its own tool", named(*work, *shape)),
            Self::Bundle => write!(f, "{}", named(Work::AcquireBundle, PIPELINED)),
            Self::Contention => write!(f, "contention"),
            Self::FailOver => write!(f, "fail-over"),
            Self::Hold(count) => write!(f, "hold {count}, idle, restart"),
            Self::Storm(count) => write!(f, "storm {count}"),
        }
    }
}

impl Work {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::AcquireBundle => "acquire bundle",
            Self::ReleaseBundle => "release bundle",
        }
    }
}

/// As it is called in the tables.
pub(crate) fn named(work: Work, shape: Shape) -> String {
    format!("{} {}×{}", work.as_str(), shape.connections, shape.depth)
}

/// All steps, in order.
pub(crate) fn plan(kinds: &[Kind], sizes: Sizes, only: Option<&str>) -> Vec<Step> {
    let mut order = kinds.to_vec();
    let mut steps = Vec::new();
    for round in 0..sizes.rounds {
        let mut of_round = Vec::new();
        for kind in &order {
            let parts = parts(*kind, round, sizes).into_iter().filter(|part| part.is_wanted(only));
            of_round.extend(parts.map(|part| Step { round, kind: *kind, part }));
        }
        of_round.sort_by_key(|step| step.part.turn());
        steps.extend(of_round);
        if !order.is_empty() {
            order.rotate_left(1);
        }
    }
    steps
}

fn parts(kind: Kind, round: usize, sizes: Sizes) -> Vec<Part> {
    let mut parts = Vec::new();
    if kind == Kind::TenureHttp {
        parts.push(Part::Hello);
        // There a request has a connection of its own.
        let web = |shape: &Shape| Shape { connections: shape.connections * shape.depth, depth: 1 };
        parts.extend(SHAPES.iter().map(|shape| Part::Lives(web(shape))));
        return parts;
    }
    for shape in SHAPES {
        parts.push(Part::Lives(*shape));
        if kind == Kind::Tenure && *shape == ALONE {
            // What is compared with a limit is measured right beside it: disks drift.
            parts.insert(0, Part::Disk);
            parts.push(Part::Disk);
        }
    }
    if kind == Kind::Tenure || kind.is_redis() {
        parts.push(Part::Lives(MANY));
    }
    if kind.has_own_tool() {
        for (work, shape) in [(Work::Acquire, PIPELINED), (Work::Acquire, MANY), (Work::Renew, PIPELINED)] {
            parts.push(Part::OwnTool(work, shape));
        }
    }
    parts.extend([Part::Bundle, Part::Contention]);
    // The long ones once, but for those whose ratio is a goal.
    if round == 0 && !matches!(kind, Kind::RedisFence | Kind::EtcdShared) {
        parts.push(Part::FailOver);
    }
    match kind {
        Kind::Tenure | Kind::RedisAlways => {
            parts.extend([Part::Hold(sizes.many), Part::Storm(sizes.some), Part::Storm(sizes.many)]);
        }
        Kind::RedisMemory if round == 0 => {
            parts.extend([Part::Hold(sizes.many), Part::Storm(sizes.some), Part::Storm(sizes.many)]);
        }
        Kind::Etcd | Kind::Postgres | Kind::Zookeeper if round == 0 => {
            parts.extend([Part::Hold(sizes.some), Part::Storm(sizes.some)]);
        }
        _ => {}
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { rounds: 3, many: 1_000_000, some: 100_000 };

    #[test]
    fn the_order_of_peers_turns_by_one_each_round() {
        let steps = plan(&[Kind::Tenure, Kind::RedisAlways, Kind::Etcd], SIZES, Some("acquire 8x32"));
        let mut order: Vec<(usize, Kind)> = steps.iter().map(|step| (step.round, step.kind)).collect();
        order.dedup();
        let kinds: Vec<Kind> = order.into_iter().map(|(_, kind)| kind).collect();
        let turned = [
            [Kind::Tenure, Kind::RedisAlways, Kind::Etcd],
            [Kind::RedisAlways, Kind::Etcd, Kind::Tenure],
            [Kind::Etcd, Kind::Tenure, Kind::RedisAlways],
        ];
        assert_eq!(kinds, turned.concat());
    }

    #[test]
    fn one_kind_of_work_goes_through_all_peers_before_the_next() {
        let steps = plan(&[Kind::Tenure, Kind::RedisAlways], SIZES, Some("1x1,8x32"));
        let first: Vec<(Kind, Part)> =
            steps.iter().filter(|step| step.round == 0).map(|step| (step.kind, step.part)).collect();
        let expected = [
            (Kind::Tenure, Part::Lives(ALONE)),
            (Kind::RedisAlways, Part::Lives(ALONE)),
            (Kind::Tenure, Part::Lives(PIPELINED)),
            (Kind::RedisAlways, Part::Lives(PIPELINED)),
            (Kind::RedisAlways, Part::OwnTool(Work::Acquire, PIPELINED)),
            (Kind::RedisAlways, Part::OwnTool(Work::Renew, PIPELINED)),
            (Kind::Tenure, Part::Bundle),
            (Kind::RedisAlways, Part::Bundle),
        ];
        assert_eq!(first, expected);
    }

    #[test]
    fn what_is_wanted_is_named_as_it_is_shown() {
        let steps = plan(&[Kind::Tenure], SIZES, Some("renew 8x2"));
        let shapes: Vec<Part> = steps.iter().filter(|step| step.round == 0).map(|step| step.part).collect();
        assert!(shapes.contains(&Part::Lives(Shape { connections: 8, depth: 2 })));
        assert!(!shapes.contains(&Part::Disk));
        let long = plan(&[Kind::Tenure], SIZES, Some("storm,restart"));
        assert_eq!(long.len(), 9);
    }
}
