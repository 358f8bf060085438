//! Pollers on a Redis that forgets, restarts or hangs: polling goes on by itself, and whoever writes with a fence is
//! never overtaken by one with a lower one.

use crate::redis_server::RedisServer;
use crate::waiting::{soon, wait_until};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_client::clock::BootInstant;
use tenure_polling::source::FixedSource;
use tenure_polling::store::{RedisOptions, RedisStore, TargetName};
use tenure_polling::{Poll, Poller, PollerError, PollerHandle};
use tokio::task::JoinHandle;

const TTL: Duration = Duration::from_secs(2);
const TARGETS: usize = 30;

/// What polls write to: takes a fence unless it has seen a higher one.
#[derive(Default)]
struct Sink {
    taken: Mutex<BTreeMap<TargetName, Taken>>,
}

#[derive(Clone, Default)]
struct Taken {
    fence: u64,
    instance: String,
    polls: usize,
}

impl Sink {
    fn write(&self, target: &TargetName, fence: u64, instance: &str) {
        let mut all = self.taken.lock().expect("no panic");
        let taken = all.entry(target.clone()).or_default();
        if fence < taken.fence {
            return;
        }
        assert!(fence > taken.fence || taken.instance == instance, "{target}: two pollers with one fence");
        *taken = Taken { fence, instance: instance.to_owned(), polls: taken.polls + 1 };
    }

    fn all(&self) -> BTreeMap<TargetName, Taken> {
        self.taken.lock().expect("no panic").clone()
    }

    fn polls(&self) -> usize {
        self.all().values().map(|taken| taken.polls).sum()
    }

    /// Waits until everything has been polled since then, under a condition.
    async fn polled_since(&self, before: &BTreeMap<TargetName, Taken>, is_new: fn(&Taken, &Taken) -> bool) {
        wait_until("everything is polled", async || {
            let now = self.all();
            let polled = |(target, taken): (&TargetName, &Taken)| match before.get(target) {
                Some(earlier) => taken.polls > earlier.polls && is_new(earlier, taken),
                None => true,
            };
            now.len() == TARGETS && now.iter().all(polled)
        })
        .await;
    }
}

struct Running {
    handle: PollerHandle<RedisStore>,
    run: JoinHandle<Result<(), PollerError>>,
}

fn start(server: &RedisServer, sink: &Arc<Sink>) -> Running {
    let store = RedisStore::open(&RedisOptions::new(server.url())).expect("a store");
    let poller = Poller::builder(store)
        .targets(FixedSource::new((0..TARGETS).map(|number| format!("t{number}"))))
        .ttl(TTL)
        .every(Duration::from_millis(100))
        .discovery(Duration::from_millis(500))
        .build()
        .expect("a poller");
    let handle = poller.handle();
    let (instance, sink) = (handle.instance().to_string(), sink.clone());
    let run = tokio::spawn(poller.run(move |target: TargetName, poll: Poll| {
        assert!(poll.valid_until() > BootInstant::now(), "{target} is polled too late");
        sink.write(&target, poll.fence(), &instance);
        async {}
    }));
    Running { handle, run }
}

/// Three pollers that share everything.
async fn sharing(server: &RedisServer, sink: &Arc<Sink>) -> Vec<Running> {
    let pollers: Vec<Running> = (0..3).map(|_| start(server, sink)).collect();
    shared(&pollers).await;
    sink.polled_since(&BTreeMap::new(), |_, _| true).await;
    pollers
}

/// Waits until everything is somebody's and nobody has more than a tenth above its share.
async fn shared(pollers: &[Running]) {
    wait_until("everybody has its share", async || {
        let owned = |poller: &Running| {
            let view = poller.handle.view();
            let own = view.live_nodes.iter().find(|node| node.is_this_instance);
            own.map_or(0, |node| node.owned_targets.len())
        };
        let counts: Vec<usize> = pollers.iter().map(owned).collect();
        counts.iter().sum::<usize>() == TARGETS && counts.iter().all(|count| *count <= TARGETS * 11 / 30)
    })
    .await;
}

async fn stop(server: &RedisServer, pollers: Vec<Running>) {
    for poller in pollers {
        poller.handle.stop();
        soon("a poller ends", poller.run).await.expect("no panic").expect("stops well");
    }
    assert_eq!(server.cli(&["KEYS", "poll:lease:*"]), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_flush_everything_is_polled_again_with_higher_fences() {
    let (server, sink) = (RedisServer::start().await, Arc::default());
    let pollers = sharing(&server, &sink).await;
    let before = sink.all();
    server.cli(&["FLUSHALL"]);
    sink.polled_since(&before, |earlier, now| now.fence > earlier.fence).await;
    shared(&pollers).await;
    stop(&server, pollers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_everything_is_polled_again_with_higher_fences() {
    let (mut server, sink) = (RedisServer::start().await, Arc::default());
    let pollers = sharing(&server, &sink).await;
    let before = sink.all();
    server.kill();
    server.start_again().await;
    sink.polled_since(&before, |earlier, now| now.fence > earlier.fence).await;
    shared(&pollers).await;
    stop(&server, pollers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_hangs_nothing_is_polled_beyond_the_ttl() {
    let (server, sink) = (RedisServer::start().await, Arc::<Sink>::default());
    let pollers = sharing(&server, &sink).await;
    server.process().freeze();
    let over = BootInstant::now().after(TTL);
    tenure_client::clock::wait_until(over).await;
    let at_the_end = sink.polls();
    tenure_client::clock::wait_until(over.after(TTL)).await;
    assert_eq!(sink.polls(), at_the_end, "nothing is polled once the ttl is over");
    server.process().thaw();
    let before = sink.all();
    sink.polled_since(&before, |_, _| true).await;
    shared(&pollers).await;
    stop(&server, pollers).await;
}

/// Whoever dies without a word is followed within its ttl and a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_pollers_targets_are_taken_within_the_ttl_and_a_second() {
    let (server, sink) = (RedisServer::start().await, Arc::default());
    let mut pollers = sharing(&server, &sink).await;
    let dead = pollers.remove(0);
    // Dropped, it says nothing to anybody.
    dead.run.abort();
    let _ = dead.run.await;
    let died = BootInstant::now();
    let instance = dead.handle.instance().to_string();
    wait_until("its targets are polled by the others", async || {
        sink.all().values().all(|taken| taken.instance != instance)
    })
    .await;
    let took = BootInstant::now().since(died);
    // Half a second more for a busy machine and the next poll.
    assert!(took <= TTL + Duration::from_millis(1_500), "it took {took:?}");
    stop(&server, pollers).await;
}
