//! Status, pools, resources, sessions, checks, stories, backups and stopping, against a real daemon.

use std::fs;

use expect_test::{Expect, expect};

use crate::cli_daemon::{Daemon, scrubbed};
use crate::cli_terminal::at_terminal;
use crate::run_support::{LONG, wait_until};

fn check(daemon: &Daemon, arguments: &[&str], expected: Expect) {
    expected.assert_eq(&daemon.plain(arguments));
}

#[test]
fn status_at_a_glance() {
    let daemon = Daemon::start();
    daemon.acquire(&["printer", "--holder", "alice"]);
    daemon.acquire(&["scanner", "--holder", "bob", "--permanent"]);
    let page = daemon.plain(&["status", "--quiet"]);
    let labels: Vec<&str> = page.lines().filter_map(|line| line.split(' ').next()).collect();
    expect![[]].assert_eq(&labels.join(" "));
    assert!(page.contains("leases 2: 2 active\n"), "{page}");
    assert!(page.contains("by mode 1 heartbeat, 1 permanent\n"), "{page}");
    assert!(page.contains("breaker closed, never opened\n"), "{page}");
    let status = daemon.object(&["status"]);
    assert_eq!(status["leases"]["total"], 2);
    assert_eq!(status["data_dir"], daemon.desk.path().join("data").to_str().unwrap());
}

#[test]
fn the_way_to_the_daemon_is_told() {
    let daemon = Daemon::start();
    let http = daemon.object(&["status"])["http"].as_str().unwrap().to_owned();
    let found = daemon.tenure(&["pool", "ls"]).err;
    assert!(found.starts_with("note: asking the daemon at unix:DIR/tenure.sock, found by DIR/"), "{found}");
    let told = daemon.tenure(&["pool", "ls", "--endpoint", &http]).err;
    assert!(told.starts_with(&format!("note: asking the daemon at {http}, as told")), "{told}");
    assert_eq!(daemon.tenure(&["pool", "ls", "--quiet"]).err, "");
}

#[test]
fn pools_are_defined_listed_and_removed() {
    let daemon = Daemon::start();
    check(&daemon, &["pool", "ls"], expect![[]]);
    check(&daemon, &["pool", "set", "gpu", "4"], expect![[]]);
    daemon.acquire(&["--pool", "gpu=2", "--holder", "alice"]);
    check(&daemon, &["pool", "ls"], expect![[]]);
    check(&daemon, &["pool", "rm", "gpu", "--yes"], expect![[]]);
    check(&daemon, &["pool", "rm", "gpu", "--yes", "--force"], expect![[]]);
    check(&daemon, &["pool", "rm", "nothing", "--yes"], expect![[]]);
}

#[test]
fn resources_show_their_holder_and_who_waits() {
    let daemon = Daemon::start();
    daemon.acquire(&["printer", "--holder", "alice"]);
    let mut waiting = daemon.command(&["lease", "acquire", "printer", "--holder", "bob", "--wait", "30s"]);
    let mut waiting = waiting.spawn().unwrap();
    wait_until("bob waits", LONG, || {
        daemon.object(&["resource", "show", "printer"])["waiters"] == serde_json::json!(["bob"])
    });
    check(&daemon, &["resource", "show", "printer"], expect![[]]);
    check(&daemon, &["resource", "ls"], expect![[]]);
    check(&daemon, &["resource", "show", "scanner"], expect![[]]);
    daemon.object(&["lease", "release", "printer", "--epoch", "1"]);
    assert!(waiting.wait().unwrap().success());
    assert_eq!(daemon.object(&["lease", "show", "printer"])["holder"], "bob");
}

#[test]
fn a_guarded_store_asks_by_exit_code() {
    let daemon = Daemon::start();
    let lease = daemon.object(&["lease", "acquire", "printer", "--holder", "alice"]);
    let (id, fence) = (lease["lease_id"].as_str().unwrap(), lease["fence"].to_string());
    check(&daemon, &["check", "printer", "--fence", &fence], expect![[]]);
    check(&daemon, &["check", "printer", "--fence", "1"], expect![[]]);
    check(&daemon, &["check", id, "--epoch", "1"], expect![[]]);
    assert_eq!(daemon.tenure(&["check", id, "--epoch", "2"]).code, 1);
    assert_eq!(daemon.tenure(&["check", "scanner", "--fence", &fence]).code, 1);
}

#[test]
fn sessions_are_kept_by_hand() {
    let daemon = Daemon::start();
    let session = daemon.object(&["admin", "session", "open", "--holder", "alice", "--ttl", "1m"]);
    let id = session["session"].as_str().unwrap().to_owned();
    daemon.acquire(&["printer", "--session", &id, "--holder", "alice"]);
    let plain = |arguments: &[&str]| daemon.plain(arguments).replace(&id, "SESSION");
    expect![[]].assert_eq(&plain(&["admin", "session", "show", &id]));
    expect![[]].assert_eq(&plain(&["admin", "session", "ls"]));
    expect![[]].assert_eq(&plain(&["admin", "session", "heartbeat", &id]));
    expect![[]].assert_eq(&plain(&["admin", "session", "close", &id, "--yes"]));
    assert_eq!(daemon.object(&["resource", "show", "printer"])["lease_id"], serde_json::Value::Null);
}

#[test]
fn why_reads_like_an_explanation() {
    let daemon = Daemon::start();
    let id = daemon.acquire(&["printer", "--holder", "alice"]);
    daemon.object(&["lease", "drain", &id, "--yes", "--reason", "maintenance"]);
    check(&daemon, &["why", "printer"], expect![[]]);
    check(&daemon, &["why", &id], expect![[]]);
    daemon.object(&["lease", "release", &id, "--epoch", "1"]);
    check(&daemon, &["why", "printer", "--quiet"], expect![[]]);
    check(&daemon, &["why", "nothing"], expect![[]]);
    assert_eq!(daemon.object(&["why", &id])["subject"], id.as_str());
    assert_eq!(daemon.tenure(&["why", &id, "--resource"]).code, 1);
}

#[test]
fn whoever_ends_something_at_a_terminal_is_shown_it_and_asked() {
    let daemon = Daemon::start();
    daemon.acquire(&["printer", "--holder", "alice"]);
    let revoke = ["lease", "revoke", "printer", "--quiet"];
    let no = at_terminal(&mut daemon.command(&revoke), 200, "n\n");
    expect![[]].assert_eq(&scrubbed(&no.text, &daemon.tag()));
    assert_eq!(no.code, 1);
    assert_eq!(daemon.object(&["lease", "show", "printer"])["state"], "active");
    let yes = at_terminal(&mut daemon.command(&revoke), 200, "y\n");
    assert_eq!(yes.code, 0, "{}", yes.text);
    assert_eq!(daemon.object(&["lease", "show", "printer"])["state"], "revoking");
}

#[test]
fn tables_fit_the_terminal() {
    let daemon = Daemon::start();
    daemon.acquire(&["höhle/eins", "höhle/zwei", "höhle/drei", "--holder", "änne@höhle"]);
    for columns in [70, 90, 120] {
        let shown = at_terminal(&mut daemon.command(&["lease", "ls", "--quiet"]), columns, "");
        for line in shown.text.lines() {
            assert!(line.chars().count() <= usize::from(columns), "{columns}: {line}");
        }
    }
}

#[test]
fn a_backup_is_restored_under_another_name() {
    let mut daemon = Daemon::start();
    let id = daemon.acquire(&["printer", "--holder", "alice"]);
    let tag = daemon.tag();
    let answer = daemon.tenure(&["backup", "DIR/copy.tar"]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert!(answer.out.ends_with("bytes in DIR/copy.tar\n"), "{}", answer.out);
    let streamed = daemon.command(&["backup", "-", "--quiet"]).output().unwrap();
    assert!(streamed.status.success());
    assert_eq!(streamed.stdout.len() as u64, fs::metadata(daemon.desk.path().join("copy.tar")).unwrap().len());
    daemon.stop();

    let restored = daemon.tenure(&["restore", "DIR/copy.tar", "DIR/restored", "--json"]);
    assert_eq!(restored.code, 0, "{}", restored.err);
    let verified = daemon.tenure(&["log", "verify", "DIR/restored"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    let mut again = Daemon::start_at(std::mem::replace(&mut daemon.desk, crate::cli_desk::Desk::new()), "restored");
    assert_ne!(again.tag(), tag);
    assert_eq!(again.tenure(&["lease", "show", &id]).code, 1, "an id of the lost log names nothing here");
    assert!(again.object(&["status"])["restored_for_ms"].as_u64().is_some());
    assert!(again.tenure(&["status"]).out.contains("restored"));
    again.stop();
}

#[test]
fn stopping_ends_no_lease_unless_told() {
    let mut daemon = Daemon::start();
    daemon.acquire(&["printer", "--holder", "alice"]);
    check(&daemon, &["admin", "breaker", "reset"], expect![[]]);
    let answer = daemon.tenure(&["admin", "shutdown"]);
    assert_eq!((answer.code, answer.out.as_str()), (0, "stopping\n"), "{}", answer.err);
    daemon.wait();
    assert_eq!(daemon.tenure(&["status"]).code, 3);
    daemon.start_again();
    assert_eq!(daemon.object(&["lease", "show", "printer"])["holder"], "alice");
    let answer = daemon.tenure(&["admin", "shutdown", "--end-all", "--yes"]);
    assert_eq!((answer.code, answer.out.as_str()), (0, "stopping, 1 lease ended\n"), "{}", answer.err);
    daemon.wait();
    daemon.start_again();
    assert_eq!(daemon.object(&["status"])["leases"]["by_state"].get("active"), None);
}

#[test]
fn the_dashboard_is_an_address() {
    let daemon = Daemon::start();
    let http = daemon.object(&["status"])["http"].as_str().unwrap().to_owned();
    // Nothing that opens addresses is found on this path.
    let answer = daemon.desk.answer(daemon.command(&["open"]).env("PATH", daemon.desk.path()));
    assert_eq!((answer.code, answer.out), (0, format!("{http}/\n")));
    assert!(answer.err.ends_with("note: there is no xdg-open here; the address above is the dashboard\n"));
}

#[test]
fn a_killed_daemon_leaves_a_breadcrumb_that_nobody_falls_for() {
    let mut daemon = Daemon::start();
    daemon.kill();
    let answer = daemon.tenure(&["status"]);
    assert!(answer.err.starts_with("Error: Tenure daemon is not running at http://127.0.0.1:5641\n"), "{}", answer.err);
    daemon.start_again();
    assert_eq!(daemon.tenure(&["status"]).code, 0);
}
