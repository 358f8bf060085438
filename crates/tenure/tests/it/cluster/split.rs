//! What the checker is worth: daemons that know nothing of each other, called as if they were one cluster, are the
//! split brain that must never be; it has to be found within seconds.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::caller::{Journal, Places};
use super::checker::{Rule, check};
use super::history::Application;
use super::load::{FLAGS, Load};
use crate::daemon::Daemon;
use crate::run_support::{let_time_pass, wait_until};

fn places(daemons: &[&Daemon]) -> Places {
    let numbered = daemons.iter().enumerate();
    numbered.map(|(number, daemon)| (format!("d{number}"), daemon.address())).collect()
}

#[test]
fn one_daemon_under_load_shows_no_anomaly() {
    let daemon = Daemon::start();
    let journal = Journal::begin();
    let load = Load::begin(&journal, places(&[&daemon, &daemon, &daemon]), 1);
    wait_until("load", Duration::from_secs(30), || journal.served() > 1_000);
    let report = check(&load.finish(1));
    println!("{report}");
    assert!(report.anomalies.is_empty(), "{report}");
    assert!(report.changes_of_holder > 20, "{report}");
}

#[test]
fn two_daemons_that_do_not_know_each_other_are_found_out() {
    let (one, two) = (Daemon::start(), Daemon::start());
    let journal = Journal::begin();
    let load = Load::begin(&journal, places(&[&one, &two]), 1);
    wait_until("load", Duration::from_secs(30), || journal.served() > 300);
    let_time_pass(Duration::from_millis(500), "both are asked for a while longer");
    let report = check(&load.finish(1));
    for rule in [Rule::PromisesNeverOverlap, Rule::Linearizable, Rule::NothingIsLost] {
        assert!(report.broken().contains(&rule), "{rule:?} is not broken: {report}");
    }
}

fn sockets(daemons: &[&Daemon]) -> Vec<PathBuf> {
    daemons.iter().map(|daemon| daemon.socket()).collect()
}

#[test]
fn one_daemon_under_the_load_of_all_applications_shows_no_anomaly() {
    let daemon = Daemon::start_with(&FLAGS);
    let journal = Journal::begin();
    let all = [&daemon, &daemon, &daemon];
    let load = Load::of_all(&journal, places(&all), sockets(&all), 1);
    wait_until("load", Duration::from_secs(60), || journal.served() > 2_000);
    let report = check(&load.finish(1));
    println!("{report}");
    assert!(report.anomalies.is_empty(), "{report}");
    assert_eq!(report.applications.len(), 5, "{report}");
    assert!(report.applications.values().all(|counts| counts.changes_of_holder > 10), "{report}");
}

#[test]
fn a_split_is_found_in_every_application() {
    let (one, two) = (Daemon::start_with(&FLAGS), Daemon::start_with(&FLAGS));
    let journal = Journal::begin();
    let all = [&one, &two];
    let load = Load::of_all(&journal, places(&all), sockets(&all), 1);
    wait_until("load", Duration::from_secs(60), || journal.served() > 2_000);
    let report = check(&load.finish(1));
    let found: BTreeSet<Application> = report
        .anomalies
        .iter()
        .filter(|anomaly| !anomaly.resource.is_empty())
        .map(|anomaly| Application::of(&anomaly.resource))
        .collect();
    assert_eq!(found.len(), 5, "only {found:?}: {report}");
}
