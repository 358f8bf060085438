//! The story of a run: a hash of all of it, the last lines for a report, everything when asked.

use core::fmt;
use std::collections::VecDeque;

const LAST_LINES: usize = 40;

/// Lines as they happened.
#[derive(Clone, Debug)]
pub struct Trace {
    hash: u64,
    last: VecDeque<String>,
    all: Option<Vec<String>>,
}

impl Trace {
    /// `whole`: keep every line, not only the last ones.
    #[must_use]
    pub(crate) fn new(whole: bool) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, last: VecDeque::new(), all: whole.then(Vec::new) }
    }

    pub(crate) fn line(&mut self, now_ms: u64, line: fmt::Arguments<'_>) {
        let line = format!("{:>9}.{:03} {line}", now_ms / 1000, now_ms % 1000);
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(all) = &mut self.all {
            all.push(line.clone());
        }
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// A line that only the whole story has.
    pub(crate) fn detail(&mut self, now_ms: u64, line: fmt::Arguments<'_>) {
        if let Some(all) = &mut self.all {
            all.push(format!("{:>9}.{:03}     . {line}", now_ms / 1000, now_ms % 1000));
        }
    }

    /// Of every line so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The last lines, or all if they were kept.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        match &self.all {
            Some(all) => all.clone(),
            None => self.last.iter().cloned().collect(),
        }
    }
}
