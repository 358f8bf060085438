//! What one seed is about. Swarm testing: each seed switches a random part of workload and faults on, at
//! random rates, so that rare combinations meet and common ones do not drown them.

use crate::random::Random;
use std::time::Duration;
use tenure_engine::EngineConfig;
use tenure_engine::UpkeepOptions;
use tenure_kernel::{Hashing, Retention};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
/// So many seeds of a thousand are slow: a day takes many turns.
const SLOW_PERMILLE: u64 = 15;

/// The character of a run.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Programs that hold things.
    pub clients: usize,
    /// Many of them, of one principal, that stand still together.
    pub fleet: bool,
    /// Names of single resources.
    pub resources: u64,
    /// Names of pools.
    pub pools: u64,
    /// What they do.
    pub work: Work,
    /// What goes wrong.
    pub faults: Faults,
    /// Between two acts of one client, in milliseconds.
    pub act_ms_max: u64,
    /// Leases last for minutes up to a day, and everything else takes its time too.
    pub is_slow: bool,
    /// Longest ttl.
    pub ttl_ms_max: u64,
    /// Longest grace.
    pub grace_ms_max: u64,
    /// Longest lateness of a turn that time brings.
    pub wake_late_ms_max: u64,
    /// Longest append.
    pub sync_ms_max: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// When snapshots are due and how much history is kept.
    pub upkeep: UpkeepOptions,
    /// Settings of the engine.
    pub engine: EngineConfig,
}

/// What clients and operators do.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Leases without proof of life.
    pub permanent: bool,
    /// Sessions by hand.
    pub sessions: bool,
    /// Connections.
    pub connections: bool,
    /// Grants that are only reserved.
    pub reservations: bool,
    /// Several resources at once.
    pub bundles: bool,
    /// Waiting for what is held.
    pub waits: bool,
    /// Handing over.
    pub rebinds: bool,
    /// New payloads.
    pub amends: bool,
    /// Drain, revive, revoke, reclaim.
    pub operator: bool,
    /// Effects between revoke and reclaim.
    pub gates: bool,
    /// Effects after the end.
    pub notices: bool,
    /// Reclaim without waiting.
    pub at_once: bool,
    /// Leases that end however alive.
    pub lifetimes: bool,
    /// Reclaim delays.
    pub delays: bool,
    /// Old tokens presented again.
    pub stale: bool,
    /// Taking over what drains.
    pub take_over: bool,
    /// Watching.
    pub watches: bool,
}

/// What goes wrong, and how often: mean milliseconds between two faults of a kind, 0 for never.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Requests and answers lost, in thousandths.
    pub lost: u64,
    /// Requests delivered twice, in thousandths.
    pub doubled: u64,
    /// Longest way of a message, in milliseconds.
    pub delay_ms_max: u64,
    /// The process is killed at an instant.
    pub kill: u64,
    /// Several lives in a row, none long enough to write much.
    pub burst: u64,
    /// The machine loses its power at an instant.
    pub power: u64,
    /// Stop at a numbered disk operation.
    pub stop_at_operation: u64,
    /// A disk operation fails.
    pub disk_error: u64,
    /// The disk fills up for a while.
    pub disk_full: u64,
    /// A frame lands elsewhere.
    pub misdirect: u64,
    /// A bit flips while the daemon is down, in thousandths of restarts.
    pub rot: u64,
    /// The boot clock jumps forward.
    pub boot_jump: u64,
    /// The wall clock jumps either way.
    pub wall_jump: u64,
    /// The daemon stands still.
    pub stall: u64,
    /// A client stands still.
    pub pause: u64,
    /// Clean stops.
    pub stop: u64,
    /// The data directory is emptied.
    pub wipe: u64,
    /// A backup comes back.
    pub restore: u64,
    /// More is asked than the lanes have room for.
    pub flood: u64,
}

impl Profile {
    /// The character of a seed.
    #[must_use]
    pub fn draw(random: &mut Random) -> Self {
        let mut work = Work {
            permanent: random.chance(500),
            sessions: random.chance(500),
            connections: random.chance(500),
            reservations: random.chance(500),
            bundles: random.chance(600),
            waits: random.chance(600),
            rebinds: random.chance(500),
            amends: random.chance(300),
            operator: random.chance(600),
            gates: random.chance(300),
            notices: random.chance(250),
            at_once: random.chance(200),
            lifetimes: random.chance(250),
            delays: random.chance(250),
            stale: random.chance(600),
            take_over: random.chance(300),
            watches: random.chance(300),
        };
        let calm = random.chance(100);
        let mut rate = |permille: u64, least: u64, most: u64| {
            let on = random.chance(permille) && !calm;
            let rate = random.within(least..=most);
            if on { rate } else { 0 }
        };
        let faults = Faults {
            lost: rate(400, 5, 120),
            doubled: rate(400, 5, 120),
            delay_ms_max: rate(400, 20, 3_000).max(8),
            kill: rate(350, 3_000, 40_000),
            burst: rate(300, 6_000, 40_000),
            power: rate(500, 3_000, 40_000),
            stop_at_operation: rate(500, 3_000, 30_000),
            disk_error: rate(200, 10_000, 60_000),
            disk_full: rate(200, 10_000, 60_000),
            misdirect: rate(120, 20_000, 90_000),
            rot: rate(350, 100, 600),
            boot_jump: rate(250, 8_000, 60_000),
            wall_jump: rate(250, 8_000, 60_000),
            stall: rate(300, 8_000, 60_000),
            pause: rate(400, 3_000, 30_000),
            stop: rate(250, 8_000, 60_000),
            wipe: rate(150, 15_000, 90_000),
            restore: rate(150, 15_000, 90_000),
            flood: rate(300, 2_000, 20_000),
        };
        let mut engine = EngineConfig {
            gate_timeout_ms: random.within(500..=10_000),
            retention: Retention {
                window_ms: random.within(2_000..=60_000),
                leases_max: random.within(5..=60),
                leases_per_face_max: random.within(5..=60),
                operations_per_principal_max: 1_000_000,
            },
            hashing: Hashing::fixed(random.next_u64()),
            ..EngineConfig::default()
        };
        if faults.flood > 0 {
            // What a flood must not swallow is the end of a connection.
            work.connections |= random.chance(700);
            engine.inbox_max = random.within(64..=256) as usize;
        }
        engine.hook_timeout_ms = engine.gate_timeout_ms;
        engine.liveness.revoke_timeout_ms = random.within(1_000..=10_000);
        engine.liveness.breaker.holders_min = random.within(2..=20) as u32;
        engine.liveness.breaker.principals_min = random.within(1..=3) as u32;
        engine.liveness.breaker.hold_ms = random.within(1_000..=10_000);
        let segment_bytes = 1024 * random.within(4..=24);
        let mut profile = Self {
            clients: random.within(2..=6) as usize,
            fleet: false,
            resources: random.within(1..=5),
            pools: if random.chance(500) { random.within(1..=2) } else { 0 },
            work,
            faults,
            act_ms_max: random.within(60..=600),
            is_slow: false,
            ttl_ms_max: random.within(1_200..=6_000),
            grace_ms_max: random.within(0..=4_000),
            wake_late_ms_max: if random.chance(500) { random.within(1..=40) } else { 0 },
            sync_ms_max: if random.chance(150) { random.within(200..=3_000) } else { random.within(1..=15) },
            segment_bytes,
            upkeep: draw_upkeep(random, segment_bytes),
            engine,
        };
        if random.chance(60) {
            profile.make_fleet(random);
            return profile;
        }
        if random.chance(SLOW_PERMILLE) { profile.slow(random) } else { profile }
    }

    /// The same with ttls of up to a day, and as many acts and faults to a ttl.
    fn slow(mut self, random: &mut Random) -> Self {
        let ttl_ms_max = *random.pick(&[MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS]);
        let times = ttl_ms_max / self.ttl_ms_max + 1;
        self.ttl_ms_max = ttl_ms_max;
        self.act_ms_max *= times;
        self.is_slow = true;
        let faults = &mut self.faults;
        for mean_ms in [
            &mut faults.kill,
            &mut faults.burst,
            &mut faults.power,
            &mut faults.stop_at_operation,
            &mut faults.disk_error,
            &mut faults.disk_full,
            &mut faults.misdirect,
            &mut faults.boot_jump,
            &mut faults.wall_jump,
            &mut faults.stall,
            &mut faults.pause,
            &mut faults.stop,
            &mut faults.wipe,
            &mut faults.restore,
            &mut faults.flood,
        ] {
            *mean_ms *= times;
        }
        self
    }

    /// As many holders as the breaker asks for, with a thing each and a grace, which fall silent together.
    fn make_fleet(&mut self, random: &mut Random) {
        self.fleet = true;
        self.clients = random.within(20..=40) as usize;
        (self.resources, self.pools) = (self.clients as u64, 0);
        self.act_ms_max = random.within(600..=1_500);
        self.grace_ms_max = self.grace_ms_max.max(1_000);
        self.faults.pause = random.within(3_000..=6_000);
        // At the end every thing is asked for at once.
        self.faults.flood = 0;
        self.engine.inbox_max = EngineConfig::default().inbox_max;
    }
}

/// A snapshot after a few frames or after many; history that goes soon by its bytes, by its age or not at all.
fn draw_upkeep(random: &mut Random, segment_bytes: u64) -> UpkeepOptions {
    let age_ms = random.within(2_000..=60_000);
    let history_age_max = Duration::from_millis(if random.chance(500) { age_ms } else { 24 * HOUR_MS });
    UpkeepOptions {
        snapshot_bytes_min: 1024 * random.within(1..=16),
        history_bytes_max: segment_bytes * random.below(6),
        history_age_max,
    }
}
