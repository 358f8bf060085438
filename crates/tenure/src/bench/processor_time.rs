//! How long processors have worked for a process, as its directory in `/proc` says.

use std::fs;

/// Of all its threads, in nanoseconds; `None`: there is no such process here.
pub(crate) fn processor_ns(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = ticks(&stat)?;
    Some(ticks.saturating_mul(1_000_000_000) / rustix::param::clock_ticks_per_second().max(1))
}

/// Whether a process of this machine has this number and runs a daemon of ours.
pub(crate) fn is_daemon_here(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == "tenure")
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
