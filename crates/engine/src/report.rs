//! What operators should know of the engine's surroundings: the disk, work beside the hot path, notifications that reached
//! nobody. The engine writes no log of its own; a change of these leaves it as data.

use crate::engine::Engine;
use crate::journal::Out;
use tenure_kernel::LeaseId;
use tenure_log::Space;

/// Work that keeps the log in order, away from the hot path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// A snapshot is taken.
    Snapshot,
    /// A segment is made ahead.
    Spare,
    /// Trimmed segments are deleted or moved to the archive.
    Trim,
}

/// How holders came to wait for the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stall {
    /// No turn ran.
    Gap,
    /// One turn took long.
    Turn,
    /// Requests waited for their turn.
    Queue,
}

/// Something changed that an operator should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// The disk is nearly full: grants are refused.
    DiskLow,
    /// The disk has room again.
    DiskOk,
    /// Most holders fell silent together: the daemon suspects itself and postpones ends.
    BreakerOpened {
        /// Distinct holders that fell silent.
        silent: u32,
        /// Holders alive before.
        alive: u32,
    },
    /// Ends go on.
    BreakerClosed,
    /// Work failed, for the first time or for another reason than before. It is tried again.
    TaskFailed {
        /// Which.
        task: Task,
        /// Why.
        error: String,
    },
    /// Work that had failed was done.
    TaskRecovered {
        /// Which.
        task: Task,
    },
    /// The daemon gave a notification up after it could not be delivered for the whole time it is kept.
    NoticeGivenUp {
        /// The lease whose end it told of.
        lease: LeaseId,
    },
    /// Holders could have waited for longer than [`crate::STALL_MS`].
    Stalled {
        /// Why.
        stall: Stall,
        /// For how long.
        ms: u64,
    },
}

impl Stall {
    /// Its name in logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gap => "no turn",
            Self::Turn => "long turn",
            Self::Queue => "long queue",
        }
    }
}

impl Task {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Snapshot, Self::Spare, Self::Trim];

    /// Its name in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Spare => "spare_segment",
            Self::Trim => "trim",
        }
    }
}

impl Engine {
    pub(crate) fn stalled(&mut self, stall: Stall, ms: u64) {
        self.counters.stalls += 1;
        self.leaving.push(Out::Report(Report::Stalled { stall, ms }));
    }

    pub(crate) fn space_is(&mut self, space: Space) {
        if self.grants.space == space {
            return;
        }
        self.grants.space = space;
        let report = match space {
            Space::Ok => Report::DiskOk,
            Space::Low => Report::DiskLow,
        };
        self.leaving.push(Out::Report(report));
    }

    /// A task came to its end, with an error or without.
    pub(crate) fn worked(&mut self, task: Task, error: Option<String>) {
        let before = core::mem::replace(&mut self.failing[task as usize], error.clone());
        let report = match error {
            Some(error) => {
                self.counters.task_failures[task as usize] += 1;
                (before.as_ref() != Some(&error)).then_some(Report::TaskFailed { task, error })
            }
            None => before.map(|_| Report::TaskRecovered { task }),
        };
        self.leaving.extend(report.map(Out::Report));
    }

    /// Tasks whose last try failed, and why.
    pub(crate) fn failing_tasks(&self) -> Vec<(Task, String)> {
        let failing = |task: Task| Some((task, self.failing[task as usize].clone()?));
        Task::ALL.into_iter().filter_map(failing).collect()
    }
}
