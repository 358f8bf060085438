//! What the daemon says of its memory is what the system has seen.

use crate::daemon::{Daemon, over_http};
use serde_json::{Value, json};
use tenure_engine::EngineConfig;
use tenure_faces::{Call, Scope};

const MIB: u64 = 1 << 20;

/// A figure of this process, as the system counts it.
fn of_process(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let found = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    found.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Leases with much attached to them: 64 MiB of state.
async fn fill(daemon: &Daemon) {
    let attachment = "x".repeat(4_000);
    for batch in 0..128 {
        let calls = (0..128).map(|number| {
            let resource = format!("{batch}/{number}");
            let acquire = json!({ "resources": [resource], "holder": "h", "attachment": attachment });
            serde_json::from_value::<Call>(json!({ "Acquire": acquire })).unwrap()
        });
        let replies = daemon.faces.dispatch_all(&over_http("local", Scope::Admin), calls.collect()).await;
        assert!(replies.iter().all(Result::is_ok));
    }
}

async fn memory(daemon: &Daemon) -> Value {
    daemon.done(json!("Status")).await["memory"].clone()
}

#[tokio::test]
async fn what_a_snapshot_takes_is_what_it_took() {
    // What is not state is not copied.
    let ballast = vec![1_u8; 200 * MIB as usize];
    let daemon = Daemon::start(EngineConfig::default()).await;
    fill(&daemon).await;
    let before = memory(&daemon).await;
    assert!(before["with_snapshot_bytes"].is_null(), "none was built yet: {before}");
    daemon.take_snapshot();
    while daemon.faces.last_snapshot().is_none() {
        tokio::task::yield_now().await;
    }
    let after = memory(&daemon).await;
    let most = after["with_snapshot_bytes"].as_u64().unwrap();
    let seen = of_process("VmHWM");
    assert!(most <= seen + 16 * MIB && most + 16 * MIB >= seen, "{after}, {seen} were seen");
    let resident = before["resident_bytes"].as_u64().unwrap();
    assert!(most >= resident + 48 * MIB, "a copy of the state is built beside it: {before} {after}");
    assert!(ballast.iter().all(|byte| *byte == 1));
}
