//! Several nodes over one remote log: the real engine and the real protocol of `tenure-cluster`, a simulated store, network,
//! and clocks that drift. One seed reproduces everything.
//!
//! Start reading at `world.rs`, then `node.rs`, `following.rs` and `writing.rs`; `checks.rs` says what must hold.

mod calls;
mod changes;
mod checks;
mod clock;
mod connecting;
mod connections;
mod faults;
mod following;
mod growth;
mod healing;
mod holders;
mod mirror;
mod network;
mod node;
mod passing;
mod profile;
pub mod restores;
mod sessions;
mod store;
mod world;
mod writing;

use crate::random::Random;
use crate::violation::Violation;
use crate::world::{Options, Report};
use profile::Profile;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

/// Milliseconds for each of the steps that are asked for.
const MS_PER_STEP: u64 = 10;

/// Runs one seed. A panic within the product is a violation like any other.
#[must_use]
pub fn run(seed: u64, options: Options) -> Report {
    let mut random = Random::new(seed);
    let profile = Profile::draw(&mut random);
    let world = World::new(random, profile, options);
    report(seed, world, |world| {
        world.schedule_faults();
        world.run_until(options.steps * MS_PER_STEP)?;
        world.heal()
    })
}

/// Ten changes of the writer, 30 s apart, by every way there is: every living holder keeps its lease, and what the dead held
/// ends within what the outage allows.
#[must_use]
pub fn run_changes(seed: u64, options: Options) -> Report {
    let mut random = Random::new(seed);
    let mut profile = Profile::draw(&mut random);
    profile.faults = profile::Faults::none();
    profile.holders = 8;
    profile.word_ms = changes::TTL_MS.into();
    profile.grace_ms_max = changes::GRACE_MS.into();
    let world = World::new(random, profile, options);
    report(seed, world, World::ten_changes)
}

fn report(seed: u64, mut world: World, live: impl FnOnce(&mut World) -> Result<(), Violation>) -> Report {
    let violation = match catch_unwind(AssertUnwindSafe(|| live(&mut world))) {
        Ok(Ok(())) => None,
        Ok(Err(violation)) => Some(violation),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(Violation::new("panic", text.unwrap_or_default()))
        }
    };
    Report {
        seed,
        violation,
        refused: false,
        now_ms: world.now,
        steps: world.sequence,
        trace: world.trace,
        tally: world.tally,
    }
}
