//! Bodies of requests. All bodies being read share one bound; the first part of each has a share of its own, so that
//! large bodies leave room for heartbeats. One principal reads a bounded number of bodies at once, and the last of the
//! share of first parts is for operators.

use crate::auth::Admitted;
use crate::places::for_most;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tenure_api::{Error, ErrorCode};
use tenure_engine::kernel::Text;
use tenure_faces::{Counted, Scope, Tally, over_limit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a body may take.
pub(super) const BODY_WITHIN: Duration = Duration::from_secs(30);
/// How long a body that is refused is let in and thrown away.
const DISCARD_WITHIN: Duration = Duration::from_millis(500);
/// A body on a route that takes none is ignored up to here: clients send `{}` out of habit.
const IGNORED_BYTES_MAX: usize = 1 << 10;
/// The first part of a body.
const SMALL_BYTES: usize = 4 << 10;
/// The share of all bodies' bytes that first parts have: one in this many.
const SMALL_PART: usize = 4;

/// Bodies that are being read.
pub(crate) struct Bodies {
    one_max: usize,
    all_max: usize,
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// Bodies that are being read, by principal.
    reading: Arc<Tally<Text>>,
    of_principal_max: usize,
    /// First parts that only operators get.
    reserve: Arc<Semaphore>,
}

/// A whole body, and the room it takes until it is dropped.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) bytes: Bytes,
    _room: Room,
}

#[derive(Debug)]
struct Room {
    bytes: usize,
    permits: Vec<OwnedSemaphorePermit>,
    is_operator: bool,
    _place: Counted<Text>,
}

impl Bodies {
    pub(crate) fn new(one_max: usize, all_max: usize) -> Self {
        // The largest always fits beside another.
        let all_max = all_max.max(one_max.saturating_mul(2));
        let small = all_max / SMALL_PART;
        let of = |bytes: usize| Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS)));
        let of_principal_max = (small / SMALL_BYTES / 2).max(1);
        Self {
            one_max,
            all_max,
            small: of(for_most(small)),
            large: of(all_max - small),
            reading: Arc::default(),
            of_principal_max,
            reserve: of(small - for_most(small)),
        }
    }

    /// The whole body.
    pub(super) async fn read<B>(&self, sender: Option<&Admitted>, mut body: B) -> Result<Read, Error>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Display,
    {
        // One that announces its length need not come first.
        if body.size_hint().lower() > self.one_max as u64 {
            discard(body).await;
            return Err(self.too_large());
        }
        let read = match self.room_of(sender) {
            Ok(room) => tokio::time::timeout(BODY_WITHIN, self.gather(room, &mut body)).await,
            Err(error) => Ok(Err(error)),
        };
        let refused = match read {
            Ok(Ok(read)) => return Ok(read),
            Ok(Err(error)) => error,
            Err(_) => Error::new(ErrorCode::ParseError, "the body did not arrive in time"),
        };
        if refused.code == ErrorCode::Overloaded {
            discard(body).await;
        }
        Err(refused)
    }

    /// A place for a body of this sender.
    fn room_of(&self, sender: Option<&Admitted>) -> Result<Room, Error> {
        let principal = sender.map_or_else(Text::default, |sender| sender.principal.clone());
        let max = self.of_principal_max;
        let place = self.reading.admit(principal, usize::MAX, max).map_err(|_| {
            let message =
                format!("{max} request bodies of this principal are being read, which is the limit");
            over_limit(ErrorCode::Overloaded, message, "bodies_per_principal", "limits.bodies_bytes", max)
        })?;
        let is_operator = sender.is_some_and(|sender| sender.scope == Scope::Admin);
        Ok(Room { bytes: 0, permits: Vec::new(), is_operator, _place: place })
    }

    async fn gather<B>(&self, mut room: Room, body: &mut B) -> Result<Read, Error>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Display,
    {
        let mut first = Bytes::new();
        let mut joined = Vec::new();
        while let Some(frame) = body.frame().await {
            let broken = |error| Error::new(ErrorCode::ParseError, format!("the body broke off: {error}"));
            let Ok(piece) = frame.map_err(broken)?.into_data() else { continue };
            if room.bytes.saturating_add(piece.len()) > self.one_max {
                return Err(self.too_large());
            }
            self.grow(&mut room, piece.len())?;
            if first.is_empty() && joined.is_empty() {
                first = piece;
            } else {
                joined.extend_from_slice(&std::mem::take(&mut first));
                joined.extend_from_slice(&piece);
            }
        }
        let bytes = if joined.is_empty() { first } else { joined.into() };
        Ok(Read { bytes, _room: room })
    }

    fn grow(&self, room: &mut Room, by: usize) -> Result<(), Error> {
        let small = SMALL_BYTES.saturating_sub(room.bytes).min(by);
        let reserve = room.is_operator.then_some(&self.reserve);
        for (shares, bytes) in
            [([Some(&self.small), reserve], small), ([Some(&self.large), None], by - small)]
        {
            let Ok(bytes) = u32::try_from(bytes) else { return Err(self.too_large()) };
            if bytes > 0 {
                let take = |share: &Arc<Semaphore>| Arc::clone(share).try_acquire_many_owned(bytes).ok();
                let permit = shares.into_iter().flatten().find_map(take);
                room.permits.push(permit.ok_or_else(|| self.overloaded())?);
            }
        }
        room.bytes += by;
        Ok(())
    }

    fn too_large(&self) -> Error {
        let max = self.one_max;
        let message = format!("the body is larger than limits.body_bytes = {max}");
        over_limit(ErrorCode::TooLarge, message, "body_bytes", "limits.body_bytes", max)
    }

    fn overloaded(&self) -> Error {
        let max = self.all_max;
        let message =
            format!("request bodies of more than limits.bodies_bytes = {max} bytes in total are being read");
        over_limit(ErrorCode::Overloaded, message, "bodies_bytes", "limits.bodies_bytes", max)
    }
}

/// For a route that takes no body: a small one is ignored, a larger one refused. Nothing of it is kept.
pub(super) async fn none<B: Body<Data = Bytes> + Unpin>(mut body: B) -> Result<(), Error> {
    let no_body = || {
        let message = "the route takes no body".to_owned();
        Error::new(ErrorCode::TooLarge, message).with("limit", "body_bytes").with("value", 0)
    };
    if body.size_hint().lower() > IGNORED_BYTES_MAX as u64 {
        discard(body).await;
        return Err(no_body());
    }
    let ignored = tokio::time::timeout(BODY_WITHIN, async {
        let mut bytes = 0_usize;
        while let Some(Ok(frame)) = body.frame().await {
            bytes = bytes.saturating_add(frame.data_ref().map_or(0, Bytes::len));
            if bytes > IGNORED_BYTES_MAX {
                return Err(no_body());
            }
        }
        Ok(())
    });
    ignored
        .await
        .unwrap_or_else(|_| Err(Error::new(ErrorCode::ParseError, "the body did not arrive in time")))
}

/// Reads and drops what is on its way for a moment: closing a socket with unread bytes resets the connection, and the
/// peer may lose the answer.
pub(super) async fn discard<B: Body + Unpin>(mut body: B) {
    if !body.is_end_stream() {
        let discarded = async { while let Some(Ok(_)) = body.frame().await {} };
        let _ = tokio::time::timeout(DISCARD_WITHIN, discarded).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::body::{AnswerBody, full, stream};
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    /// A body in pieces, without a length.
    async fn pieces(sizes: &[usize]) -> AnswerBody {
        let (sender, body) = stream();
        for size in sizes {
            assert!(sender.send(vec![b' '; *size].into()).await);
        }
        body
    }

    #[test]
    fn a_body_is_read_whole_and_its_room_comes_back() {
        block_on(async {
            let bodies = Bodies::new(64 << 10, 64 << 10);
            for _ in 0..100 {
                let read = bodies.read(None, pieces(&[1, 5_000, 0, 30_000]).await).await.unwrap();
                assert_eq!(read.bytes.len(), 35_001);
            }
            assert_eq!(bodies.read(None, full("{}")).await.unwrap().bytes, "{}");
        });
    }

    #[test]
    fn a_body_over_its_limit_is_refused_with_and_without_a_length() {
        block_on(async {
            let bodies = Bodies::new(8 << 10, 1 << 20);
            for body in [full(vec![0; 9 << 10]), pieces(&[5 << 10, 5 << 10]).await] {
                let refused = bodies.read(None, body).await.unwrap_err();
                assert_eq!(refused.code, ErrorCode::TooLarge);
                assert_eq!(refused.details["setting"], "limits.body_bytes");
            }
        });
    }

    #[test]
    fn bodies_together_have_a_bound_and_small_ones_a_share_of_it() {
        block_on(async {
            let bodies = Bodies::new(128 << 10, 256 << 10);
            let held = bodies.read(None, pieces(&[120 << 10]).await).await.unwrap();
            let refused = bodies.read(None, pieces(&[100 << 10]).await).await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::Overloaded);
            assert!(refused.retry_after_ms.is_some());
            assert_eq!(refused.details["limit"], "bodies_bytes");
            assert_eq!(refused.details["setting"], "limits.bodies_bytes");
            assert_eq!(refused.details["value"], 256 << 10);
            assert!(bodies.read(None, pieces(&[4 << 10]).await).await.is_ok(), "a heartbeat still fits");
            drop(held);
            assert!(bodies.read(None, pieces(&[100 << 10]).await).await.is_ok());
        });
    }

    /// Bodies that never end took every place, and an operator's was refused with them.
    #[test]
    fn one_principal_has_a_bounded_number_of_bodies_and_operators_have_the_last_places() {
        block_on(async {
            // 32 first parts, of which four are for operators.
            let bodies = Bodies::new(64 << 10, 512 << 10);
            let sender = |principal: &str, scope| Admitted::new(principal, scope);
            let mut held = Vec::new();
            for principal in ["one", "two"] {
                let sender = sender(principal, Scope::Hold);
                let refused = loop {
                    match bodies.read(Some(&sender), full(vec![b' '; SMALL_BYTES])).await {
                        Ok(read) => held.push(read),
                        Err(refused) => break refused,
                    }
                };
                assert_eq!(refused.code, ErrorCode::Overloaded);
                assert_eq!(refused.details["setting"], "limits.bodies_bytes");
                let limit = if principal == "one" { "bodies_per_principal" } else { "bodies_bytes" };
                assert_eq!(refused.details["limit"], limit);
            }
            assert_eq!(held.len(), 28);
            let operator = sender("uid:0", Scope::Admin);
            assert!(bodies.read(Some(&operator), full(vec![b' '; SMALL_BYTES])).await.is_ok());
            held.remove(0);
            assert!(bodies.read(Some(&sender("one", Scope::Hold)), full("{}")).await.is_ok());
        });
    }

    #[test]
    fn a_route_without_a_body_ignores_a_little_and_refuses_the_rest() {
        block_on(async {
            assert_eq!(none(full("")).await, Ok(()));
            assert_eq!(none(full("{}")).await, Ok(()));
            assert_eq!(none(pieces(&[1_000]).await).await, Ok(()));
            for body in [full(vec![0; 1_025]), pieces(&[1_000, 100]).await] {
                assert_eq!(none(body).await.unwrap_err().code, ErrorCode::TooLarge);
            }
        });
    }
}
