//! `cargo xtask fuzz`: mutates known good bytes and gives them to every decoder. Nothing may panic, allocate
//! without bound, or read back differently from what it wrote. One number reproduces a finding.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this program is its report")]

mod corpus;
mod live;
mod mutate;
mod shelf;
mod targets;
mod words;

use clap::{Parser, Subcommand};
use mutate::Mutator;
use std::cell::RefCell;
use targets::Target;

/// Gives damaged bytes to every decoder
#[derive(Parser)]
#[command(name = "tenure-fuzz")]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Try so many inputs per target
    Run {
        /// Inputs per target
        #[arg(long, default_value_t = 20_000)]
        iterations: u64,
        /// One target instead of all
        #[arg(long)]
        target: Option<String>,
        /// Begin here; with --iterations 1 this replays a finding
        #[arg(long, default_value_t = 0)]
        start: u64,
    },
    /// Name the targets
    List,
}

thread_local! {
    /// What is being tried, for the panic hook.
    static TRYING: RefCell<Option<(&'static str, u64, Vec<u8>)>> = const { RefCell::new(None) };
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().action {
        Action::List => Target::ALL.iter().for_each(|target| println!("{}", target.name())),
        Action::Run { iterations, target, start } => {
            report_findings();
            let chosen: Vec<Target> = Target::ALL
                .into_iter()
                .filter(|known| target.as_deref().is_none_or(|name| name == known.name()))
                .collect();
            anyhow::ensure!(!chosen.is_empty(), "no such target; hint: `tenure-fuzz list` names them");
            for target in chosen {
                run(target, start, iterations)?;
            }
        }
    }
    Ok(())
}

fn run(target: Target, start: u64, iterations: u64) -> anyhow::Result<()> {
    let seeds = corpus::of(target)?;
    let mut state = targets::State::new()?;
    // Damage to what nobody reads finds nothing.
    let is_read = seeds.iter().any(|seed| target.try_input(&mut state, seed));
    anyhow::ensure!(is_read, "{}: no undamaged input is accepted", target.name());
    let mut accepted = 0_u64;
    let iterations = iterations.div_ceil(target.cost());
    for iteration in start..start + iterations {
        let mut mutator = Mutator::new(iteration);
        let input = match target {
            // What cannot be read is not carried out.
            Target::Call if iteration % 4 > 0 => mutator.numbers(&seeds),
            _ if target.is_text() => mutator.text(&seeds, words::PIECES),
            _ => mutator.input(&seeds),
        };
        TRYING.set(Some((target.name(), iteration, input.clone())));
        accepted += u64::from(target.try_input(&mut state, &input));
    }
    TRYING.set(None);
    println!(
        "{:<10} {iterations} inputs from {} seeds, {accepted} accepted, none harmful",
        target.name(),
        seeds.len()
    );
    Ok(())
}

/// A panic is a finding: say which input it was before the process ends.
fn report_findings() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default(panic);
        TRYING.with_borrow(|trying| match trying {
            Some((target, iteration, input)) => {
                eprintln!("found by {target} at iteration {iteration}: {} bytes {input:02x?}", input.len());
                eprintln!("replay: tenure-fuzz run --target {target} --start {iteration} --iterations 1");
            }
            // A thread of the product: the daemon stops then, and so does this.
            None => std::process::abort(),
        });
    }));
}
