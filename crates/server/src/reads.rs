//! Reads that cost much. Of each kind a few run at once, some wait, and more get an error. Kinds do not wait for each
//! other, and nothing that renews or ends a lease is among them. One principal has half of the places, and an operator's
//! read has places and a turn that others cannot take.

use crate::places::for_most;
use bytes::Bytes;
use std::sync::Arc;
use tenure_api::{Error, ErrorCode};
use tenure_engine::kernel::Text;
use tenure_faces::{Call, Counted, Full, Tally};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Reads of one kind that run at once.
const RUNNING_MAX: usize = 4;
/// When to ask again.
const RETRY_AFTER_MS: u64 = 1_000;

/// A kind of read that costs much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The log is read.
    Why,
    /// Targets are shared out.
    Polling,
    /// Answers are large.
    List,
    /// Everything is counted.
    Metrics,
}

/// Reads that run or wait, by kind.
pub(crate) struct Reads([Gate; 4]);

struct Gate {
    admitted: Arc<Tally<Text>>,
    running: Arc<Semaphore>,
    /// One more turn, for operators.
    operators: Arc<Semaphore>,
}

/// One read's turn.
#[derive(Debug)]
pub(crate) struct Turn {
    admitted: Counted<Text>,
    _running: OwnedSemaphorePermit,
}

/// What a read found, as it is sent.
struct Answer {
    bytes: Vec<u8>,
    _admitted: Counted<Text>,
}

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Turn {
    /// The next read may run. This one keeps its place among those that run or wait as long as its answer is kept.
    pub(crate) fn over(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Answer { bytes, _admitted: self.admitted })
    }
}

impl Kind {
    /// The kind of a call; `None`: it costs little.
    pub(crate) fn of(call: &Call) -> Option<Self> {
        match call {
            Call::Why(_) => Some(Self::Why),
            Call::Polling(_) | Call::PollingGroups => Some(Self::Polling),
            Call::List(_)
            | Call::Sessions { .. }
            | Call::Resources(_)
            | Call::Pools
            | Call::Streams(_)
            | Call::Registrations => Some(Self::List),
            _ => None,
        }
    }

    const ALL: [Self; 4] = [Self::Why, Self::Polling, Self::List, Self::Metrics];

    /// Reads of this kind that run or wait.
    fn admitted_max(self) -> usize {
        match self {
            Self::Why | Self::Polling => RUNNING_MAX + 32,
            Self::List | Self::Metrics => RUNNING_MAX + 256,
        }
    }

    fn limit(self) -> &'static str {
        match self {
            Self::Why => "reads_why",
            Self::Polling => "reads_polling",
            Self::List => "reads_list",
            Self::Metrics => "reads_metrics",
        }
    }
}

impl Default for Reads {
    fn default() -> Self {
        Self(Kind::ALL.map(|_| Gate {
            admitted: Arc::default(),
            running: Arc::new(Semaphore::new(RUNNING_MAX)),
            operators: Arc::new(Semaphore::new(1)),
        }))
    }
}

impl Reads {
    /// Waits for the turn of a read of this kind, among few who do.
    pub(crate) async fn turn(&self, kind: Kind, principal: &Text, is_operator: bool) -> Result<Turn, Error> {
        let gate = &self.0[kind as usize];
        let whole = kind.admitted_max();
        let max = if is_operator { whole } else { for_most(whole) };
        let admitted = gate.admitted.admit(principal.clone(), max, whole / 2).map_err(|passed| {
            let (limit, max, of_what) = match passed {
                Full::InAll => (kind.limit().to_owned(), max, ""),
                Full::OfKey => (format!("{}_per_principal", kind.limit()), whole / 2, " of one principal"),
            };
            Error::new(
                ErrorCode::Overloaded,
                format!("{max} reads of this kind{of_what} are in progress, which is the limit"),
            )
            .retry_after(RETRY_AFTER_MS)
            .with("limit", limit)
            .with("value", max)
        })?;
        let operators_turn = async {
            match is_operator {
                true => Arc::clone(&gate.operators).acquire_owned().await,
                false => std::future::pending().await,
            }
        };
        let running = tokio::select! {
            biased;
            running = Arc::clone(&gate.running).acquire_owned() => running,
            running = operators_turn => running,
        };
        let running = running.expect("invariant: the gates of reads are never closed");
        Ok(Turn { admitted, _running: running })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    type Asked<'a> = Pin<Box<dyn Future<Output = Result<Turn, Error>> + 'a>>;

    fn poll(asked: &mut Asked<'_>) -> Poll<Result<Turn, Error>> {
        asked.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn ask<'a>(reads: &'a Reads, principal: &'a Text, is_operator: bool) -> Asked<'a> {
        Box::pin(reads.turn(Kind::Why, principal, is_operator))
    }

    /// Asks until one is refused: those that run, those that wait, and the refusal.
    fn flood<'a>(reads: &'a Reads, principal: &'a Text) -> (Vec<Turn>, Vec<Asked<'a>>, Error) {
        let (mut running, mut waiting) = (Vec::new(), Vec::new());
        loop {
            let mut asked = ask(reads, principal, false);
            match poll(&mut asked) {
                Poll::Ready(Ok(turn)) => running.push(turn),
                Poll::Ready(Err(refused)) => return (running, waiting, refused),
                Poll::Pending => waiting.push(asked),
            }
        }
    }

    /// Answers that nobody read were counted nowhere: 18 of 10 MB each were kept beside those that ran.
    #[test]
    fn an_answer_that_is_not_sent_keeps_its_place_and_not_its_turn() {
        let (reads, one) = (Reads::default(), Text::from("uid:1"));
        let (running, waiting, _) = flood(&reads, &one);
        let (runs, waits) = (running.len(), waiting.len());
        let kept: Vec<Bytes> = running.into_iter().map(|turn| turn.over(vec![0])).collect();
        let mut waiting = waiting.into_iter();
        let next: Vec<_> = waiting.by_ref().take(runs).map(|mut asked| poll(&mut asked)).collect();
        assert!(next.iter().all(|next| matches!(next, Poll::Ready(Ok(_)))), "the next ones run");
        assert!(matches!(poll(&mut ask(&reads, &one, false)), Poll::Ready(Err(_))), "no place is free");
        drop(kept);
        let freed = (0..runs).map(|_| ask(&reads, &one, false)).collect::<Vec<_>>();
        assert!(
            freed.into_iter().all(|mut asked| poll(&mut asked).is_pending()),
            "as many as were sent may wait"
        );
        assert!(waits >= runs);
    }

    fn told(error: &Error) -> (&str, u64) {
        (error.details["limit"].as_str().unwrap(), error.details["value"].as_u64().unwrap())
    }

    #[test]
    fn a_few_run_some_wait_the_rest_are_refused_and_kinds_do_not_share() {
        let (reads, one, two) = (Reads::default(), Text::from("one"), Text::from("two"));
        let (mut running, mut waiting, refused) = flood(&reads, &one);
        assert_eq!((running.len(), waiting.len()), (RUNNING_MAX, 18 - RUNNING_MAX));
        assert_eq!((refused.code, refused.retry_after_ms), (ErrorCode::Overloaded, Some(RETRY_AFTER_MS)));
        assert_eq!(told(&refused), ("reads_why_per_principal", 18));
        let (others_running, others, refused) = flood(&reads, &two);
        assert_eq!((others_running.len(), others.len()), (0, 14));
        assert_eq!(told(&refused), ("reads_why", 32));
        let mut another: Asked<'_> = Box::pin(reads.turn(Kind::Polling, &one, false));
        assert!(matches!(poll(&mut another), Poll::Ready(Ok(_))), "another kind is not concerned");
        running.pop();
        assert!(matches!(poll(&mut waiting[0]), Poll::Ready(Ok(_))));
    }

    /// Readers filled the places, and an operator's read was refused with theirs.
    #[test]
    fn an_operator_has_places_and_a_turn_while_others_have_all_of_theirs() {
        let (reads, one, two) = (Reads::default(), Text::from("one"), Text::from("two"));
        let flooded = (flood(&reads, &one), flood(&reads, &two));
        let root = Text::from("uid:0");
        let Poll::Ready(turn) = poll(&mut ask(&reads, &root, true)) else { panic!("it waits behind others") };
        let mut next = ask(&reads, &root, true);
        assert!(poll(&mut next).is_pending(), "one at a time");
        drop(turn.unwrap());
        assert!(matches!(poll(&mut next), Poll::Ready(Ok(_))));
        drop(flooded);
    }
}
