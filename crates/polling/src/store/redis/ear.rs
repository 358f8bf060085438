//! Hears what other pollers publish, so that nobody has to wait for the next look. Only a hint: whoever hears nothing
//! looks by itself.

use super::link::{Link, is_final};
use core::time::Duration;
use redis::{PushInfo, PushKind, RedisError, RedisResult, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tenure_client::Backoff;
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

/// How often a silent connection is tried.
const TRY_EVERY: Duration = Duration::from_secs(10);
/// How long it may take to answer or to come about.
const TRY_LIMIT: Duration = Duration::from_secs(5);
/// Pauses between tries to listen.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LONGEST: Duration = Duration::from_secs(10);
/// Pause after a refusal.
const PAUSE_REFUSED: Duration = Duration::from_secs(60);

/// What was heard, and the task that listens.
pub(super) struct Ear {
    heard: Arc<Heard>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
    seen: AtomicU64,
}

struct Heard {
    count: watch::Sender<u64>,
    /// The publisher whose messages are ignored.
    own: OnceLock<String>,
}

impl Ear {
    pub(super) fn new() -> Self {
        let heard = Heard { count: watch::Sender::new(0), own: OnceLock::new() };
        Self { heard: Arc::new(heard), task: Mutex::default(), seen: AtomicU64::new(0) }
    }

    /// What this instance says is no news.
    pub(super) fn is_of(&self, instance: &str) {
        // The same for the whole life of a store.
        let _ = self.heard.own.set(format!("{instance} "));
    }

    /// Begins to listen, once.
    pub(super) fn start(&self, link: &Arc<Link>, channel: &str) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.is_none() {
            let listening = listen(self.heard.clone(), link.clone(), channel.to_owned());
            *task = Some(AbortOnDropHandle::new(tokio::spawn(listening)));
        }
    }

    /// What was heard up to now is being looked at.
    pub(super) fn looks(&self) {
        self.seen.store(*self.heard.count.borrow(), Ordering::Release);
    }

    /// Waits until something is heard that was not looked at.
    pub(super) async fn hears(&self) {
        let mut count = self.heard.count.subscribe();
        let news = count.wait_for(|count| *count > self.seen.load(Ordering::Acquire)).await;
        // The sender lives as long as we do.
        drop(news);
    }
}

impl Heard {
    fn take_in(&self, push: &PushInfo, hung_up: &Notify) {
        match push.kind {
            PushKind::Message => {
                let words = match push.data.get(1) {
                    Some(Value::BulkString(words)) => words.as_slice(),
                    _ => b"",
                };
                if self.own.get().is_none_or(|own| !words.starts_with(own.as_bytes())) {
                    self.count.send_modify(|count| *count += 1);
                }
            }
            PushKind::Disconnection => hung_up.notify_one(),
            _ => {}
        }
    }

    /// Listens until the connection is lost.
    async fn listen(self: &Arc<Self>, link: &Link, channel: &str, tries: &mut Tries) -> RedisResult<()> {
        let hung_up = Arc::new(Notify::new());
        let (ear, told) = (self.clone(), hung_up.clone());
        let tell = move |push: PushInfo| {
            ear.take_in(&push, &told);
            Ok::<(), ()>(())
        };
        let mut connection = limited(link.listen(channel, tell)).await?;
        tries.succeeded(link.name());
        // What was said before is not told again.
        self.count.send_modify(|count| *count += 1);
        loop {
            tokio::select! {
                () = hung_up.notified() => return Err(silent()),
                () = tokio::time::sleep(TRY_EVERY) => {}
            }
            limited(redis::cmd("PING").query_async::<Value>(&mut connection)).await?;
        }
    }
}

struct Tries {
    backoff: Backoff,
    is_warned: bool,
}

impl Tries {
    fn succeeded(&mut self, redis: &str) {
        self.backoff.reset();
        if core::mem::take(&mut self.is_warned) {
            tracing::info!(redis, "receiving changes from Redis again");
        }
    }

    fn failed(&mut self, redis: &str, error: &RedisError) -> Duration {
        if !core::mem::replace(&mut self.is_warned, true) {
            tracing::warn!(redis, %error, "cannot receive changes from Redis: reading the group periodically");
        }
        if is_final(error) { PAUSE_REFUSED } else { self.backoff.next_pause() }
    }
}

async fn listen(heard: Arc<Heard>, link: Arc<Link>, channel: String) {
    let mut tries = Tries { backoff: Backoff::new(PAUSE_FIRST, PAUSE_LONGEST), is_warned: false };
    loop {
        if let Err(error) = heard.listen(&link, &channel, &mut tries).await {
            let pause = tries.failed(link.name(), &error);
            tokio::time::sleep(pause).await;
        }
    }
}

async fn limited<T>(work: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    tokio::time::timeout(TRY_LIMIT, work).await.unwrap_or_else(|_| Err(silent()))
}

fn silent() -> RedisError {
    RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))
}
