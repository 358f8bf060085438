//! A process that is killed at random points: what it had acknowledged is there when it comes back. The test
//! runs itself again as the process to be killed.

use crate::running::{files, grant, recover, release, start};
use crate::watching::Random;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use tenure_engine::host::HostOptions;
use tenure_engine::{Answer, UpkeepOptions};
use tenure_kernel::{Fence, LeaseId};

/// Set for the process that is to be killed: the directory it works in.
const DIRECTORY: &str = "TENURE_ENGINE_TEST_KILLED";
const ROUNDS: u64 = 10;
/// The one that nobody kills ends by itself.
const GRANTS_MAX: u64 = 100_000;

#[test]
fn what_a_killed_process_acknowledged_is_there_when_it_comes_back() {
    let directory = TempDir::new().unwrap();
    let mut random = Random(41);
    let mut live: BTreeMap<LeaseId, Fence> = BTreeMap::new();
    let mut newest = Fence(0);
    for round in 0..ROUNDS {
        let enough = 1 + random.below(if round % 2 == 0 { 20 } else { 400 });
        let mut releasing = None;
        let mut released = Vec::new();
        for line in lines_until_killed(directory.path(), enough) {
            let mut words = line.split(' ');
            let (verb, lease) = (words.next().unwrap(), LeaseId(words.next().unwrap().parse().unwrap()));
            match verb {
                // Asked, and not yet answered: it may be there or not.
                "releasing" => {
                    releasing = live.remove_entry(&lease);
                    continue;
                }
                "released" => {
                    releasing = None;
                    released.push(lease);
                    continue;
                }
                _ => {}
            }
            let fence = Fence(words.next().unwrap().parse().unwrap());
            assert!(fence > newest, "round {round}: fence {fence} after {newest}");
            newest = fence;
            live.insert(lease, fence);
        }
        let (engine, _log) = recover(directory.path());
        engine.kernel().check_invariants().unwrap();
        for (lease, fence) in &live {
            let found = engine.kernel().live(*lease);
            assert_eq!(found.map(|view| view.fence()), Some(*fence), "round {round}: lease {lease}");
        }
        for lease in released {
            assert!(engine.kernel().live(lease).is_none(), "round {round}: lease {lease} rose again");
        }
        // What was granted and not said so may be there: the last call's, no more.
        let known = live.len() + usize::from(releasing.is_some());
        assert!(engine.kernel().live_count() <= known + 3, "round {round}");
        for view in engine.kernel().leases_from(LeaseId(0)) {
            live.insert(view.id(), view.fence());
            newest = newest.max(view.fence());
        }
    }
    assert!(live.len() as u64 > ROUNDS);
}

/// Runs the process, reads so many lines, kills it, and returns everything it said.
fn lines_until_killed(directory: &Path, enough: u64) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["killed::grants_until_it_is_killed", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut said = Vec::new();
    let mut line = String::new();
    while said.len() < enough as usize && reader.read_line(&mut line).unwrap() > 0 {
        take_line(&mut line, &mut said);
    }
    kill(&mut child);
    while reader.read_line(&mut line).unwrap() > 0 {
        take_line(&mut line, &mut said);
    }
    assert!(said.len() >= enough as usize, "it ended by itself");
    said
}

/// Keeps what is about leases; a line cut short was not said.
fn take_line(line: &mut String, said: &mut Vec<String>) {
    let taken = core::mem::take(line);
    // The harness writes before the first line, without ending its own.
    let about = ["granted ", "releasing ", "released "].into_iter().find_map(|verb| taken.find(verb));
    if let (Some(from), Some(whole)) = (about, taken.strip_suffix('\n')) {
        said.push(whole[from..].to_owned());
    }
}

fn kill(child: &mut Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
}

/// Not a test of its own: the process that the one above kills. Without its directory it does nothing.
#[test]
fn grants_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let (log, recovery) = files(Path::new(&directory));
    let options = HostOptions {
        upkeep: UpkeepOptions { snapshot_bytes_min: 16 << 10, ..UpkeepOptions::default() },
        ..HostOptions::default()
    };
    let host = start(log, &recovery, options, Box::new(|_| {}));
    let handle = host.handle();
    let mut stdout = std::io::stdout();
    // Names of its own: what an earlier process was granted is still held.
    let round = recovery.last_lsn;
    for n in 0..GRANTS_MAX {
        let requests = (0..1 + n % 3).map(|k| grant(&format!("r/{round}/{n}/{k}"), "holder")).collect();
        let mut said = String::new();
        let mut last = None;
        for answer in handle.call_all(requests).wait() {
            let lease = answer.live().expect("granted");
            said.push_str(&format!("granted {} {}\n", lease.id, lease.fence));
            last = Some(lease.id);
        }
        stdout.write_all(said.as_bytes()).unwrap();
        stdout.flush().unwrap();
        if n % 4 == 3
            && let Some(lease) = last
        {
            stdout.write_all(format!("releasing {lease}\n").as_bytes()).unwrap();
            stdout.flush().unwrap();
            assert!(matches!(handle.call(release(lease)), Answer::Lease(_)));
            stdout.write_all(format!("released {lease}\n").as_bytes()).unwrap();
            stdout.flush().unwrap();
        }
    }
    host.shut_down().unwrap();
}
