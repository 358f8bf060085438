//! `tenure-sim [SEED] [--cluster | --restores] [--seeds N] [--start S] [--plant NAME] [--list-plants] [--steps N] [--trace]`
//!
//! Exit 0: nothing found. Exit 1: a violation, with the seed, the story and the command that replays it.
#![expect(clippy::print_stdout, reason = "stdout is what this program is for")]

use std::process::ExitCode;
use tenure_sim::{Found, Options, Plant, Search, run_planted};

const HELP: &str = "\
usage: tenure-sim [SEED] [--cluster | --restores] [--seeds N] [--start S] [--plant NAME] [--list-plants] [--steps N] [--trace]

  SEED           run this one
  --cluster      several nodes over a remote log, instead of one machine
  --restores     nodes over a store that is put back to backups
  --seeds N      run N of them, on two threads
  --start S      beginning with this one (0)
  --plant NAME   with a known bug in the product
  --list-plants  name them
  --steps N      happenings before the healing phase (4000)
  --trace        print the whole story";

#[derive(Default)]
struct Arguments {
    seed: Option<u64>,
    seeds: Option<u64>,
    start: u64,
    plant: Option<Plant>,
    list_plants: bool,
    options: Options,
    help: bool,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            println!("{error}\n{HELP}");
            return ExitCode::from(2);
        }
    };
    if arguments.help {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    if arguments.list_plants {
        Plant::all().iter().for_each(|plant| println!("{}", plant.name()));
        return ExitCode::SUCCESS;
    }
    match arguments.seeds {
        Some(seeds) => many(&arguments, seeds),
        None => one(&arguments, arguments.seed.unwrap_or(arguments.start)),
    }
}

fn one(arguments: &Arguments, seed: u64) -> ExitCode {
    match run_planted(seed, arguments.options, arguments.plant) {
        Ok(report) => {
            if arguments.options.trace {
                report.trace.lines().iter().for_each(|line| println!("{line}"));
            }
            let end = if report.refused { "refused damaged bytes, legally" } else { "nothing found" };
            println!(
                "seed {seed}: {end}; {} steps, {} s simulated, {:?}, trace {:016x}",
                report.steps,
                report.now_ms / 1000,
                report.tally,
                report.trace.hash()
            );
            ExitCode::SUCCESS
        }
        Err(found) => tell(arguments, &found),
    }
}

fn many(arguments: &Arguments, seeds: u64) -> ExitCode {
    // A planted bug may panic in many seeds; what was found is printed once, below.
    std::panic::set_hook(Box::new(|_| {}));
    let start = arguments.seed.unwrap_or(arguments.start);
    let search = Search { start, seeds, threads: 2, plant: arguments.plant, options: arguments.options };
    let (found, tally) = search.run();
    match found {
        Some(found) => tell(arguments, &found),
        None => {
            println!("{seeds} seeds from {start}: nothing found; {tally:?}");
            ExitCode::SUCCESS
        }
    }
}

fn tell(arguments: &Arguments, found: &Found) -> ExitCode {
    found.report.trace.lines().iter().for_each(|line| println!("{line}"));
    let planted = arguments.plant.map_or(String::new(), |plant| format!(" --plant {}", plant.name()));
    let steps = arguments.options.steps;
    println!("found by seed {}: {}: {}", found.seed, found.violation.invariant, found.violation.text);
    println!("at {} ms of simulated time", found.report.now_ms);
    let cluster = match arguments.options {
        Options { restores: true, .. } => " --restores",
        Options { cluster: true, .. } => " --cluster",
        Options { .. } => "",
    };
    println!("replay: cargo xtask sim {}{cluster} --steps {steps} --trace{planted}", found.seed);
    ExitCode::FAILURE
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        let mut number = |name: &str| {
            let value = words.next().ok_or_else(|| format!("{name} needs a number"))?;
            value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"))
        };
        match word.as_str() {
            "--seeds" => arguments.seeds = Some(number("--seeds")?),
            "--start" => arguments.start = number("--start")?,
            "--steps" => arguments.options.steps = number("--steps")?,
            "--cluster" => arguments.options.cluster = true,
            "--restores" => arguments.options.restores = true,
            "--trace" => arguments.options.trace = true,
            "--list-plants" => arguments.list_plants = true,
            "--help" | "-h" => arguments.help = true,
            "--plant" => {
                let name = words.next().ok_or("--plant needs a name")?;
                let plant = Plant::named(&name).ok_or_else(|| format!("no plant is named {name}"))?;
                arguments.options.cluster |= plant.needs_cluster();
                arguments.options.restores |= plant.needs_restores();
                arguments.plant = Some(plant);
            }
            seed => arguments.seed = Some(seed.parse().map_err(|_| format!("{seed} is no seed"))?),
        }
    }
    Ok(arguments)
}
