//! `cargo xtask bench`: the benchmarks, optimised. Their options are defined once, there.

use anyhow::Result;

use crate::{needs, shell};

/// Measure, side by side in one run.
///
/// `cargo xtask bench core --quick` measures kernel, log and engine briefly.
/// `cargo xtask bench mdns` measures how long dead services are seen, next to Avahi; needs root.
/// `cargo xtask bench polling` holds pollers through the daemon and through Redis against what polling promises.
/// `cargo xtask bench peers` puts Tenure beside Redis, etcd, PostgreSQL and ZooKeeper; `--install` gets what is missing.
/// `cargo xtask bench cluster` puts nodes on three etcd members beside these themselves; `--install` gets what is missing.
/// `cargo xtask bench worst` measures what others see of one client that does its worst.
/// `cargo xtask bench history [SUITE]` shows the last runs side by side.
/// `cargo xtask bench --help` is the benchmarks' own help.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// `core`, `mdns`, `polling`, `peers`, `cluster`, `worst`, `--quick`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    for_bench: Vec<String>,
}

/// Nothing that others are measured by is installed without this word.
const INSTALL: &str = "--install";

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // Beside the binary, because it runs it, between peers that have to be there.
    if let Some((suite, rest)) = arguments.for_bench.split_first()
        && suite == "mdns"
    {
        needs::provide(needs::FOR_TESTS)?;
        let mut command = shell::cargo(["bench", "--quiet", "--package", "tenure", "--bench", "mdns"]);
        command.args(shell::locked()).arg("--");
        return shell::run(command.args(rest));
    }
    // They start the daemon that stands beside them, one of them a Redis too.
    if let Some(suite @ ("polling" | "worst")) = arguments.for_bench.first().map(String::as_str) {
        if suite == "polling" {
            needs::provide(needs::FOR_TESTS)?;
        }
        let mut command = shell::cargo(["build", "--quiet", "--release", "--package", "tenure"]);
        shell::run(command.args(shell::locked()))?;
    }
    // They start the daemon that stands beside them, and what it is compared with.
    let suite = arguments.for_bench.first().map_or("", String::as_str);
    let has_peers = matches!(suite, "peers" | "cluster");
    if has_peers {
        if arguments.for_bench.iter().any(|argument| argument == INSTALL) {
            provide_peers(suite)?;
        }
        let mut command = shell::cargo(["build", "--quiet", "--release", "--package", "tenure"]);
        shell::run(command.args(shell::locked()))?;
    }
    let mut command = shell::cargo(["run", "--quiet", "--release", "--package", "tenure-bench"]);
    command.args(shell::locked()).arg("--");
    // Installing is ours; everything else is the benchmarks'.
    let for_bench = arguments.for_bench.iter().filter(|argument| !(has_peers && *argument == INSTALL));
    shell::run(command.args(for_bench))
}

/// What a suite compares with.
fn provide_peers(suite: &str) -> Result<()> {
    let is_for_all = suite == "peers";
    let redis = needs::FOR_TESTS.iter().filter(|need| is_for_all && need.name.starts_with("redis-"));
    let peers = needs::FOR_PEERS.iter().filter(|need| is_for_all || need.name == "etcd-server");
    redis.chain(peers).try_for_each(|need| needs::provide(std::slice::from_ref(need)))
}
