//! The processes below this one: found, signalled, reaped. Every process that a command leaves behind comes to the
//! nearest subreaper above it, so whoever is one and has no children left has no descendants left: the kernel says so,
//! and nothing here has to be believed for that.

use std::collections::HashMap;
use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal, set_child_subreaper, wait,
};

use super::channel::Over;

/// Children that change state between two looks; the rest is seen at the next look.
const REAPED_MAX: usize = 4_096;
/// How often children are struck before the whole tree is looked at again. A process that forks and ends faster than
/// the tree can be read still comes to us as a child, and is met here.
const STRIKES: usize = 64;

/// What happened to a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// It is over and its number may be used again.
    Over(Over),
    /// It was stopped by this signal.
    Stopped(i32),
}

/// What a look at the children showed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    pub(crate) changes: Vec<(Pid, Change)>,
    /// No child is left, hence no descendant.
    pub(crate) none_left: bool,
}

/// A process that could not be killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stubborn {
    pub(crate) pid: Pid,
    pub(crate) error: Errno,
}

/// One process of `/proc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Member {
    pid: Pid,
    parent: i32,
    group: i32,
    /// Ticks after boot; tells a process from a later one with the same number.
    started: u64,
}

/// Everything below us, except what was there before we began.
pub(crate) struct Family {
    /// Children of the program that became us by exec: none of our business.
    spared: Vec<Pid>,
}

impl Family {
    /// Makes descendants that lose their parents ours, from now on.
    pub(crate) fn adopt() -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        let own = getpid().as_raw_nonzero().get();
        let spared = processes().filter(|member| member.parent == own).map(|member| member.pid).collect();
        Ok(Self { spared })
    }

    /// Reaps what is over, without waiting.
    pub(crate) fn look(&mut self) -> Look {
        let mut look = Look::default();
        while look.changes.len() < REAPED_MAX {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) => {
                    let over = status.exit_status().map(|code| Over::Code(code as u8));
                    let over = over.or_else(|| status.terminating_signal().map(Over::Signal));
                    let stopped = status.stopping_signal().map(Change::Stopped);
                    if over.is_some() {
                        self.spared.retain(|spared| *spared != pid);
                    }
                    look.changes.extend(over.map(Change::Over).or(stopped).map(|change| (pid, change)));
                }
                Ok(None) => {
                    // Only who has spared somebody may have children that do not count.
                    look.none_left = !self.spared.is_empty() && self.descendants().is_empty();
                    break;
                }
                Err(Errno::INTR) => {}
                Err(_) => {
                    look.none_left = true;
                    break;
                }
            }
        }
        look
    }

    /// Sends a signal to the group, and to every descendant outside of it.
    pub(crate) fn signal_all(&self, group: Option<Pid>, signal: Signal) {
        if let Some(group) = group {
            let _ = kill_process_group(group, signal);
        }
        let group = group.map(|group| group.as_raw_nonzero().get());
        for member in self.descendants().into_iter().filter(|member| Some(member.group) != group) {
            let _ = send(member, signal);
        }
    }

    /// Kills every descendant that can be found, and returns those that cannot be killed.
    ///
    /// A process with SIGKILL pending cannot fork any more, so there is no need to stop anything first. What was
    /// forked before is found by the next strike: call it until nothing is left.
    pub(crate) fn strike(&mut self, mut on_look: impl FnMut(&Look)) -> Vec<Stubborn> {
        let mut stubborn = Vec::new();
        for member in self.descendants() {
            match send(member, Signal::KILL) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => stubborn.push(Stubborn { pid: member.pid, error }),
            }
        }
        for _ in 0..STRIKES {
            for child in children().into_iter().filter(|child| !self.is_spared(*child)) {
                // Only we reap our children, so the number cannot have been given to anybody else.
                let _ = kill_process(child, Signal::KILL);
            }
            let look = self.look();
            on_look(&look);
            if look.none_left || look.changes.is_empty() {
                break;
            }
        }
        stubborn
    }

    /// Parents before children, so that whoever would start something anew goes first.
    fn descendants(&self) -> Vec<Member> {
        let mut by_parent: HashMap<i32, Vec<Member>> = HashMap::new();
        for member in processes() {
            by_parent.entry(member.parent).or_default().push(member);
        }
        let mut found = by_parent.remove(&getpid().as_raw_nonzero().get()).unwrap_or_default();
        found.retain(|member| !self.is_spared(member.pid));
        let mut next = 0;
        while let Some(member) = found.get(next) {
            let below = by_parent.remove(&member.pid.as_raw_nonzero().get());
            found.extend(below.into_iter().flatten());
            next += 1;
        }
        found
    }

    /// Only we reap our children: while one of them is spared, nobody else has its number.
    fn is_spared(&self, child: Pid) -> bool {
        self.spared.contains(&child)
    }
}

/// Children of our main thread as the kernel lists them; empty where it does not.
pub(crate) fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero();
    let listed = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

fn processes() -> impl Iterator<Item = Member> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        member(pid)
    })
}

fn member(pid: Pid) -> Option<Member> {
    parse(pid, &fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
}

/// `PID (NAME) STATE PARENT GROUP …`, where the name may contain anything.
fn parse(pid: Pid, stat: &str) -> Option<Member> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let started = fields.nth(16)?.parse().ok()?;
    Some(Member { pid, parent, group, started })
}

/// Signals the process that was seen, never one that got its number later.
fn send(seen: Member, signal: Signal) -> Result<(), Errno> {
    match pidfd_open(seen.pid, PidfdFlags::empty()) {
        Ok(pidfd) => match member(seen.pid) {
            Some(now) if now.started == seen.started => pidfd_send_signal(pidfd, signal),
            Some(_) | None => Err(Errno::SRCH),
        },
        Err(Errno::NOSYS) => kill_process(seen.pid, signal),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_processes_may_contain_anything() {
        let pid = Pid::from_raw(42).unwrap();
        let rest = "1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 10 11";
        for name in ["sh", "a b", "a) R 1", "((", "x\ny"] {
            let found = parse(pid, &format!("42 ({name}) S {rest}")).unwrap();
            assert_eq!((found.parent, found.group, found.started), (1, 7, 987_654), "{name:?}");
        }
        assert_eq!(parse(pid, "42 (sh) S 1 7"), None);
        assert_eq!(parse(pid, ""), None);
    }

    #[test]
    fn our_own_line_in_proc_is_understood() {
        let own = member(getpid()).unwrap();
        assert_eq!(Pid::from_raw(own.parent), rustix::process::getppid());
        assert!(own.started > 0);
    }
}
