//! Two clocks: a holder that counts `valid_ms` exactly, from before it sent, stops before the daemon acts, while the
//! rates of the two clocks differ by less than 0.5 %. Instants are the world's, in nanoseconds.

use crate::desk::Desk;
use proptest::prelude::*;
use tenure_kernel::*;
use tenure_liveness::*;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const NS_PER_MS: u128 = 1_000_000;

/// A clock that runs so many millionths faster or slower than the world's.
#[derive(Clone, Copy, Debug)]
struct Clock {
    ppm: i64,
}

impl Clock {
    fn rate(self) -> u128 {
        u128::from(1_000_000_u64.saturating_add_signed(self.ppm))
    }

    /// What it shows in whole milliseconds, as the daemon reads it.
    fn ms_at(self, world_ns: u128) -> u64 {
        u64::try_from(world_ns * self.rate() / 1_000_000 / NS_PER_MS).unwrap()
    }

    /// The first instant at which it shows this.
    fn when_it_shows(self, ms: u64) -> u128 {
        (u128::from(ms) * NS_PER_MS * 1_000_000).div_ceil(self.rate())
    }

    /// How long the world takes while it counts so much.
    fn takes(self, ms: u64) -> u128 {
        (u128::from(ms) * NS_PER_MS * 1_000_000).div_ceil(self.rate())
    }
}

/// What ends a lease whose holder heard one last promise.
#[derive(Clone, Copy, Debug)]
enum End {
    Silence,
    Revoke { after_ms: u64 },
    Drain { grace_ms: u32 },
    Lifetime { max_ms: u64 },
    SessionOver,
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        Just(End::Silence),
        (0..DAY_MS).prop_map(|after_ms| End::Revoke { after_ms }),
        (0..3_600_000_u32).prop_map(|grace_ms| End::Drain { grace_ms }),
        (1..2 * DAY_MS).prop_map(|max_ms| End::Lifetime { max_ms }),
        Just(End::SessionOver),
    ]
}

/// The instant at which the holder stops, and the one at which others may be given what it held.
fn run(daemon: Clock, holder: Clock, sent_ns: u128, way_ns: u128, ttl_ms: u32, end: End) -> (u128, u128) {
    let heard = Tick(daemon.ms_at(sent_ns + way_ns));
    let mut desk = Desk::starting_at(LivenessConfig::default(), heard);
    let mut policy = Policy::heartbeat(ttl_ms, 0);
    match end {
        End::Lifetime { max_ms } => policy.max_lifetime_ms = max_ms,
        End::Drain { grace_ms } => policy.grace_ms = grace_ms,
        End::SessionOver => {
            desk.open_by_hand(7, ttl_ms, 0, "local");
            policy = Policy::session(SessionId(7), ttl_ms, 0);
        }
        End::Silence | End::Revoke { .. } => {}
    }
    let (lease, granted) = desk.grant(Grant::new(Bundle::one("r"), "h", policy)).unwrap();
    let valid_ms = match end {
        End::Drain { .. } => {
            desk.drain(lease).unwrap();
            desk.heartbeat(lease, None, None).unwrap().valid_ms.unwrap()
        }
        End::SessionOver => desk.session_heartbeat(7).unwrap().valid_ms.unwrap(),
        End::Silence | End::Revoke { .. } | End::Lifetime { .. } => granted.unwrap(),
    };
    if let End::Revoke { after_ms } = end {
        desk.advance_to(Tick(heard.0 + after_ms.min(u64::from(ttl_ms) - 1)));
        desk.revoke(lease, ReclaimBy::Daemon).unwrap();
    }
    desk.turn();
    while desk.is_live(lease) {
        desk.now = desk.next_deadline().expect("a silent holder's lease ends");
        desk.turn();
    }
    (sent_ns + holder.takes(valid_ms), daemon.when_it_shows(desk.now.0))
}

proptest! {
    #[test]
    fn a_holder_that_counts_exactly_stops_before_the_daemon_acts(
        rates in (-2_500..=2_500_i64, -2_500..=2_500_i64),
        sent_ns in 1_000_000_000..2_000_000_000_u128,
        way_ns in prop_oneof![Just(0_u128), 0..5_000_000_u128],
        ttl_ms in prop_oneof![1_000..5_000_u32, 1_000..=DAY_MS as u32],
        end in end(),
    ) {
        let (daemon, holder) = (Clock { ppm: rates.0 }, Clock { ppm: rates.1 });
        let (stops, acts) = run(daemon, holder, sent_ns, way_ns, ttl_ms, end);
        prop_assert!(stops < acts, "the holder stops {} ns too late", stops - acts);
    }
}

/// The worst there is: the slowest holder, the fastest daemon, and a request that came just before the daemon's clock
/// showed the next millisecond.
#[test]
fn at_every_ttl_the_worst_rates_and_the_worst_rounding_are_covered() {
    let (daemon, holder) = (Clock { ppm: 2_500 }, Clock { ppm: -2_500 });
    let sent_ns = daemon.when_it_shows(5_000) - 1;
    let ttls = (1_000..3_000).chain((3_000..=DAY_MS as u32).step_by(99_991)).chain([DAY_MS as u32]);
    for ttl_ms in ttls {
        let (stops, acts) = run(daemon, holder, sent_ns, 0, ttl_ms, End::Silence);
        assert!(stops < acts, "ttl {ttl_ms}: the holder stops {} ns too late", stops - acts);
    }
}

#[test]
fn what_a_holder_hears_is_the_contracts_formula() {
    let literal = [(90_000, 89_549), (30_000, 29_849), (10_000, 9_949), (1_000, 994), (DAY_MS, 85_967_999)];
    for (promise_ms, expected) in literal {
        assert_eq!(valid_ms(promise_ms), expected);
    }
    for promise_ms in (0..=200_000).chain([DAY_MS, u64::from(u32::MAX)]) {
        assert_eq!(valid_ms(promise_ms), (promise_ms * 995 / 1000).saturating_sub(1), "{promise_ms}");
    }
    assert_eq!([0, 1, 2, 3].map(valid_ms), [0, 0, 0, 1]);
    // No promise is that long; it must not overflow.
    assert!(valid_ms(u64::MAX) < u64::MAX - u64::MAX / 201);
}

/// A property that misses planted bugs proves nothing.
#[cfg(feature = "plant")]
#[test]
fn planted_bug_the_whole_promise_handed_out_is_found() {
    use tenure_kernel::planted::{Planted, plant};
    let same = Clock { ppm: 0 };
    let sent_ns = same.when_it_shows(5_000) - 1;
    plant(Some(Planted::WholePromiseTold));
    // Of one rate: rounding alone makes the daemon act before.
    let (stops, acts) = run(same, same, sent_ns, 0, 1_000, End::Silence);
    plant(None);
    assert!(stops >= acts, "not found: {} ns", acts - stops);
}
