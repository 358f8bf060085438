//! The caller's thread runs the turn: what that means for callers, for what is said meanwhile, and for a turn that breaks.

use crate::running::{Failing, files, grant, release, start};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use tempfile::TempDir;
use tenure_engine::host::{Handle, HostOptions, Listener};
use tenure_engine::{Answer, Out, Refused, Request};

/// Threads that ask at the same time.
const CALLERS: usize = 8;
/// What each of them asks for.
const GRANTS: usize = 200;

fn quiet() -> Listener {
    Box::new(|_| {})
}

#[test]
fn what_needs_no_disk_is_answered_when_the_call_returns() {
    let directory = TempDir::new().unwrap();
    let (log, recovery) = files(directory.path());
    let host = start(log, &recovery, HostOptions::default(), quiet());
    let answers = host.handle().start(Request::Status).take_now();
    assert!(matches!(answers.as_deref(), Some([Answer::Status(_)])), "{answers:?}");
    host.shut_down().unwrap();
}

#[test]
fn who_asks_alone_syncs_on_its_own_thread() {
    let directory = TempDir::new().unwrap();
    let (log, recovery) = files(directory.path());
    let log = Failing::new(log);
    let appended_by = log.appended_by();
    let host = start(log, &recovery, HostOptions::default(), quiet());
    let own = std::thread::current().name().map(str::to_owned);
    // While others keep the disk busy syncs are slow, and slow ones go to the log thread.
    let by_itself = (0..GRANTS).any(|number| {
        let _ = host.handle().call(grant(&format!("a{number}"), "alice"));
        appended_by.lock().unwrap().last() == Some(&own)
    });
    assert!(by_itself, "{:?}", appended_by.lock().unwrap());
    // One who has other things to do leaves it to the log thread.
    let _ = host.handle().start(grant("b", "alice")).wait();
    assert_eq!(appended_by.lock().unwrap().last(), Some(&Some("tenure-log".to_owned())));
    host.shut_down().unwrap();
}

#[test]
fn callers_that_find_the_helm_taken_are_answered_all_the_same() {
    let directory = TempDir::new().unwrap();
    let (log, recovery) = files(directory.path());
    let host = start(log, &recovery, HostOptions::default(), quiet());
    let granted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (handle, granted) = (host.handle(), &granted);
            scope.spawn(move || {
                for number in 0..GRANTS {
                    let lease = handle.call(grant(&format!("{caller}/{number}"), "alice")).live().unwrap().id;
                    granted.fetch_add(1, Ordering::Relaxed);
                    if number % 2 == 0 {
                        assert!(matches!(handle.call(release(lease)), Answer::Lease(_)));
                    }
                }
            });
        }
    });
    assert_eq!(granted.load(Ordering::Relaxed), CALLERS * GRANTS);
    let Answer::Status(status) = host.handle().call(Request::Status) else { panic!("no status") };
    assert_eq!(status.leases.iter().map(|(_, count)| count).sum::<u64>(), (CALLERS * GRANTS / 2) as u64);
    host.shut_down().unwrap();
}

#[test]
fn one_who_is_told_something_may_ask_but_not_wait() {
    let directory = TempDir::new().unwrap();
    let (log, recovery) = files(directory.path());
    let (sender, asked) = channel();
    let handle: Arc<OnceLock<Handle>> = Arc::default();
    let listener: Listener = {
        let handle = Arc::clone(&handle);
        Box::new(move |out| {
            if let (Out::Ended(_), Some(handle)) = (&out, handle.get()) {
                sender.send(handle.start(Request::Status)).unwrap();
            }
        })
    };
    let host = start(log, &recovery, HostOptions::default(), listener);
    handle.set(host.handle()).ok().unwrap();
    let lease = host.handle().call(grant("a", "alice")).live().unwrap().id;
    let _ = host.handle().call(release(lease));
    assert!(matches!(asked.recv().unwrap().wait_one(), Answer::Status(_)));
    host.shut_down().unwrap();
}

#[test]
fn after_a_turn_that_breaks_nobody_waits_and_nothing_is_served() {
    let directory = TempDir::new().unwrap();
    let (log, recovery) = files(directory.path());
    let breaks = Arc::new(Mutex::new(false));
    let listener: Listener = {
        let breaks = Arc::clone(&breaks);
        Box::new(move |_| assert!(!*breaks.lock().unwrap(), "planted"))
    };
    let host = start(log, &recovery, HostOptions::default(), listener);
    let handle = host.handle();
    let lease = handle.call(grant("a", "alice")).live().unwrap().id;
    *breaks.lock().unwrap() = true;
    let broken = std::thread::spawn({
        let handle = handle.clone();
        move || handle.call(release(lease))
    });
    // Either its own thread ran the turn that broke, or another one did and it was told.
    let told = broken.join();
    assert!(
        told.as_ref().is_ok_and(|answer| matches!(answer, Answer::Refused(_))) || told.is_err(),
        "{told:?}"
    );
    assert!(matches!(handle.call(Request::Status), Answer::Refused(Refused::ShuttingDown)));
}
