//! How long processors have worked for a process, as its directory in `/proc` says, and which process that is.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Of all its threads, in nanoseconds; `None`: there is no such process here.
pub(crate) fn processor_ns(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = ticks(&stat)?;
    Some(ticks.saturating_mul(1_000_000_000) / rustix::param::clock_ticks_per_second().max(1))
}

/// The process that listens on a socket, as the system knows it; `None`: it is not to be seen from here.
pub(crate) fn listener_pid(socket: &Path) -> Option<u32> {
    let stream = UnixStream::connect(socket).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
    u32::try_from(peer.pid.as_raw_pid()).ok()
}

/// Fields 14 and 15 of `pid (name) state …`; the name may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11).map(str::parse::<u64>);
    let (user, system) = (fields.next()?.ok()?, fields.next()?.ok()?);
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added_whatever_the_name_is() {
        let stat = "71 (a) b (c) S 1 71 71 0 -1 4194560 5000 0 12 0 250 31 7 8 20 0 4 0 1234 999 55";
        assert_eq!(ticks(stat), Some(281));
        assert_eq!(ticks("71 (a) S 1"), None);
    }

    #[test]
    fn this_process_has_worked() {
        assert!(processor_ns(std::process::id()).is_some());
        assert_eq!(processor_ns(0), None);
    }
}
