//! `tenure run` at a terminal: interactive commands, Ctrl-C, and job control by a real shell.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::run_desk::RunDesk;
use crate::run_support::{Cleanup, LONG, wait_until};

const CONTROL_C: &str = "\u{3}";
const CONTROL_Z: &str = "\u{1a}";

/// A terminal with a program at it, in a session of its own.
struct Seat {
    keyboard: File,
    screen: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
    program: Child,
    _cleanup: Cleanup,
}

impl Seat {
    fn sit(desk: &RunDesk, program: &[&str]) -> Self {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&main).unwrap();
        unlockpt(&main).unwrap();
        let end = ioctl_tiocgptpeer(&main, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        let stdio = |end: &OwnedFd| Stdio::from(end.try_clone().unwrap());
        let tenure = desk.command(&[]);
        let program = Command::new("setsid")
            .arg("--ctty")
            .args(program)
            .envs(tenure.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("TENURE", tenure.get_program())
            .stdin(stdio(&end))
            .stdout(stdio(&end))
            .stderr(stdio(&end))
            .spawn()
            .unwrap();
        drop(end);
        let mut cleanup = Cleanup::default();
        cleanup.add(program.id() as i32);
        let keyboard = File::from(main);
        let mut output = keyboard.try_clone().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&screen);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 1024];
            // Ends with an error once nobody is at the other end.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { keyboard, screen, reader: Some(reader), program, _cleanup: cleanup }
    }

    fn typed(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        let screen = || self.screen.lock().unwrap().clone();
        let deadline = crate::run_support::boot_ms() + LONG.as_millis() as u64;
        wait_until(text, LONG * 2, || {
            assert!(crate::run_support::boot_ms() < deadline, "{text:?} is not shown, but {:?}", screen());
            screen().contains(text)
        });
    }

    fn code(mut self) -> i32 {
        let program = &mut self.program;
        wait_until("the end of the program", LONG, || program.try_wait().unwrap().is_some());
        self.reader.take().unwrap().join().unwrap();
        self.program.wait().unwrap().code().unwrap()
    }
}

#[test]
fn a_command_reads_from_the_terminal_and_hears_control_c() {
    let desk = RunDesk::open();
    let script =
        "trap 'echo caught; exit 3' INT; read word; echo \"got $word\"; while :; do sleep 0.02; done";
    let tenure = desk.command(&[]).get_program().to_str().unwrap().to_owned();
    let mut seat = Seat::sit(&desk, &[&tenure, "run", "--resource", "r", "--", "sh", "-c", script]);
    seat.typed("hello\n");
    seat.shows("got hello");
    seat.typed(CONTROL_C);
    seat.shows("caught");
    assert_eq!(seat.code(), 3);
}

#[test]
fn a_stopped_command_gives_the_terminal_back_to_the_shell_and_goes_on_in_the_foreground() {
    let desk = RunDesk::open();
    let command = "\"$TENURE\" run --resource r -- sh -c 'echo ready; read word; echo \"got $word\"; exit 5'";
    let script = format!("set -m; {command}; echo \"left with $?\"; fg; echo \"back with $?\"");
    let mut seat = Seat::sit(&desk, &["sh", "-c", &script]);
    seat.shows("ready");
    seat.typed(CONTROL_Z);
    seat.shows("not continued within");
    // 128 + SIGSTOP: the shell has seen its job stop.
    seat.shows("left with 147");
    seat.typed("hello\n");
    seat.shows("got hello");
    seat.shows("back with 5");
    assert_eq!(seat.code(), 0);
}

#[test]
fn who_reads_our_output_keeps_the_terminal_until_the_command_asks_for_it() {
    let desk = RunDesk::open();
    let command = "\"$TENURE\" run --resource r -- sh -c 'echo ready; read word; echo \"got $word\"'";
    let script = format!("set -m; {command} | cat; echo over");
    let mut seat = Seat::sit(&desk, &["sh", "-c", &script]);
    seat.shows("ready");
    seat.typed("hello\n");
    seat.shows("got hello");
    seat.shows("over");
    assert_eq!(seat.code(), 0);
}
