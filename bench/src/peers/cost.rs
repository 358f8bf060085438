//! What processes cost, as their directories in `/proc` say.

use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

/// How long processors have worked for all of them, in user and system mode. A process that has ended counts nothing.
pub(crate) fn processor_time(pids: &[u32]) -> Duration {
    let ticks: u64 = pids
        .iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok())
        .filter_map(|stat| ticks(&stat))
        .sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64)
}

/// Memory that all of them have in use, what they share counted once for each.
pub(crate) fn resident_bytes(pids: &[u32]) -> Result<u64> {
    pids.iter().map(|pid| resident(&fs::read_to_string(format!("/proc/{pid}/status"))?)).sum()
}

/// Bytes that all of them gave to disks, as far as that can be seen.
pub(crate) fn written_bytes(pids: &[u32]) -> Option<u64> {
    let written = |pid: &u32| {
        let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
        io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse::<u64>().ok()
    };
    pids.iter().map(written).sum()
}

/// Fields 14 and 15 of `pid (name) state …`; the name may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11).map(str::parse::<u64>);
    let (user, system) = (fields.next()?.ok()?, fields.next()?.ok()?);
    user.checked_add(system)
}

fn resident(status: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1_024)
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
    fn this_process_has_memory() {
        assert!(resident_bytes(&[std::process::id()]).unwrap() > 1 << 16);
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\n").unwrap(), 2 << 20);
        assert!(resident("Name:\tx\n").is_err());
    }
}
