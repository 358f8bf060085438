//! `tenure install` into a directory: what it writes, that systemd accepts it, and that repeating it changes nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use expect_test::expect_file;

use crate::cli_desk::Desk;
use crate::fixture::Answer;

const UNIT: &str = "etc/systemd/system/tenure.service";

fn install(desk: &Desk, more: &[&str]) -> Answer {
    let usual = ["install", "--root", "DIR", "--exec", "/usr/bin/tenure"];
    desk.tenure(&usual.iter().chain(more).copied().collect::<Vec<_>>())
}

fn unit(desk: &Desk) -> String {
    fs::read_to_string(desk.path().join(UNIT)).unwrap()
}

fn exec_start(desk: &Desk) -> String {
    unit(desk).lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap().to_owned()
}

/// Every file below a directory with its text, in order.
fn files(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            found.push((path.clone(), fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn the_files_are_as_expected() {
    let desk = Desk::new();
    let answer = install(&desk, &[]);
    assert_eq!((answer.code, answer.out.as_str()), (0, ""), "{}", answer.err);
    assert_eq!(
        answer.err,
        "wrote DIR/etc/sysusers.d/tenure.conf\nwrote DIR/etc/tenure/tenure.toml\n\
         wrote DIR/etc/systemd/system/tenure.service\n"
    );
    expect_file!["../golden/tenure.service"].assert_eq(&unit(&desk));
    let settings = fs::read_to_string(desk.path().join("etc/tenure/tenure.toml")).unwrap();
    assert!(settings.contains("[auth]\n") && settings.contains("\nlocal = \"hold\"\n"), "{settings}");
    let mode = |name: &str| desk.path().join(name).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(UNIT), mode("etc/tenure"), mode("etc/tenure/tenure.toml")), (0o644, 0o2755, 0o644));
}

#[test]
fn systemd_accepts_the_unit() {
    let desk = Desk::new();
    // It looks whether the program is there, wherever this one was built.
    let program = "/usr/bin/env";
    let flags =
        ["--port=80", "--data-dir=/srv/a b", "--allow-origin=https://x.example", "--socket=/srv/s/t.sock"];
    let arguments = [&["install", "--root", "DIR", "--exec", program][..], &flags].concat();
    let answer = desk.tenure(&arguments);
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert!(answer.err.contains("note: /srv/a b must exist and belong to tenure\n"), "{}", answer.err);
    for line in [
        "ReadWritePaths=\"/srv/a b\"",
        "ReadWritePaths=/srv/s",
        "AmbientCapabilities=CAP_NET_BIND_SERVICE",
        "User=tenure",
    ] {
        assert!(unit(&desk).lines().any(|found| found == line), "{line}\n{}", unit(&desk));
    }
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(desk.path().join(UNIT))
        .output()
        .expect("systemd-analyze is needed: apt-get install systemd");
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && said.is_empty(), "{said}");
}

#[test]
fn the_user_is_declared_as_systemd_understands_it() {
    let desk = Desk::new();
    assert_eq!(install(&desk, &["--user", "leases"]).code, 0);
    let made = Command::new("systemd-sysusers")
        .arg(format!("--root={}", desk.path().display()))
        .arg("tenure.conf")
        .output()
        .expect("systemd-sysusers is needed: apt-get install systemd");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let users = fs::read_to_string(desk.path().join("etc/passwd")).unwrap();
    assert!(
        users.lines().any(|line| line.starts_with("leases:") && line.contains(":/var/lib/tenure:")),
        "{users}"
    );
    assert!(unit(&desk).contains("\nUser=leases\nGroup=leases\n"));
}

#[test]
fn doing_it_twice_changes_nothing_and_keeps_the_flags() {
    let desk = Desk::new();
    assert_eq!(install(&desk, &["--port", "7000", "--user", "leases", "--log-level", "debug"]).code, 0);
    let before = files(desk.path());
    assert_eq!(exec_start(&desk), "/usr/bin/tenure serve --port=7000 --log-level=debug");
    let again = install(&desk, &[]);
    assert_eq!(again.err.matches("kept ").count(), 3, "{}", again.err);
    assert_eq!(files(desk.path()), before);

    assert_eq!(install(&desk, &["--port", "7001"]).code, 0);
    assert_eq!(exec_start(&desk), "/usr/bin/tenure serve --port=7001 --log-level=debug");
    assert!(unit(&desk).contains("User=leases\n"));
    assert_eq!(install(&desk, &["--reset"]).code, 0);
    assert_eq!(exec_start(&desk), "/usr/bin/tenure serve");
    assert!(unit(&desk).contains("User=tenure\n"));
}

#[test]
fn settings_that_are_there_are_left_and_checked() {
    let desk = Desk::new();
    let path = desk.path().join("etc/tenure/tenure.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "[server]\nport = 90\n").unwrap();
    assert_eq!(install(&desk, &[]).code, 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), "[server]\nport = 90\n");
    assert!(unit(&desk).contains("AmbientCapabilities=CAP_NET_BIND_SERVICE\n"), "the file's port counts too");
    fs::write(&path, "[server]\nprot = 90\n").unwrap();
    let refused = install(&desk, &[]);
    assert_eq!(refused.code, 2);
    assert_eq!(
        refused.err,
        "error: DIR/etc/tenure/tenure.toml:2: there is no key server.prot; the nearest is server.port\n"
    );
}

#[test]
fn what_a_service_could_not_do_is_refused() {
    let desk = Desk::new();
    let hidden = desk.tenure(&["install", "--root", "DIR", "--exec", "/tmp/tenure"]);
    assert_eq!(hidden.code, 1);
    assert_eq!(
        hidden.err,
        "error: a system service cannot access /tmp/tenure\n\
         hint: install -m 755 /tmp/tenure /usr/local/bin/tenure && /usr/local/bin/tenure install\n"
    );
    assert_eq!(desk.tenure(&["install", "--root", "DIR", "--exec", "bin/tenure"]).code, 2);
    assert_eq!(install(&desk, &["--user", "a b"]).code, 2);
    fs::write(desk.path().join("t.toml"), "").unwrap();
    let open = desk.tenure(&[
        "install",
        "--dry-run",
        "--reset",
        "--exec",
        "/usr/bin/tenure",
        "--config",
        "DIR/t.toml",
        "--bind",
        "0.0.0.0",
    ]);
    assert_eq!(open.code, 2);
    assert!(open.err.starts_with("error: 0.0.0.0 can be reached from other machines"), "{}", open.err);
    assert_eq!(files(desk.path()).len(), 1, "nothing was written");
}

#[test]
fn a_dry_run_prints_and_does_nothing() {
    let desk = Desk::new();
    let answer = install(&desk, &["--dry-run"]);
    assert_eq!(answer.code, 0);
    for line in [
        "### DIR/etc/systemd/system/tenure.service",
        "### DIR/etc/tenure/tenure.toml, unless it exists",
        "ExecStart=/usr/bin/tenure serve",
        "### then",
    ] {
        assert!(answer.out.lines().any(|found| found == line), "{line}\n{}", answer.out);
    }
    assert_eq!(files(desk.path()), []);
    fs::write(desk.path().join("t.toml"), "").unwrap();
    let here = desk.tenure(&[
        "install",
        "--dry-run",
        "--reset",
        "--exec",
        "/usr/bin/tenure",
        "--config",
        "DIR/t.toml",
        "--no-start",
    ]);
    assert!(
        here.out.ends_with("### then\nsystemctl daemon-reload\nsystemctl enable tenure.service\n"),
        "{}",
        here.out
    );
}

#[test]
fn uninstalling_leaves_data_and_settings() {
    let desk = Desk::new();
    install(&desk, &[]);
    let listed = desk.tenure(&["uninstall", "--root", "DIR", "--dry-run"]);
    assert_eq!(listed.out, "rm DIR/etc/systemd/system/tenure.service\nrm DIR/etc/sysusers.d/tenure.conf\n");
    let removed = desk.tenure(&["uninstall", "--root", "DIR"]);
    assert_eq!(removed.code, 0);
    let left: Vec<PathBuf> = files(desk.path()).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, [desk.path().join("etc/tenure/tenure.toml")]);
    assert_eq!(desk.tenure(&["uninstall", "--root", "DIR"]).err, "nothing is installed\n");
}
