//! All endpoints: which one is asked, whether another is asked after it, and the token that etcd wants to see.
//!
//! Invariant: a request that may change something leaves this machine once.

use super::EtcdTls;
use super::link::{Failure, Link, Open, Token};
use super::upkeep::{AuthenticateRequest, AuthenticateResponse};
use crate::store::StoreError;
use prost::Message;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use tonic::{Code, Status};

/// All endpoints of one etcd.
pub(crate) struct Links {
    links: Vec<Link>,
    /// Which one is asked first: the one that answered last.
    preferred: AtomicUsize,
    credentials: Option<Credentials>,
    pass: Mutex<Pass>,
}

struct Credentials {
    name: String,
    password: String,
}

/// What is shown to etcd with each request.
#[derive(Clone)]
enum Pass {
    /// Nobody asked for one yet, or the last one is no good any more.
    Unasked,
    /// etcd asks nobody who they are.
    Needless,
    Token(Token),
}

/// How often a request may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It may change something.
    Once,
    /// It only reads.
    AsOftenAsItTakes,
}

/// Which kind of call, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) path: &'static str,
    pub(crate) sent: Sent,
    pub(crate) within: Duration,
}

impl Links {
    /// # Errors
    /// Which address is none, and why.
    pub(crate) fn new(
        endpoints: &[String],
        tls: Option<&EtcdTls>,
        user: Option<(String, String)>,
    ) -> Result<Self, (String, String)> {
        let link = |address: &String| Link::new(address, tls).map_err(|why| (address.clone(), why));
        let links = endpoints.iter().map(link).collect::<Result<_, _>>()?;
        let credentials = user.map(|(name, password)| Credentials { name, password });
        let pass = Mutex::new(if credentials.is_some() { Pass::Unasked } else { Pass::Needless });
        Ok(Self { links, preferred: AtomicUsize::new(0), credentials, pass })
    }

    pub(crate) fn all(&self) -> &[Link] {
        &self.links
    }

    /// The endpoints in the order in which they are to be asked, each with its place.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = (usize, &Link)> {
        let first = self.preferred.load(Ordering::Relaxed);
        (0..self.links.len())
            .map(move |turn| (first + turn) % self.links.len())
            .map(|at| (at, &self.links[at]))
    }

    /// The endpoint at this place answered.
    pub(crate) fn prefer(&self, at: usize) {
        self.preferred.store(at, Ordering::Relaxed);
    }

    /// The endpoint at this place did not answer: another is asked first next time.
    pub(crate) fn avoid(&self, at: usize) {
        let next = (at + 1) % self.links.len();
        // Unless somebody else found a better one meanwhile.
        let _ = self.preferred.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Asks one endpoint after the other until one answers. What changes something and may have left is not repeated.
    pub(crate) async fn ask<Q, A>(&self, call: Call, request: Q) -> Result<A, StoreError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let mut heard = Heard::default();
        let asking = self.ask_in_turn(call, request, &mut heard);
        match timeout(call.within, asking).await {
            Ok(answer) => answer,
            Err(_) => {
                if let Some(at) = heard.asking {
                    self.avoid(at);
                    heard.said.push(self.links[at].names(&format!("no answer within {:?}", call.within)));
                }
                Err(heard.unanswered())
            }
        }
    }

    async fn ask_in_turn<Q, A>(&self, call: Call, request: Q, heard: &mut Heard) -> Result<A, StoreError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let mut share = call.within;
        for (turn, (at, link)) in self.in_turn().enumerate() {
            heard.asking = Some(at);
            // Each leaves as much time to those after it as it takes itself, except for the last.
            let is_last = turn + 1 == self.links.len();
            share = if is_last { share } else { share / 2 };
            let within = if call.sent == Sent::Once { call.within } else { share };
            match self.ask_one(link, Call { within, ..call }, share, request.clone()).await {
                Ok(answer) => {
                    self.prefer(at);
                    return Ok(answer);
                }
                Err(Failure::Refused(status)) => return Err(refused(link, &status)),
                Err(Failure::Unanswered(why)) => {
                    self.avoid(at);
                    heard.said.push(why);
                    if call.sent == Sent::Once {
                        return Err(heard.unanswered());
                    }
                }
                Err(Failure::Unsent(why)) => {
                    self.avoid(at);
                    heard.said.push(why);
                }
            }
        }
        heard.asking = None;
        Err(heard.unanswered())
    }

    /// Asks this endpoint and no other, with a token if etcd wants one, and with a new one if it is no good.
    pub(crate) async fn ask_one<Q, A>(
        &self,
        link: &Link,
        call: Call,
        connect_within: Duration,
        request: Q,
    ) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let open = link.open(connect_within).await?;
        let token = self.token(link, &open, connect_within).await?;
        match link.ask(&open, call.path, request.clone(), token, call.within).await {
            // Refused before anything was done with it.
            Err(Failure::Refused(status)) if self.is_for_the_pass(&status) => {
                self.forget_token();
                let token = self.token(link, &open, connect_within).await?;
                link.ask(&open, call.path, request, token, call.within).await
            }
            outcome => outcome,
        }
    }

    /// The token to show, if etcd wants one.
    pub(crate) async fn token(
        &self,
        link: &Link,
        open: &Open,
        within: Duration,
    ) -> Result<Option<Token>, Failure> {
        let pass = self.pass().clone();
        match (pass, &self.credentials) {
            (Pass::Token(token), _) => Ok(Some(token)),
            (Pass::Needless, _) | (Pass::Unasked, None) => Ok(None),
            (Pass::Unasked, Some(credentials)) => {
                let pass = authenticate(link, open, credentials, within).await?;
                *self.pass() = pass.clone();
                Ok(if let Pass::Token(token) = pass { Some(token) } else { None })
            }
        }
    }

    /// The next request asks for a new token.
    pub(crate) fn forget_token(&self) {
        if self.credentials.is_some() {
            *self.pass() = Pass::Unasked;
        }
    }

    /// Whether credentials were given to an etcd that asks nobody for any.
    pub(crate) fn is_needless(&self) -> bool {
        self.has_credentials() && matches!(*self.pass(), Pass::Needless)
    }

    /// Whether a new token could make a difference.
    pub(crate) fn has_credentials(&self) -> bool {
        self.credentials.is_some()
    }

    fn is_for_the_pass(&self, status: &Status) -> bool {
        let is_no_good = status.code() == Code::Unauthenticated
            || status.message().contains("invalid auth token")
            // What it says to those without a token once it wants to see them.
            || status.message().contains("user name is empty")
            || status.message().contains("revision of auth store is old");
        is_no_good && self.has_credentials()
    }

    fn pass(&self) -> MutexGuard<'_, Pass> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn authenticate(
    link: &Link,
    open: &Open,
    credentials: &Credentials,
    within: Duration,
) -> Result<Pass, Failure> {
    const PATH: &str = "/etcdserverpb.Auth/Authenticate";
    let request =
        AuthenticateRequest { name: credentials.name.clone(), password: credentials.password.clone() };
    match link.ask::<_, AuthenticateResponse>(open, PATH, request, None, within).await {
        Ok(answer) => match answer.token.parse() {
            Ok(token) => Ok(Pass::Token(token)),
            Err(_) => Err(Failure::Unsent(link.names("its token is not a valid header value"))),
        },
        Err(Failure::Refused(status)) if status.message().contains("authentication is not enabled") => {
            Ok(Pass::Needless)
        }
        // The request that the token is for did not leave.
        Err(Failure::Unanswered(why)) => Err(Failure::Unsent(why)),
        Err(failure) => Err(failure),
    }
}

/// What the endpoints said that were asked.
#[derive(Debug, Default)]
struct Heard {
    said: Vec<String>,
    /// The place of the one that is being asked.
    asking: Option<usize>,
}

impl Heard {
    fn unanswered(&self) -> StoreError {
        StoreError::Unanswered { why: self.said.join("; ") }
    }
}

/// A refusal, in etcd's words.
pub(crate) fn refused(link: &Link, status: &Status) -> StoreError {
    let no_space = status.code() == Code::ResourceExhausted && status.message().contains("space exceeded");
    StoreError::Refused { why: link.names(status.message()), no_space }
}
