//! The way to Redis. One connection for all calls, made when it is needed and thrown away at the first doubt; a call
//! that was under way then has no known outcome and is never sent again.

use super::Impossible;
use super::address::Address;
use super::scripts::Lua;
use crate::store::StoreError;
use core::time::Duration;
use redis::aio::{AsyncPushSender, ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, ProtocolVersion, PushInfo, PushKind, RedisError,
    RedisResult, ServerErrorKind, Value,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keys looked at by one step of a scan.
const SCAN_STEP: usize = 5_000;

/// The way to one Redis.
pub(crate) struct Link {
    address: Address,
    name: String,
    live: Mutex<Option<Live>>,
    /// One connects, the others wait for it.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
enum Live {
    One {
        connection: MultiplexedConnection,
        /// Set when it is lost, so that nothing more is sent there.
        is_lost: Arc<AtomicBool>,
    },
    Cluster(ClusterConnection),
}

/// Which servers a scan goes through.
pub(crate) enum Where<'a> {
    /// The one that has this key.
    With(&'a str),
    /// All that have keys.
    Everywhere,
}

impl Link {
    pub(super) fn new(address: Address, name: String) -> Self {
        Self { address, name, live: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.address.is_cluster()
    }

    /// Where it leads, for people.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Does it within the limit or not at all, connecting included.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if let Ok(done) = tokio::time::timeout(limit, work).await {
            return done;
        }
        self.hang_up();
        Err(StoreError::Unreachable(format!("redis at {} did not answer within {limit:?}", self.name)))
    }

    /// Runs a script in one step.
    pub(super) async fn run(
        &self,
        script: &Lua,
        keys: &[String],
        arguments: &[String],
    ) -> Result<Value, StoreError> {
        let command = |verb: &str, script: &str| {
            let mut command = redis::cmd(verb);
            command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
            command
        };
        let answer = self.try_ask(&command("EVALSHA", &script.sha)).await;
        let answer = match answer {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.try_ask(&command("EVAL", script.source)).await
            }
            other => other,
        };
        answer.map_err(|error| self.understood(&error))
    }

    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, StoreError> {
        self.try_ask(command).await.map_err(|error| self.understood(&error))
    }

    /// Every key that matches, in no order and some perhaps twice.
    pub(crate) async fn scan(&self, pattern: &str, place: Where<'_>) -> Result<Vec<String>, StoreError> {
        let mut found = Vec::new();
        for slot in self.slots(place).await? {
            let mut cursor = "0".to_owned();
            loop {
                let mut command = redis::cmd("SCAN");
                command.arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCAN_STEP);
                let answer = match slot {
                    Some(slot) => self.ask_slot(command, slot).await?,
                    None => self.ask(&command).await?,
                };
                let page: (String, Vec<Vec<u8>>) = self.read(answer)?;
                cursor = page.0;
                // What is not UTF-8 is no name of ours.
                found.extend(page.1.into_iter().filter_map(|key| String::from_utf8(key).ok()));
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// A connection of its own that hears what is published, and tells `ear`.
    pub(super) async fn listen(
        &self,
        channel: &str,
        ear: impl AsyncPushSender,
    ) -> RedisResult<MultiplexedConnection> {
        let client = match &self.address {
            Address::One(client) => client.clone(),
            Address::Sentinels(sentinels) => sentinels.lock().await.async_get_client().await?,
            // What is published on one node is heard on all.
            Address::Cluster { nodes, .. } => any_of(nodes).await?,
        };
        let mut connection = connect_with(&client, ear).await?;
        connection.subscribe(channel).await?;
        Ok(connection)
    }

    /// What was answered, if it is what was expected.
    pub(crate) fn read<T: redis::FromRedisValue>(&self, value: Value) -> Result<T, StoreError> {
        redis::from_redis_value(value).map_err(|error| {
            StoreError::Rejected(format!("unexpected answer from redis at {}: {error}", self.name))
        })
    }

    async fn try_ask(&self, command: &Cmd) -> RedisResult<Value> {
        let mut live = self.live().await?;
        let answer = match &mut live {
            Live::One { connection, .. } => connection.req_packed_command(command).await,
            Live::Cluster(connection) => connection.req_packed_command(command).await,
        };
        let answer = answer.and_then(Value::extract_error);
        if let Err(error) = &answer {
            self.hang_up_after(error);
        }
        answer
    }

    async fn ask_slot(&self, command: Cmd, slot: u16) -> Result<Value, StoreError> {
        let asked = async {
            match self.live().await? {
                Live::One { mut connection, .. } => connection.req_packed_command(&command).await,
                Live::Cluster(mut connection) => {
                    let route = SingleNodeRoutingInfo::SpecificNode(Route::new(slot, SlotAddr::Master));
                    connection.route_command(command, RoutingInfo::SingleNode(route)).await
                }
            }
        };
        asked.await.and_then(Value::extract_error).map_err(|error| {
            self.hang_up_after(&error);
            self.understood(&error)
        })
    }

    /// One slot of each server to go through; `None` stands for the only server.
    async fn slots(&self, place: Where<'_>) -> Result<Vec<Option<u16>>, StoreError> {
        if !self.is_cluster() {
            return Ok(vec![None]);
        }
        if let Where::With(key) = place {
            let answer = self.ask(redis::cmd("CLUSTER").arg("KEYSLOT").arg(key)).await?;
            return Ok(vec![Some(self.read(answer)?)]);
        }
        let answer = self.ask(redis::cmd("CLUSTER").arg("SLOTS")).await?;
        let ranges: Vec<Vec<Value>> = self.read(answer)?;
        let mut first_of_each = BTreeMap::new();
        for range in ranges {
            let [Value::Int(first), _, Value::Array(server), ..] = range.as_slice() else { continue };
            let server: Vec<Value> = server.iter().take(2).cloned().collect();
            first_of_each.entry(format!("{server:?}")).or_insert(u16::try_from(*first).unwrap_or(0));
        }
        Ok(first_of_each.into_values().map(Some).collect())
    }

    async fn live(&self) -> RedisResult<Live> {
        if let Some(live) = self.current() {
            return Ok(live);
        }
        let _alone = self.connecting.lock().await;
        if let Some(live) = self.current() {
            return Ok(live);
        }
        let live = match &self.address {
            Address::One(client) => connect(client).await?,
            // Whoever is the master now.
            Address::Sentinels(sentinels) => {
                connect(&sentinels.lock().await.async_get_client().await?).await?
            }
            Address::Cluster { client, .. } => Live::Cluster(client.get_async_connection().await?),
        };
        *self.slot() = Some(live.clone());
        Ok(live)
    }

    fn current(&self) -> Option<Live> {
        match self.slot().clone()? {
            Live::One { is_lost, .. } if is_lost.load(Ordering::Acquire) => None,
            live => Some(live),
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hang_up(&self) {
        *self.slot() = None;
    }

    /// An answer that says no is an answer; anything else leaves the connection in doubt.
    fn hang_up_after(&self, error: &RedisError) {
        let is_answer = matches!(
            error.kind(),
            ErrorKind::Server(
                ServerErrorKind::NoScript | ServerErrorKind::NoPerm | ServerErrorKind::ResponseError
            )
        );
        if !is_answer {
            self.hang_up();
        }
    }

    /// What a failed call means for a poller.
    pub(super) fn understood(&self, error: &RedisError) -> StoreError {
        let told = format!("redis at {}: {error}", self.name);
        if is_final(error) { StoreError::Rejected(told) } else { StoreError::Unreachable(told) }
    }
}

impl From<Impossible> for StoreError {
    fn from(Impossible(why): Impossible) -> Self {
        Self::Rejected(why)
    }
}

/// Whether asking again cannot help: not allowed, or not understood.
pub(super) fn is_final(error: &RedisError) -> bool {
    // A server that is just starting, full, or no master any more says so with a word of its own, also within a script.
    const PASSING: [&str; 10] = [
        "max number of clients",
        "LOADING",
        "BUSY",
        "READONLY",
        "MASTERDOWN",
        "CLUSTERDOWN",
        "TRYAGAIN",
        "OOM",
        "MISCONF",
        "NOREPLICAS",
    ];
    let told = error.to_string();
    if PASSING.iter().any(|word| told.contains(word)) {
        return false;
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::UnexpectedReturnType
        | ErrorKind::RESP3NotSupported
        | ErrorKind::Server(
            ServerErrorKind::NoPerm | ServerErrorKind::ResponseError | ServerErrorKind::CrossSlot,
        ) => true,
        _ => ["NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE"].iter().any(|word| told.contains(word)),
    }
}

async fn connect(client: &Client) -> RedisResult<Live> {
    let is_lost = Arc::new(AtomicBool::new(false));
    let told = is_lost.clone();
    let ear = move |push: PushInfo| {
        if push.kind == PushKind::Disconnection {
            told.store(true, Ordering::Release);
        }
        Ok::<(), ()>(())
    };
    let connection = connect_with(client, ear).await?;
    Ok(Live::One { connection, is_lost })
}

/// A connection that tells `ear` what is said unasked. Nobody's time is watched here: whoever calls does.
async fn connect_with(client: &Client, ear: impl AsyncPushSender) -> RedisResult<MultiplexedConnection> {
    let info = client.get_connection_info().clone();
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let client = Client::open(info.set_redis_settings(settings))?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_push_sender(ear);
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// The first that can be reached.
async fn any_of(nodes: &[Client]) -> RedisResult<Client> {
    let mut last = RedisError::from((ErrorKind::InvalidClientConfig, "the address has no node"));
    for node in nodes {
        match node.get_multiplexed_async_connection().await {
            Ok(_) => return Ok(node.clone()),
            Err(error) => last = error,
        }
    }
    Err(last)
}
