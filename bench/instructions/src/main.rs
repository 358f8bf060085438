//! The hot paths, each by itself, the same in every run: no clock, no thread, no randomness. `cargo xtask
//! instructions` runs one path per process under callgrind, which counts what happens within [`counted`] alone.
//! Without an argument the paths are listed, each with how many operations are counted.

#![expect(clippy::print_stdout, reason = "the list is the data this program makes")]

mod engine;
mod frame;
mod heartbeat;
mod kernel;
mod line;

use anyhow::Context;

/// One hot path.
struct HotPath {
    name: &'static str,
    /// Operations per round.
    operations: usize,
    /// Makes everything that is not counted and returns the round. It can be run [`ROUNDS`] times.
    prepare: fn() -> anyhow::Result<Round>,
}

type Round = Box<dyn FnMut()>;

/// One to warm up, so that what is done once in a process does not count; one to count.
const ROUNDS: usize = 2;

const PATHS: &[HotPath] = &[
    line::PARSE_ACQUIRE,
    line::PARSE_HEARTBEAT,
    line::WRITE_ACQUIRED,
    line::WRITE_RENEWED,
    kernel::GRANT_AND_RELEASE,
    engine::ACQUIRES,
    engine::HEARTBEATS,
    frame::APPEND,
    heartbeat::QUICK,
];

fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1) {
        None => PATHS.iter().for_each(|path| println!("{}\t{}", path.operations, path.name)),
        Some(name) => {
            let path = PATHS.iter().find(|path| path.name == name).context("there is no such path")?;
            let mut round = (path.prepare)()?;
            for _ in 1..ROUNDS {
                round();
            }
            counted(&mut round);
        }
    }
    Ok(())
}

/// Callgrind knows it by its name, so that it must stay a function.
#[inline(never)]
fn counted(round: &mut Round) {
    round();
}

/// A name of 16 bytes.
fn resource(number: usize) -> String {
    format!("resource{number:08}")
}

/// Numbers from 0 to below `bound` that are the same in every run and in no order.
fn scattered(bound: usize) -> impl Iterator<Item = usize> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    })
}
