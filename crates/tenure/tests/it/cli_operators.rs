//! Status, pools, resources, sessions, checks, stories, backups and stopping, against a real daemon.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

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
    daemon.take(&["printer", "--holder", "alice"]);
    daemon.take(&["scanner", "--holder", "bob", "--permanent"]);
    let page = daemon.plain(&["status", "--quiet"]);
    let labels: Vec<&str> = page.lines().filter_map(|line| line.split(' ').next()).collect();
    expect![
        "exit --- tenure listens data log leases by by also sync lateness stalls breaker retries memory clock ---"
    ]
    .assert_eq(&labels.join(" "));
    assert!(page.contains("leases 2: 2 active\n"), "{page}");
    assert!(page.contains("by mode 1 heartbeat, 1 permanent\n"), "{page}");
    assert!(page.contains("breaker closed, never opened\n"), "{page}");
    let status = daemon.object(&["status"]);
    assert_eq!(status["leases"]["total"], 2);
    assert_eq!(status["data_dir"], "DIR/data");
}

#[test]
fn pools_are_defined_listed_and_removed() {
    let daemon = Daemon::start();
    check(
        &daemon,
        &["pool", "ls"],
        expect![[r#"
        exit 0
        --- out
        --- err
        0 pools
    "#]],
    );
    check(
        &daemon,
        &["pool", "set", "gpu", "4"],
        expect![[r#"
        exit 0
        --- out
        NAME SIZE FREE
        gpu 4 4
        --- err
    "#]],
    );
    daemon.take(&["--pool", "gpu=2", "--holder", "alice"]);
    check(
        &daemon,
        &["pool", "ls"],
        expect![[r#"
        exit 0
        --- out
        NAME SIZE FREE
        gpu 4 2
        --- err
        1 pool
    "#]],
    );
    check(
        &daemon,
        &["pool", "rm", "gpu", "--yes"],
        expect![[r#"
            exit 1
            --- out
            --- err
            pool gpu: 4 members, 2 of them held
            error: 2 members of the pool are held (pool_in_use)
            hint: --force removes the pool and ends the leases of its members
        "#]],
    );
    check(
        &daemon,
        &["pool", "rm", "gpu", "--yes", "--force"],
        expect![[r#"
        exit 0
        --- out
        NAME SIZE FREE
        gpu (removed) 0 0
        --- err
        pool gpu: 4 members, 2 of them held
        ends lease TAG-2 of alice: gpu/1, gpu/2, active, alive, epoch 1, held for SPAN
    "#]],
    );
    check(
        &daemon,
        &["pool", "rm", "nothing", "--yes"],
        expect![[r#"
            exit 1
            --- out
            --- err
            error: there is no pool nothing
            hint: tenure pool ls lists the pools
        "#]],
    );
}

#[test]
fn resources_show_their_holder_and_who_waits() {
    let daemon = Daemon::start();
    daemon.take(&["printer", "--holder", "alice"]);
    let mut waiting = daemon.command(&["lease", "acquire", "printer", "--holder", "bob", "--wait", "30s"]);
    let mut waiting = waiting.spawn().unwrap();
    wait_until("bob waits", LONG, || {
        daemon.object(&["resource", "show", "printer"])["waiters"] == serde_json::json!(["bob"])
    });
    check(
        &daemon,
        &["resource", "show", "printer"],
        expect![[r#"
            exit 0
            --- out
            resource printer
            holder alice
            lease TAG-1
            epoch 1
            fence FENCE
            since now (TIME)
            left SPAN of its current phase
            waiters 1: bob
            --- err
        "#]],
    );
    check(
        &daemon,
        &["resource", "ls"],
        expect![[r#"
        exit 0
        --- out
        NAME HOLDER LEASE FENCE LEFT AGE SINCE
        printer alice TAG-1 FENCE SPAN SPAN TIME
        --- err
        1 resource held
    "#]],
    );
    check(
        &daemon,
        &["resource", "show", "scanner"],
        expect![[r#"
            exit 0
            --- out
            resource scanner
            holder none: the resource is free
            --- err
        "#]],
    );
    daemon.object(&["lease", "release", "printer", "--epoch", "1"]);
    assert!(waiting.wait().unwrap().success());
    assert_eq!(daemon.object(&["lease", "show", "printer"])["holder"], "bob");
}

#[test]
fn a_guarded_store_asks_by_exit_code() {
    let daemon = Daemon::start();
    let lease = daemon.object(&["lease", "acquire", "printer", "--holder", "alice"]);
    let (id, fence) = (lease["lease_id"].as_str().unwrap(), lease["fence"].to_string());
    check(
        &daemon,
        &["check", "printer", "--fence", &fence],
        expect![[r#"
        exit 0
        --- out
        current yes
        lease TAG-1
        holder alice
        epoch 1
        fence FENCE
        --- err
    "#]],
    );
    check(
        &daemon,
        &["check", "printer", "--fence", "1"],
        expect![[r#"
        exit 1
        --- out
        current no
        lease TAG-1
        holder alice
        epoch 1
        fence FENCE
        --- err
        error: this fence is not current
    "#]],
    );
    check(
        &daemon,
        &["check", id, "--epoch", "1"],
        expect![[r#"
        exit 0
        --- out
        current yes
        lease TAG-1
        holder alice
        epoch 1
        fence FENCE
        --- err
    "#]],
    );
    assert_eq!(daemon.tenure(&["check", id, "--epoch", "2"]).code, 1);
    assert_eq!(daemon.tenure(&["check", "scanner", "--fence", &fence]).code, 1);
}

#[test]
fn sessions_are_kept_by_hand() {
    let daemon = Daemon::start();
    let session = daemon.object(&["admin", "session", "open", "--holder", "alice", "--ttl", "1m"]);
    let id = session["session"].as_str().unwrap().to_owned();
    daemon.take(&["printer", "--session", &id, "--holder", "alice"]);
    let plain = |arguments: &[&str]| daemon.plain(arguments).replace(&id, "SESSION");
    expect![[r#"
        exit 0
        --- out
        session SESSION
        holder alice
        kept by heartbeats, ttl SPAN
        grace SPAN
        liveness alive
        leases 1
        last seen now (TIME)
        valid for SPAN
        next its current phase ends in SPAN (TIME)
        --- err
    "#]]
    .assert_eq(&plain(&["admin", "session", "show", &id]));
    expect![[r#"
        exit 0
        --- out
        ID HOLDER KEPT BY GRACE LIVENESS LEASES LEFT LAST SEEN
        SESSION alice heartbeats, ttl SPAN SPAN alive 1 SPAN now (TIME)
        --- err
        1 session
    "#]]
    .assert_eq(&plain(&["admin", "session", "ls"]));
    expect![[r#"
        exit 0
        --- out
        session SESSION
        valid for SPAN
        lsn 2 (the next --seen-lsn)
        --- err
    "#]]
    .assert_eq(&plain(&["admin", "session", "heartbeat", &id]));
    expect![[r#"
        exit 0
        --- out
        session SESSION closed at lsn 3
        --- err
    "#]]
    .assert_eq(&plain(&["admin", "session", "close", &id, "--yes"]));
    assert_eq!(daemon.object(&["resource", "show", "printer"])["lease_id"], serde_json::Value::Null);
}

#[test]
fn why_reads_like_an_explanation() {
    let daemon = Daemon::start();
    let id = daemon.take(&["printer", "--holder", "alice"]);
    daemon.object(&["lease", "drain", &id, "--yes", "--reason", "maintenance"]);
    check(
        &daemon,
        &["why", "printer"],
        expect![[r#"
            exit 0
            --- out
            resource printer
              TIME now granted to alice: printer; ttl SPAN (renew every SPAN), grace SPAN [TAG-1]
              TIME now drained by uid:ME, saying "maintenance": still held until its grace ends or an operator revives it [TAG-1]
            next: held by alice: ends when its grace of SPAN ends, unless its holder releases it or an operator revives it before
            --- err
        "#]],
    );
    check(
        &daemon,
        &["why", &id],
        expect![[r#"
            exit 0
            --- out
            lease TAG-1
              TIME now granted to alice: printer; ttl SPAN (renew every SPAN), grace SPAN
              TIME now drained by uid:ME, saying "maintenance": still held until its grace ends or an operator revives it
            next: ends when its grace of SPAN ends, unless its holder releases it or an operator revives it before
            --- err
        "#]],
    );
    daemon.object(&["lease", "release", &id, "--epoch", "1"]);
    check(
        &daemon,
        &["why", "printer", "--quiet"],
        expect![[r#"
            exit 0
            --- out
            resource printer
              TIME now granted to alice: printer; ttl SPAN (renew every SPAN), grace SPAN [TAG-1]
              TIME now drained by uid:ME, saying "maintenance": still held until its grace ends or an operator revives it [TAG-1]
              TIME now released by alice: printer free again [TAG-1]
            next: printer is free: the next grant takes it
            --- err
        "#]],
    );
    check(
        &daemon,
        &["why", "nothing"],
        expect![[r#"
            exit 1
            --- out
            --- err
            error: no history of "nothing"; the log begins at position 1 (not_found)
            hint: tenure lease ls lists the leases
        "#]],
    );
    assert_eq!(daemon.object(&["why", &id])["subject"], id.as_str());
    assert_eq!(daemon.tenure(&["why", &id, "--resource"]).code, 1);
}

#[test]
fn whoever_ends_something_at_a_terminal_is_shown_it_and_asked() {
    let daemon = Daemon::start();
    daemon.take(&["printer", "--holder", "alice"]);
    let revoke = ["lease", "revoke", "printer", "--quiet"];
    let no = at_terminal(&mut daemon.command(&revoke), 200, "n\n");
    expect![[r#"
        lease TAG-1 of alice: printer, active, alive, epoch 1, held for SPAN
        revoke this lease? [y/N] error: aborted: nothing was changed
    "#]]
    .assert_eq(&scrubbed(&no.text, &daemon.tag()));
    assert_eq!(no.code, 1);
    assert_eq!(daemon.object(&["lease", "show", "printer"])["state"], "active");
    let yes = at_terminal(&mut daemon.command(&revoke), 200, "y\n");
    assert_eq!(yes.code, 0, "{}", yes.text);
    assert_eq!(daemon.object(&["lease", "show", "printer"])["state"], "revoking");
}

#[test]
fn what_is_ones_own_is_given_back_without_a_question() {
    let daemon = Daemon::start();
    for terminal in [true, false] {
        let release = ["lease", "release", "printer", "--quiet"];
        daemon.take(&["printer", "--holder", "alice"]);
        let code = match terminal {
            true => at_terminal(&mut daemon.command(&release), 200, "").code,
            false => daemon.tenure(&release).code,
        };
        assert_eq!(code, 0, "at a terminal: {terminal}");
        assert_eq!(daemon.tenure(&["lease", "release", "printer", "--yes"]).code, 1, "it is free");
    }
    // Whose a session is goes by its principal, not by what its holder is called.
    for open in [&["admin", "session", "open"][..], &["admin", "session", "open", "--holder", "alice"]] {
        let opened = daemon.object(open);
        let mine = opened["session"].as_str().unwrap();
        assert_eq!(daemon.tenure(&["admin", "session", "close", mine]).code, 0, "{open:?}");
    }
}

#[test]
fn stopping_the_daemon_is_asked_about_at_a_terminal() {
    let daemon = Daemon::start();
    let no = at_terminal(&mut daemon.command(&["admin", "shutdown", "--quiet"]), 200, "n\n");
    assert!(no.text.contains("stop the daemon? [y/N]"), "{}", no.text);
    assert_eq!(no.code, 1);
    let no = at_terminal(&mut daemon.command(&["admin", "breaker", "reset", "--quiet"]), 200, "n\n");
    assert!(no.text.contains("[y/N]"), "{}", no.text);
    assert_eq!(daemon.tenure(&["admin", "breaker", "reset"]).code, 0);
}

#[test]
fn tables_fit_the_terminal() {
    let daemon = Daemon::start();
    daemon.take(&["höhle/eins", "höhle/zwei", "höhle/drei", "--holder", "änne@höhle"]);
    for columns in [80, 100, 120] {
        let shown = at_terminal(&mut daemon.command(&["lease", "ls", "--quiet"]), columns, "");
        for line in shown.text.lines() {
            assert!(line.chars().count() <= usize::from(columns), "{columns}: {line}");
        }
    }
}

/// Files and directories that others than their owner may read.
fn open_to_others(root: &Path) -> Vec<String> {
    let mut open = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        if found.mode() & 0o077 != 0 {
            open.push(format!("{} {:o}", path.display(), found.mode()));
        }
        if found.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    open
}

#[test]
fn what_is_kept_of_holders_is_its_owners_alone() {
    let mut daemon = Daemon::start();
    let at = |name: &str| daemon.desk.path().join(name);
    let (copy, restored, made) = (at("copy.tar"), at("restored"), at("made"));
    fs::create_dir(&made).unwrap();
    fs::set_permissions(&made, fs::Permissions::from_mode(0o755)).unwrap();
    daemon.take(&["printer", "--holder", "alice"]);
    assert_eq!(daemon.tenure(&["backup", "DIR/copy.tar"]).code, 0);
    daemon.stop();
    assert_eq!(daemon.tenure(&["restore", "DIR/copy.tar", "DIR/restored"]).code, 0);
    for path in [copy, restored] {
        assert_eq!(open_to_others(&path), [""; 0]);
    }
    // One that an operator made keeps its group, and is closed to everybody else.
    daemon.set_flags(&["--data-dir", "DIR/made"]);
    daemon.start_again();
    assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o750);
    daemon.take(&["printer", "--holder", "alice"]);
    daemon.stop();
    assert_eq!(open_to_others(&made.join("log")), [""; 0]);
}

#[test]
fn a_backup_is_restored_under_another_name() {
    let mut daemon = Daemon::start();
    let id = daemon.take(&["printer", "--holder", "alice"]);
    let tag = daemon.tag();
    let answer = daemon.tenure(&["backup", "DIR/copy.tar"]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert!(answer.out.ends_with("bytes in DIR/copy.tar\n"), "{}", answer.out);
    let streamed = daemon.command(&["backup", "-", "--quiet"]).output().unwrap();
    assert!(streamed.status.success());
    assert_eq!(
        streamed.stdout.len() as u64,
        fs::metadata(daemon.desk.path().join("copy.tar")).unwrap().len()
    );
    daemon.stop();

    let restored = daemon.tenure(&["restore", "DIR/copy.tar", "DIR/restored", "--json"]);
    assert_eq!(restored.code, 0, "{}", restored.err);
    let verified = daemon.tenure(&["log", "verify", "DIR/restored"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    daemon.set_flags(&["--data-dir", "DIR/restored"]);
    daemon.start_again();
    assert_ne!(daemon.tag(), tag);
    assert_eq!(daemon.tenure(&["lease", "show", &id]).code, 1, "an id of the lost log names nothing here");
    assert!(daemon.object(&["status"])["restored_for_ms"].as_u64().is_some());
    assert!(daemon.tenure(&["status"]).out.contains("restored"));
    daemon.stop();
}

#[test]
fn stopping_ends_no_lease_unless_told() {
    let mut daemon = Daemon::start();
    daemon.take(&["printer", "--holder", "alice"]);
    check(
        &daemon,
        &["admin", "breaker", "reset"],
        expect![[r#"
            exit 0
            --- out
            expiry resumed
            --- err
        "#]],
    );
    let answer = daemon.tenure(&["admin", "shutdown"]);
    assert_eq!((answer.code, answer.out.as_str()), (0, "stopping\n"), "{}", answer.err);
    assert_eq!(daemon.code(), 0);
    assert_eq!(daemon.tenure(&["status"]).code, 3);
    daemon.start_again();
    assert_eq!(daemon.object(&["lease", "show", "printer"])["holder"], "alice");
    let answer = daemon.tenure(&["admin", "shutdown", "--end-all", "--yes"]);
    assert_eq!((answer.code, answer.out.as_str()), (0, "stopping, 1 lease ended\n"), "{}", answer.err);
    assert_eq!(daemon.code(), 0);
    daemon.start_again();
    assert_eq!(daemon.object(&["status"])["leases"]["by_state"].get("active"), None);
}

#[test]
fn the_dashboard_is_an_address() {
    let daemon = Daemon::start();
    let http = daemon.object(&["status"])["http"].as_str().unwrap().to_owned();
    // Nothing that opens addresses is found on this path.
    let answer = daemon.desk.answer(daemon.command(&["open"]).env("PATH", daemon.desk.path()));
    assert_eq!(answer.code, 0, "{}", answer.all());
    assert!(answer.out.starts_with(&format!("{http}/sign-in#")), "{}", answer.out);
    assert!(answer.err.ends_with("note: xdg-open is not installed; open the address above\n"));
}

#[test]
fn a_killed_daemon_leaves_a_breadcrumb_that_nobody_falls_for() {
    let mut daemon = Daemon::start();
    daemon.kill();
    let answer = daemon.tenure(&["status"]);
    assert!(
        answer.err.starts_with("Error: Tenure daemon is not running at http://127.0.0.1:5641\n"),
        "{}",
        answer.err
    );
    daemon.start_again();
    assert_eq!(daemon.tenure(&["status"]).code, 0);
}
