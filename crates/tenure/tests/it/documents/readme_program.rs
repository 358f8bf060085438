//! The program in Rust that the README prints: it is compiled and run here, as it is printed there.

#![expect(clippy::print_stdout, reason = "the program prints its fencing token")]

use std::fs;
use std::thread;

use tempfile::TempDir;

use super::stage::{Host, Terminal};
use super::{LIMIT_MS, root};
use crate::run_support::boot_ms;

// The program begins.
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let daemon: tenure_client::Endpoint = "http://127.0.0.1:5641".parse()?;
    let client = tenure_client::Client::builder(daemon).build()?;
    let report = client.hold(["report"]).ttl(Duration::from_secs(5)).grace(Duration::ZERO);
    let guard = report.wait(Duration::from_secs(60)).acquire().await?;
    // The guard renews the lease. Send the fence with each write; `guard.token()` is cancelled if the lease is lost.
    println!("fence {}", guard.fence());
    Ok(guard.release().await?)
}
// The program ends.

/// The text between two lines, each of which is there once.
fn between<'text>(text: &'text str, from: &str, to: &str) -> &'text str {
    let (_, after) = text.split_once(from).unwrap_or_else(|| panic!("no line {from:?}"));
    let (within, rest) = after.split_once(to).unwrap_or_else(|| panic!("no line {to:?}"));
    assert!(!rest.contains(from), "{from:?} is there twice");
    within
}

#[test]
fn the_program_of_the_readme_is_the_one_that_is_compiled() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let compiled =
        between(include_str!("readme_program.rs"), "\n// The program begins.\n", "// The program ends.\n");
    assert_eq!(between(&readme, "\n```rust\n", "```\n"), compiled, "left: printed, right: compiled");
}

#[test]
fn the_program_of_the_readme_takes_a_lock_and_releases_it() {
    let shared = TempDir::new().unwrap();
    let host = Host::new("a", shared.path());
    let mut terminal = Terminal::open(&host);
    let mut type_in = |command: &str| {
        terminal.command(command);
        terminal.wait(boot_ms() + LIMIT_MS, |terminal| terminal.status().is_some()).unwrap();
        (terminal.status(), terminal.text())
    };
    let ready = "curl -sf --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1:5641/readyz";
    let (status, shown) = type_in(&format!("tenure serve --no-mdns > daemon.log 2>&1 & {ready}"));
    assert_eq!(status, Some(0), "{shown}");
    let program = || {
        host.enter_network();
        main().map_err(|error| error.to_string())
    };
    thread::scope(|scope| scope.spawn(program).join()).unwrap().unwrap();
    let (_, story) = type_in("tenure why report");
    let told = |what: &str| story.lines().filter(|line| line.contains(what)).count();
    assert_eq!((told("granted to"), told("released by")), (1, 1), "{story}");
}
