//! More pollers that have something to give than targets may move in a second.

use super::*;

fn start_slow(
    store: MemoryStore,
    name: &str,
    told: watch::Receiver<Vec<TargetName>>,
) -> Running<MemoryStore> {
    let poller = Poller::builder(store)
        .targets(Told(told))
        .name(name)
        .ttl(TTL)
        .every(Duration::from_millis(50))
        .max_moves(1)
        .build()
        .expect("a poller");
    let handle = poller.handle();
    Running { handle, task: tokio::spawn(poller.run(|_, _| async {})) }
}

/// Each giver made its first move at once: three for a limit of 1.
#[tokio::test]
async fn three_givers_with_a_limit_of_one_take_turns() {
    let store = MemoryStore::new("sensors");
    let (tell, told) = watch::channel(Vec::new());
    tell.send_replace(Vec::new());
    let givers = ["a", "b", "c"].map(|name| start_slow(store.clone(), name, told.clone()));
    for giver in &givers {
        wait_until_true("three members", || giver.handle.view().live_nodes.len() == 3).await;
    }
    tell.send_replace(names(12).into_iter().map(TargetName::from).collect());
    wait_until_true("four each", || givers.iter().all(|giver| owned(giver) == 4)).await;
    let taker = start_slow(store.clone(), "d", told.clone());
    let mut taken = Vec::new();
    for count in 1..=3 {
        wait_until_true("one more", || owned(&taker) >= count).await;
        taken.push(BootInstant::now());
    }
    wait_until_true("one less for each", || givers.iter().all(|giver| owned(giver) == 3)).await;
    for two in taken.windows(2) {
        let between = two[1].since(two[0]);
        // A second, and less where the first was noticed late.
        assert!(between > Duration::from_millis(500), "{between:?}");
    }
    for running in givers.into_iter().chain([taker]) {
        running.task.abort();
    }
}
