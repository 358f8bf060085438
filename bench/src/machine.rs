//! What the numbers were taken on: the machine, the versions, and how much of it others used meanwhile.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Time of the processors until now, in ticks of the system.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    all: u64,
    busy: u64,
    /// Taken by the machine below this one.
    stolen: u64,
    /// By this process and by its children that have ended.
    own: u64,
}

impl Usage {
    pub(crate) fn now() -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let first = stat.lines().next().context("no processors")?;
        let ticks: Vec<u64> = first.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in the first two.
        let [user, nice, system, idle, iowait, irq, softirq, stolen] =
            *ticks.first_chunk::<8>().context("too few numbers")?;
        let busy = user + nice + system + irq + softirq;
        let own = fs::read_to_string("/proc/self/stat")?;
        // The name in brackets may hold spaces; the state follows it, and 11 fields on the first of the four times.
        let (_, fields) = own.rsplit_once(") ").context("no state")?;
        let own =
            fields.split_whitespace().skip(11).take(4).filter_map(|word| word.parse::<u64>().ok()).sum();
        Ok(Self { all: busy + idle + iowait + stolen, busy, stolen, own })
    }

    /// Parts of all processors since then: others, ourselves, stolen. Only children that have ended are ours.
    pub(crate) fn since(self, before: Self) -> String {
        let all = (self.all - before.all).max(1) as f64;
        let own = self.own.saturating_sub(before.own);
        let others = (self.busy - before.busy).saturating_sub(own);
        let percent = |ticks: u64| 100.0 * ticks as f64 / all;
        format!(
            "pollers, store and witness used {:.0} % of the processors, others {:.0} %, {:.0} % was stolen",
            percent(own),
            percent(others),
            percent(self.stolen - before.stolen)
        )
    }
}

/// One line about the machine.
pub(crate) fn described() -> Result<String> {
    let cpus = fs::read_to_string("/proc/cpuinfo")?;
    let of = |line: &str| line.split_once(':').map(|(_, value)| value.trim().to_owned());
    let model = cpus.lines().find(|line| line.starts_with("model name")).and_then(of).unwrap_or_default();
    let cores = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let memory = fs::read_to_string("/proc/meminfo")?;
    let kib = memory.lines().find(|line| line.starts_with("MemTotal")).and_then(of).unwrap_or_default();
    let kib: f64 = kib.trim_end_matches(" kB").parse().unwrap_or(0.0);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    // The part after the dash names a build.
    let release = release.trim().split('-').next().unwrap_or_default().to_owned();
    Ok(format!("{cores} cores ({model}), {:.0} GiB, Linux {release}", kib / 1_048_576.0))
}

/// The first line that a program says about its version.
pub(crate) fn version(program: &Path) -> Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("{} does not run", program.display()))?;
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().next().unwrap_or_default();
    // Redis goes on with how it was built.
    Ok(line.split(" sha=").next().unwrap_or_default().replace(" v=", " "))
}

/// Over one, five and fifteen minutes.
pub(crate) fn load() -> Result<String> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split_whitespace().take(3).collect::<Vec<_>>().join(", "))
}
