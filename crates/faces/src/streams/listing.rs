//! Streams page by page: those in memory, then those with a lease, then those that have ended.

use super::shown::Shown;
use crate::call::Reply;
use crate::dispatch::Faces;
use crate::limits::page;
use crate::refusal::Asked;
use tenure_api::{self as api, Error, ErrorCode, SlotSessionQuery, SlotSessionState};
use tenure_engine::kernel::{Face, LeaseId, Lsn};
use tenure_engine::{Answer, LeaseFound, Request};
use tenure_history::WireLease;

/// Where a page begins.
enum Cursor {
    /// At this place, among those that wait or waited to no end.
    Waited(u64),
    /// At this lease.
    Live(LeaseId),
    /// At this end.
    Ended(Lsn),
}

impl Cursor {
    fn written(&self, faces: &Faces) -> String {
        match self {
            Self::Waited(place) => format!("waited:{place}"),
            Self::Live(lease) if lease.lsn() == Lsn(0) => "live:".to_owned(),
            Self::Live(lease) => format!("live:{}", faces.lens().lease_id(*lease)),
            Self::Ended(lsn) => format!("ended:{lsn}"),
        }
    }

    fn read(text: &str, faces: &Faces) -> Option<Self> {
        match text.split_once(':')? {
            ("waited", place) => place.parse().ok().map(Self::Waited),
            ("live", "") => Some(Self::Live(LeaseId::new(faces.identity().shard, Lsn(0)))),
            ("live", lease) => lease.parse::<WireLease>().ok()?.lease(faces.identity()).map(Self::Live),
            ("ended", lsn) => lsn.parse().ok().map(|lsn| Self::Ended(Lsn(lsn))),
            _ => None,
        }
    }
}

impl Faces {
    pub(crate) async fn list_streams(&self, query: SlotSessionQuery) -> Result<Reply, Error> {
        let limit = page(query.limit)?;
        let mut cursor = match &query.cursor {
            None => Cursor::Waited(0),
            Some(text) => Cursor::read(text, self).ok_or_else(|| {
                Error::new(ErrorCode::InvalidRequest, format!("{text:?} is not a cursor of this log"))
            })?,
        };
        let lsn = self.synced_lsn().await?.0;
        let mut sessions = Vec::new();
        // Each turn looks at a bounded number; a page that is full or a part that is over ends it.
        let next = loop {
            let (found, next) = match &cursor {
                Cursor::Waited(from) => self.waited_page(*from, limit - sessions.len()).await?,
                Cursor::Live(from) => self.live_page(*from, limit - sessions.len()).await?,
                Cursor::Ended(from) => self.ended_page(*from, limit - sessions.len()).await?,
            };
            let wanted = |shown: &Shown| query.state.is_none_or(|state| shown.stream.state == state);
            sessions.extend(found.into_iter().filter(wanted).map(|shown| shown.stream));
            match next {
                Some(next) if sessions.len() >= limit => break Some(next),
                Some(Cursor::Ended(_)) if is_live(query.state) => break None,
                // Reading the log for each takes a while: a short page lets the caller have a say.
                Some(next @ Cursor::Ended(Lsn(1..))) => break Some(next),
                Some(next) => cursor = next,
                None => break None,
            }
        };
        let next_cursor = next.map(|next| next.written(self));
        Ok(Reply::Streams(api::SlotSessionList { sessions, next_cursor, lsn }))
    }

    async fn waited_page(&self, from: u64, limit: usize) -> Result<(Vec<Shown>, Option<Cursor>), Error> {
        let waited = self.streams().book.waited_from(from, limit + 1);
        let mut found = Vec::with_capacity(waited.len());
        for (_, id) in waited.iter().take(limit) {
            // One that has its lease by now comes later.
            if let Some(known) = self.streams().book.find(id)
                && let Ok(shown) = self.shown_stream(id, &known).await
                && shown.stream.lease_id.is_none()
            {
                found.push(shown);
            }
        }
        let next = match waited.get(limit) {
            Some((place, _)) => Cursor::Waited(*place),
            None => Cursor::Live(LeaseId::new(self.identity().shard, Lsn(0))),
        };
        Ok((found, Some(next)))
    }

    async fn live_page(&self, from: LeaseId, limit: usize) -> Result<(Vec<Shown>, Option<Cursor>), Error> {
        let mut leases = self.streams().book.live_from(from, limit + 1);
        let next = match leases.get(limit) {
            Some(next) => Cursor::Live(*next),
            None => Cursor::Ended(Lsn(0)),
        };
        leases.truncate(limit);
        let mut found = Vec::with_capacity(leases.len());
        let reads = leases.iter().copied().map(Request::Read).collect();
        for answer in if leases.is_empty() { Vec::new() } else { self.handle().call_all(reads).await } {
            if let Answer::Read(read) = answer
                && let LeaseFound::Live(lease) = read.lease
            {
                found.extend(self.shown_live(&lease, read.lsn));
            }
        }
        Ok((found, Some(next)))
    }

    async fn ended_page(&self, from: Lsn, limit: usize) -> Result<(Vec<Shown>, Option<Cursor>), Error> {
        let (leases, next, lsn) = match self.ask(Request::Ended { face: Face::Streams, from }).await {
            Answer::Ended { leases, next, lsn } => (leases, next, lsn),
            other => return Err(self.not_that(other, Asked::AsAnyone)),
        };
        let next = match leases.get(limit) {
            Some((_, ended)) => Some(ended.ended_lsn),
            None => next,
        };
        let mut found = Vec::new();
        for (lease, ended) in leases.into_iter().take(limit) {
            let fence = tenure_engine::kernel::Fence(self.identity().fence_base + ended.authority_lsn.0);
            found.extend(self.shown_ended(lease, ended.ended_lsn, fence, lsn).await);
        }
        Ok((found, next.map(Cursor::Ended)))
    }
}

/// Whether only streams that have not ended are asked for.
fn is_live(state: Option<SlotSessionState>) -> bool {
    state.is_some_and(|state| !state.is_terminal())
}
