//! Waiters of all kinds for one pool: any one of it, any two, a named member. What share each kind of client gets, and how
//! long the longest of its waits was.

use super::tools::{config, directory, recover};
use crate::core::Size;
use crate::gauge::{Row, now};
use std::time::{Duration, Instant};
use tenure_engine::host::{Host, HostOptions};
use tenure_engine::{Answer, Handle, Request, Submit};
use tenure_kernel::{Action, Bundle, Epoch, Grant, LeaseId, Policy, Release, Text, Token};

const POOL: &str = "gpu";
const POOL_SIZE: u32 = 4;
const CLIENTS_PER_KIND: usize = 4;

/// What clients of one kind got.
#[derive(Default)]
struct Got {
    grants: usize,
    longest: Duration,
}

pub(crate) fn measure(size: Size) -> anyhow::Result<Vec<Row>> {
    let directory = directory()?;
    let config = config();
    let (engine, log) = recover(directory.path(), &config)?;
    let host = Host::start(engine, Box::new(log), &config, HostOptions::default(), Box::new(|_| {}));
    let handle = host.handle();
    let define = Action::DefinePool { name: POOL.into(), size: POOL_SIZE };
    let defined = handle.call(Request::Submit(Submit::now(define)));
    anyhow::ensure!(matches!(defined, Answer::Done { .. }), "no pool: {defined:?}");
    let kinds = [Bundle::any_of(POOL, 1), Bundle::any_of(POOL, 2), Bundle::one("gpu/3")];
    let until = now() + Duration::from_secs_f64(size.seconds);
    let got = std::thread::scope(|scope| {
        let clients = kinds.iter().map(|bundle| {
            let start = |_| scope.spawn(|| take_turns(&handle, bundle, until));
            (0..CLIENTS_PER_KIND).map(start).collect::<Vec<_>>()
        });
        let clients: Vec<_> = clients.collect();
        let joined = clients.into_iter().map(|clients| {
            clients.into_iter().try_fold(Got::default(), |all, client| {
                let got = client.join().map_err(|_| anyhow::anyhow!("a client broke off"))??;
                Ok(Got { grants: all.grants + got.grants, longest: all.longest.max(got.longest) })
            })
        });
        joined.collect::<anyhow::Result<Vec<Got>>>()
    })?;
    host.shut_down()?;
    Ok(vec![row(&got)])
}

fn row(got: &[Got]) -> Row {
    let all: usize = got.iter().map(|got| got.grants).sum();
    let share = |got: &Got| 100.0 * got.grants as f64 / all.max(1) as f64;
    let ms = |got: &Got| got.longest.as_secs_f64() * 1e3;
    let [any, two, named] = got else { unreachable!("invariant: three kinds of clients") };
    let smallest = got.iter().map(share).fold(f64::INFINITY, f64::min);
    let longest = got.iter().map(ms).fold(0.0, f64::max);
    Row {
        name: format!("waiting: {} clients, a pool of {POOL_SIZE}", 3 * CLIENTS_PER_KIND),
        measured: format!(
            "shares: any {:.0} %, any two {:.0} %, named {:.0} % of {all}",
            share(any),
            share(two),
            share(named)
        ),
        reference: format!("longest waits {:.1} ms, {:.1} ms, {:.1} ms", ms(any), ms(two), ms(named)),
        ratio: "–".into(),
        must: "each kind ≥ 10 %".into(),
        reached: smallest >= 10.0,
        figures: vec![("smallest_share", smallest), ("longest_wait_ms", longest)],
    }
}

/// Takes a bundle, gives it back, and asks again until the time is over.
fn take_turns(handle: &Handle, bundle: &Bundle, until: Instant) -> anyhow::Result<Got> {
    let mut got = Got::default();
    while now() < until {
        let asked = now();
        let grant = Grant::new(bundle.clone(), "client", Policy::permanent());
        let submit = Submit { wait_ms: 60_000, ..Submit::now(Action::Grant(grant)) };
        let answer = handle.call(Request::Submit(submit));
        let lease = answer.live().map(|lease| lease.id);
        let lease: LeaseId = lease.ok_or_else(|| anyhow::anyhow!("not granted: {answer:?}"))?;
        got.longest = got.longest.max(now() - asked);
        got.grants += 1;
        let release = Release { token: Token::new(lease, Epoch::FIRST), text: Text::default() };
        let released = handle.call(Request::Submit(Submit::now(Action::Release(release))));
        anyhow::ensure!(matches!(released, Answer::Lease(_)), "not released: {released:?}");
    }
    Ok(got)
}
