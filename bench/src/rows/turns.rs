//! The longest turns of a daemon with a million leases and a hundred thousand waiters, when each of the things comes due
//! together that can: renewed leases after a restart, waits, silences, ends.

use super::driven::{Driven, Turns};
use super::tools::{config, name};
use crate::core::Size;
use crate::gauge::Row;
use anyhow::ensure;
use std::time::Duration;
use tenure_engine::{Request, Submit};
use tenure_kernel::{Action, Bundle, Grant, Policy, Text};

const TTL_MS: u32 = 90_000;
const GRACE_MS: u32 = 30_000;
const WAIT_MS: u64 = 60_000;
/// Names that are waited for.
const CONTENDED: usize = 1_000;
const TURN_MAX: Duration = Duration::from_millis(5);

pub(crate) fn measure(size: Size) -> anyhow::Result<Vec<Row>> {
    let waiters = size.leases / 10;
    let mut config = config();
    config.liveness.breaker.fraction = 0.5;
    let mut driven = Driven::new(&config);
    let leases = driven.fill(size.leases, 1, &Policy::heartbeat(TTL_MS, GRACE_MS))?;
    let grants = driven.take_turns();
    driven.restart();
    let shown = [
        ("grants up to there", grants),
        ("waits begin", begin_waits(&mut driven, waiters)),
        ("renewals", {
            while driven.tick().0 < u64::from(TTL_MS) / 3 {
                driven.next_turn(Vec::new());
            }
            driven.renew(&leases)?;
            driven.take_turns()
        }),
        ("waits run out", until(&mut driven, |driven| driven.engine.status().waiters == 0)?),
        (
            "renewed leases looked at",
            until(&mut driven, |driven| driven.tick().0 > u64::from(TTL_MS) + 5_000)?,
        ),
        ("silences", until(&mut driven, |driven| driven.engine.kernel().live_count() < size.leases)?),
        ("ends", until(&mut driven, |driven| driven.engine.kernel().live_count() == 0)?),
    ];
    Ok(shown.into_iter().map(|(what, turns)| row(what, size.leases, waiters, &turns)).collect())
}

fn row(what: &str, leases: usize, waiters: usize, turns: &Turns) -> Row {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Row {
        name: format!("turn, {leases} leases, {waiters} waiters: {what}"),
        measured: format!("p99.9 {:.2} ms, longest {:.2} ms", ms(turns.p999), ms(turns.max)),
        reference: format!("{} turns", turns.count),
        ratio: "–".into(),
        must: "p99.9 ≤ 5 ms of processor time".into(),
        reached: turns.p999 <= TURN_MAX,
        figures: vec![("p999_ms", ms(turns.p999)), ("max_ms", ms(turns.max))],
    }
}

fn begin_waits(driven: &mut Driven, waiters: usize) -> Turns {
    driven.take_turns();
    let waits = (0..waiters).map(|n| {
        let policy = Policy { principal: Text::from("uid:2"), ..Policy::heartbeat(TTL_MS, 0) };
        let grant = Grant::new(Bundle::one(&name(n % CONTENDED)), &format!("waiter{n:010}"), policy);
        Request::Submit(Submit { wait_ms: WAIT_MS, ..Submit::now(Action::Grant(grant)) })
    });
    driven.ask(waits);
    driven.take_turns()
}

fn until(driven: &mut Driven, reached: impl Fn(&Driven) -> bool) -> anyhow::Result<Turns> {
    driven.take_turns();
    while !reached(driven) {
        driven.next_turn(Vec::new());
        ensure!(driven.tick().0 < 3_600_000, "what was to come did not come within an hour");
    }
    Ok(driven.take_turns())
}
