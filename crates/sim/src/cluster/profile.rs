//! What one seed of a cluster is about. As for one machine: each seed switches a random part of work and faults on.

use crate::random::Random;
use tenure_engine::EngineConfig;
use tenure_kernel::{Hashing, Retention};

/// The character of a run.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) holders: usize,
    pub(super) resources: u64,
    pub(super) act_ms_max: u64,
    pub(super) ttl_ms_max: u64,
    pub(super) grace_ms_max: u64,
    pub(super) writer_ttl_ms: u64,
    /// How long a node's word for its connections lasts.
    pub(super) word_ms: u64,
    pub(super) work: Work,
    pub(super) faults: Faults,
    /// Frames between two trims.
    pub(super) trim_frames: u64,
    pub(super) engine: EngineConfig,
}

/// What holders do beside taking, keeping and giving back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) waits: bool,
    pub(super) gates: bool,
    pub(super) reservations: bool,
    pub(super) lifetimes: bool,
    pub(super) pauses: bool,
    /// Leases kept by one session.
    pub(super) sessions: bool,
    /// Leases kept by a connection to a node.
    pub(super) connections: bool,
    /// An operator takes things away.
    pub(super) revokes: bool,
}

/// What goes wrong. Rates in thousandths of messages, or in mean milliseconds between two of a kind, 0 for never.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    /// Longest way of a message between holders and nodes.
    pub(super) delay_ms_max: u64,
    /// Longest way of a message to the store or from it.
    pub(super) store_ms_max: u64,
    /// Messages lost, in thousandths.
    pub(super) lost: u64,
    /// Messages to the store or from it that are lost.
    pub(super) store_lost: u64,
    /// Steps that reach the store seconds later.
    pub(super) late: u64,
    /// Answers to steps that take up to a second.
    pub(super) slow: u64,
    /// Changes that no watch tells.
    pub(super) watch_lost: u64,
    /// Changes told twice.
    pub(super) watch_doubled: u64,
    /// Looks that find what was.
    pub(super) stale: u64,
    pub(super) crash: u64,
    /// Crashes after which the copy is gone or torn.
    pub(super) wiped: u64,
    pub(super) pause: u64,
    /// A node and the store do not reach each other, in one way or both.
    pub(super) cut: u64,
    /// A node and everybody else do not.
    pub(super) split: u64,
    /// The store does not answer anybody.
    pub(super) outage: u64,
    pub(super) step_down: u64,
    pub(super) wall_jump: u64,
}

impl Faults {
    /// Nothing goes wrong any more.
    pub(super) fn none() -> Self {
        Self {
            delay_ms_max: 5,
            store_ms_max: 8,
            lost: 0,
            store_lost: 0,
            late: 0,
            slow: 0,
            watch_lost: 0,
            watch_doubled: 0,
            stale: 0,
            crash: 0,
            wiped: 0,
            pause: 0,
            cut: 0,
            split: 0,
            outage: 0,
            step_down: 0,
            wall_jump: 0,
        }
    }
}

impl Profile {
    /// The character of a seed.
    pub(super) fn draw(random: &mut Random) -> Self {
        let work = Work {
            waits: random.chance(500),
            gates: random.chance(350),
            reservations: random.chance(400),
            lifetimes: random.chance(250),
            pauses: random.chance(400),
            sessions: random.chance(400),
            connections: random.chance(500),
            revokes: random.chance(300),
        };
        let calm = random.chance(60);
        let mut rate = |permille: u64, least: u64, most: u64| {
            let on = random.chance(permille) && !calm;
            let rate = random.within(least..=most);
            if on { rate } else { 0 }
        };
        let faults = Faults {
            delay_ms_max: rate(400, 10, 400).max(5),
            store_ms_max: rate(400, 10, 300).max(8),
            lost: rate(400, 5, 80),
            store_lost: rate(350, 5, 100),
            late: rate(350, 2, 40),
            slow: rate(350, 10, 200),
            watch_lost: rate(400, 10, 400),
            watch_doubled: rate(400, 10, 200),
            stale: rate(400, 50, 500),
            crash: rate(450, 4_000, 20_000),
            wiped: rate(500, 100, 600),
            pause: rate(500, 3_000, 15_000),
            cut: rate(550, 3_000, 15_000),
            split: rate(300, 5_000, 20_000),
            outage: rate(250, 8_000, 30_000),
            step_down: rate(450, 3_000, 15_000),
            wall_jump: rate(300, 3_000, 15_000),
        };
        let mut engine = EngineConfig {
            gate_timeout_ms: random.within(500..=4_000),
            retention: Retention {
                window_ms: random.within(10_000..=60_000),
                leases_max: random.within(10..=60),
                leases_per_face_max: random.within(10..=60),
                operations_per_principal_max: 1_000_000,
            },
            hashing: Hashing::fixed(random.next_u64()),
            ..EngineConfig::default()
        };
        engine.hook_timeout_ms = engine.gate_timeout_ms;
        engine.liveness.revoke_timeout_ms = random.within(1_000..=5_000);
        engine.liveness.breaker.hold_ms = random.within(1_000..=5_000);
        Self {
            holders: random.within(2..=6) as usize,
            resources: random.within(1..=4),
            act_ms_max: random.within(60..=400),
            ttl_ms_max: random.within(1_200..=5_000),
            grace_ms_max: if random.chance(400) { 0 } else { random.within(0..=2_500) },
            writer_ttl_ms: *random.pick(&[1_000, 1_500, 3_000]),
            word_ms: if random.chance(650) {
                random.within(1_000..=3_000)
            } else {
                random.within(3_000..=10_000)
            },
            work,
            faults,
            trim_frames: random.within(6..=80),
            engine,
        }
    }
}
