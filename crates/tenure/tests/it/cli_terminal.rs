//! The binary at a terminal: a real one, whose other end is the test.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use expect_test::expect;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::cli_daemon::{Daemon, scrubbed};
use crate::cli_desk::Desk;

/// Nothing that is asked at a terminal takes longer.
const LIMIT: Duration = Duration::from_secs(20);

/// What a program at a terminal showed, and how it ended.
pub(crate) struct Shown {
    pub(crate) code: i32,
    pub(crate) text: String,
}

/// Ends the program if the test fails before it does.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program at a terminal that is so many columns wide, with somebody who types `typed`.
pub(crate) fn at_terminal(command: &mut Command, columns: u16, typed: &str) -> Shown {
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&main).unwrap();
    unlockpt(&main).unwrap();
    let end = ioctl_tiocgptpeer(&main, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    tcsetwinsize(&end, Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    // What is typed would be shown whenever it arrives, before or after the question.
    let mut modes = tcgetattr(&end).unwrap();
    modes.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&end, OptionalActions::Now, &modes).unwrap();
    let stdio = |end: &OwnedFd| Stdio::from(end.try_clone().unwrap());
    command.stdin(stdio(&end)).stdout(stdio(&end)).stderr(stdio(&end));
    let mut child = Guard(command.spawn().unwrap());
    // The terminal is gone for us when the program has closed it, so nobody else may keep it open.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    drop(end);
    let mut main = File::from(main);
    main.write_all(typed.as_bytes()).unwrap();
    let (sender, receiver) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // Ends with an error once the other end is closed.
        let _ = main.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    let bytes = receiver.recv_timeout(LIMIT).expect("the program ends within the limit");
    reader.join().unwrap();
    let code = child.0.wait().unwrap().code().unwrap();
    Shown { code, text: String::from_utf8(bytes).unwrap().replace("\r\n", "\n") }
}

#[test]
fn bare_tenure_at_a_terminal_prints_the_first_steps() {
    let desk = Desk::new();
    let shown = at_terminal(&mut desk.command(&[]), 200, "");
    assert_eq!(shown.code, 0);
    assert!(shown.text.starts_with("Durable leases and locks"), "{}", shown.text);
    assert!(shown.text.contains("\n  tenure serve "), "{}", shown.text);
    assert!(!shown.text.contains('\u{1b}'), "no colours: {}", shown.text);
}

#[test]
fn at_a_terminal_the_daemon_is_asked_before_anybody_has_to_decide() {
    let desk = Desk::new();
    let shown = at_terminal(&mut desk.command(&["lease", "revoke", "printer"]), 80, "");
    expect![[r#"
        Error: Tenure daemon is not running at http://127.0.0.1:5641
        hint: start it with: tenure serve
    "#]]
    .assert_eq(&shown.text);
    assert_eq!(shown.code, 3);
}

// The hint came first: standard output was let out when the command ended.
#[test]
fn what_is_said_about_data_comes_behind_it() {
    let daemon = Daemon::start();
    let shown = |arguments: &[&str]| {
        let shown = at_terminal(&mut daemon.command(arguments), 200, "");
        assert_eq!(shown.code, 0, "{}", shown.text);
        scrubbed(&shown.text, &daemon.tag())
    };
    let acquired = shown(&["lease", "acquire", "printer", "--holder", "alice"]);
    let lines: Vec<&str> = acquired.lines().collect();
    assert_eq!(lines.first(), Some(&"lease TAG-1"), "{acquired}");
    let hint = "hint: renew this lease with: tenure lease heartbeat TAG-1 --epoch 1";
    assert_eq!(lines.last(), Some(&hint), "{acquired}");
    let listed = shown(&["lease", "ls"]);
    assert!(listed.starts_with("ID HOLDER ") && listed.ends_with("\n1 lease at lsn 1\n"), "{listed}");
}
