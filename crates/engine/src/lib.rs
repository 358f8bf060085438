//! Kernel, liveness and log as one machine.
//!
//! [`Engine::turn`] is a function of its inputs: what arrived, what completed, what time it is. What may
//! leave comes out, never before what it rests on is durable. [`Driver`] adds the care of the log, [`host`] alone
//! threads, channels and the clock; the simulator adds its own.

// What the engine is asked and what it says are in the words of its rules and of its log.
pub use tenure_kernel as kernel;
pub use tenure_liveness as liveness;
pub use tenure_log::Space;

mod answer;
mod commands;
mod connections;
mod control;
mod deadlines;
mod driver;
mod endings;
mod engine;
mod following;
mod gates;
mod hands;
pub mod host;
mod hub;
mod journal;
mod lanes;
mod mode;
mod quota;
mod reads;
mod recovery;
mod report;
mod request;
mod retries;
mod snapshot;
mod status;
mod ticker;
mod turn;
mod upkeep;
mod waiters;
mod waiting;

pub use answer::{
    Answer, Blocker, CallLimit, Checked, LeaseAnswer, LeaseFound, LeaseRead, LeaseSnapshot, News,
    PoolSnapshot, Published, Push, Refused, SessionSnapshot, WaitLimit, WaiterSnapshot,
};
pub use driver::{Driver, Job, Turned};
pub use engine::{Appended, Completion, Engine, EngineConfig, Outputs, Role, Stop};
pub use hands::speaks_for;
pub use host::{Account, Accounts, Asker, Handle, HandleOf, Pending};
pub use hub::{LogRead, LogReadDone, publish};
pub use journal::{Ending, Followed, Out};
pub use quota::Counts;
pub use recovery::{GoingOn, RecoverError, apply_frame, load_state, rebuild, record_parts, setup};
pub use report::{Report, Stall, Task};
pub use request::{
    Check, Control, Input, Keeper, Lane, List, OperationId, Request, Share, Submit, TakeOver, Ticket,
};
pub use snapshot::{SnapshotError, build_snapshot};
pub use status::{Counters, GrantOutcome, Histogram, Status};
pub use ticker::{Now, STALL_MS};
pub use turn::{TURN_EVENTS_MAX, TURN_WORK_MAX};
pub use upkeep::{Found, UpkeepOptions};
