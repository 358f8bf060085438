//! What a poller reports of its targets.

use super::*;

fn last(reports: &Mutex<Vec<PollerReport>>) -> PollerReport {
    reports.lock().expect("unpoisoned").last().cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_listed_target_that_nobody_holds_is_reported_until_it_is_off_the_list() {
    let mut store = Failing::new(&MemoryStore::new("sensors"));
    store.never_given = Some("kept".into());
    let (reports, witness) = (store.reports.clone(), Arc::new(Witness::default()));
    let (tell, told) = watch::channel(Vec::new());
    tell.send_replace(vec!["kept".into(), "s1".into()]);
    let running = start_with(store, "a", Told(told), &witness, Duration::ZERO);
    wait_until_true("a report", || last(&reports).unowned.names == ["kept"]).await;
    assert_eq!((owned(&running), last(&reports).unowned.total), (1, 1));
    tell.send_replace(vec!["s1".into()]);
    wait_until_true("another report", || last(&reports) == PollerReport::default()).await;
    assert_eq!(reports.lock().expect("unpoisoned").len(), 2, "nothing is reported twice");
    assert_eq!(running.handle.view().failing_total, 0);
    running.task.abort();
}

#[tokio::test]
async fn a_target_whose_polls_fail_one_after_the_other_is_reported_until_one_succeeds() {
    let store = Failing::new(&MemoryStore::new("sensors"));
    let reports = store.reports.clone();
    let poller = Poller::builder(store)
        .targets(FixedSource::new(["bad", "good"]))
        .ttl(TTL)
        .every(Duration::from_millis(50))
        .build()
        .expect("a poller");
    let handle = poller.handle();
    let fails = Arc::new(AtomicBool::new(true));
    let is_bad = fails.clone();
    let task = tokio::spawn(poller.run(move |target, _| {
        let fault = &*target == "bad" && is_bad.load(Ordering::Relaxed);
        async move { if fault { Err("no answer".to_owned()) } else { Ok(()) } }
    }));
    wait_until_true("a report", || last(&reports).failing.names == ["bad"]).await;
    let view = handle.view();
    let own = view.live_nodes.iter().find(|node| node.is_this_instance).expect("itself");
    assert_eq!((view.failing_total, own.failing, handle.metrics().failing), (1, 1, 1));
    let marks: Vec<(&str, bool)> =
        own.owned_targets.iter().map(|polled| (polled.target.as_str(), polled.failing)).collect();
    assert_eq!(marks, [("bad", true), ("good", false)]);
    fails.store(false, Ordering::Relaxed);
    wait_until_true("another report", || last(&reports) == PollerReport::default()).await;
    assert_eq!((handle.view().failing_total, handle.metrics().failing), (0, 0));
    task.abort();
}
