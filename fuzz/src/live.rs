//! Calls that are carried out: whatever can be read is dispatched to a live engine, alone and as a node would. Nothing may
//! panic, whatever the numbers and names in it are; a panic would stop the daemon.

use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tenure_engine::host::{Host, HostOptions, read_clocks};
use tenure_engine::kernel::{SessionKind, Text};
use tenure_engine::{Account, Engine, EngineConfig};
use tenure_faces::{
    Call, Caller, Faces, Freshness, NodeConnections, Opening, Origin, Quiet, RegistrationOptions, Scope,
    Stage, StreamOptions, Switchboard,
};
use tenure_history::History;
use tenure_log::{FileLog, FileLogOptions, Genesis, OrderedLog, RealDisk};
use tokio::runtime::Runtime;

/// How long a call may wait before its caller leaves: waits are withdrawn as when a connection breaks.
const PATIENCE: Duration = Duration::from_millis(5);

/// A daemon without transports, and the same as a node of a cluster.
pub(crate) struct Live {
    runtime: Runtime,
    alone: Served,
    node: Served,
    _host: Host,
    _directory: TempDir,
}

struct Served {
    stage: Stage,
    connected: Caller,
    /// Dropped, its connection would be gone.
    _opening: Opening,
}

impl Live {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let directory = TempDir::new()?;
        let now = read_clocks();
        let genesis = Genesis { random: [7; 16], unix_seconds: now.wall_ms / 1_000, shard: 0 };
        let options = FileLogOptions { free_bytes_min: 0, ..FileLogOptions::new(genesis, now.wall_ms) };
        let disk = Arc::new(RealDisk);
        let (log, recovery) = FileLog::open(disk.clone(), directory.path(), options)?;
        let config = EngineConfig::default();
        let engine = Engine::recover(&log, &recovery, config.clone(), now)?;
        let (switchboard, _ends) = Switchboard::new();
        let history = History::online(disk, directory.path(), log.reader(), log.identity());
        let listener = switchboard.listener();
        let host = Host::start(engine, Box::new(log), &config, HostOptions::default(), listener);
        let faces = Faces::new(
            host.handle(),
            switchboard,
            history,
            Arc::new(Quiet::default()),
            RegistrationOptions::default(),
            StreamOptions::default(),
        );
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let alone = Served::new(&runtime, Stage::alone(faces.clone()))?;
        let connections = NodeConnections::default();
        let node = Served::new(&runtime, Stage::of_node(faces, PATIENCE, connections))?;
        Ok(Self { runtime, alone, node, _host: host, _directory: directory })
    }

    /// Carries a request or a line out; says whether it could be read.
    pub(crate) fn carry_out(&self, input: &[u8]) -> bool {
        let is_line = input.first() == Some(&b'{');
        let call = if is_line { tenure_server::understand_line(input) } else { request(input) };
        let Some(call) = call else { return false };
        for served in [&self.alone, &self.node] {
            let caller = if is_line { served.connected.clone() } else { over_http() };
            self.runtime.block_on(async {
                let _ = tokio::time::timeout(PATIENCE, served.stage.dispatch(&caller, call.clone())).await;
                assert!(served.stage.faces().is_ready().await, "the engine runs no turns any more");
            });
        }
        true
    }
}

impl Served {
    fn new(runtime: &Runtime, stage: Stage) -> anyhow::Result<Self> {
        let principal = Text::from("local");
        let opened = stage.open_connection(SessionKind::Connection, &principal, Scope::Admin);
        let (opening, connected) = runtime.block_on(opened)?;
        Ok(Self { stage, connected, _opening: opening })
    }
}

fn over_http() -> Caller {
    Caller {
        principal: "local".into(),
        scope: Scope::Admin,
        within: None,
        origin: Origin::Http,
        freshness: Freshness::Present,
        account: Account::default(),
    }
}

fn request(input: &[u8]) -> Option<Call> {
    let (first, body) = crate::targets::first_line(input);
    let (method, target) = str::from_utf8(first).ok()?.split_once(' ')?;
    tenure_server::understand_call(method, target, body).ok().flatten()
}
