//! Whether an HTTP connection is in use: requests under way, and progress of answers. An HTTP/2 client can answer pings
//! for ever without a request, and a stream whose window is closed blocks no write.

use super::body::AnswerBody;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

/// What moves on one connection.
#[derive(Default)]
pub(super) struct Activity {
    under_way: AtomicUsize,
    /// Requests begun and answered, and pieces of bodies taken.
    moves: AtomicU64,
}

/// A request that is not answered yet.
pub(super) struct UnderWay(Arc<Activity>);

/// The body of an answer; what is taken from it counts.
pub(super) struct Moving {
    body: AnswerBody,
    activity: Arc<Activity>,
}

impl Activity {
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.moved();
        UnderWay(Arc::clone(self))
    }

    fn moved(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn has_begun(&self) -> bool {
        self.moves.load(Ordering::Relaxed) > 0
    }

    pub(super) fn body(self: &Arc<Self>, body: AnswerBody) -> Moving {
        Moving { body, activity: Arc::clone(self) }
    }

    /// Resolves once there was a request, nothing has moved for a time since, and nothing is under way. The first request
    /// has a limit of its own.
    pub(super) async fn idle(&self, time: Duration) {
        loop {
            let before = self.moves.load(Ordering::Relaxed);
            tokio::time::sleep(time).await;
            let has_moved = before == 0 || self.moves.load(Ordering::Relaxed) != before;
            if !has_moved && self.under_way.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.moved();
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Body for Moving {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_ready() {
            self.activity.moved();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::super::body::full;
    use super::*;
    use http_body_util::BodyExt;

    fn is_idle(activity: &Activity) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // The sleep of no time ends before the other one.
            tokio::select! {
                biased;
                () = activity.idle(Duration::ZERO) => true,
                () = tokio::time::sleep(Duration::from_millis(20)) => false,
            }
        })
    }

    #[test]
    fn a_connection_is_idle_once_nothing_is_under_way_and_nothing_moves() {
        let activity = Arc::new(Activity::default());
        assert!(!activity.has_begun() && !is_idle(&activity));
        let request = activity.begin();
        assert!(activity.has_begun());
        assert!(!is_idle(&activity), "one waits for its answer");
        drop(request);
        assert!(is_idle(&activity));
        // One that is not read moves nothing.
        let body = activity.body(full("abc"));
        assert!(is_idle(&activity));
        let before = activity.moves.load(Ordering::Relaxed);
        assert_eq!(body.size_hint().exact(), Some(3));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(body.collect()).unwrap().to_bytes(), "abc");
        assert!(activity.moves.load(Ordering::Relaxed) > before);
    }
}
