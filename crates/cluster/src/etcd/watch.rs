//! A watch: one stream, read as fast as what was read is taken, and given up when nobody is at its other end.

use super::link::{Failure, Link, Open, Token, chain, lead};
use super::links::{Links, refused};
use super::messages::{
    Event, EventKind, WatchAsked, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use super::thread::Thread;
use crate::store::{Changed, StoreError, WatchEnded, Watching};
use http::uri::PathAndQuery;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// A watch as the thread that blocks on it sees it.
#[derive(Debug)]
pub(crate) struct EtcdWatch {
    read: Receiver<Result<Vec<Changed>, WatchEnded>>,
    /// Read, and not taken yet.
    waiting: VecDeque<Changed>,
    ended: Option<WatchEnded>,
    room: Arc<Semaphore>,
    reading: JoinHandle<()>,
}

/// A stream that etcd said yes to.
pub(crate) struct Begun {
    stream: Stream,
    place: Place,
}

struct Stream {
    asked: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
    first: WatchResponse,
}

/// Over which endpoint and connection it comes.
struct Place {
    links: Arc<Links>,
    at: usize,
    open: Open,
}

/// Why a stream is over.
enum Over {
    /// Somebody said so.
    Told(String),
    /// Nobody is at its other end.
    Silent,
}

const PATH: &str = "/etcdserverpb.Watch/Watch";
/// What may be read and not taken, in bytes of keys and values.
const ROOM: usize = 16 << 20;
/// After this long without a word etcd is asked for one, and after as long again the stream is given up.
const QUIET: Duration = Duration::from_secs(1);
/// Requests on the stream: one that begins it, one for a word.
const ASKED_MAX: usize = 2;

/// Asks one endpoint after the other for a watch.
pub(crate) async fn begin(
    links: Arc<Links>,
    create: WatchCreateRequest,
    within: Duration,
) -> Result<Begun, StoreError> {
    let mut said = Vec::new();
    let mut share = within;
    for (turn, (at, link)) in links.in_turn().enumerate() {
        // Each leaves as much time to those after it as it takes itself, except for the last.
        share = if turn + 1 == links.all().len() { share } else { share / 2 };
        match begin_on(&links, link, &create, share).await {
            Ok((open, stream)) => {
                let place = Place { links: Arc::clone(&links), at, open };
                return Ok(Begun { stream, place });
            }
            Err(Failure::Refused(status)) => return Err(refused(link, &status)),
            Err(Failure::Unsent(why) | Failure::Unanswered(why)) => {
                links.avoid(at);
                said.push(why);
            }
        }
    }
    Err(StoreError::Unanswered { why: said.join("; ") })
}

async fn begin_on(
    links: &Links,
    link: &Link,
    create: &WatchCreateRequest,
    within: Duration,
) -> Result<(Open, Stream), Failure> {
    let open = link.open(within).await?;
    let beginning = async {
        let token = links.token(link, &open, within).await?;
        match converse(link, &open, create, token).await {
            // A token that is no good any more looks like one that allows too little.
            Err(Failure::Refused(_)) if links.has_credentials() => {
                links.forget_token();
                let token = links.token(link, &open, within).await?;
                converse(link, &open, create, token).await
            }
            outcome => outcome,
        }
    };
    match timeout(within, beginning).await {
        Ok(outcome) => outcome.map(|stream| (open, stream)),
        Err(_) => {
            link.give_up(&open);
            Err(Failure::Unanswered(link.names(&format!("no watch within {within:?}"))))
        }
    }
}

async fn converse(
    link: &Link,
    open: &Open,
    create: &WatchCreateRequest,
    token: Option<Token>,
) -> Result<Stream, Failure> {
    let (asked, leaving) = mpsc::channel(ASKED_MAX);
    // The first message leaves with the call: etcd says nothing, not even that it took it, before it has one.
    let first = WatchRequest { asked: Some(WatchAsked::Create(create.clone())) };
    asked.try_send(first).expect("invariant: there is room for the first");
    let mut request = Request::new(ReceiverStream::new(leaving));
    lead(&mut request, PATH, token);
    let path = PathAndQuery::from_static(PATH);
    let failure = |status| link.failure(status);
    let mut grpc = open.grpc();
    grpc.ready().await.map_err(|error| failure(Status::from_error(error.into())))?;
    let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
    let mut answers = grpc.streaming(request, path, codec).await.map_err(failure)?.into_inner();
    let over = || Failure::Unanswered(link.names("the stream ended before the watch began"));
    let first = answers.message().await.map_err(failure)?.ok_or_else(over)?;
    if first.canceled && first.compact_revision == 0 {
        return Err(Failure::Refused(Status::new(Code::PermissionDenied, first.cancel_reason)));
    }
    Ok(Stream { asked, answers, first })
}

impl EtcdWatch {
    pub(crate) fn start(thread: &Thread, begun: Begun) -> Self {
        let (tell, read) = channel();
        let room = Arc::new(Semaphore::new(ROOM));
        let reading = thread.spawn(follow(begun, tell, Arc::clone(&room)));
        Self { read, waiting: VecDeque::new(), ended: None, room, reading }
    }
}

impl Watching for EtcdWatch {
    fn next(&mut self, within: Duration) -> Result<Option<Changed>, WatchEnded> {
        if self.waiting.is_empty() {
            if let Some(ended) = &self.ended {
                return Err(ended.clone());
            }
            match self.read.recv_timeout(within) {
                Ok(Ok(changes)) => {
                    self.room.add_permits(room_of(&changes));
                    self.waiting.extend(changes);
                }
                Ok(Err(ended)) => return Err(self.ended.insert(ended).clone()),
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => {
                    let why = "the store is closed".to_owned();
                    return Err(self.ended.insert(WatchEnded::Broken { why }).clone());
                }
            }
        }
        Ok(self.waiting.pop_front())
    }
}

impl Drop for EtcdWatch {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// Reads until the stream ends, and says how it did.
async fn follow(begun: Begun, tell: Sender<Result<Vec<Changed>, WatchEnded>>, room: Arc<Semaphore>) {
    let Begun { stream: Stream { asked, mut answers, first }, place } = begun;
    let mut answer = first;
    let over = loop {
        if answer.compact_revision != 0 {
            let oldest = answer.compact_revision.unsigned_abs();
            // Nobody listens once the watch is dropped.
            let _ = tell.send(Err(WatchEnded::Compacted { oldest }));
            return;
        }
        if answer.canceled {
            break Over::Told(format!("etcd ended it: {}", answer.cancel_reason));
        }
        let changes: Vec<Changed> = answer.events.into_iter().filter_map(changed).collect();
        if !changes.is_empty() {
            let Ok(taken) = room.acquire_many(room_of(&changes) as u32).await else { return };
            taken.forget();
            if tell.send(Ok(changes)).is_err() {
                return;
            }
        }
        answer = match hear(&asked, &mut answers).await {
            Ok(answer) => answer,
            Err(over) => break over,
        };
    };
    let _ = tell.send(Err(WatchEnded::Broken { why: place.leave(over) }));
}

impl Place {
    /// Lets others look elsewhere, and says what happened here.
    fn leave(&self, over: Over) -> String {
        let link = &self.links.all()[self.at];
        self.links.avoid(self.at);
        match over {
            Over::Told(why) => link.names(&why),
            Over::Silent => {
                link.give_up(&self.open);
                link.names(&format!("no message for {:?}", QUIET * 2))
            }
        }
    }
}

/// The next answer. A stream over which nothing comes may lead nowhere: etcd is asked for a word, which it gives at
/// once.
async fn hear(
    asked: &mpsc::Sender<WatchRequest>,
    answers: &mut Streaming<WatchResponse>,
) -> Result<WatchResponse, Over> {
    let mut is_asked = false;
    loop {
        match timeout(QUIET, answers.message()).await {
            Ok(Ok(Some(answer))) => return Ok(answer),
            Ok(Ok(None)) => return Err(Over::Told("etcd ended the stream".to_owned())),
            Ok(Err(status)) => return Err(Over::Told(chain(&status))),
            Err(_) if is_asked => return Err(Over::Silent),
            Err(_) => {
                let progress = WatchRequest { asked: Some(WatchAsked::Progress(WatchProgressRequest {})) };
                asked.try_send(progress).map_err(|_| Over::Silent)?;
                is_asked = true;
            }
        }
    }
}

/// Keys of ours are text; others are not ours.
fn changed(event: Event) -> Option<Changed> {
    let kv = event.kv?;
    let is_put = event.kind == i32::from(EventKind::Put);
    let key = String::from_utf8(kv.key).ok()?;
    Some(Changed { key, value: is_put.then_some(kv.value), revision: kv.mod_revision.unsigned_abs() })
}

/// How much room changes take; more than there is counts as all there is.
fn room_of(changes: &[Changed]) -> usize {
    let bytes = |change: &Changed| change.key.len() + change.value.as_ref().map_or(0, Vec::len);
    changes.iter().map(bytes).sum::<usize>().min(ROOM)
}
