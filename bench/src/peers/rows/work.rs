//! Work over and over: lives of leases, bundles, one name that many want, holders that die; and the limits beside them.

use super::{Course, DISK, HELLO, rate, settle, values};
use crate::peers::cost::{processor_time, written_bytes};
use crate::peers::disk::append_and_sync;
use crate::peers::figures::{Figure, Quantity};
use crate::peers::hello::greet;
use crate::peers::kind::Kind;
use crate::peers::latencies::Latencies;
use crate::peers::peer::{Load, Shape, Until, Work};
use crate::peers::plan::{PIPELINED, WEB, named};
use anyhow::{Context, Result, ensure};
use std::time::Duration;

/// Who fights for one name.
const CONTENDERS: usize = 64;
/// Holders that are killed where a death is noticed after seconds.
const SLOW_DEATHS: usize = 5;
/// A death that takes longer to be noticed is a slow one.
const SLOW: Duration = Duration::from_millis(1_500);
/// Part of the time that is not counted, before.
const WARM_UP_PART: u32 = 4;
/// The disk needs no longer to show what it does.
const DISK_TIME_MAX: Duration = Duration::from_secs(3);

impl Course {
    pub(super) fn disk(&mut self, round: usize) -> Result<String> {
        let mut said = Vec::new();
        for bytes in [512, 4_096] {
            let sample = append_and_sync(&self.site.directory, bytes, self.time.min(DISK_TIME_MAX))?;
            for (quantity, value) in values(&sample) {
                let figure = Figure::new(DISK, &format!("append {bytes}"), quantity);
                self.figures.add_around(round, figure, value);
            }
            said.push(format!("append {bytes} {:.0}/s", rate(&sample)));
        }
        Ok(said.join(", "))
    }

    pub(super) fn hello(&mut self, round: usize) -> Result<String> {
        let sample = greet(&self.site, WEB, self.time)?;
        let what = named(Work::Acquire, WEB).replace(Work::Acquire.as_str(), "hello");
        self.add_sample(round, HELLO, &what, &sample);
        Ok(format!("{what} {:.0}/s", rate(&sample)))
    }

    /// One load: what it acquires it renews and gives back.
    pub(super) fn lives(&mut self, kind: Kind, round: usize, shape: Shape) -> Result<String> {
        let time = self.time;
        let peer = self.peer(kind)?;
        let mut load = peer.load(shape)?;
        // Some have a process for each connection.
        let (name, pids) = (peer.name(), peer.pids());
        warm_up(&mut *load, Work::Acquire, Work::Release, time)?;
        let mut said = Vec::new();
        for work in [Work::Acquire, Work::Renew, Work::Release] {
            settle(&pids)?;
            let before = (processor_time(&pids), written_bytes(&pids));
            let sample = load.run(work, Until::Time(time))?;
            let used = processor_time(&pids).saturating_sub(before.0).as_secs_f64();
            let written =
                written_bytes(&pids).zip(before.1).map(|(after, before)| after.saturating_sub(before));
            ensure!(sample.done > 0, "{} was done not once", work.as_str());
            let what = named(work, shape);
            self.add_sample(round, name, &what, &sample);
            let done = sample.done as f64;
            self.add(round, name, &what, &[(Quantity::ProcessorEach, used / done)]);
            if let Some(written) = written {
                self.add(round, name, &what, &[(Quantity::WrittenEach, written as f64 / done)]);
            }
            said.push(format!("{what} {:.0}/s", rate(&sample)));
        }
        // What is left would weigh on the next.
        load.run(Work::Release, Until::Count(u64::MAX))?;
        Ok(said.join(", "))
    }

    pub(super) fn own_tool(&mut self, kind: Kind, round: usize, work: Work, shape: Shape) -> Result<String> {
        let time = self.time;
        let peer = self.peer(kind)?;
        let measured = peer.own_tool(work, shape, time)?.context("it has no tool of its own")?;
        let (name, what) = (format!("{}, {}", peer.name(), measured.tool), named(work, shape));
        let values = [
            (Quantity::Rate, measured.rate),
            (Quantity::P50, measured.p50.as_secs_f64()),
            (Quantity::P99, measured.p99.as_secs_f64()),
        ];
        self.add(round, &name, &what, &values);
        Ok(format!("{} {what} {:.0}/s of {}", measured.tool, measured.rate, measured.requests))
    }

    pub(super) fn bundle(&mut self, kind: Kind, round: usize) -> Result<String> {
        let time = self.time;
        let peer = self.peer(kind)?;
        let mut load = peer.load(PIPELINED)?;
        let (name, pids) = (peer.name(), peer.pids());
        warm_up(&mut *load, Work::AcquireBundle, Work::ReleaseBundle, time)?;
        settle(&pids)?;
        let before = processor_time(&pids);
        let sample = load.run(Work::AcquireBundle, Until::Time(time))?;
        let used = processor_time(&pids).saturating_sub(before).as_secs_f64();
        ensure!(sample.done > 0, "not one bundle was granted");
        load.run(Work::ReleaseBundle, Until::Count(u64::MAX))?;
        let what = named(Work::AcquireBundle, PIPELINED);
        self.add_sample(round, name, &what, &sample);
        self.add(round, name, &what, &[(Quantity::ProcessorEach, used / sample.done as f64)]);
        Ok(format!("{what} {:.0}/s", rate(&sample)))
    }

    pub(super) fn contention(&mut self, kind: Kind, round: usize) -> Result<String> {
        let time = self.time;
        let peer = self.peer(kind)?;
        let name = peer.name();
        let Some(fight) = peer.contend(CONTENDERS, time)? else { return Ok("has no way to wait".to_owned()) };
        let granted = fight.grants as f64 / fight.took.as_secs_f64().max(1e-9);
        let what = format!("contention {CONTENDERS}");
        let values = [
            (Quantity::Rate, granted),
            (Quantity::Luckiest, fight.luckiest),
            (Quantity::Unluckiest, fight.unluckiest),
        ];
        self.add(round, name, &what, &values);
        let (least, most) = (100.0 * fight.unluckiest, 100.0 * fight.luckiest);
        Ok(format!("{what} {granted:.0}/s, shares from {least:.2} % to {most:.2} %"))
    }

    pub(super) fn fail_over(&mut self, kind: Kind, round: usize) -> Result<String> {
        let deaths = self.deaths;
        let peer = self.peer(kind)?;
        let name = peer.name();
        let mut latencies = Latencies::new();
        for death in 0..deaths {
            let Some(took) = peer.fail_over()? else { return Ok("has no way to wait".to_owned()) };
            latencies.add(took);
            if took > SLOW && death + 1 >= SLOW_DEATHS {
                break;
            }
        }
        let values = [
            (Quantity::P50, latencies.p50().as_secs_f64()),
            (Quantity::P99, latencies.p99().as_secs_f64()),
            (Quantity::Count, latencies.count() as f64),
        ];
        self.add(round, name, "fail-over", &values);
        Ok(format!("fail-over p50 {:?}, p99 {:?} of {}", latencies.p50(), latencies.p99(), latencies.count()))
    }
}

/// Memory that was never touched and tables that were never grown are nobody's to be measured by.
fn warm_up(load: &mut dyn Load, acquire: Work, release: Work, time: Duration) -> Result<()> {
    load.run(acquire, Until::Time(time / WARM_UP_PART))?;
    load.run(release, Until::Count(u64::MAX))?;
    Ok(())
}
