//! The witness: hears of every poll of a group, and knows who polls what. Times are those of the pollers, on the clock
//! that the whole machine shares, so that it does not matter when word arrives here.

use super::record::{Introduction, Kind, Record};
use anyhow::{Result, bail};
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use tempfile::TempDir;
use tenure_client::clock::BootInstant;
use tokio::task::JoinHandle;

/// Number of a poller, in order of its first word.
pub(super) type PollerNumber = usize;

/// One word of one poller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Heard {
    pub(super) poller: PollerNumber,
    pub(super) record: Record,
}

/// The poll of a target with the highest fence, the latest of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latest {
    pub(super) poller: PollerNumber,
    pub(super) fence: u64,
    /// When it began.
    pub(super) at: BootInstant,
}

/// Everything that was heard.
pub(super) struct Ledger {
    pub(super) pollers: Vec<Introduction>,
    /// Until when each poller might act at most, by its own word.
    pub(super) promised: Vec<BootInstant>,
    pub(super) heard: Vec<Heard>,
    /// By number of the target.
    pub(super) latest: Vec<Option<Latest>>,
    /// When a target was last polled by another than before.
    pub(super) moved: BootInstant,
    fault: Option<String>,
}

pub(super) struct Witness {
    ledger: Arc<Mutex<Ledger>>,
    listening: JoinHandle<()>,
    directory: TempDir,
}

impl Witness {
    pub(super) fn new(targets: usize) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("tenure-bench-").tempdir()?;
        let listener = tokio::net::UnixListener::bind(socket_in(directory.path()))?;
        let ledger = Arc::new(Mutex::new(Ledger::new(targets)));
        let shared = ledger.clone();
        let listening = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let ledger = shared.clone();
                let Ok(connection) = connection.into_std() else { continue };
                thread::spawn(move || {
                    if let Err(error) = hear(connection, &ledger) {
                        lock(&ledger).fault = Some(format!("{error:#}"));
                    }
                });
            }
        });
        Ok(Self { ledger, listening, directory })
    }

    pub(super) fn socket(&self) -> PathBuf {
        socket_in(self.directory.path())
    }

    /// What was heard until now.
    pub(super) fn ledger(&self) -> Result<MutexGuard<'_, Ledger>> {
        let mut ledger = lock(&self.ledger);
        match ledger.fault.take() {
            Some(fault) => bail!("the witness did not understand: {fault}"),
            None => Ok(ledger),
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Ledger {
    fn new(targets: usize) -> Self {
        Self {
            pollers: Vec::new(),
            promised: Vec::new(),
            heard: Vec::new(),
            latest: vec![None; targets],
            moved: BootInstant::from_ms(0),
            fault: None,
        }
    }

    fn introduce(&mut self, introduction: Introduction) -> PollerNumber {
        self.pollers.push(introduction);
        self.promised.push(BootInstant::from_ms(0));
        self.pollers.len() - 1
    }

    fn hear(&mut self, poller: PollerNumber, record: Record) {
        self.heard.push(Heard { poller, record });
        self.promised[poller] = self.promised[poller].max(record.valid_until);
        let Some(latest) = self.latest.get_mut(record.target as usize) else { return };
        let Record { kind: Kind::Begin, fence, at, .. } = record else { return };
        let is_newer = latest.is_none_or(|latest| (fence, at) > (latest.fence, latest.at));
        if !is_newer {
            return;
        }
        if latest.is_none_or(|latest| latest.poller != poller) {
            self.moved = self.moved.max(at);
        }
        *latest = Some(Latest { poller, fence, at });
    }

    /// Targets that a poller polled last.
    pub(super) fn held_by(&self, poller: PollerNumber) -> Vec<u32> {
        let is_held = |latest: &Option<Latest>| latest.is_some_and(|latest| latest.poller == poller);
        let numbers = self.latest.iter().zip(0..);
        numbers.filter(|(latest, _)| is_held(latest)).map(|(_, target)| target).collect()
    }

    /// For each of these targets, when the first poll after `since` that counts began.
    pub(super) fn first_begins(
        &self,
        targets: &[u32],
        since: BootInstant,
        counts: impl Fn(PollerNumber) -> bool,
    ) -> Vec<Option<BootInstant>> {
        let mut first: Vec<Option<BootInstant>> = vec![None; self.latest.len()];
        for Heard { poller, record } in &self.heard {
            if record.kind == Kind::Begin && record.at >= since && counts(*poller) {
                let first = &mut first[record.target as usize];
                *first = Some(first.map_or(record.at, |first| first.min(record.at)));
            }
        }
        targets.iter().map(|target| first[*target as usize]).collect()
    }

    /// For each of these targets, when the last poll by this poller ended; at boot, if there was none.
    pub(super) fn last_ends(&self, targets: &[u32], poller: PollerNumber) -> Vec<BootInstant> {
        let mut last = vec![BootInstant::from_ms(0); self.latest.len()];
        for heard in self.heard.iter().filter(|heard| heard.poller == poller) {
            if heard.record.kind == Kind::End {
                let last = &mut last[heard.record.target as usize];
                *last = heard.record.at.max(*last);
            }
        }
        targets.iter().map(|target| last[*target as usize]).collect()
    }

    /// When targets went to another poller since then, in order of time.
    pub(super) fn moves_since(&self, since: BootInstant) -> Vec<BootInstant> {
        let mut begins: Vec<&Heard> =
            self.heard.iter().filter(|heard| heard.record.kind == Kind::Begin).collect();
        begins.sort_by_key(|heard| heard.record.at);
        let mut holder: Vec<Option<Latest>> = vec![None; self.latest.len()];
        let mut moves = Vec::new();
        for Heard { poller, record } in begins {
            let holder = &mut holder[record.target as usize];
            if holder.is_some_and(|holder| record.fence < holder.fence) {
                continue;
            }
            if record.at >= since && holder.is_some_and(|holder| holder.poller != *poller) {
                moves.push(record.at);
            }
            *holder = Some(Latest { poller: *poller, fence: record.fence, at: record.at });
        }
        moves
    }
}

fn hear(connection: UnixStream, ledger: &Arc<Mutex<Ledger>>) -> Result<()> {
    connection.set_nonblocking(false)?;
    let mut words = BufReader::with_capacity(1 << 16, connection);
    let introduction = Introduction::read(&mut words)?;
    let poller = lock(ledger).introduce(introduction);
    // A poller that is killed may leave its connection in the middle of a word.
    while let Ok(Some(record)) = Record::read(&mut words) {
        lock(ledger).hear(poller, record);
    }
    Ok(())
}

fn socket_in(directory: &Path) -> PathBuf {
    directory.join("witness.sock")
}

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(begins: &[(PollerNumber, u32, u64, u64)]) -> Ledger {
        let mut ledger = Ledger::new(3);
        for instance in ["a", "b"] {
            let began = BootInstant::from_ms(0);
            ledger.introduce(Introduction { pid: 1, began, instance: instance.to_owned() });
        }
        for &(poller, target, fence, ms) in begins {
            let at = BootInstant::from_ms(ms);
            let valid_until = BootInstant::from_ms(ms + 100);
            ledger.hear(poller, Record { kind: Kind::Begin, target, fence, at, valid_until });
        }
        ledger
    }

    #[test]
    fn the_highest_fence_says_who_polls_a_target() {
        let ledger = ledger(&[(0, 0, 1, 10), (1, 0, 2, 20), (0, 0, 1, 30), (0, 1, 1, 12)]);
        assert_eq!((ledger.held_by(0), ledger.held_by(1)), (vec![1], vec![0]));
        assert_eq!(ledger.moved, BootInstant::from_ms(20));
        assert_eq!(ledger.promised[1], BootInstant::from_ms(120));
    }

    #[test]
    fn a_move_is_a_poll_by_another_whatever_order_word_arrives_in() {
        let ledger = ledger(&[(1, 0, 2, 20), (0, 0, 1, 10), (0, 0, 3, 30), (1, 1, 1, 5), (1, 1, 1, 25)]);
        let moves = ledger.moves_since(BootInstant::from_ms(15));
        assert_eq!(moves, [BootInstant::from_ms(20), BootInstant::from_ms(30)]);
    }

    #[test]
    fn the_first_poll_by_another_is_found() {
        let ledger = ledger(&[(0, 0, 1, 10), (0, 0, 1, 12), (1, 0, 2, 40), (1, 0, 2, 50)]);
        let first = ledger.first_begins(&[0, 1], BootInstant::from_ms(11), |poller| poller != 0);
        assert_eq!(first, [Some(BootInstant::from_ms(40)), None]);
    }
}
