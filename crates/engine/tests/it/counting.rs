//! Every counter and histogram moves in a life that has some of everything. The structs are taken apart by
//! name, so that a new number does not compile until it is covered here.

use crate::desk::Desk;
use tenure_engine::{Counters, EngineConfig, GrantOutcome, Histogram, Status, Task};
use tenure_kernel::Reason;
use tenure_log::Space;

#[test]
fn every_counter_has_moved_after_a_life_with_some_of_everything() {
    let mut desk = Desk::with(EngineConfig { notice_give_up_ms: 50_000, ..EngineConfig::default() });
    desk.told = false;
    // Grants, refusals, a wait in vain, a waiter passed and one served; a gate and a notice given up.
    desk.play(
        "alice: grant a permanent op=1
         noticed: grant n notice
         gated: grant g permanent at_once gate
         loser: grant a
         vain: grant a wait=1000
         both: grant a,b permanent wait=600000
         onlyb: grant b permanent wait=600000
         w: watch
         settle
         m: more w room=1
         settle
         noticed: release noticed
         admin: revoke gated
         settle
         until 31000
         alice: release alice
         onlyb: release onlyb
         settle
         until 60000",
    );
    // Twenty holders speak, then fall silent together: the breaker. One comes back late, one is stale.
    for n in 0..20 {
        desk.play(&format!("h{n}: grant h/{n} ttl=15000 grace=4000"));
    }
    desk.settle();
    for n in 0..20 {
        desk.play(&format!("beat{n}: heartbeat h{n}"));
    }
    desk.play(
        "short: grant s ttl=1000 grace=60000
         settle
         until 65000
         late: heartbeat short
         stale: heartbeat short epoch=7
         unknown: heartbeat #99999
         settle
         until 79000",
    );
    let held = desk.engine.status();
    desk.play("reset: reset\n settle\n until 120000\n +5000\n settle");
    // A watcher that lags behind memory, then a frame too full for a note.
    desk.play(
        "filler: grant filler permanent\n quiet: grant q ttl=1000 grace=60000\n settle\n +2000\n settle",
    );
    for n in 0..2200 {
        desk.play(&format!("fill{n}: amend filler pad=4096"));
    }
    desk.turn();
    desk.turn();
    desk.turn();
    desk.play("back: heartbeat quiet\n task fails\n turn");
    desk.settle();

    let Counters {
        grants,
        ends,
        heartbeats_renewed,
        heartbeats_late,
        heartbeats_unknown,
        heartbeats_stale,
        renewed_meanwhile,
        renewal_margin_ms,
        expiry_lateness_ms,
        sync_us,
        batch_records,
        wait_ms,
        waiters_passed,
        stalls,
        notes_dropped,
        frames,
        log_bytes,
        breaker_opened,
        watches_lagged,
        gates_timed_out,
        notices_given_up,
        task_failures,
    } = desk.engine.counters();
    for outcome in [GrantOutcome::Granted, GrantOutcome::Refused, GrantOutcome::TimedOut] {
        assert!(grants[0][outcome as usize] > 0, "{outcome:?}");
    }
    for reason in [Reason::Explicit, Reason::HeartbeatExpired, Reason::AdminForce] {
        assert!(ends[0][reason as usize] > 0, "{reason:?}");
    }
    let numbers = [
        ("heartbeats_renewed", heartbeats_renewed),
        ("heartbeats_late", heartbeats_late),
        ("heartbeats_unknown", heartbeats_unknown),
        ("heartbeats_stale", heartbeats_stale),
        ("waiters_passed", waiters_passed),
        ("stalls", stalls),
        ("notes_dropped", notes_dropped),
        ("frames", frames),
        ("log_bytes", log_bytes),
        ("breaker_opened", breaker_opened),
        ("watches_lagged", watches_lagged),
        ("gates_timed_out", gates_timed_out),
        ("notices_given_up", notices_given_up),
        ("task_failures", &task_failures[Task::Snapshot as usize]),
    ];
    for (name, number) in numbers {
        assert!(*number > 0, "{name} did not move");
    }
    // Only an end that takes several turns can be renewed meanwhile: `promises` has that one.
    assert_eq!(*renewed_meanwhile, 0);
    let histograms: [(&str, &Histogram); 5] = [
        ("renewal_margin_ms", renewal_margin_ms),
        ("expiry_lateness_ms", expiry_lateness_ms),
        ("sync_us", sync_us),
        ("batch_records", batch_records),
        ("wait_ms", wait_ms),
    ];
    for (name, histogram) in histograms {
        assert!(histogram.count() > 0, "{name} did not move");
        assert_eq!(histogram.buckets().map(|(_, count)| count).sum::<u64>(), histogram.count(), "{name}");
    }
    assert!(held.breaker_until.is_some());
}

#[test]
fn status_shows_what_there_is() {
    let mut desk = Desk::new();
    desk.told = false;
    desk.play(
        "alice: grant a op=1
         bob: grant b notice
         conn: connect 7
         waiter: grant a wait=60000
         w: watch
         settle
         bob: release bob
         carol: grant c
         turn
         space low
         task fails
         turn",
    );
    let Status {
        applied_lsn,
        synced_lsn,
        tick,
        leases,
        retained,
        operations,
        operation_floor,
        notices,
        sessions,
        waiters,
        watches,
        inbox,
        breaker_until,
        restored_until,
        space,
        failing,
        counters,
    } = desk.engine.status();
    assert_eq!((applied_lsn.0, synced_lsn.0, tick.0, operation_floor.0), (4, 2, 0, 0));
    assert_eq!(leases.iter().map(|(_, count)| count).sum::<u64>(), 2);
    assert_eq!((retained, operations, notices, sessions, waiters, watches), (1, 1, 1, 1, 1, 1));
    assert_eq!(inbox.map(|(_, waiting)| waiting), [0; 4]);
    assert_eq!((breaker_until, restored_until), (None, None));
    assert_eq!((space, failing), (Space::Low, vec![(Task::Snapshot, "no room".to_owned())]));
    assert_eq!(counters.frames, 2);
}
