//! The load on PostgreSQL. A connection carries out one statement after the other and commits are synced together
//! over connections only: what is in flight is spread over many of them, and pipelined beyond that.

use super::LONG_TTL;
use super::session::Session;
use crate::peers::holdings::{Hold, Holdings};
use crate::peers::peer::{Load, Paced, Sample, Shape, Until, Work};
use crate::peers::tasks::{Answer, Asker, drive, drive_paced, runtime};
use anyhow::Result;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::Runtime;

pub(super) struct PostgresLoad {
    askers: Vec<PostgresAsker>,
    // After those who use it.
    runtime: Runtime,
}

struct PostgresAsker {
    session: Rc<Session>,
    holdings: Rc<Holdings>,
}

/// With more it becomes slower.
const CONNECTIONS_MAX: usize = 64;

impl PostgresLoad {
    pub(super) fn open(socket: &Path, shape: Shape) -> Result<Self> {
        let runtime = runtime()?;
        let in_flight = shape.connections * shape.depth;
        let askers = runtime.block_on(async {
            let mut sessions = Vec::new();
            for _ in 0..in_flight.min(CONNECTIONS_MAX) {
                sessions.push(Rc::new(Session::open(socket).await?));
            }
            let holdings = Rc::new(Holdings::new());
            let asker = |number: usize| PostgresAsker {
                session: Rc::clone(&sessions[number % sessions.len()]),
                holdings: Rc::clone(&holdings),
            };
            anyhow::Ok((0..in_flight).map(asker).collect())
        })?;
        Ok(Self { askers, runtime })
    }
}

impl Load for PostgresLoad {
    fn run(&mut self, work: Work, until: Until) -> Result<Sample> {
        drive(&self.runtime, &mut self.askers, work, until)
    }

    fn run_paced(&mut self, work: Work, every: Duration, goes_on: &dyn Fn() -> bool) -> Result<Vec<Paced>> {
        drive_paced(&self.runtime, &mut self.askers, work, every, goes_on)
    }
}

impl Asker for PostgresAsker {
    async fn ask(&mut self, work: Work) -> Result<Answer> {
        let answered = match work {
            Work::Acquire => self.acquire().await,
            Work::AcquireBundle => self.acquire_bundle().await,
            Work::Renew => self.renew().await,
            Work::Release => self.release().await,
            Work::ReleaseBundle => self.release_bundle().await,
        };
        match answered {
            Err(error) if error.as_db_error().is_some() => Ok(Answer::Refused),
            answered => Ok(answered?),
        }
    }
}

impl PostgresAsker {
    async fn acquire(&self) -> Result<Answer, tokio_postgres::Error> {
        let number = self.holdings.fresh();
        let granted = self.session.acquire(&self.holdings.name(number), LONG_TTL).await?;
        let Some(token) = granted else { return Ok(Answer::Refused) };
        self.holdings.add(Hold { number, token });
        Ok(Answer::Done)
    }

    async fn acquire_bundle(&self) -> Result<Answer, tokio_postgres::Error> {
        let number = self.holdings.fresh_bundle();
        let token = self.session.acquire_all(&self.holdings.bundle(number), LONG_TTL).await?;
        self.holdings.add_bundle(Hold { number, token });
        Ok(Answer::Done)
    }

    async fn renew(&self) -> Result<Answer, tokio_postgres::Error> {
        let Some(Hold { number, token }) = self.holdings.next() else { return Ok(Answer::NothingLeft) };
        let name = self.holdings.name(number);
        Ok(answer(self.session.renew(&name, token, LONG_TTL).await?))
    }

    async fn release(&self) -> Result<Answer, tokio_postgres::Error> {
        let Some(Hold { number, token }) = self.holdings.take() else { return Ok(Answer::NothingLeft) };
        Ok(answer(self.session.release(&self.holdings.name(number), token).await?))
    }

    async fn release_bundle(&self) -> Result<Answer, tokio_postgres::Error> {
        let Some(Hold { number, token }) = self.holdings.take_bundle() else {
            return Ok(Answer::NothingLeft);
        };
        Ok(answer(self.session.release_all(&self.holdings.bundle(number), token).await?))
    }
}

fn answer(is_done: bool) -> Answer {
    if is_done { Answer::Done } else { Answer::Refused }
}
