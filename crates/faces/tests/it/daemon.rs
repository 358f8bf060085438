//! A daemon without transports.

use crate::lapsing::Lapsing;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use tenure_api::Error;
use tenure_engine::host::{Host, HostOptions, read_clocks};
use tenure_engine::{Account, Engine, EngineConfig};
use tenure_faces::{
    Call, Caller, Faces, Freshness, Origin, Quiet, RegistrationOptions, Reply, Scope, StreamOptions,
    Switchboard,
};
use tenure_history::History;
use tenure_log::{FileLog, FileLogOptions, Genesis, OrderedLog, RealDisk};

pub(crate) struct Daemon {
    pub(crate) faces: Faces,
    host: Host,
    directory: TempDir,
    config: EngineConfig,
    has_authority: Arc<AtomicBool>,
}

impl Daemon {
    pub(crate) async fn start(config: EngineConfig) -> Self {
        let directory = TempDir::new().unwrap();
        let has_authority = Arc::new(AtomicBool::new(true));
        let (faces, host) = open(&directory, &config, &has_authority).await;
        Self { faces, host, directory, config, has_authority }
    }

    pub(crate) async fn restart(self) -> Self {
        let Self { faces, host, directory, config, has_authority } = self;
        host.shut_down().unwrap();
        drop(faces);
        let (faces, host) = open(&directory, &config, &has_authority).await;
        Self { faces, host, directory, config, has_authority }
    }

    /// From now on the engine may answer, or not, until it is said again.
    pub(crate) fn let_authority_be(&self, has_it: bool) {
        self.has_authority.store(has_it, Ordering::SeqCst);
    }

    /// No turn follows.
    pub(crate) fn stop_engine(&self) {
        self.host.handle().shut_down();
    }

    pub(crate) fn take_snapshot(&self) {
        self.host.handle().take_snapshot();
    }

    /// How many requests the engine was asked until now.
    pub(crate) fn asked(&self) -> u64 {
        self.host.handle().draw_ticket().0
    }

    pub(crate) async fn ask(&self, caller: &Caller, call: Value) -> Result<Value, Error> {
        let call: Call = serde_json::from_value(call).unwrap();
        self.faces
            .dispatch(caller, call)
            .await
            .map(|reply: Reply| serde_json::to_value(reply.body()).unwrap())
    }

    /// The same by an operator, where it must succeed.
    #[track_caller]
    pub(crate) fn done(&self, call: Value) -> impl Future<Output = Value> {
        let said = call.to_string();
        let asked = async move { self.ask(&over_http("local", Scope::Admin), call).await };
        async move { asked.await.unwrap_or_else(|error| panic!("{said}: {error}")) }
    }
}

async fn open(directory: &TempDir, config: &EngineConfig, has_authority: &Arc<AtomicBool>) -> (Faces, Host) {
    let now = read_clocks();
    let genesis = Genesis { random: [7; 16], unix_seconds: now.wall_ms / 1_000, shard: 0 };
    let options = FileLogOptions { free_bytes_min: 0, ..FileLogOptions::new(genesis, now.wall_ms) };
    let disk = Arc::new(RealDisk);
    let (log, recovery) = FileLog::open(disk.clone(), directory.path(), options).unwrap();
    let log = Lapsing::over(log, Arc::clone(has_authority));
    let engine = Engine::recover(&log, &recovery, config.clone(), now).unwrap();
    let (switchboard, _ends) = Switchboard::new();
    let history = History::online(disk, directory.path(), log.reader(), log.identity());
    let listener = switchboard.listener();
    let host = Host::start(engine, Box::new(log), config, HostOptions::default(), listener);
    let network = Arc::new(Quiet::default());
    let (registrations, streams) = (RegistrationOptions::default(), StreamOptions::default());
    let faces = Faces::new(host.handle(), switchboard, history, network, registrations, streams);
    faces.restore_streams().await.unwrap();
    faces.restore_registrations().await.unwrap();
    faces.restore_polling().await.unwrap();
    faces.recall_registrations().await;
    faces.recall_streams().await;
    (faces, host)
}

pub(crate) fn over_http(principal: &str, scope: Scope) -> Caller {
    let (origin, freshness) = (Origin::Http, Freshness::Present);
    Caller {
        principal: principal.into(),
        scope,
        within: None,
        origin,
        freshness,
        account: Account::default(),
    }
}
