//! The lease of a run: acquired once however often it has to be asked for, renewed in time, given back at the end. What
//! is told to others is only until when the command may run and that it has to stop; processes are none of its business.

use std::time::Duration;

use tenure_api::{Acquire, ErrorCode, HolderCall, Lease, Renewed};
use tenure_client::clock::{BootInstant, wait_until};
use tenure_client::{CallError, Client, operation_id};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::timetable::{self, Pace};
use crate::connect::call_failure;
use crate::failure::{Failure, Words};

/// The longest wait that one request may ask for.
const WAIT_MS_MAX: u64 = 3_600_000;
/// How long an unknown outcome is asked after, beyond the wait.
const UNKNOWN_LIMIT: Duration = Duration::from_secs(10);
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// How long giving a lease back may take …
const RELEASE_LIMIT: Duration = Duration::from_secs(3);
/// … and one that was lost, most likely because the daemon cannot be reached.
const RELEASE_LOST_LIMIT: Duration = Duration::from_millis(500);
/// How long one look after an abandoned request may take.
const ABANDON_LIMITS_MS: [u64; 5] = [100, 200, 400, 800, 1_600];
/// News that nobody took yet; the newest validity is what counts.
const NEWS_MAX: usize = 64;

/// A lease that is held.
#[derive(Clone)]
pub(super) struct Holding {
    client: Client,
    pub(super) lease: Lease,
    ttl: Duration,
}

/// Until when a command may run, and what the daemon says about it.
pub(super) struct Validity {
    pub(super) until: BootInstant,
    /// By the daemon's clock, in unix milliseconds; `None` if it does not say.
    pub(super) until_wall_ms: Option<u64>,
    draining: bool,
    sent: BootInstant,
}

/// What the renewals bring.
#[derive(Debug)]
pub(super) enum News {
    /// A renewal succeeded.
    ValidUntil(BootInstant),
    /// A renewal failed; it is tried again.
    Failed(String),
    /// An operator wants the lease back.
    Draining,
    /// The lease is somebody else's, or nobody's. Nothing follows.
    Lost(String),
}

/// A request for a lease that is being made.
pub(super) struct Asking {
    client: Client,
    acquire: Acquire,
    ttl: Duration,
    wait: Duration,
}

impl Asking {
    pub(super) fn new(client: Client, acquire: Acquire, ttl: Duration, wait: Duration) -> Self {
        let acquire = Acquire { operation_id: Some(operation_id()), ..acquire };
        Self { client, acquire, ttl, wait }
    }

    /// What is asked for.
    pub(super) fn acquire(&self) -> &Acquire {
        &self.acquire
    }

    /// Asks until the answer is definite. Safe to drop; then call [`Asking::abandon`].
    pub(super) async fn grant(&mut self) -> Result<Holding, Failure> {
        let deadline = BootInstant::now().after(self.wait);
        let mut was_reached = false;
        loop {
            let left = deadline.since(BootInstant::now()).as_millis() as u64;
            self.acquire.wait_ms = (left > 0).then_some(left.min(WAIT_MS_MAX));
            let error = match self.client.acquire(&self.acquire).await {
                Ok(lease) => return Ok(Holding { client: self.client.clone(), lease, ttl: self.ttl }),
                Err(error) => error,
            };
            let now = BootInstant::now();
            let is_again = match &error {
                // One request may wait an hour at most; the next one is another operation.
                CallError::Rejected(refused) if refused.code == ErrorCode::WaitTimeout && now < deadline => {
                    self.acquire.operation_id = Some(operation_id());
                    true
                }
                // The daemon that was reached is being restarted; waiting survives that.
                CallError::Rejected(refused) if refused.code == ErrorCode::ShuttingDown => true,
                CallError::Unreachable { .. } => was_reached,
                error => !error.is_definite(),
            };
            was_reached |= !matches!(error, CallError::Unreachable { .. });
            if !is_again || now > deadline.after(UNKNOWN_LIMIT) {
                return Err(call_failure(error));
            }
            wait_until(now.after(error.retry_after().unwrap_or(ASK_AGAIN).clamp(ASK_AGAIN, ASK_AGAIN * 5)))
                .await;
        }
    }

    /// Makes sure that an abandoned request brings nothing any more, and gives back what it brought already.
    ///
    /// The same operation is asked for once more, without a wait. As long as the abandoned request is still waited for,
    /// that joins it and gets no answer; a definite answer proves that nobody waits in our name any more. Before each
    /// try nobody asks for a moment: one that came before the daemon saw the last one leave would inherit its wait.
    pub(super) async fn abandon(mut self) {
        self.acquire.wait_ms = None;
        for limit in ABANDON_LIMITS_MS.map(Duration::from_millis) {
            wait_until(BootInstant::now().after(limit / 4)).await;
            match timeout(limit, self.client.acquire(&self.acquire)).await {
                Ok(Ok(lease)) => {
                    let holding = Holding { client: self.client.clone(), lease, ttl: self.ttl };
                    holding.release("interrupted").await;
                    return;
                }
                Ok(Err(error)) if error.is_definite() => return,
                Ok(Err(_)) | Err(_) => {}
            }
        }
        // Whatever was granted beyond that is ended by its ttl.
    }
}

impl Holding {
    /// Renews until it works: a grant that was waited for, or that is a retry's, promises nothing of its own.
    pub(super) async fn first_validity(&self) -> Result<Validity, Failure> {
        let give_up = BootInstant::now().after(self.ttl);
        loop {
            match self.renew().await {
                Ok(validity) => return Ok(validity),
                Err(RenewError::Lost(message)) => {
                    let line = format!("the lease was lost before the command began: {message}");
                    return Err(Failure::Refused(Words::new(line)));
                }
                Err(RenewError::Failed(message)) => {
                    let now = BootInstant::now();
                    if now >= give_up {
                        let line =
                            format!("the lease could not be renewed; the command was not started: {message}");
                        return Err(Failure::Unexpected(Words::new(line)));
                    }
                    wait_until(now.after(self.pause())).await;
                }
            }
        }
    }

    /// Renews in the background for as long as somebody takes the news.
    pub(super) fn keep(&self, pace: Pace, first: &Validity) -> mpsc::Receiver<News> {
        let (sender, receiver) = mpsc::channel(NEWS_MAX);
        let (holding, sent, until, draining) = (self.clone(), first.sent, first.until, first.draining);
        tokio::spawn(async move { holding.keep_telling(pace, sent, until, draining, sender).await });
        receiver
    }

    async fn keep_telling(
        self,
        pace: Pace,
        mut sent: BootInstant,
        mut until: BootInstant,
        mut draining: bool,
        news: mpsc::Sender<News>,
    ) {
        if draining && news.send(News::Draining).await.is_err() {
            return;
        }
        loop {
            wait_until(sent.after(Self::interval(pace, sent, until))).await;
            let next = loop {
                match self.renew().await {
                    Ok(validity) => break validity,
                    Err(RenewError::Lost(message)) => {
                        let _ = news.send(News::Lost(message)).await;
                        return;
                    }
                    Err(RenewError::Failed(message)) => {
                        if news.send(News::Failed(message)).await.is_err() {
                            return;
                        }
                        wait_until(BootInstant::now().after(self.pause())).await;
                    }
                }
            };
            if news.send(News::ValidUntil(next.until)).await.is_err() {
                return;
            }
            if next.draining && !draining && news.send(News::Draining).await.is_err() {
                return;
            }
            (sent, until, draining) = (next.sent, next.until, next.draining);
        }
    }

    /// Until the next renewal, scattered by a tenth: runs that began together would renew together for ever.
    fn interval(pace: Pace, sent: BootInstant, until: BootInstant) -> Duration {
        let scatter = 0.9 + f64::from(getrandom::u32().unwrap_or(0)) / f64::from(u32::MAX) * 0.2;
        pace.interval(sent, until).mul_f64(scatter).max(Duration::from_millis(20))
    }

    async fn renew(&self) -> Result<Validity, RenewError> {
        let limit = (self.ttl / 6).clamp(Duration::from_millis(150), Duration::from_secs(5));
        let sent = BootInstant::now();
        match self.client.heartbeat_within(&self.lease.lease_id, self.lease.epoch, limit).await {
            Ok(renewed) => self.understand(sent, &renewed),
            Err(error) if is_lost(&error) => Err(RenewError::Lost(error.to_string())),
            Err(error) => Err(RenewError::Failed(error.to_string())),
        }
    }

    fn understand(&self, sent: BootInstant, renewed: &Renewed) -> Result<Validity, RenewError> {
        if renewed.epoch != self.lease.epoch {
            return Err(RenewError::Lost(format!("its epoch is {} now", renewed.epoch)));
        }
        let Some(valid_ms) = renewed.valid_ms else {
            return Err(RenewError::Failed("the daemon answered without a validity".to_owned()));
        };
        let until = timetable::valid_until(sent, valid_ms);
        let left_ms = until.since(BootInstant::now()).as_millis() as u64;
        let wall_ms = tenure_history::parse_rfc3339(&renewed.server_time).ok();
        Ok(Validity {
            until,
            until_wall_ms: wall_ms.map(|wall_ms| wall_ms.saturating_add(left_ms)),
            draining: renewed.draining,
            sent,
        })
    }

    fn pause(&self) -> Duration {
        (self.ttl / 60).clamp(Duration::from_millis(20), Duration::from_secs(1))
    }

    /// Gives the lease back; the reason if that did not work.
    pub(super) async fn release(&self, reason: &str) -> Option<String> {
        self.release_within(RELEASE_LIMIT, reason).await
    }

    /// The same for a lease that could not be renewed, and without much hope.
    pub(super) async fn release_lost(&self, reason: &str) {
        self.release_within(RELEASE_LOST_LIMIT, reason).await;
    }

    async fn release_within(&self, limit: Duration, reason: &str) -> Option<String> {
        let call = HolderCall { reason: Some(reason.to_owned()), ..self.holder_call() };
        let release = async {
            loop {
                match self.client.release(&self.lease.lease_id, &call).await {
                    Ok(_) => return None,
                    // Whatever it is now, it is not ours any more.
                    Err(error) if is_lost(&error) => return None,
                    Err(error @ CallError::Rejected(_))
                        if error.is_definite() && error.retry_after().is_none() =>
                    {
                        return Some(error.to_string());
                    }
                    Err(_) => wait_until(BootInstant::now().after(ASK_AGAIN)).await,
                }
            }
        };
        let late = || Some(format!("no answer within {} ms", limit.as_millis()));
        timeout(limit, release).await.unwrap_or_else(|_| late())
    }

    /// Tells the daemon that nothing acts on the lost lease any more, so that it need not wait for the promise to end.
    pub(super) async fn acknowledge(&self) {
        let call = self.holder_call();
        // Without it the promise ends by itself.
        let _ = timeout(RELEASE_LIMIT, self.client.acknowledge(&self.lease.lease_id, &call)).await;
    }

    fn holder_call(&self) -> HolderCall {
        HolderCall { epoch: self.lease.epoch, operation_id: Some(operation_id()), ..HolderCall::default() }
    }
}

enum RenewError {
    /// There may be another answer next time.
    Failed(String),
    Lost(String),
}

/// Whether the lease is over for us, whatever is asked next.
fn is_lost(error: &CallError) -> bool {
    let is_over = |code| {
        matches!(
            code,
            ErrorCode::StaleEpoch
                | ErrorCode::InvalidState
                | ErrorCode::NotFound
                | ErrorCode::LeaseRetired
                | ErrorCode::HolderMismatch
                | ErrorCode::NoLiveness
        )
    };
    error.lost() || error.code().is_some_and(is_over)
}
