//! The host over a real directory: what was acknowledged is there after a restart.

use std::sync::Arc;
use tempfile::TempDir;
use tenure_engine::host::{Host, HostOptions, read_clocks};
use tenure_engine::{Answer, Engine, EngineConfig, Refused, Request, Submit};
use tenure_kernel::{Action, Bundle, Grant, LeaseId, Policy, Release, Text, Token};
use tenure_log::{FileLog, FileLogOptions, Genesis, RealDisk};

fn start(directory: &TempDir) -> Host {
    let now = read_clocks();
    let genesis = Genesis { random: [7; 16], unix_seconds: now.wall_ms / 1000, shard: 0 };
    let mut options = FileLogOptions::new(genesis, now.wall_ms);
    options.segment_bytes = 256 << 10;
    options.free_bytes_min = 0;
    let (log, recovery) = FileLog::open(Arc::new(RealDisk), directory.path(), options).unwrap();
    let config = EngineConfig::default();
    let engine = Engine::recover(&log, &recovery, config.clone(), now).unwrap();
    Host::start(engine, Box::new(log), &config, HostOptions::default(), Box::new(|_| {}))
}

fn grant(name: &str, holder: &str) -> Request {
    let grant = Grant::new(Bundle::one(name), holder, Policy::heartbeat(90_000, 30_000));
    Request::Submit(Submit::now(Action::Grant(grant)))
}

#[test]
fn a_grant_survives_a_clean_restart() {
    let directory = TempDir::new().unwrap();
    let host = start(&directory);
    let answer = host.handle().call(grant("printer", "alice"));
    let lease = answer.live().unwrap().clone();
    assert_eq!(lease.holder, "alice");
    assert!(matches!(
        host.handle().call(grant("printer", "bob")),
        Answer::Refused(Refused::Rejected(tenure_kernel::Rejection::ResourceHeld(_)))
    ));
    host.shut_down().unwrap();

    let host = start(&directory);
    let answer = host.handle().call(Request::Read(lease.id));
    let again = answer.live().unwrap();
    assert_eq!((again.holder.as_str(), again.epoch, again.fence), ("alice", lease.epoch, lease.fence));
    host.shut_down().unwrap();
}

#[test]
fn many_callers_are_all_answered() {
    let directory = TempDir::new().unwrap();
    let host = start(&directory);
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let handle = host.handle();
            std::thread::spawn(move || {
                let mut leases: Vec<LeaseId> = Vec::new();
                for round in 0..50 {
                    let requests: Vec<Request> =
                        (0..20).map(|n| grant(&format!("r/{caller}/{round}/{n}"), "h")).collect();
                    for answer in handle.call_all(requests).wait() {
                        leases.push(answer.live().unwrap().id);
                    }
                }
                for lease in &leases {
                    let token = Token::new(*lease, tenure_kernel::Epoch::FIRST);
                    let release = Action::Release(Release { token, text: Text::default() });
                    let answer = handle.call(Request::Submit(Submit::now(release)));
                    assert!(!matches!(answer, Answer::Refused(_)), "{answer:?}");
                }
                leases.len()
            })
        })
        .collect();
    let total: usize = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
    assert_eq!(total, 8 * 50 * 20);
    host.shut_down().unwrap();
}
