//! The pollers of one group as processes: started, stopped, killed, frozen, and waited for until everything is shared.

use super::Setting;
use super::judge::{Fates, Verdict, judge};
use super::server::StoreServer;
use super::witness::{Latest, Ledger, PollerNumber, Witness};
use crate::process::{Process, wait_until};
use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use std::process::{Command, Stdio};
use std::time::Duration;
use tenure_client::clock::BootInstant;
use tenure_polling::assignment::{Share, shares};

/// How long a poller may take until it has introduced itself.
const INTRODUCED_WITHIN: Duration = Duration::from_secs(20);
/// How long a poller may take to end in order.
pub(super) const END_WITHIN: Duration = Duration::from_secs(60);
/// Nothing moved for this long: it is over.
const QUIET: Duration = Duration::from_secs(2);
/// How long sharing may take.
pub(super) const SETTLE_WITHIN: Duration = Duration::from_secs(90);

pub(super) struct Group<'a> {
    setting: &'a Setting,
    server: &'a StoreServer,
    name: String,
    witness: Witness,
    members: Vec<Member>,
    fates: Fates,
    settlings: Settlings,
}

/// How often everything was waited for to be shared, and how often it came about.
#[derive(Clone, Copy, Default)]
pub(super) struct Settlings {
    pub(super) awaited: usize,
    pub(super) reached: usize,
}

/// A poller that lives.
pub(super) struct Member {
    process: Process,
    pub(super) number: PollerNumber,
    /// When its process was started.
    pub(super) started: BootInstant,
}

impl<'a> Group<'a> {
    pub(super) fn new(setting: &'a Setting, server: &'a StoreServer, name: &str) -> Result<Self> {
        Ok(Self {
            setting,
            server,
            name: name.to_owned(),
            witness: Witness::new(setting.targets)?,
            members: Vec::new(),
            fates: Fates::default(),
            settlings: Settlings::default(),
        })
    }

    pub(super) fn setting(&self) -> &'a Setting {
        self.setting
    }

    pub(super) fn server(&self) -> &'a StoreServer {
        self.server
    }

    pub(super) fn witness(&self) -> &Witness {
        &self.witness
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Starts so many at once, and waits until each has said who it is.
    pub(super) async fn start(&mut self, count: usize) -> Result<()> {
        let mut processes = Vec::new();
        for _ in 0..count {
            let started = BootInstant::now();
            processes.push((self.spawn()?, started));
        }
        for (process, started) in processes {
            let is_there = || Ok(number_of(&*self.witness.ledger()?, process.id()).is_some());
            let is_introduced = wait_until(INTRODUCED_WITHIN, is_there).await?;
            ensure!(is_introduced, "a poller did not introduce itself");
            let number = number_of(&*self.witness.ledger()?, process.id()).context("nobody")?;
            self.members.push(Member { process, number, started });
        }
        Ok(())
    }

    fn spawn(&self) -> Result<Process> {
        let Setting { targets, ttl, every, poll, concurrency, logs, .. } = self.setting;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["poller", "--store", &self.server.kind().to_string(), "--group", &self.name])
            .args(["--targets", &targets.to_string(), "--concurrency", &concurrency.to_string()])
            .args(["--ttl-ms", &ttl.as_millis().to_string(), "--every-ms", &every.as_millis().to_string()])
            .args(["--poll-ms", &poll.as_millis().to_string(), "--at"])
            .arg(self.server.socket())
            .arg("--witness")
            .arg(self.witness.socket())
            .stdout(Stdio::null());
        if let Some(logs) = logs {
            let name =
                format!("{}-{targets}-{}-{}.log", self.server.kind(), self.name, BootInstant::now().as_ns());
            command.arg("--log").arg(logs.join(name));
        }
        Process::start(&mut command)
    }

    /// Kills one, and says when.
    pub(super) fn kill(&mut self, place: usize) -> Result<(PollerNumber, BootInstant)> {
        let mut member = self.members.remove(place);
        let at = BootInstant::now();
        member.process.kill()?;
        self.fates.deaths.insert(member.number, BootInstant::now());
        Ok((member.number, at))
    }

    /// Tells one to stop, and says when. It ends by itself.
    pub(super) fn stop(&mut self, place: usize) -> Result<(Member, BootInstant)> {
        let member = self.members.remove(place);
        let at = BootInstant::now();
        member.process.signal(Signal::TERM)?;
        Ok((member, at))
    }

    pub(super) fn freeze(&mut self, place: usize) -> Result<BootInstant> {
        self.members[place].process.signal(Signal::STOP)?;
        Ok(BootInstant::now())
    }

    pub(super) fn thaw(&mut self, place: usize, frozen: BootInstant) -> Result<BootInstant> {
        let at = BootInstant::now();
        self.fates.frozen.push((self.members[place].number, frozen, at));
        self.members[place].process.signal(Signal::CONT)?;
        Ok(at)
    }

    /// Waits until every target is polled by one who lives, in its time, nobody has too many or too few, and nothing
    /// has moved for a while. Whether that came about.
    pub(super) async fn settle(&mut self) -> Result<bool> {
        self.ensure_all_live()?;
        let began = BootInstant::now();
        let is_settled = || Ok(self.is_settled(&*self.witness.ledger()?, began));
        let is_settled = wait_until(SETTLE_WITHIN, is_settled).await?;
        self.ensure_all_live()?;
        self.settlings.awaited += 1;
        self.settlings.reached += usize::from(is_settled);
        Ok(is_settled)
    }

    pub(super) fn settlings(&self) -> Settlings {
        self.settlings
    }

    /// Targets that nobody who lives polled last.
    pub(super) fn left_alone(&self) -> Result<usize> {
        let ledger = self.witness.ledger()?;
        let is_left = |latest: &&Option<Latest>| !latest.is_some_and(|latest| self.lives(latest.poller));
        Ok(ledger.latest.iter().filter(is_left).count())
    }

    fn lives(&self, number: PollerNumber) -> bool {
        self.members.iter().any(|member| member.number == number)
    }

    fn is_settled(&self, ledger: &Ledger, began: BootInstant) -> bool {
        let now = BootInstant::now();
        if now.since(ledger.moved.max(began)) < QUIET {
            return false;
        }
        let overdue = self.setting.every.mul_f64(1.1) + self.setting.poll + QUIET;
        let is_polled = |target: &Option<Latest>| {
            target.is_some_and(|latest| self.lives(latest.poller) && now.since(latest.at) < overdue)
        };
        ledger.latest.iter().all(is_polled)
            && self
                .held(ledger)
                .iter()
                .zip(self.shares())
                .all(|(held, share)| (share.underloaded_below..=share.cap).contains(held))
    }

    /// How many targets each member polled last.
    pub(super) fn held(&self, ledger: &Ledger) -> Vec<usize> {
        self.members.iter().map(|member| ledger.held_by(member.number).len()).collect()
    }

    pub(super) fn shares(&self) -> Vec<Share> {
        shares(vec![1; self.members.len()], self.setting.targets)
    }

    pub(super) fn verdict(&self) -> Result<Verdict> {
        Ok(judge(&self.witness.ledger()?.heard, &self.fates))
    }

    /// Stops everybody, one after the other.
    pub(super) async fn end(&mut self) -> Result<()> {
        while !self.members.is_empty() {
            let (mut member, _) = self.stop(0)?;
            member.end().await?;
        }
        Ok(())
    }

    fn ensure_all_live(&mut self) -> Result<()> {
        for member in &mut self.members {
            let ended = member.process.ended()?;
            ensure!(ended.is_none(), "a poller ended by itself: {ended:?}");
        }
        Ok(())
    }
}

impl Member {
    /// Waits until it has ended in order.
    pub(super) async fn end(&mut self) -> Result<()> {
        self.process.end(END_WITHIN).await
    }
}

fn number_of(ledger: &Ledger, pid: u32) -> Option<PollerNumber> {
    ledger.pollers.iter().rposition(|introduction| introduction.pid == pid)
}
